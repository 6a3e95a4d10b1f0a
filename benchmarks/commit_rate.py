"""How many appends of other engines a server commits to one table: pre-built REST bodies, many in flight.

    .venv/bin/python -m benchmarks.commit_rate [--in-flight 1,16,64] [--commits 600] [--manifests 0] [--rounds 3]
        [--compressed]

Every body asserts the table's first snapshot, so that all commits but one of a table are rebased. A client of this kind
costs almost nothing, so that what is measured is the server, which runs in a process of its own at its defaults (lock
and compare-and-swap), over a real metastore. Each block has a table of its own; blocks alternate over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks.report import keep, print_table, quantile
from benchmarks.serving import serving
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore
from integration.load_generator import Connection, append_bodies
from integration.rest_clients import ALL

SCHEMA = pa.schema([pa.field("id", pa.int64())])
REPORTS = Path(__file__).parent.parent / "build" / "benchmarks"
NAMESPACE = "bench"


@dataclass(frozen=True)
class Block:
    """One run, after its warm-up. seconds: of all its commits. latencies: of each acknowledged one, in seconds."""

    in_flight: int
    seconds: float
    latencies: Sequence[float]
    failed: Sequence[str]

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


def data_file(name: str) -> DataFile:
    return DataFile(f"file:/nowhere/{name}.parquet", "PARQUET", 10, 1_000)


def bodies(catalog: Any, table: str, count: int) -> list[bytes]:
    """Requests of so many appends, all on the snapshot that the table has now."""
    files = (data_file(f"{table}-{number}") for number in range(count))
    return [body.data for body in append_bodies(catalog, table, files)]


def grow(catalog: Any, table: str, manifests: int) -> None:
    """A table whose first snapshot has so many manifests, one file each."""
    smallest = {"commit.manifest.target-size-bytes": "1"}
    created = catalog.create_table(table, SCHEMA, properties={**ALL, **smallest})
    created.append([data_file(f"{table}-first-{number}") for number in range(max(1, manifests))])
    changes = [{"action": "remove-properties", "removals": list(smallest)}]
    catalog.commit(table, [], changes)


def warm_up(in_flight: int) -> int:
    """How many commits of a block come before what is measured: the first of all clients come at once to a worker that
    rests, so that one of them has a group of its own and the others wait for it."""
    return max(4, 2 * in_flight)


async def run(uri: str, table: str, made: Sequence[bytes], in_flight: int) -> Block:
    """Send all bodies over `in_flight` connections, each one after the other. What is measured begins in the middle of
    them, when those of the warm-up are answered."""
    connections = [Connection(uri) for _ in range(in_flight)]
    for connection in connections:
        await connection.open()
    waiting = iter(made)
    warm = warm_up(in_flight)
    answered = 0
    started = perf_counter()
    latencies: list[float] = []
    failed: list[str] = []
    path = f"/v1/namespaces/{NAMESPACE}/tables/{table.rpartition('.')[2]}"

    async def work(connection: Connection) -> None:
        nonlocal answered, started
        for body in waiting:
            begun = perf_counter()
            status, answer = await connection.post(path, body, keep=False)
            answered += 1
            if status != 200:
                failed.append(f"{status} {answer[:200].decode()}")
            elif answered > warm:
                latencies.append(perf_counter() - begun)
            if answered == warm:
                started = perf_counter()

    await asyncio.gather(*(work(connection) for connection in connections))
    seconds = perf_counter() - started
    for connection in connections:
        connection.close()
    return Block(in_flight, seconds, latencies, failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", default="1,16,64", help="several, with commas")
    parser.add_argument("--commits", type=int, default=600, help="of a block with more than one in flight")
    parser.add_argument("--manifests", type=int, default=1, help="that the first snapshot has")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compressed", action="store_true", help="answers are, as for clients on other machines")
    options = parser.parse_args()
    kinds = [int(each) for each in options.in_flight.split(",")]
    blocks: list[Block] = []
    with tempfile.TemporaryDirectory(prefix="commit rate ") as folder, LocalMetastore(Path(folder)) as metastore:
        catalog = iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)
        catalog.create_namespace(NAMESPACE)
        with serving(metastore, Path(folder) / "server.log", compressed=options.compressed) as server:
            # Java compiles what it does often, and the first block would pay for it.
            grow(catalog, f"{NAMESPACE}.warm", 1)
            asyncio.run(run(server.uri, f"{NAMESPACE}.warm", bodies(catalog, f"{NAMESPACE}.warm", 320), 16))
            for round_ in range(options.rounds):
                for in_flight in kinds:
                    table = f"{NAMESPACE}.t{round_}_{in_flight}"
                    grow(catalog, table, options.manifests)
                    count = warm_up(in_flight) + (options.commits if in_flight > 1 else max(20, options.commits // 8))
                    made = bodies(catalog, table, count)
                    blocks.append(asyncio.run(run(server.uri, table, made, in_flight)))
                    metadata = catalog.load(table).metadata
                    assert len(metadata.snapshots) == 1 + count - len(blocks[-1].failed)
        catalog.close()
    rows = []
    alone = statistics.median([block.rate for block in blocks if block.in_flight == kinds[0]])
    for kind in kinds:
        mine = [block for block in blocks if block.in_flight == kind]
        latencies = [each for block in mine for each in block.latencies]
        rate = statistics.median(block.rate for block in mine)
        rows.append(
            (
                f"{kind} in flight",
                f"{rate:.0f}",
                f"{rate / alone:.1f}",
                f"{quantile(latencies, 0.5) * 1000:.0f}",
                f"{quantile(latencies, 0.99) * 1000:.0f}",
                sum(len(block.failed) for block in mine),
            )
        )
    print_table(("appends, rebased", "commits/s", "times one", "p50 ms", "p99 ms", "failed"), rows)
    for block in blocks:
        for failure in block.failed[:3]:
            print(failure)
    keep(REPORTS, "commit_rate", vars(options), [vars(block) for block in blocks])


if __name__ == "__main__":
    main()
