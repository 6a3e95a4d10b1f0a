"""What the benchmarks measure: writers that add one commit to a table each time they are asked.

Bare       the metastore calls of a commit, with the row that an append writes, and no file
Library    Table.append of one DataFile record: the same calls, plus a manifest, a list and a metadata file
JavaHive   the same append by Java's HiveCatalog in its lock mode, in a JVM of its own
PyIceberg  the same append by PyIceberg's Hive catalog
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.runtime import ThreadRuntime

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string())])
#: Where Spark keeps the jars that it fetched, below the home folder.
_JAR = ".ivy2*/cache/org.apache.iceberg/iceberg-spark-runtime-4.1_2.13/jars/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"


class Writer(Protocol):
    """Made without a table; `load` says which one it commits to from then on."""

    def load(self, table: str) -> None: ...

    def commit(self) -> Sequence[int]:
        """One commit. Returns the ids of the snapshots that it added, as far as the writer is told."""
        ...

    def close(self) -> None: ...


class Library:
    """settings: keywords of `iceberg_hms.connect`, here and below."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._catalog = iceberg_hms.connect(**settings)
        self._table: Any = None

    def load(self, table: str) -> None:
        self._table = self._catalog.load_table(table)

    def commit(self) -> Sequence[int]:
        return tuple(self.append().snapshot_ids)

    def append(self) -> Any:
        """The commit's report."""
        path = f"file:/data/{uuid.uuid4()}.parquet"
        return self._table.append([DataFile(path, "PARQUET", record_count=1, file_size_in_bytes=9, spec_id=0)])

    def close(self) -> None:
        self._catalog.close()


class Bare:
    """lock, get, alter with the expected value, unlock; with second_get one more get before the lock.

    The row changes as an append changes it: a new current snapshot with its summary and counts each time. For that,
    `load` makes two appends, whose metadata take turns.
    """

    def __init__(self, settings: Mapping[str, Any], *, second_get: bool = False) -> None:
        self._settings = settings
        loaded = Settings.load(settings, environ={})
        self._pool = ClientPool(loaded.metastore_uris)
        self._lock = HmsTableLock(self._pool, ThreadRuntime(), loaded)
        self._pointer = HmsTablePointer(self._pool, loaded)
        self._second_get = second_get
        self._name = TableName("", "")
        self._versions: list[Any] = []

    def load(self, table: str) -> None:
        namespace, name = table.split(".")
        self._name = TableName(namespace, name)
        library = Library(self._settings)
        library.load(table)
        self._versions = [library.append().metadata for _ in range(2)]
        library.close()

    def commit(self) -> Sequence[int]:
        if self._second_get:
            self._pointer.load(self._name)
        held = self._lock.acquire(self._name, wait_seconds=60, request=str(uuid.uuid4()))
        base = self._pointer.load(self._name)
        new, old = self._versions
        self._versions.reverse()
        self._pointer.swap(base, f"{new.location}/metadata/{uuid.uuid4()}.metadata.json", new, old)
        held.release()
        return ()

    def close(self) -> None:
        self._lock.close()
        self._pool.close()


class JavaHive:
    """folder: for the JVM's files. Raises SystemExit if Iceberg's jar is missing."""

    def __init__(self, settings: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The gateway is made for servers that start often; a writer is measured with the compiler it would have.
        options = ["-XX:TieredStopAtLevel=4"]
        classes = [spark_jars() / "*", iceberg_jar()]
        self._gateway = JavaGateway(folder, "java-writer", options=options, classes=classes)
        self._iceberg = self._gateway.jvm.org.apache.iceberg
        properties = self._gateway.jvm.java.util.HashMap()
        properties.put("uri", settings["metastore_uri"])
        properties.put("warehouse", settings["warehouse"])
        self._catalog = self._iceberg.CatalogUtil.loadCatalog(
            "org.apache.iceberg.hive.HiveCatalog",
            "java",
            properties,
            self._gateway.jvm.org.apache.hadoop.conf.Configuration(),
        )
        self._table: Any = None

    def load(self, table: str) -> None:
        self._table = self._catalog.loadTable(self._iceberg.catalog.TableIdentifier.parse(table))

    def commit(self) -> Sequence[int]:
        builder = self._iceberg.DataFiles.builder(self._table.spec())
        record = builder.withPath(f"file:/data/{uuid.uuid4()}.parquet").withFormat("PARQUET")
        record = record.withFileSizeInBytes(9).withRecordCount(1).build()
        self._table.newFastAppend().appendFile(record).commit()
        return ()

    def close(self) -> None:
        self._gateway.stop()


class PyIceberg:
    """settings: as above, and further ones of PyIceberg's catalog."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from pyiceberg.catalog import load_catalog

        # It logs each of its retries.
        logging.getLogger("pyiceberg").setLevel(logging.ERROR)
        named = {{"metastore_uri": "uri"}.get(key, key): value for key, value in settings.items()}
        self._catalog = load_catalog("pyiceberg", type="hive", **named)
        self._table: Any = None

    def load(self, table: str) -> None:
        self._table = self._catalog.load_table(table)

    def commit(self) -> Sequence[int]:
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file:/data/{uuid.uuid4()}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=9,
        )
        file.spec_id = 0
        try:
            with self._table.transaction() as change, change.update_snapshot().fast_append() as append:
                append.append_data_file(file)
        except Exception:
            # What a program does that goes on; an attempt that failed may have left the table as it was read long ago.
            self._table.refresh()
            raise
        return (self._table.current_snapshot().snapshot_id,)

    def close(self) -> None:
        self._catalog.close()


def iceberg_jar() -> Path:
    """Iceberg's Java, as Spark fetched it."""
    found = sorted(Path.home().glob(_JAR))
    if not found:
        raise SystemExit(f"~/{_JAR} is not there; Spark fetches it on first use: `make demo` once, or leave out --java")
    return found[0]


def count_calls() -> Counter[str]:
    """Counts all metastore calls of this process from now on, by method."""
    calls: Counter[str] = Counter()
    plain = MetastoreClient.call

    def call(client: MetastoreClient, method: str, /, **arguments: Any) -> Any:
        calls[method] += 1
        return plain(client, method, **arguments)

    MetastoreClient.call = call  # type: ignore[method-assign]
    return calls


def timed(writer: Writer, commits: int) -> list[float]:
    """The duration of each of so many commits, one after the other; seconds."""
    durations = []
    for _ in range(commits):
        started = time.perf_counter()
        writer.commit()
        durations.append(time.perf_counter() - started)
    return durations


def make_tables(settings: Mapping[str, Any], tables: Sequence[str]) -> None:
    """New, empty tables in the database `bench`."""
    with iceberg_hms.connect(**settings) as catalog:
        if "bench" not in catalog.list_namespaces():
            catalog.create_namespace("bench")
        for table in tables:
            catalog.create_table(f"bench.{table}", SCHEMA)
