"""A table as each engine reads it: its rows as text, the files that a filter leaves, and what is known of each file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from integration import interop
from integration.spark_statements import outcome

#: Java's HiveCatalog, as a further catalog of the session.
JAVA: Final = "java_hive"
#: What the metadata table `files` has of each file, beside its path.
FACTS: Final = (
    "content",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "sort_order_id",
)


def run(spark: Any, *statements: str) -> None:
    """Statements that must succeed."""
    for statement in statements:
        done = outcome(spark, statement)
        assert done.error is None, done


def rows_of(spark: Any, table: str, *columns: str) -> list[tuple[str | None, ...]]:
    """All rows as Spark reads them, each value as text (binary ones in hexadecimal), in order. columns: which; all by
    default."""
    frame = spark.table(table)
    chosen = columns or frame.columns
    quoted = [(f"`{name}`", dict(frame.dtypes).get(name)) for name in chosen]
    texts = [f"hex({name})" if kind == "binary" else f"CAST({name} AS STRING)" for name, kind in quoted]
    return in_order(tuple(row) for row in frame.selectExpr(*texts).collect())


def add_java(spark: Any, metastore: Any) -> str:
    """Make the catalog JAVA. Returns its name."""
    return interop.add_spark_catalog(spark, JAVA, type="hive", uri=metastore.uri, warehouse=metastore.warehouse)


def pyiceberg_table(metastore: Any, table: str) -> Any:
    return interop.pyiceberg_catalog(metastore).load_table(table)


def pyiceberg_rows(metastore: Any, table: str) -> list[tuple[str | None, ...]]:
    """As `rows_of`, by PyIceberg; of columns without nested types."""
    found = pyiceberg_table(metastore, table).scan().to_arrow().to_pylist()
    return in_order(tuple(_text(value) for value in row.values()) for row in found)


def pyiceberg_files(metastore: Any, table: str, row_filter: str) -> set[str]:
    """The paths of the files that a scan with a filter reads."""
    planned = pyiceberg_table(metastore, table).scan(row_filter=row_filter).plan_files()
    return {str(task.file.file_path) for task in planned}


def java_files(spark: Any, metastore: Any, table: str, column: str, compare: str, value: Any) -> set[str]:
    """The same by Java's HiveCatalog. compare: a method of Java's Expressions, as `greaterThanOrEqual`."""
    catalog = interop.java_catalog(spark, interop.HIVE_CATALOG, "java", uri=metastore.uri)
    expressions = spark._jvm.org.apache.iceberg.expressions.Expressions
    loaded = catalog.loadTable(interop.java_identifier(spark, table))
    planned = loaded.newScan().filter(getattr(expressions, compare)(column, value)).planFiles()
    try:
        return {str(task.file().location()) for task in _each(planned.iterator())}
    finally:
        planned.close()


def facts_of(spark: Any, table: str) -> dict[str, dict[str, Any]]:
    """Path of each data file -> FACTS, as the manifests have them."""
    rows = spark.sql(f"SELECT * FROM {table}.files").collect()
    found = {row["file_path"]: {name: _plain(row.asDict().get(name)) for name in FACTS} for row in rows}
    assert len(found) == len(rows), "a file is there twice"
    return found


def in_order(rows: Iterable[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
    return sorted(rows, key=lambda row: tuple((value is not None, value or "") for value in row))


def _each(iterator: Any) -> Iterable[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _text(value: Any) -> str | None:
    without_zone = value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value
    return None if value is None else str(without_zone)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        # An empty map and none say the same.
        return (
            None
            if not value
            else {key: bytes(each) if isinstance(each, bytearray) else each for key, each in value.items()}
        )
    return value.asDict() if hasattr(value, "asDict") else value
