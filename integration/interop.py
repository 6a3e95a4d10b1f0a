"""Other engines on the same metastore, and their rows in one shape: Java's HiveCatalog and RESTCatalog, PyIceberg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer

HIVE_CATALOG = "org.apache.iceberg.hive.HiveCatalog"
REST_CATALOG = "org.apache.iceberg.rest.RESTCatalog"
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def add_spark_catalog(spark: Any, name: str, **properties: str) -> str:
    """Add stock Iceberg's catalog to a running session, without its cache, so that queries see what others commit."""
    settings = {"cache-enabled": "false", **{key.replace("_", "-"): value for key, value in properties.items()}}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    spark.conf.set(f"spark.sql.catalog.{name}", SPARK_CATALOG)
    return name


def java_catalog(spark: Any, implementation: str, name: str, **properties: str) -> Any:
    """A Java catalog object in Spark's JVM, as any Java program makes it."""
    given = spark._jvm.java.util.HashMap()
    for key, value in properties.items():
        given.put(key, value)
    return spark._jvm.org.apache.iceberg.CatalogUtil.loadCatalog(
        implementation, name, given, spark._jsc.hadoopConfiguration()
    )


def java_identifier(spark: Any, table: str) -> Any:
    """`db.table` as Java's TableIdentifier."""
    return spark._jvm.org.apache.iceberg.catalog.TableIdentifier.parse(table)


def java_data_file(spark: Any, table: Any, path: Path) -> Any:
    """A Parquet file as Java's DataFile, for an unpartitioned table."""
    footer = pq.read_metadata(path)
    return (
        spark._jvm.org.apache.iceberg.DataFiles.builder(table.spec())
        .withPath(f"file:{path}")
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(footer.num_rows)
        .build()
    )


def says(spark: Any, update: Any, keys: dict[str, str]) -> Any:
    """An update whose snapshot's summary has the keys, unless the JVM says them already, as Spark's does in part once
    it has an Iceberg catalog."""
    known = dict(spark._jvm.org.apache.iceberg.EnvironmentContext.get())
    for key, value in keys.items():
        if key not in known:
            update.set(key, value)
    return update


def java_error(call: Callable[[], Any]) -> str | None:
    """Call a method of Java. Returns what it threw, as `package.Class: message`, or None."""
    from py4j.protocol import Py4JJavaError

    try:
        call()
    except Py4JJavaError as error:
        return str(error.java_exception.toString())
    return None


def pyiceberg_catalog(metastore: Any) -> Any:
    """PyIceberg on the same metastore."""
    from pyiceberg.catalog import load_catalog

    return load_catalog("pyiceberg", type="hive", uri=metastore.uri, warehouse=metastore.warehouse)


def metastore_row(metastore: Any, name: str) -> Any:
    """The Table as the metastore gives it."""
    pool = ClientPool([metastore.uri])
    try:
        return HmsTablePointer(pool, Settings.load({}, environ={})).load(TableName(*name.split("."))).table
    finally:
        pool.close()


def spark_rows(spark: Any, query: str) -> list[dict[str, Any]]:
    """Rows as plain dicts, sorted by `id`."""
    return by_id(row.asDict(recursive=True) for row in spark.sql(query).collect())


def pyiceberg_rows(metastore: Any, table: str) -> list[dict[str, Any]]:
    """What PyIceberg reads: rows as plain dicts, sorted by `id`; times without their zone, as PySpark gives them."""
    scanned = pyiceberg_catalog(metastore).load_table(table).scan().to_arrow().to_pylist()
    return by_id({key: _without_zone(value) for key, value in row.items()} for row in scanned)


def by_id(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def small_parquet(path: Path, ids: Iterable[int]) -> Path:
    """A real Parquet file of a few rows, with a column `id` and a column `name`."""
    values = list(ids)
    table = pa.table({"id": pa.array(values, pa.int64()), "name": pa.array([f"row {value}" for value in values])})
    pq.write_table(table, path)
    return path


def live_paths(metastore: Any, table: str) -> list[str]:
    """Paths of the data files in the current snapshot, as PyIceberg reads the manifests."""
    files = pyiceberg_catalog(metastore).load_table(table).inspect.data_files()
    return [str(path) for path in files.column("file_path").to_pylist()]


def chain(metastore: Any, table: str) -> list[Any]:
    """The snapshots from the first to the current one, following the parents."""
    loaded = pyiceberg_catalog(metastore).load_table(table)
    snapshot = loaded.current_snapshot()
    found: list[Any] = []
    while snapshot is not None and len(found) <= len(loaded.snapshots()):
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else loaded.snapshot_by_id(parent)
    return found[::-1]


def check_history(metastore: Any, table: str, acknowledged: Iterable[str], *, single_files: bool = False) -> list[Any]:
    """As PyIceberg reads it: every acknowledged file is live exactly once, and history is one chain, which is returned.

    single_files: each append added one file, and no file was ever removed; the server may have merged manifests.
    """
    live = Counter(live_paths(metastore, table))
    assert set(live.values()) <= {1}
    assert set(acknowledged) <= set(live)
    snapshots = chain(metastore, table)
    numbers = [snapshot.sequence_number for snapshot in snapshots]
    assert numbers == sorted(set(numbers)) or set(numbers) == {0}, "version 1 has no numbers"
    if single_files:
        assert numbers == list(range(1, len(snapshots) + 1))
        operations = Counter(snapshot.summary.operation.value for snapshot in snapshots)
        assert operations["append"] == len(live)
        assert operations.keys() <= {"append", "replace"}
    assert int(snapshots[-1].summary["total-data-files"]) == len(live)
    return snapshots


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value
