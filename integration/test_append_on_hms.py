"""Appends through the Python API whose files, columns or names are unusual, as PyIceberg, Spark and Java read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from iceberg_hms.format.avro.manifest_schemas import manifest_entry
from iceberg_hms.format.schema.types import NestedField, StructType, parse_type
from integration import interop

IDS = b"PARQUET:field_id"


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


def parquet(folder: Path, name: str, rows: pa.Table) -> str:
    path = folder / f"{name}.parquet"
    pq.write_table(rows, path)
    return f"file:{path}"


def with_ids(rows: pa.Table, ids: dict[str, int]) -> pa.Table:
    """The same rows with field ids on their columns."""
    fields = [field.with_metadata({IDS: str(ids[field.name])}) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def check(spark: Any, metastore: Any, table: str, rows: list[dict[str, Any]]) -> None:
    """PyIceberg and Spark read these rows."""
    assert interop.pyiceberg_rows(metastore, table) == rows
    assert interop.spark_rows(spark, f"SELECT * FROM {table}") == rows


def test_a_list_view_does_not_hide_the_rows_of_the_columns_behind_it(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    table = catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64()), ("b", pa.int64())]))
    pairs = pa.array([[{"x": 1, "y": 2}]] * 2, pa.list_view(pa.struct([("x", pa.int64()), ("y", pa.int64())])))
    location = parquet(tmp_path, "1", pa.table({"id": [1, 2], "extra": pairs, "b": [1_000, 2_000]}))
    with pytest.raises(InvalidInput, match="has columns that the table lacks: extra;"):
        table.append([location])
    table.append([location], on_extra_columns="ignore")
    read = interop.spark_rows(spark, f"SELECT * FROM {namespace}.t WHERE b >= 1000")
    assert read == [{"id": 1, "b": 1_000}, {"id": 2, "b": 2_000}]
    peer = interop.pyiceberg_catalog(metastore).load_table(f"{namespace}.t")
    assert len(list(peer.scan(row_filter="b >= 1000").plan_files())) == 1
    assert not list(peer.scan(row_filter="b < 1000").plan_files())
    with pytest.raises(UnsupportedPyArrowTypeException, match="Column 'extra' has an unsupported type: list_view"):
        peer.scan().to_arrow()


REPLACED = [
    ("id string, name string", "column id was long and is string now"),
    ("name string, id int", "column id was long and is int now"),
    ("id bigint, name string, must int NOT NULL", "column must is new and required, and has no default"),
    ("id bigint, name struct<first: string>", "column name was string and is a struct now"),
]


@pytest.mark.parametrize(("columns", "problem"), REPLACED, ids=[columns for columns, _ in REPLACED])
def test_an_append_planned_before_a_replace_is_refused_if_its_columns_changed(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path, columns: str, problem: str
) -> None:
    planned = catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    location = parquet(tmp_path, "1", with_ids(pa.table({"id": [1], "name": ["a"]}), {"id": 1, "name": 2}))
    spark.sql(f"CREATE OR REPLACE TABLE {namespace}.t ({columns}) USING iceberg")
    assert catalog.load_table(f"{namespace}.t").metadata.uuid == planned.metadata.uuid
    with pytest.raises(RequirementFailed) as caught:
        planned.append([location])
    assert caught.value.proved_failed
    assert caught.value.name == "files-schema"
    assert problem in str(caught.value)
    check(spark, metastore, f"{namespace}.t", [])


@pytest.mark.parametrize("ids", [True, False], ids=["with field ids", "by name"])
def test_an_append_planned_before_a_replace_lands_if_its_columns_mean_the_same(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path, ids: bool
) -> None:
    planned = catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    rows = pa.table({"id": [1], "name": ["a"]})
    location = parquet(tmp_path, "1", with_ids(rows, {"id": 1, "name": 2}) if ids else rows)
    spark.sql(f"CREATE OR REPLACE TABLE {namespace}.t (more int, id bigint) USING iceberg")
    planned.append([location])
    check(spark, metastore, f"{namespace}.t", [{"more": None, "id": 1}])


@pytest.mark.parametrize("ids", [True, False], ids=["with field ids", "by name"])
def test_an_append_planned_before_legal_evolution_lands(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path, ids: bool
) -> None:
    columns = [("id", pa.int32()), ("name", pa.string()), ("gone", pa.float64())]
    planned = catalog.create_table(f"{namespace}.t", pa.schema(columns))
    rows = pa.table({"id": [1], "name": ["a"], "gone": [0.5]}, schema=pa.schema(columns))
    location = parquet(tmp_path, "1", with_ids(rows, {"id": 1, "name": 2, "gone": 3}) if ids else rows)
    for change in (
        "ALTER COLUMN id TYPE bigint",
        "RENAME COLUMN name TO label",
        "DROP COLUMN gone",
        "ADD COLUMN more int",
        "ALTER COLUMN label FIRST",
    ):
        spark.sql(f"ALTER TABLE {namespace}.t {change}")
    planned.append([location])
    first = {"label": "a", "id": 1, "more": None}
    check(spark, metastore, f"{namespace}.t", [first])
    # Its name mapping has the names of both schemas.
    second = {"label": "b", "id": 2, "more": 5}
    types = pa.schema([("label", pa.string()), ("id", pa.int64()), ("more", pa.int32())])
    planned.append([parquet(tmp_path, "2", pa.Table.from_pylist([second], schema=types))])
    check(spark, metastore, f"{namespace}.t", [first, second])


def test_a_dropped_columns_name_that_came_back_breaks_an_append_of_files_without_ids(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    first = parquet(tmp_path, "1", pa.table({"id": [1], "name": ["a"]}))
    planned = catalog.load_table(f"{namespace}.t")
    planned.append([first])
    spark.sql(f"ALTER TABLE {namespace}.t DROP COLUMN name")
    spark.sql(f"ALTER TABLE {namespace}.t ADD COLUMN name int")
    with pytest.raises(RequirementFailed, match="name mapping changed since the files were matched by it: name"):
        planned.append([parquet(tmp_path, "2", pa.table({"id": [2], "name": ["b"]}))])
    assert catalog.load_table(f"{namespace}.t").current_snapshot().summary["total-records"] == "1"


NAMES = ["m²", "Ⅳ", "٣a", "größe", "\U0001d400", "a.b", "a{b}", "1"]


def test_java_and_pyiceberg_read_manifests_whose_partition_fields_have_any_name(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in NAMES)])
    table = catalog.create_table(f"{namespace}.t", schema, partition_spec=NAMES)
    rows = [{"id": number, **{name: f"{at}-{number}" for at, name in enumerate(NAMES)}} for number in range(2)]
    for number, row in enumerate(rows):
        table.append([parquet(tmp_path, str(number), pa.Table.from_pylist([row], schema=schema))])
    check(spark, metastore, f"{namespace}.t", rows)
    read = interop.spark_rows(spark, f"SELECT id FROM {namespace}.t WHERE `m²` = '0-1'")
    assert read == [{"id": 1}]
    # Java reads each entry and writes it again.
    spark.sql(f"CALL spark_catalog.system.rewrite_manifests('{namespace}.t')").collect()
    check(spark, metastore, f"{namespace}.t", rows)
    table.refresh().append([parquet(tmp_path, "2", pa.Table.from_pylist([{**rows[0], "id": 2}], schema=schema))])
    check(spark, metastore, f"{namespace}.t", [*rows, {**rows[0], "id": 2}])


def avro_name(name: str) -> str:
    """What we call a partition field in manifests."""
    entry = manifest_entry(2, StructType((NestedField(1000, name, parse_type("int")),)))
    data_file = next(each for each in entry["fields"] if each["name"] == "data_file")
    partition = next(each for each in data_file["type"]["fields"] if each["name"] == "partition")
    return str(partition["type"]["fields"][0]["name"])


def test_avro_names_are_javas(spark: Any) -> None:
    """Of every character that Unicode 3.2 has. Of newer letters none is kept that this Java does not keep."""
    java = spark._jvm.org.apache.iceberg.avro.AvroSchemaUtil.makeCompatibleName
    every = [chr(each) for each in range(1, 0x10000) if not 0xD800 <= each < 0xE000]
    old = "a" + "".join(each for each in every if unicodedata.ucd_3_2_0.category(each) != "Cn")
    assert avro_name(old) == java(old)
    kept = "a" + "".join(each for each in every if avro_name(f"a{each}") == f"a{each}")
    assert java(kept) == kept
    for first in ("1", "٣", "²", "é", "_", "-", "\U0001d400", "\U0001f600"):
        assert avro_name(f"{first}a") == java(f"{first}a")


def test_java_cannot_write_two_partition_fields_that_are_one_in_avro(spark: Any) -> None:
    jvm = spark._jvm
    types = jvm.org.apache.iceberg.types.Types
    names = ("a.b", "a_x2Eb")
    fields = jvm.java.util.ArrayList()
    for at, name in enumerate(names):
        fields.add(types.NestedField.optional(1000 + at, name, types.IntegerType.get()))
    struct = types.StructType.of(fields)
    error = interop.java_error(lambda: jvm.org.apache.iceberg.avro.AvroSchemaUtil.convert(struct, "r102"))
    assert error is not None
    assert "Duplicate field a_x2Eb" in error
    ours = StructType(tuple(NestedField(1000 + at, name, parse_type("int")) for at, name in enumerate(names)))
    with pytest.raises(UnsupportedFormat, match=r"a\.b and a_x2Eb are both named a_x2Eb in Avro"):
        manifest_entry(2, ours)


def test_a_column_called_as_a_field_of_a_struct_is_refused_as_java_does(
    spark: Any, catalog: Catalog, namespace: str
) -> None:
    both = pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    with pytest.raises(InvalidInput, match=r"multiple fields for name a\.b"):
        catalog.create_table(f"{namespace}.t", both)
    parser = spark._jvm.org.apache.iceberg.SchemaParser
    text = (
        '{"type": "struct", "fields": [{"id": 1, "name": "a.b", "required": false, "type": "long"}, {"id": 2, '
        '"name": "a", "required": false, "type": {"type": "struct", "fields": [{"id": 3, "name": "b", '
        '"required": false, "type": "long"}]}}]}'
    )
    error = interop.java_error(lambda: parser.fromJson(text).findField("a.b"))
    assert error is not None
    assert "multiple fields for name a.b" in error
