"""Loads of one table with a long history, beside the reference REST server of Iceberg's test fixtures."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import httpx

import iceberg_hms
from benchmarks import instruments
from benchmarks.http_client import HttpClient
from benchmarks.loads import NAMESPACE, grow, with_history
from iceberg_hms.local.metastore import LocalMetastore
from integration.reference_server import ReferenceServer

#: Loads before the measured ones of a block.
WARM_UP = 3
_PATH = f"/v1/namespaces/{NAMESPACE}/tables/history"


@dataclass(frozen=True)
class Kind:
    """One kind of load. query: of its path. gzip: whether the client accepts gzip. conditional: whether it sends the
    ETag of the answer before."""

    name: str
    query: str = ""
    gzip: bool = False
    conditional: bool = False

    def headers(self, tag: str) -> list[str]:
        """Of a request. tag: the ETag of the answer before, or ""."""
        accepts = ["Accept-Encoding: gzip"] if self.gzip else []
        return [*accepts, f"If-None-Match: {tag}"] if self.conditional and tag else accepts


KINDS = (
    Kind("all snapshots"),
    Kind("all snapshots, gzip", gzip=True),
    Kind("snapshots=refs", query="?snapshots=refs"),
    Kind("unchanged (If-None-Match)", conditional=True),
)


@dataclass(frozen=True)
class Block:
    """One run of one kind of load on one server. latencies: seconds of each load. body: bytes of one answer.
    cpu: seconds of the server for all loads."""

    server: str
    kind: str
    clients: int
    seconds: float
    latencies: Sequence[float]
    body: int
    status: int
    cpu: float

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


def table_loads() -> None:
    """Load a table with a long history from this server and from the reference REST server of Iceberg's test fixtures.

    Both serve one metadata file, which both registered. The reference server keeps its catalog in memory (JdbcCatalog
    on SQLite), this one in an embedded metastore, which it asks for the pointer in every load. The client reads answers
    and throws them away. Blocks of the two servers alternate.
    """
    options = instruments.parser(table_loads.__doc__)
    options.add_argument("--snapshots", type=int, default=10_000)
    options.add_argument("--seconds", type=float, default=5.0, help="of a block")
    options.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        arguments.out.mkdir(parents=True, exist_ok=True)
        compressing = instruments.serving(metastore, arguments.out / "table-loads.log", compressed=True)
        server = stack.enter_context(compressing)
        reference = stack.enter_context(ReferenceServer(folder / "reference"))
        location = _long_table(metastore, arguments.snapshots)
        for uri in (server.uri, reference.uri):
            _register(uri, location)
        servers = {"iceberg-hms": (server.uri, server.pid), "reference": (reference.uri, reference.pid)}
        blocks = _measure(servers, arguments)
    _show(blocks)
    instruments.keep(arguments.out, "table-loads", vars(arguments), [asdict(block) for block in blocks])


def _long_table(metastore: LocalMetastore, snapshots: int) -> str:
    """The metadata file of a new table with so many snapshots."""
    with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
        catalog.create_namespace(NAMESPACE)
        grow(catalog, f"{NAMESPACE}.short", 1)
        made = with_history(catalog, f"{NAMESPACE}.short", snapshots)
        location = str(catalog.load(made).metadata_location)
        # No two tables have one folder.
        catalog.drop_table(made)
        return location


def _register(uri: str, location: str) -> None:
    """Make the table that both servers serve."""
    with httpx.Client(base_url=uri, timeout=120) as client:
        client.post("/v1/namespaces", json={"namespace": [NAMESPACE]})
        body = {"name": "history", "metadata-location": location}
        client.post(f"/v1/namespaces/{NAMESPACE}/register", json=body).raise_for_status()


def _measure(servers: Mapping[str, tuple[str, int]], arguments: Namespace) -> list[Block]:
    blocks = []
    for _, clients, kind in itertools.product(range(arguments.rounds), arguments.clients, KINDS):
        for name, (uri, pid) in servers.items():
            meter = instruments.CpuMeter({"server": [pid]})
            made = asyncio.run(_load(uri, kind, clients, arguments.seconds))
            blocks.append(Block(name, kind.name, clients, *made, meter.used()["server"]))
    return blocks


async def _load(uri: str, kind: Kind, clients: int, seconds: float) -> tuple[float, list[float], int, int]:
    """How long the block took, the latency of each load, and bytes and status of the last answer."""
    latencies: list[float] = []
    last = (0, 0)
    end = perf_counter() + seconds

    async def work() -> None:
        nonlocal last
        client = HttpClient(uri)
        await client.open()
        tag = ""
        for count in itertools.count():
            begun = perf_counter()
            if begun > end and count > WARM_UP:
                break
            answer = await client.ask("GET", _PATH + kind.query, b"", *kind.headers(tag))
            latencies.append(perf_counter() - begun)
            last = (answer.size, answer.status)
            tag = answer.tag
        client.close()

    started = perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return perf_counter() - started, latencies, *last


def _show(blocks: Sequence[Block]) -> None:
    """Print each kind's medians over the rounds, and their ratio."""
    rows = []
    for clients, kind in itertools.product(dict.fromkeys(each.clients for each in blocks), KINDS):
        ours, theirs = (
            [each for each in blocks if (each.server, each.kind, each.clients) == (server, kind.name, clients)]
            for server in ("iceberg-hms", "reference")
        )
        rates = [statistics.median(each.rate for each in side) for side in (ours, theirs)]
        row = [f"{kind.name}, {clients} clients", *(f"{rate:.1f}" for rate in rates), f"{rates[0] / rates[1]:.1f}"]
        for side in (ours, theirs):
            latencies = [latency for each in side for latency in each.latencies]
            row += [f"{instruments.quantile(latencies, 0.99) * 1000:.0f}", f"{side[0].status}", f"{side[0].body:,}"]
        rows.append(row)
    header = ["", "loads/s", "reference", "ratio"]
    header += [f"{which}{what}" for which in ("", "ref. ") for what in ("p99 ms", "status", "bytes")]
    instruments.print_table(header, rows)
