"""The two writers of the matrix, with a stock client of each engine, and the tables that they write to.

One Spark session and one plain JVM serve both writers; each writer has a server of its own, and so its own gate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.writers import iceberg_jar
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.rest_clients import TOKEN
from labs.matrix.commit_gate import CommitGate
from labs.matrix.rows import BASE, Row, Rows

#: With field ids, so that no engine needs a name mapping to read files that a test wrote.
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate([("id", pa.int64()), ("name", pa.string()), ("day", pa.string())], 1)
    ]
)
COLUMNS = "id bigint, name string, day string"


def as_table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=SCHEMA)


class World:
    """Where the matrix happens. spark: makes the session, when first asked for."""

    def __init__(self, catalog: Any, namespace: str, folder: Path, spark: Callable[[], Any]) -> None:
        self.catalog = catalog
        self.namespace = namespace
        self.folder = folder
        self._make_spark = spark
        self._numbers = itertools.count(1)
        self._stack = ExitStack()
        self.writers = {who: Writer(self, who, self._stack) for who in ("a", "b")}

    def close(self) -> None:
        self._stack.close()

    @cached_property
    def spark(self) -> Any:
        return self._make_spark()

    @cached_property
    def jvm(self) -> Any:
        """A JVM without Spark, as `interop` takes a session."""
        folder = self.folder / "jvm"
        folder.mkdir()
        gateway = JavaGateway(folder, "matrix", classes=[spark_jars() / "*", iceberg_jar()])
        self._stack.callback(gateway.stop)
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        return SimpleNamespace(_jvm=gateway.jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf))

    @cached_property
    def _base_files(self) -> list[str]:
        by_day = {day: [row for row in BASE if row.day == day] for day in {row.day for row in BASE}}
        return [f"file:{self.file(*rows)}" for rows in by_day.values()]

    def file(self, *rows: Row) -> Path:
        """A new Parquet file of a few rows."""
        path = self.folder / f"file-{next(self._numbers)}.parquet"
        pq.write_table(as_table(*rows), path)
        return path

    def new_folder(self) -> Path:
        return self.folder / f"folder-{next(self._numbers)}"

    def new_name(self) -> str:
        return f"{self.namespace}.t{next(self._numbers)}"

    def new_table(self, properties: Mapping[str, str]) -> str:
        """A table with the rows of `BASE`; its full name."""
        name = self.new_name()
        self.catalog.create_table(name, SCHEMA, partition_spec=["day"], properties=dict(properties)).append(
            self._base_files
        )
        return name

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Where the table's differ: its head stays."""
        found = self.catalog.load_table(table).metadata.properties
        if any(found.get(key) != value for key, value in properties.items()):
            update = {"action": "set-properties", "updates": dict(properties)}
            self.catalog.commit(tuple(table.split(".")), [], [update])

    def rows(self, table: str) -> Rows:
        """As stock PyIceberg reads them."""
        loaded = self.writers["a"].pyiceberg.load_table(table)
        return Counter(Row(**row) for row in loaded.scan().to_arrow().to_pylist())


class Writer:
    """One of the two. who: what it writes as `name`."""

    def __init__(self, world: World, who: str, stack: ExitStack) -> None:
        self.world = world
        self.who = who
        self.gate = CommitGate(world.catalog)
        self._stack = stack
        # The gate is no Catalog, and has what the server asks of one.
        catalog: Any = self.gate
        self.uri = stack.enter_context(RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN)).uri

    @cached_property
    def pyiceberg(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(f"matrix-{self.who}", type="rest", uri=self.uri, token=TOKEN)

    @cached_property
    def spark(self) -> Any:
        """A session of its own, since some verbs are chosen by a setting of the session."""
        session = self.world.spark.newSession()
        interop.add_spark_catalog(session, self.place, type="rest", uri=self.uri, token=TOKEN)
        return session

    @property
    def place(self) -> str:
        """The name of its catalog in Spark."""
        return f"matrix_{self.who}"

    @cached_property
    def plain_java(self) -> JavaClient:
        return JavaClient(self, self.world.jvm)

    @cached_property
    def java_in_spark(self) -> JavaClient:
        return JavaClient(self, self.spark)


class JavaClient:
    """Iceberg's core API in one JVM."""

    def __init__(self, writer: Writer, session: Any) -> None:
        self._writer = writer
        self._session = session
        self._catalog = interop.java_catalog(
            session, interop.REST_CATALOG, f"matrix-{writer.who}", uri=writer.uri, token=TOKEN
        )

    def load(self, table: str) -> Any:
        return self._catalog.loadTable(interop.java_identifier(self._session, table))

    def data_file(self, table: Any, *rows: Row) -> Any:
        """A new file of rows of one day, as Java's DataFile."""
        path = self._writer.world.file(*rows)
        builder = self._session._jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(f"file:{path}")
        builder = builder.withFormat("PARQUET").withFileSizeInBytes(path.stat().st_size).withRecordCount(len(rows))
        return builder.withPartitionPath(f"day={rows[0].day}").build()

    def live_file(self, table: Any, day: str) -> Any:
        """The first file of a day in the current snapshot."""
        plan = table.newScan().filter(self._session._jvm.org.apache.iceberg.expressions.Expressions.equal("day", day))
        tasks = plan.planFiles()
        try:
            return tasks.iterator().next().file()
        finally:
            tasks.close()

    def set_of(self, *items: Any) -> Any:
        made = self._session._jvm.java.util.HashSet()
        for item in items:
            made.add(item)
        return made
