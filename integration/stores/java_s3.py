"""Java's HiveCatalog with S3FileIO, in a JVM of its own: stock Iceberg as any Java program has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from iceberg_hms.config import Settings
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from iceberg_hms.spark.s3 import AWS_BUNDLE, s3_properties
from integration import interop, maven_packages
from integration.stores.minio import ObjectStore

S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
#: S3FileIO for a bucket, Hadoop for a local file.
RESOLVING_FILE_IO = "org.apache.iceberg.io.ResolvingFileIO"
#: By default Java waits up to 5 s between two looks at a lock.
QUICK_LOCK = {
    "iceberg.hive.lock-check-max-wait-ms": "50",
    "iceberg.hive.lock-creation-max-wait-ms": "50",
}
#: Keeps the connections of catalogs of one JVM apart.
_WHOSE = "tests.catalog"


def java_properties(store: ObjectStore, io: str = S3_FILE_IO, *, endpoint: str = "") -> dict[str, str]:
    """Properties of a Java catalog for tables in the store. endpoint: of a proxy before the store."""
    settings = Settings.load(store.settings(endpoint=endpoint), environ={})
    return {"io-impl": io, **s3_properties(settings)}


class JavaOnS3:
    """Stock catalogs and their tables in one JVM."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._jvm = gateway.jvm
        self.iceberg = gateway.jvm.org.apache.iceberg

    def catalog(self, name: str, metastore: Any, properties: Mapping[str, str]) -> Any:
        """A HiveCatalog with connections and in-JVM locks of its own; the caller closes it."""
        conf = self._jvm.org.apache.hadoop.conf.Configuration()
        for key, value in {**QUICK_LOCK, _WHOSE: name}.items():
            conf.set(key, value)
        session = SimpleNamespace(_jvm=self._jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf))
        own = {"uri": metastore.uri, "warehouse": metastore.warehouse, "client-pool-cache-keys": f"conf:{_WHOSE}"}
        return interop.java_catalog(session, interop.HIVE_CATALOG, name, **own, **properties)

    def make_namespace(self, catalog: Any, name: str, location: str) -> None:
        catalog.createNamespace(self.identifier(f"{name}.any").namespace(), {"location": location})

    def make_table(self, catalog: Any, table: str, properties: Mapping[str, str]) -> Any:
        """A table with the columns of `interop.small_parquet`."""
        types = self.iceberg.types.Types
        columns = [
            types.NestedField.optional(1, "id", types.LongType.get()),
            types.NestedField.optional(2, "name", types.StringType.get()),
        ]
        unpartitioned = self.iceberg.PartitionSpec.unpartitioned()
        return catalog.createTable(self.identifier(table), self.iceberg.Schema(columns), unpartitioned, properties)

    def load(self, catalog: Any, table: str) -> Any:
        return catalog.loadTable(self.identifier(table))

    def identifier(self, table: str) -> Any:
        return self.iceberg.catalog.TableIdentifier.parse(table)

    def data_file(self, location: str, file: Path) -> Any:
        """The record of a Parquet file that was uploaded."""
        builder = self.iceberg.DataFiles.builder(self.iceberg.PartitionSpec.unpartitioned())
        return _described(builder, location, file)

    def position_deletes(self, location: str, file: Path) -> Any:
        """The record of a Parquet file of position deletes that was uploaded."""
        builder = self.iceberg.FileMetadata.deleteFileBuilder(self.iceberg.PartitionSpec.unpartitioned())
        return _described(builder.ofPositionDeletes(), location, file)

    def rows(self, table: Any, columns: Iterable[str]) -> list[dict[str, Any]]:
        """The rows of a table's current state, by `id`."""
        table.refresh()
        records = self.iceberg.data.IcebergGenerics.read(table).build()
        try:
            found = [{column: record.getField(column) for column in columns} for record in records.iterator()]
        finally:
            records.close()
        return interop.by_id(found)


def _described(builder: Any, location: str, file: Path) -> Any:
    described = builder.withPath(location).withFormat("PARQUET").withFileSizeInBytes(file.stat().st_size)
    return described.withRecordCount(pq.read_metadata(file).num_rows).build()


@contextmanager
def java_on_s3(folder: Path) -> Iterator[JavaOnS3]:
    """A JVM with Iceberg and AWS's library, until the block ends. folder: for its files."""
    maven_packages.fetch(folder, AWS_BUNDLE)
    classes = [spark_jars() / "*", maven_packages.jar(), maven_packages.jar(AWS_BUNDLE)]
    with JavaGateway(folder, "java-s3", heap_mb=1_024, classes=classes) as gateway:
        yield JavaOnS3(gateway)
