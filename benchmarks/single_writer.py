"""How much of the metastore's own speed one writer gets: commits by the library beside the bare calls of a commit.

    .venv/bin/python benchmarks/single_writer.py [--rounds 8] [--commits 25] [--out build/benchmarks]

On one embedded metastore, in one run, blocks of three kinds alternate:

    bare      lock, get_table_req, alter_table_with_environment_context with the expected value, unlock
    bare+get  the same with the second get_table_req that a commit makes before its lock
    library   Table.append of one DataFile record: the same calls, plus a manifest, a list and a metadata file

Prints medians of the blocks' rates and the median of the ratios of neighbouring blocks; raw results are kept as JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa

import iceberg_hms
from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.lock import HmsTableLock
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.tables import HmsTablePointer

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string())])


class Bare:
    """The calls of a commit and nothing else, on a table of its own."""

    def __init__(self, uri: str, name: TableName, *, second_get: bool) -> None:
        settings = Settings.load({"metastore_uri": uri}, environ={})
        self.pool = ClientPool([uri])
        self.runtime = ThreadRuntime()
        self.lock = HmsTableLock(self.pool, self.runtime, settings)
        self.pointer = HmsTablePointer(self.pool, settings)
        self.name = name
        self.second_get = second_get
        with iceberg_hms.connect(metastore_uri=uri) as catalog:
            self.metadata = catalog.load(name).metadata

    def commit(self) -> None:
        if self.second_get:
            self.pointer.load(self.name)
        held = self.lock.acquire(self.name, wait_seconds=60, request=str(uuid.uuid4()))
        base = self.pointer.load(self.name)
        location = f"{self.metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
        self.pointer.swap(base, location, self.metadata, self.metadata)
        held.release()

    def close(self) -> None:
        self.lock.close()
        self.pool.close()


class Library:
    def __init__(self, uri: str, name: TableName) -> None:
        self.catalog = iceberg_hms.connect(metastore_uri=uri)
        self.table = self.catalog.load_table(name)
        self.count = 0

    def commit(self) -> None:
        self.count += 1
        path = f"file:/data/{self.count}.parquet"
        record = DataFile(file_path=path, file_format="PARQUET", record_count=1, file_size_in_bytes=9, spec_id=0)
        self.table.append([record])

    def close(self) -> None:
        self.catalog.close()


def rate(writer: Bare | Library, commits: int) -> float:
    started = time.perf_counter()
    for _ in range(commits):
        writer.commit()
    return commits / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--commits", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, LocalMetastore(folder) as metastore:
        with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
            catalog.create_namespace("bench")
            for table in ("bare", "bare_get", "library"):
                catalog.create_table(f"bench.{table}", SCHEMA)
        writers: dict[str, Bare | Library] = {
            "bare": Bare(metastore.uri, TableName("bench", "bare"), second_get=False),
            "bare+get": Bare(metastore.uri, TableName("bench", "bare_get"), second_get=True),
            "library": Library(metastore.uri, TableName("bench", "library")),
        }
        for writer in writers.values():
            rate(writer, arguments.commits)
        rounds = [
            {name: rate(writer, arguments.commits) for name, writer in writers.items()} for _ in range(arguments.rounds)
        ]
        for writer in writers.values():
            writer.close()
    report(rounds, arguments)


def report(rounds: list[dict[str, float]], arguments: argparse.Namespace) -> None:
    for name in rounds[0]:
        rates = sorted(each[name] for each in rounds)
        print(f"{name:9} {statistics.median(rates):6.1f} commits/s   ({rates[0]:.1f} to {rates[-1]:.1f})")
    for peer in ("bare", "bare+get"):
        ratios = [each["library"] / each[peer] for each in rounds]
        print(f"library / {peer:9} {statistics.median(ratios):.2f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    raw = {
        "benchmark": "single_writer",
        "commits_per_block": arguments.commits,
        "python": platform.python_version(),
        "rounds": rounds,
    }
    (arguments.out / "single_writer.json").write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
