"""How many appends of other engines a server commits to one table: pre-built REST bodies, many in flight.

    .venv/bin/python -m benchmarks.commit_rate [--in-flight 1,16,64] [--commits 600] [--manifests 0] [--rounds 3]

Every body asserts the table's first snapshot, so that all commits but one of a table are rebased. A client of this kind
costs almost nothing, so that what is measured is the server, which runs in a process of its own at its defaults (lock
and compare-and-swap), over a real metastore. Each block has a table of its own; blocks alternate over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa

import iceberg_hms
from benchmarks.report import keep, print_table, quantile
from iceberg_hms.changes.append import Append
from iceberg_hms.changes.derived import for_update_table
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.format.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore

SCHEMA = pa.schema([pa.field("id", pa.int64())])
REPORTS = Path(__file__).parent.parent / "build" / "benchmarks"
NAMESPACE = "bench"


@dataclass(frozen=True)
class Block:
    """One run. seconds: of all its commits. latencies: of each acknowledged one, in seconds."""

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
    """Commits of appends as a stock client makes them: manifests and lists are on disk, all on the same parent."""
    loaded = catalog.load(table)
    metadata = loaded.metadata
    made = []
    for number in range(count):
        manifests = catalog._services.world.manifests()
        change = Append(
            [data_file(f"{table}-{number}")],
            snapshot_id=SYSTEM_CLOCK.snapshot_id(),
            schema_id=metadata.current_schema_id,
            spec_id=metadata.default_spec_id,
            table_uuid=metadata.uuid,
            now_ms=SYSTEM_CLOCK.now_ms,
        )
        updates = [dict(update) for update in change.stage(metadata, manifests).updates]
        manifests.flush()
        made.append(orjson.dumps({"requirements": list(for_update_table(metadata, updates)), "updates": updates}))
    return made


def grow(catalog: Any, table: str, manifests: int) -> None:
    """A table whose first snapshot has so many manifests, one file each."""
    catalog.create_table(table, SCHEMA)
    metadata = catalog.load(table).metadata
    opened = catalog._services.world.manifests()
    snapshot_id = SYSTEM_CLOCK.snapshot_id()
    from iceberg_hms.changes import updates
    from iceberg_hms.changes.summary import Added, totals
    from iceberg_hms.format.manifest import ManifestEntry, Status
    from iceberg_hms.format.snapshot import Snapshot

    files = [data_file(f"{table}-first-{number}") for number in range(max(1, manifests))]
    written = [
        line
        for file in files
        for line in opened.write(
            metadata,
            metadata.schema,
            metadata.specs[0],
            snapshot_id,
            [ManifestEntry(Status.ADDED, file, snapshot_id=snapshot_id)],
        )
    ]
    changes = Added.of(files).to_summary()
    raw: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": SYSTEM_CLOCK.now_ms(),
        "summary": {"operation": "append", **changes, **totals(None, changes)},
        "schema-id": 0,
    }
    raw["manifest-list"] = opened.stage_list(metadata, Snapshot(raw), written)
    opened.flush()
    catalog.commit(table, [], [updates.add_snapshot(raw), updates.set_snapshot_ref("main", snapshot_id)])


class Connection:
    """HTTP/1.1, kept alive, just enough for a commit."""

    def __init__(self, host: str, port: int) -> None:
        self._where = (host, port)

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._where, limit=2**26)

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._where[0]}\r\nContent-Type: application/json\r\n"
            f"User-Agent: PyIceberg/0.12.0\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        return int(answer.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


async def run(uri: str, table: str, made: Sequence[bytes], in_flight: int) -> Block:
    """Send all bodies over `in_flight` connections, each one after the other."""
    parts = urlsplit(uri)
    connections = [Connection(parts.hostname or "", parts.port or 0) for _ in range(in_flight)]
    for connection in connections:
        await connection.open()
    waiting = iter(made)
    latencies: list[float] = []
    failed: list[str] = []
    path = f"/v1/namespaces/{NAMESPACE}/tables/{table.rpartition('.')[2]}"

    async def work(connection: Connection) -> None:
        for body in waiting:
            begun = perf_counter()
            status, answer = await connection.post(path, body)
            if status == 200:
                latencies.append(perf_counter() - begun)
            else:
                failed.append(f"{status} {answer[:200].decode()}")

    started = perf_counter()
    await asyncio.gather(*(work(connection) for connection in connections))
    seconds = perf_counter() - started
    for connection in connections:
        connection.close()
    return Block(in_flight, seconds, latencies, failed)


@contextmanager
def serving(metastore: LocalMetastore) -> Iterator[str]:
    """A server process at its defaults; its uri."""
    program = [str(Path(sys.executable).parent / "iceberg-hms")]
    arguments = ["serve", "--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--port", "0"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*program, *arguments, "--no-auth"], stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    )
    try:
        assert process.stdout is not None
        yield orjson.loads(process.stdout.readline())["uri"]
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", default="1,16,64", help="several, with commas")
    parser.add_argument("--commits", type=int, default=600, help="of a block with more than one in flight")
    parser.add_argument("--manifests", type=int, default=1, help="that the first snapshot has")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = [int(each) for each in options.in_flight.split(",")]
    blocks: list[Block] = []
    with tempfile.TemporaryDirectory(prefix="commit rate ") as folder, LocalMetastore(Path(folder)) as metastore:
        catalog = iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)
        catalog.create_namespace(NAMESPACE)
        with serving(metastore) as uri:
            for round_ in range(options.rounds):
                for in_flight in kinds:
                    table = f"{NAMESPACE}.t{round_}_{in_flight}"
                    grow(catalog, table, options.manifests)
                    count = options.commits if in_flight > 1 else max(20, options.commits // 8)
                    made = bodies(catalog, table, count)
                    blocks.append(asyncio.run(run(uri, table, made, in_flight)))
                    metadata = catalog.load(table).metadata
                    assert len(metadata.snapshots) == 1 + len(blocks[-1].latencies)
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
