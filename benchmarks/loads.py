"""Loads on the server: appends whose requests were built before, many in flight, to tables of many shapes.

Every request asserts the table's first snapshot, so the server rebases all appends but one of a table. Such a client
costs almost nothing, so the figures are the server's: a process of its own at its defaults, over a real metastore.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.instruments import CpuMeter, Serving
from iceberg_hms.changes.summary import REPLACE
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.stores import open_files
from integration.load_generator import Connection, append_bodies
from integration.rest_clients import ALL

SCHEMA = pa.schema([pa.field("id", pa.int64())])
NAMESPACE = "bench"


@dataclass(frozen=True)
class Sent:
    """One run after its warm-up. seconds: duration of all commits. latencies: seconds of each acknowledged commit."""

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
    """The requests of `count` appends, all on the table's current snapshot."""
    files = (data_file(f"{table}-{number}") for number in range(count))
    return [body.data for body in append_bodies(catalog, table, files)]


def grow(catalog: Any, table: str, manifests: int) -> None:
    """Create a table whose first snapshot has `manifests` manifests with one file each."""
    smallest = {"commit.manifest.target-size-bytes": "1"}
    created = catalog.create_table(table, SCHEMA, properties={**ALL, **smallest})
    created.append([data_file(f"{table}-first-{number}") for number in range(max(1, manifests))])
    changes = [{"action": "remove-properties", "removals": list(smallest)}]
    catalog.commit(table, [], changes)


def warm_up(in_flight: int) -> int:
    """Commits of a block before the measured ones: at first all clients arrive at once at an idle worker, so one commit
    gets a group of its own and the others wait for it."""
    return max(4, 2 * in_flight)


async def send(uri: str, table: str, made: Sequence[bytes], in_flight: int) -> Sent:
    """Send all bodies over `in_flight` connections, each one after the other. Measuring begins once the server answered
    the warm-up."""
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
    return Sent(in_flight, seconds, latencies, failed)


@dataclass(frozen=True)
class Load:
    """One kind of block.

    commits: of a block, after its warm-up; blocks that are compared have the same number, because a table grows.
    snapshots, manifests: of the table before the block.
    write_seconds, compressed: as `serving` takes them. once: whether it runs in the first round alone.
    """

    name: str
    in_flight: int
    commits: int
    snapshots: int = 1
    manifests: int = 1
    write_seconds: float | None = None
    compressed: bool = False
    once: bool = False


FRESH, SMALL, LONG, WIDE = "fresh", "small", "long-history", "many-manifests"
MANY, SLOW, CALLS = "many-commits", "slow-files", "metastore-calls"
#: The same with compressed answers, which clients on other machines get.
PACKED = "-compressed"
FRESH_PACKED, SMALL_PACKED, LONG_PACKED = (name + PACKED for name in (FRESH, SMALL, LONG))

LOADS = (
    *(Load(FRESH, in_flight, commits) for in_flight, commits in ((1, 40), (16, 320), (64, 1_280))),
    *(Load(SMALL, in_flight, 10 * in_flight, snapshots=10, manifests=10) for in_flight in (16, 64)),
    *(Load(LONG, in_flight, 10 * in_flight, snapshots=10_000, manifests=10) for in_flight in (16, 64)),
    *(Load(WIDE, in_flight, 10 * in_flight, snapshots=10, manifests=1_000) for in_flight in (16, 64)),
    Load(FRESH_PACKED, 64, 1_280, compressed=True),
    *(Load(SMALL_PACKED, each, 10 * each, snapshots=10, manifests=10, compressed=True) for each in (16, 64)),
    *(Load(LONG_PACKED, each, 10 * each, snapshots=10_000, manifests=10, compressed=True) for each in (16, 64)),
    Load(MANY, 64, 3_000, once=True),
    Load(SLOW, 16, 320, write_seconds=0.06),
    Load(CALLS, 16, 320, write_seconds=0.0),
)


@dataclass(frozen=True)
class LoadBlock:
    """One block.

    acknowledged: all of them; measured: those after the warm-up, which took `wall_seconds`; seconds: of each of these,
    in the order of their ends. failed: how often each answer.
    cpu_seconds: by part; `client` is this program. load_average: before the block.
    server: its own counters. calls: all of its calls to the metastore by method, where it counts them.
    findings: what is wrong with the table afterwards.
    """

    load: Load
    round: int
    acknowledged: int
    failed: Mapping[str, int]
    wall_seconds: float
    seconds: Sequence[float]
    cpu_seconds: Mapping[str, float]
    load_average: float
    server: Mapping[str, float]
    calls: Mapping[str, int]
    findings: Sequence[str]

    @property
    def measured(self) -> int:
        return len(self.seconds)

    @property
    def rate(self) -> float:
        return self.measured / self.wall_seconds

    @property
    def calls_per_commit(self) -> float | None:
        """Metastore calls per acknowledged commit; None where the server does not count them."""
        return sum(self.calls.values()) / self.acknowledged if self.calls and self.acknowledged else None


