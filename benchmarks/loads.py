"""Blocks of a cheap load on our server: appends whose requests were built before, many in flight, to tables of many
shapes. What is measured is the server, because such a client costs almost nothing."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks import commit_rate
from benchmarks.accounts import CpuMeter
from benchmarks.serving import Serving
from iceberg_hms.assembly import open_files


@dataclass(frozen=True)
class Load:
    """One kind of block.

    commits: of a block, after its warm-up; what is compared has as many, because a table grows with them.
    snapshots, manifests: of the table before.
    write_seconds, compressed: as `serving` takes them. once: whether it is made in the first round alone.
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
#: The same with compressed answers: what clients on other machines get.
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
    server: what it counted of itself. calls: all of its calls to the metastore by method, where they were counted.
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
        """Of the metastore; None where they were not counted."""
        return sum(self.calls.values()) / self.acknowledged if self.calls and self.acknowledged else None


def run(catalog: Any, server: Serving, metastore_pid: int, load: Load, round_: int) -> LoadBlock:
    """One block, on a table of its own."""
    before = os.getloadavg()[0]
    table = f"{commit_rate.NAMESPACE}.{load.name}_{load.in_flight}_{round_}".replace("-", "_")
    commit_rate.grow(catalog, table, load.manifests)
    if load.snapshots > 1:
        table = with_history(catalog, table, load.snapshots)
    count = commit_rate.warm_up(load.in_flight) + load.commits
    made = commit_rate.bodies(catalog, table, count)
    counts, calls = server.counts(), Counter(server.calls())
    meter = CpuMeter({"server": [server.pid], "metastore": [metastore_pid], "client": [os.getpid()]})
    block = asyncio.run(commit_rate.run(server.uri, table, made, load.in_flight))
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
    """Status and type of an answer, without what is this answer's own."""
    status, _, answer = failure.partition(" ")
    found = re.search(r'"type":\s*"(\w+)"', answer)
    return f"{status} {found[1]}" if found else status


def with_history(catalog: Any, table: str, snapshots: int) -> str:
    """The same table under another name, whose history has so many snapshots, all with one manifest list. It is written
    as one metadata file, since so many commits would take minutes."""
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
    catalog.register_table(f"{table}_long", location)
    return f"{table}_long"


def check_head(catalog: Any, table: str, load: Load, acknowledged: int, failed: int) -> list[str]:
    """What is wrong with a table after its block: each acknowledged append must be at its head once, and all snapshots
    must be one history. The lists of older snapshots are not read: with thousands of them that takes minutes."""
    metadata = catalog.load(table).metadata
    manifests = catalog.manifests()
    lines = manifests.list(metadata.current_snapshot)
    paths = Counter(entry.data_file.file_path for entry in manifests.entries(lines) if entry.is_live)
    own = [commit_rate.data_file(f"{table}-{number}").file_path for number in range(acknowledged + failed)]
    there = sum(path in paths for path in own)
    findings = [f"{path} is there {count} times" for path, count in paths.items() if count > 1]
    # Who was not acknowledged may have landed, but never the other way round.
    if not acknowledged <= there <= acknowledged + failed:
        findings.append(f"{acknowledged} appends were acknowledged, {there} are in the table")
    history = sum(1 for _ in metadata.ancestors(metadata.current_snapshot.snapshot_id))
    for what, found, expected in (
        ("live files", paths.total(), load.manifests + there),
        ("snapshots", len(metadata.snapshots), load.snapshots + there),
        ("snapshots of main's history", history, load.snapshots + there),
    ):
        if found != expected:
            findings.append(f"{found} {what} instead of {expected}")
    return findings
