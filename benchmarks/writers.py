"""The writers that benchmarks measure: each adds one commit to a table per call.

Bare         the metastore calls of a commit, with the row that an append writes, and no file
Library      Table.append of one DataFile record: the same calls, plus a manifest, a list and a metadata file
JavaHive     the same append by Java's HiveCatalog in its lock mode, in a JVM of its own
PyIceberg    the same append by PyIceberg's Hive catalog
JavaWriters  many writers in one JVM
Process      one of the first four in a process of its own (`python -m benchmarks worker`)
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Sending, TableName
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.runtime import ThreadRuntime
from integration import interop

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string())])
#: Where Spark keeps the jars that it downloaded, below the home folder.
_JAR = ".ivy2*/cache/org.apache.iceberg/iceberg-spark-runtime-4.1_2.13/jars/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"


class Writer(Protocol):
    """A writer. `load` chooses the table that it commits to."""

    def load(self, table: str) -> None: ...

    def commit(self) -> Sequence[int]:
        """Make one commit. Returns the ids of the snapshots that it added, as far as the writer knows them."""
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
        self._pointer.swap(base, f"{new.location}/metadata/{uuid.uuid4()}.metadata.json", new, old, Sending())
        held.release()
        return ()

    def close(self) -> None:
        self._lock.close()
        self._pool.close()


class JavaHive:
    """folder: for the JVM's files. Raises SystemExit if Iceberg's jar is missing."""

    def __init__(self, settings: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The gateway's options suit servers that start often; a measured writer gets the full compiler.
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

    @property
    def iceberg(self) -> Any:
        """The JVM's package org.apache.iceberg."""
        return self._iceberg

    @property
    def pid(self) -> int:
        return self._gateway.pid

    def table(self, name: str) -> Any:
        return self._catalog.loadTable(self._iceberg.catalog.TableIdentifier.parse(name))

    def long(self, number: int) -> Any:
        """A java.lang.Long, which py4j would make an Integer."""
        return self._gateway.jvm.java.lang.Long.valueOf(str(number))

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
            # Reload the table, as a program does that goes on after an error: its table object may be stale.
            self._table.refresh()
            raise
        return (self._table.current_snapshot().snapshot_id,)

    def close(self) -> None:
        self._catalog.close()


def iceberg_jar() -> Path:
    """Iceberg's Java library, as Spark downloaded it."""
    found = sorted(Path.home().glob(_JAR))
    if not found:
        raise SystemExit(f"~/{_JAR} is missing: run `make demo` once, which downloads it, or leave out --java")
    return found[0]


def count_calls() -> Counter[str]:
    """Count all metastore calls of this process from now on, by method."""
    calls: Counter[str] = Counter()
    plain = MetastoreClient.call

    def call(client: MetastoreClient, method: str, /, **arguments: Any) -> Any:
        calls[method] += 1
        return plain(client, method, **arguments)

    MetastoreClient.call = call  # type: ignore[method-assign]
    return calls


def timed(writer: Writer, commits: int) -> list[float]:
    """Make `commits` commits, one after the other; returns their durations in seconds."""
    durations = []
    for _ in range(commits):
        started = time.perf_counter()
        writer.commit()
        durations.append(time.perf_counter() - started)
    return durations


def make_tables(settings: Mapping[str, Any], tables: Sequence[str]) -> None:
    """Create empty tables in the database `bench`."""
    with iceberg_hms.connect(**settings) as catalog:
        if "bench" not in catalog.list_namespaces():
            catalog.create_namespace("bench")
        for table in tables:
            catalog.create_table(f"bench.{table}", SCHEMA)


#: Enough for many writers, which use little of it.
HEAP_MB = 2_048
#: The Hadoop setting that keeps the connections of each writer apart.
_WHOSE = "benchmark.writer"