def run(catalog: Any, server: Serving, metastore_pid: int, load: Load, round_: int) -> LoadBlock:
    """One block, on a table of its own."""
    before = os.getloadavg()[0]
    table = f"{NAMESPACE}.{load.name}_{load.in_flight}_{round_}".replace("-", "_")
    grow(catalog, table, load.manifests)
    if load.snapshots > 1:
        table = with_history(catalog, table, load.snapshots)
    count = warm_up(load.in_flight) + load.commits
    made = bodies(catalog, table, count)
    counts, calls = server.counts(), Counter(server.calls())
    meter = CpuMeter({"server": [server.pid], "metastore": [metastore_pid], "client": [os.getpid()]})
    block = asyncio.run(send(server.uri, table, made, load.in_flight))
    cpu = meter.used()
    after = server.counts()
    acknowledged = count - len(block.failed)
    return LoadBlock(
        load=load,
        round=round_,
        acknowledged=acknowledged,
        failed=dict(Counter(map(_kind, block.failed))),
        wall_seconds=block.seconds,
        seconds=block.latencies,
        cpu_seconds=cpu,
        load_average=before,
        server={name: after[name] - counts[name] for name in after},
        calls=dict(Counter(server.calls()) - calls),
        findings=check_head(catalog, table, load, acknowledged, len(block.failed)),
    )


def _kind(failure: str) -> str:
    """Status and error type of an answer."""
    status, _, answer = failure.partition(" ")
    found = re.search(r'"type":\s*"(\w+)"', answer)
    return f"{status} {found[1]}" if found else status


def with_history(catalog: Any, table: str, snapshots: int) -> str:
    """Register the same table under another name with a history of `snapshots` snapshots, all with one manifest list.
    It is written as one metadata file, since so many commits would take minutes."""
    metadata = orjson.loads(catalog.load(table).metadata.to_bytes())
    first = metadata["snapshots"][0]
    added = {key: "0" for key in first["summary"] if key.startswith("added-")}
    for number in range(1, snapshots):
        metadata["snapshots"].append(
            {
                **first,
                "snapshot-id": first["snapshot-id"] // 2 + number,
                "parent-snapshot-id": metadata["snapshots"][-1]["snapshot-id"],
                "sequence-number": first["sequence-number"] + number,
                "timestamp-ms": first["timestamp-ms"] + number,
                "summary": {**first["summary"], **added},
            }
        )
    last = metadata["snapshots"][-1]
    metadata |= {
        "current-snapshot-id": last["snapshot-id"],
        "last-sequence-number": last["sequence-number"],
        "last-updated-ms": last["timestamp-ms"],
        "metadata-log": [],
        "snapshot-log": [{key: each[key] for key in ("snapshot-id", "timestamp-ms")} for each in metadata["snapshots"]],
    }
    metadata["refs"]["main"]["snapshot-id"] = last["snapshot-id"]
    location = f"{metadata['location']}/metadata/00001-{uuid.uuid4()}.metadata.json"
    open_files(catalog.settings).write(location, orjson.dumps(metadata))
    # No two tables have one folder.
    catalog.drop_table(table)
    catalog.register_table(f"{table}_long", location)
    return f"{table}_long"


def check_head(catalog: Any, table: str, load: Load, acknowledged: int, failed: int) -> list[str]:
    """What is wrong with a table after its block: each acknowledged append must be at its head once, and all snapshots
    must be one history. The lists of older snapshots are not read: with thousands of them that takes minutes."""
    metadata = catalog.load(table).metadata
    manifests = catalog.manifests()
    lines = manifests.list(metadata.current_snapshot)
    paths = Counter(entry.data_file.file_path for entry in manifests.entries(lines) if entry.is_live)
    own = [data_file(f"{table}-{number}").file_path for number in range(acknowledged + failed)]
    there = sum(path in paths for path in own)
    findings = [f"{path} is there {count} times" for path, count in paths.items() if count > 1]
    # A commit without an acknowledgement may have landed; an acknowledged one must have.
    if not acknowledged <= there <= acknowledged + failed:
        findings.append(f"the server acknowledged {acknowledged} appends, the table has {there}")
    # The server merges small manifests in snapshots of its own, which add and remove nothing.
    appends = [each for each in metadata.snapshots if each.operation != REPLACE]
    ancestors = metadata.ancestors(metadata.current_snapshot.snapshot_id)
    history = sum(each.operation != REPLACE for each in ancestors)
    for what, found, expected in (
        ("live files", paths.total(), load.manifests + there),
        ("appends", len(appends), load.snapshots + there),
        ("appends of main's history", history, load.snapshots + there),
    ):
        if found != expected:
            findings.append(f"{found} {what} instead of {expected}")
    return findings
