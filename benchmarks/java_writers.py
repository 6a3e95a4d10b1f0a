"""Writers in Java, many in one JVM, each with a catalog object and connections of its own.

One JVM for all, because so many would use up the machine before they wrote anything. What Iceberg shares within a JVM
is kept apart: a catalog's name is its writer's, so that no two take the same lock inside the JVM, and so is the key of
its pool of connections. They meet in the metastore, as writers of several processes do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.writers import iceberg_jar
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from integration import interop

#: A bound for many writers; little of it is used.
HEAP_MB = 2_048
#: The Hadoop setting by which each writer's connections are told apart.
_WHOSE = "benchmark.writer"


class JavaWriters:
    """The JVM. folder: for its files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The gateway is made for servers that start often; a writer is measured with the compiler it would have.
        options = ["-XX:TieredStopAtLevel=4"]
        classes = [spark_jars() / "*", iceberg_jar()]
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

    def hive(self, name: str, uri: str, warehouse: str, settings: Mapping[str, str]) -> Any:
        """A stock HiveCatalog. settings: of Hadoop's configuration, where Iceberg looks for `iceberg.hive.*`."""
        keys = {"client-pool-cache-keys": f"conf:{_WHOSE}"}
        session = self._session({**settings, _WHOSE: name})
        return interop.java_catalog(session, interop.HIVE_CATALOG, name, uri=uri, warehouse=warehouse, **keys)

    def files(self, paths: Sequence[str]) -> list[Any]:
        """Records of data files that nobody looks at, for tables without partitions."""
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
        """One commit. What it threw, as `package.Class: message`; None if it returned."""
        append = table.newFastAppend()
        returned = append.appendFile(file)
        error = interop.java_error(append.commit)
        # Else the JVM would keep it, under each of these names, and the metadata that it was built on.
        for name in (append, returned):
            name._detach()
        return error

    def close(self) -> None:
        self._gateway.stop()

    def _session(self, settings: Mapping[str, str]) -> Any:
        """What `interop` needs of a Spark session."""
        conf = self._gateway.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            conf.set(key, value)
        return SimpleNamespace(_jvm=self._gateway.jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf))