class JavaWriters:
    """Many writers in one JVM, each with a catalog object and connections of its own.

    folder: for the JVM's files. jars: besides Iceberg's.

    One JVM for each writer would use up the machine. Iceberg shares things within a JVM, so each writer's catalog has a
    name of its own, which keeps their in-JVM locks apart, and a key of its own in the connection pool. They meet only
    in the metastore, as writers in several processes do.
    """

    def __init__(self, folder: Path, jars: Sequence[Path] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The gateway's options suit servers that start often; a measured writer gets the full compiler.
        options = ["-XX:TieredStopAtLevel=4"]
        classes = [spark_jars() / "*", iceberg_jar(), *jars]
        self._gateway = JavaGateway(folder, "java-writers", heap_mb=HEAP_MB, options=options, classes=classes)

    @property
    def pid(self) -> int:
        return self._gateway.pid

    @property
    def version(self) -> str:
        return str(self._gateway.jvm.java.lang.System.getProperty("java.version"))

    def rest(self, name: str, uri: str) -> Any:
        """A stock RESTCatalog."""
        return interop.java_catalog(self._session({}), interop.REST_CATALOG, name, uri=uri)

    def hive(
        self, name: str, uri: str, warehouse: str, settings: Mapping[str, str], store: Mapping[str, str] | None = None
    ) -> Any:
        """A stock HiveCatalog. settings: of Hadoop's configuration, where Iceberg looks for `iceberg.hive.*`. store:
        properties of the catalog by which it reaches its files."""
        keys = {"client-pool-cache-keys": f"conf:{_WHOSE}", **(store or {})}
        session = self._session({**settings, _WHOSE: name})
        return interop.java_catalog(session, interop.HIVE_CATALOG, name, uri=uri, warehouse=warehouse, **keys)

    def files(self, paths: Sequence[str]) -> list[Any]:
        """Records of data files that nobody reads, for tables without partitions."""
        iceberg = self._gateway.jvm.org.apache.iceberg
        return [
            iceberg.DataFiles.builder(iceberg.PartitionSpec.unpartitioned())
            .withPath(path)
            .withFormat("PARQUET")
            .withFileSizeInBytes(1_000)
            .withRecordCount(10)
            .build()
            for path in paths
        ]

    def load(self, catalog: Any, table: str) -> Any:
        return catalog.loadTable(interop.java_identifier(self._session({}), table))

    def append(self, table: Any, file: Any) -> str | None:
        """Make one commit. Returns what it threw, as `package.Class: message`, or None if it returned."""
        append = table.newFastAppend()
        returned = append.appendFile(file)
        error = interop.java_error(append.commit)
        # Otherwise py4j keeps the object alive under both names, with the metadata that it was built on.
        for name in (append, returned):
            name._detach()
        return error

    def close(self) -> None:
        self._gateway.stop()

    def _session(self, settings: Mapping[str, str]) -> Any:
        """The part of a Spark session that `interop` needs."""
        conf = self._gateway.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            conf.set(key, value)
        return SimpleNamespace(_jvm=self._gateway.jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf))


OPEN: dict[str, Callable[[dict[str, Any]], Writer]] = {
    "library": lambda job: Library(job["settings"]),
    "java": lambda job: JavaHive(job["settings"], Path(job["folder"])),
    "pyiceberg": lambda job: PyIceberg(job["settings"]),
}


def run_worker() -> None:
    """One writer as a process: `python -m benchmarks worker JOB` (JSON: kind, settings, warm_up, and folder for java).

    It commits once to the table `warm_up`, which opens connections and probes compare-and-swap, and answers. Each line
    of its input is an order, each answer a line of JSON: {"table": name} loads a table; {"commits": n} makes n commits
    and reports them, after "seconds" at the latest if given, and "grace" more for the last one. It ends when its input
    ends.
    """
    job: dict[str, Any] = json.loads(sys.argv[1])
    calls = count_calls()
    writer = OPEN[job["kind"]](job)
    try:
        writer.load(job["warm_up"])
        writer.commit()
        _answer({})
        for line in sys.stdin:
            order = json.loads(line)
            if "table" in order:
                writer.load(order["table"])
                _answer({})
            else:
                calls.clear()
                made = make_commits(writer, order["commits"], order.get("seconds"), order.get("grace", 0.0))
                _answer({**made, "calls": calls})
    finally:
        writer.close()


def make_commits(writer: Writer, commits: int, limit: float | None, grace: float = 0.0) -> dict[str, Any]:
    """grace: how long to wait for a commit that began within the limit.

    seconds: of the commits that succeeded. started, ended: of all, on the clock that the processes share.
    unfinished: commits without an answer by then; the writer is unusable afterwards."""
    seconds: list[float] = []
    errors: list[str] = []
    snapshot_ids: list[int] = []
    started = time.monotonic()

    def make() -> None:
        for _ in range(commits):
            if limit is not None and time.monotonic() - started > limit:
                return
            before = time.perf_counter()
            try:
                made = writer.commit()
            except Exception as error:  # noqa: BLE001 - Java raises many types, and a defect of ours is a failed commit too
                errors.append(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            else:
                seconds.append(time.perf_counter() - before)
                snapshot_ids.extend(made)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(None if limit is None else limit + grace)
    return {
        "seconds": list(seconds),
        "errors": list(errors),
        "snapshot_ids": list(snapshot_ids),
        "started": started,
        "ended": time.monotonic(),
        "unfinished": int(thread.is_alive()),
    }


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


ROOT = Path(__file__).parent.parent
#: Time limit for a process to end after its input closed; seconds.
END_SECONDS = 60


class Process:
    """A writer in a process of its own, which ends with this one."""

    def __init__(self, **job: Any) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "benchmarks", "worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises RuntimeError if the process ended instead; it shares our standard error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a writer's process ended without an answer")
        return dict(json.loads(line))

    def close(self) -> None:
        try:
            self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
