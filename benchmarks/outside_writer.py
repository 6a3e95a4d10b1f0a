"""Clients of the server beside a writer that is not behind it: how many commits each of them lands.

    python -m benchmarks outside-writer [--kinds library,java] [--clients 3] [--seconds 20] [--rounds 3]
        [--set KEY=VALUE]... [--quick] [--out build/benchmarks]

The clients are stock Java RESTCatalogs that append to one table, one commit after the other, and whose commits the
server may not rebase. Beside them one process appends to the same table through the metastore: a Python API, or Java's
HiveCatalog in its lock mode. Each round has these blocks for each kind, each on a new table:

    outside alone   that process has the table to itself
    beside          both, through a server at its defaults, or as --set changes them
    control         both, through a server that lets no commit wait for another (`commit.retry-priority.max-wait-ms` and
                    `commit.foreign-writer-backoff.max-wait-ms` are 0)

    outside/s   commits of the process outside
    clients/s   commits that the clients landed, all together
    least       of the client that landed fewest, over its equal share of all commits
    failed      commits that a client gave up
    wrong       acknowledged commits of clients that the table lacks, and given-up ones that it has
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import iceberg_hms
from benchmarks import instruments
from benchmarks.fairness import UNFAIR, in_environment
from benchmarks.instruments import serving
from benchmarks.writers import SCHEMA, JavaWriters, Process
from iceberg_hms.local.metastore import LocalMetastore
from integration import interop

NAMESPACE = "bench"
PROPERTIES = {"iceberg-hms.rebase-appends": "none"}
KINDS = ("library", "java")
#: More commits than the process outside can make.
MANY = 1_000_000
#: For the last commit of the process outside.
GRACE_SECONDS = 60.0


@dataclass
class Block:
    """landed: by each client. outside: commits of the process outside. wrong: what clients heard wrongly."""

    name: str
    seconds: float
    outside: int = 0
    landed: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _heard: dict[str, str | None] = field(default_factory=dict)

    def hear(self, path: str, error: str | None) -> None:
        """What a client heard of the commit of a file."""
        self._heard[path] = error
        if error is not None:
            self.errors.append(error)

    def compare(self, present: set[str]) -> None:
        """present: the paths of the table's files."""
        self.wrong = [f"{path}: {error}" for path, error in self._heard.items() if (error is None) != (path in present)]

    @property
    def least(self) -> float:
        """Of the client that landed fewest, over its equal share."""
        share = (self.outside + sum(self.landed)) / (1 + len(self.landed))
        return min(self.landed) / share if share else 0.0


class Round:
    """Runs blocks. uris: of the servers, by the name of the block."""

    def __init__(
        self, java: JavaWriters, metastore: LocalMetastore, uris: Mapping[str, str], options: argparse.Namespace
    ) -> None:
        self._java = java
        self._metastore = metastore
        self._uris = uris
        self._options = options

    def block(self, kind: str, name: str, table: str, outside: Process) -> Block:
        """One block on a table of its own."""
        with self._connected() as catalog:
            catalog.create_table(table, SCHEMA, properties=PROPERTIES)
        count = self._options.clients if name in self._uris else 0
        clients = [self._java.rest(f"{table} {number}", self._uris[name]) for number in range(count)]
        made = Block(f"{kind}, {name}", self._options.seconds)
        outside.send(table=table)
        outside.answer()
        outside.send(commits=MANY, seconds=self._options.seconds, grace=GRACE_SECONDS)
        ends = monotonic() + self._options.seconds
        with ThreadPoolExecutor(max(1, count)) as pool:
            each = [pool.submit(self._append, client, table, ends, made) for client in clients]
            made.landed = [future.result() for future in each]
        answer = outside.answer()
        made.outside = len(answer["seconds"])
        made.errors += [f"outside: {error}" for error in answer["errors"]]
        for client in clients:
            client.close()
        made.compare(set(interop.live_paths(self._metastore, table)))
        return made

    def _append(self, client: Any, table: str, ends: float, block: Block) -> int:
        loaded, landed, number = self._java.load(client, table), 0, 0
        while monotonic() < ends:
            number += 1
            path = f"file:/nowhere/{id(client)}-{number}.parquet"
            (file,) = self._java.files([path])
            error = self._java.append(loaded, file)
            block.hear(path, error)
            landed += error is None
        return landed

    def _connected(self) -> Any:
        return iceberg_hms.connect(metastore_uri=self._metastore.uri, warehouse=self._metastore.warehouse)


def show(blocks: Sequence[Block]) -> None:
    rows = []
    for name in dict.fromkeys(block.name for block in blocks):
        mine = [block for block in blocks if block.name == name]
        beside = [block for block in mine if block.landed]
        rows.append(
            (
                name,
                f"{statistics.median(block.outside / block.seconds for block in mine):.1f}",
                f"{statistics.median(sum(block.landed) / block.seconds for block in beside):.1f}" if beside else "",
                f"{statistics.median(block.least for block in beside):.2f}" if beside else "",
                sum(len(block.errors) for block in mine),
                sum(len(block.wrong) for block in mine),
            )
        )
    instruments.print_table(("block", "outside/s", "clients/s", "least", "failed", "wrong"), rows)
    for wrong in (wrong for block in blocks for wrong in block.wrong):
        print(wrong)
    for error in dict.fromkeys(error.splitlines()[0][:160] for block in blocks for error in block.errors[:1]):
        print(error)


def outside_writer() -> None:
    """Run all blocks, print the table, keep the raw results."""
    parser = instruments.parser(__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of the writer outside; several, with commas")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both servers")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args()
    if options.quick:
        options.clients, options.seconds, options.rounds = 1, 3.0, 1
    kinds = options.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"kinds are {', '.join(KINDS)}")
    given = dict(each.split("=", 1) for each in options.set)
    blocks: list[Block] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
        with iceberg_hms.connect(**settings) as catalog:
            catalog.create_namespace(NAMESPACE)
            for kind in kinds:
                catalog.create_table(f"{NAMESPACE}.warm_{kind}", SCHEMA)
        uris = {}
        for name, values in (("beside", given), ("control", given | UNFAIR)):
            with in_environment(values):
                uris[name] = stack.enter_context(serving(metastore, folder / f"{name}.log")).uri
        java = JavaWriters(folder / "java")
        stack.callback(java.close)
        rounds = Round(java, metastore, uris, options)
        for kind in kinds:
            outside = Process(
                kind=kind, settings=settings, warm_up=f"{NAMESPACE}.warm_{kind}", folder=str(folder / f"outside-{kind}")
            )
            stack.callback(outside.close)
            outside.answer()
            for number in range(options.rounds):
                for name in ("outside alone", *uris):
                    table = f"{NAMESPACE}.{kind}_{name.replace(' ', '_')}_{number}"
                    blocks.append(rounds.block(kind, name, table, outside))
    show(blocks)
    instruments.keep(options.out, "outside_writer", {**vars(options), "controls": UNFAIR}, list(map(vars, blocks)))
