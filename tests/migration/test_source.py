"""What a Hive table is as an Iceberg table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.coordinator.hive_ports import HiveColumn, HivePartition, HiveRow
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.datafiles.folder_names import hive_folders, unescaped
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.types import TIMESTAMP, TIMESTAMPTZ, PrimitiveType
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.migration.hive_formats import format_of_classes
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.source import MigrationSource, partition_name
from iceberg_hms.migration.spark_schema import SPARK_SCHEMA
from iceberg_hms.migration.work import SourcePartition
from tests.migration.test_hive_formats import AVRO, ORC, PARQUET, TEXT
from tests.migration.test_spark_schema import struct

PLACE = "s3a://lake/nyc/flights"
SEQUENCE = (
    "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)


def row_of(
    columns: Sequence[tuple[str, str]] = (("carrier", "string"), ("delay", "int")),
    keys: Sequence[tuple[str, str]] = (("month", "int"), ("day", "int")),
    parameters: Mapping[str, str] | None = None,
    classes: tuple[str | None, str | None] = PARQUET,
    **changed: Any,
) -> HiveRow:
    row = HiveRow(
        name=TableName("nyc", "flights"),
        table_type="EXTERNAL_TABLE",
        parameters=parameters or {},
        columns=[HiveColumn(*column) for column in columns],
        partition_keys=[HiveColumn(*key) for key in keys],
        location=PLACE,
        input_format=classes[0],
        serde=classes[1],
        serde_parameters={"serialization.format": "1"},
        bucket_columns=[],
        num_buckets=-1,
        owner="ann",
    )
    return replace(row, **changed)


def spark_table(
    *fields: tuple[str, Any],
    keys: Sequence[str] = (),
    provider: str | None = "parquet",
    **more: str,
) -> dict[str, str]:
    """The parameters of a row that Spark made. more: with `_` for dots."""
    found = {SPARK_SCHEMA: json.dumps(struct(*fields)), "spark.sql.create.version": "4.1.0"}
    if provider is not None:
        found["spark.sql.sources.provider"] = provider
    if keys:
        found |= {f"{SPARK_SCHEMA}.partCol.{at}": key for at, key in enumerate(keys)}
        found |= {f"{SPARK_SCHEMA}.numPartCols": str(len(keys)), "spark.sql.partitionProvider": "catalog"}
    return found | {key.replace("_", "."): value for key, value in more.items()}


def names(source: MigrationSource) -> list[str]:
    return [field.name for field in source.schema.fields]


@pytest.mark.parametrize("kind", ["EXTERNAL_TABLE", "MANAGED_TABLE"])
@pytest.mark.parametrize("classes", [PARQUET, ORC, AVRO])
def test_a_partitioned_table_has_its_partition_columns_last_and_identity_partitions(
    classes: tuple[str, str], kind: str
) -> None:
    row = row_of(
        columns=[("carrier", "string"), ("delay", "smallint"), ("on", "date")],
        parameters={"owner.team": "air", "comment": "flights", "EXTERNAL": "TRUE"},
        classes=classes,
        table_type=kind,
    )
    source = MigrationSource.of(row)
    file_format = format_of_classes(*classes)
    assert (source.name, source.location, source.file_format) == (TableName("nyc", "flights"), PLACE, file_format)
    assert [str(field) for field in source.schema.fields] == [
        "1: carrier: optional string",
        "2: delay: optional int",
        "3: on: optional date",
        "4: month: optional int",
        "5: day: optional int",
    ]
    assert [str(field) for field in source.spec.fields] == ["1000: month: identity(4)", "1001: day: identity(5)"]
    assert source.row is row
    mapping = json.loads(source.properties.pop("schema.name-mapping.default"))
    assert mapping[:2] == [{"field-id": 1, "names": ["carrier"]}, {"field-id": 2, "names": ["delay"]}]
    assert source.properties == {"owner.team": "air", "comment": "flights", "write.format.default": file_format}


def test_an_iceberg_table_can_be_made_of_it_with_the_same_ids() -> None:
    row = row_of(columns=[("a", "struct<b:array<int>>"), ("c", "map<int,date>")], parameters={"uuid": "x"})
    source = MigrationSource.of(row)
    made = new_table_metadata(
        source.schema, source.spec, None, source.location, source.properties, uuid=str(UUID(int=0)), now_ms=0
    )
    assert made.schema.same_as(source.schema)
    assert made.spec.fields == source.spec.fields
    assert made.location == PLACE


def test_what_hive_and_spark_keep_in_a_row_for_themselves_is_no_property() -> None:
    own = {
        "transient_lastDdlTime": "1", "numFiles": "1", "numRows": "1", "rawDataSize": "1", "totalSize": "1",
        "COLUMN_STATS_ACCURATE": "{}", "EXTERNAL": "TRUE", "bucketing_version": "2", "last_modified_by": "ann",
        "last_modified_time": "1", "external.table.purge": "true", "discover.partitions": "true",
        "DO_NOT_UPDATE_STATS": "true", "TRANSLATED_TO_EXTERNAL": "TRUE", "serialization.format": "1", "path": "/x",
        "numPartitions": "3", "transactional": "false", "metadata_location": "/x", "uuid": "x",
        "current-snapshot-id": "1", "STATS_GENERATED_VIA_STATS_TASK": "true",
    }  # fmt: skip
    row = row_of(parameters={**own, **spark_table(("carrier", "string"), provider=None), "parquet.compression": "ZSTD"})
    assert set(MigrationSource.of(row).properties) == {
        "parquet.compression", "write.format.default", "schema.name-mapping.default",
    }  # fmt: skip


@pytest.mark.parametrize(("classes", "expected"), [(PARQUET, TIMESTAMPTZ), (AVRO, TIMESTAMPTZ), (ORC, TIMESTAMP)])
def test_only_timestamps_of_orc_tables_have_no_zone_in_hives_columns_and_in_sparks(
    classes: tuple[str, str], expected: PrimitiveType
) -> None:
    provider = format_of_classes(*classes)
    hives = row_of(columns=[("at", "timestamp"), ("local", "timestamp with local time zone")], classes=classes)
    sparks = row_of(keys=(), parameters=spark_table(("At", "timestamp"), provider=provider))
    assert [field.type for field in MigrationSource.of(hives).schema.fields[:2]] == [expected, TIMESTAMPTZ]
    assert MigrationSource.of(sparks).schema.fields[0].type == expected


def test_a_table_without_partition_columns_has_one_folder() -> None:
    source = MigrationSource.of(row_of(keys=()))
    assert source.spec.is_unpartitioned
    assert source.folders(iter(()), Problems()) == [SourcePartition("", PLACE, {}, "parquet")]


def test_a_partitioned_table_has_the_folders_of_its_partitions() -> None:
    source = MigrationSource.of(row_of())
    problems = Problems()
    assert source.folders(iter(()), problems) == []
    partitions = [HivePartition((str(month), "1"), f"{PLACE}/{month}", *PARQUET) for month in (2, 1)]
    assert [(each.name, each.location) for each in source.folders(partitions, problems)] == [
        ("month=2/day=1", f"{PLACE}/2"),
        ("month=1/day=1", f"{PLACE}/1"),
    ]
    assert problems.count == 0


def test_each_partition_that_is_refused_is_a_problem_and_the_others_are_kept() -> None:
    source, problems = MigrationSource.of(row_of()), Problems()
    values = [("may", "1"), ("1", "1"), ("2",), ("3", "june")]
    partitions = [HivePartition(each, f"{PLACE}/{at}", *PARQUET) for at, each in enumerate(values)]
    partitions.append(HivePartition(("4", "1"), f"{PLACE}/text", "TextInputFormat", None))
    assert [each.name for each in source.folders(partitions, problems)] == ["month=1/day=1"]
    assert [(each.partition, each.location) for each in problems.named] == [
        ("month=may/day=1", f"{PLACE}/0"),
        ("month=2", f"{PLACE}/2"),
        ("month=3/day=june", f"{PLACE}/3"),
        ("month=4/day=1", f"{PLACE}/text"),
    ]
    assert "may is no value of type int" in problems.named[0].reason


@pytest.mark.parametrize(
    ("wanted", "has"),
    [
        ({"month": 2}, True),
        ({"month": "2"}, True),
        ({"month": "02"}, True),
        ({"month": 2, "day": 1}, True),
        ({"month": 2, "day": 2}, False),
        ({"month": None}, False),
        ({"month": "two"}, False),
        ({"year": 2}, False),
    ],
)
def test_a_partition_has_values_however_they_are_written(wanted: dict[str, object], has: bool) -> None:
    source = MigrationSource.of(row_of())
    assert source.has(HivePartition(("2", "01"), PLACE, *PARQUET), wanted) is has
    odd = HivePartition(("two", "__HIVE_DEFAULT_PARTITION__"), PLACE, *PARQUET)
    assert source.has(odd, {"month": "two", "day": None})
    assert not source.has(odd, {"month": 2})


# Columns as Spark has them.


def test_a_table_of_hives_has_the_names_that_spark_wrote_into_its_files() -> None:
    parameters = spark_table(
        ("Carrier", "string"),
        ("Origin", struct(("Lat", "double"))),
        ("Month", "integer"),
        ("day", "integer"),
        provider=None,
    )
    row = row_of([("carrier", "string"), ("origin", "struct<lat:double>")], parameters=parameters)
    source = MigrationSource.of(row)
    assert names(source) == ["Carrier", "Origin", "Month", "day"]
    assert source.schema.find("Origin.Lat") is not None
    assert [field.name for field in source.spec.fields] == ["Month", "day"]
    assert source.schema.highest_field_id == 5
    assert MigrationSource.of(replace(row, parameters={})).schema.find("origin.lat") is not None


def test_columns_that_hive_altered_since_are_as_hive_has_them() -> None:
    origin = struct(("Lat", "double"))
    parameters = spark_table(
        ("Carrier", "string"), ("Delay", "integer"), ("Gone", "long"), ("To", origin), ("Origin", origin), provider=None
    )
    columns = [
        ("delay", "bigint"),
        ("carrier", "string"),
        ("added", "date"),
        ("origin", "struct<lat:double>"),
        ("to", "struct<lat:float>"),
    ]
    schema = MigrationSource.of(row_of(columns, keys=(), parameters=parameters)).schema
    assert [str(field) for field in schema.fields[:3]] == [
        "1: Delay: optional long",
        "2: Carrier: optional string",
        "3: added: optional date",
    ]
    assert list(schema.names())[3:] == ["Origin", "Origin.Lat", "To", "To.lat"]
    assert str(schema.find("To.lat")) == "7: lat: optional float"


def test_comments_are_those_of_the_metastore() -> None:
    row = row_of(keys=(), parameters=spark_table(("Carrier", "string"), provider="hive"))
    row = replace(row, columns=[HiveColumn("carrier", "string", "who flies")])
    assert [(field.name, field.doc) for field in MigrationSource.of(row).schema.fields] == [("Carrier", "who flies")]


def test_a_table_that_only_spark_can_read_has_its_schema_in_the_parameters_alone() -> None:
    fields = (("Month", "integer"), ("At", "timestamp_ntz"), ("Carrier", "string"), ("day", "integer"))
    row = row_of(
        columns=[("col", "array<string>")],
        keys=[("day", "int"), ("month", "int")],
        parameters=spark_table(*fields, keys=("day", "Month")),
        classes=SEQUENCE,
        location=f"{PLACE}-__PLACEHOLDER__",
        serde_parameters={"path": PLACE},
    )
    source = MigrationSource.of(row)
    assert (source.location, source.file_format) == (PLACE, "parquet")
    assert [str(field) for field in source.schema.fields] == [
        "1: At: optional timestamp",
        "2: Carrier: optional string",
        "3: day: optional int",
        "4: Month: optional int",
    ]
    # Spark gives a partition the classes of the row, or none.
    for classes in (SEQUENCE, (None, None)):
        found = source.partition(HivePartition(("2", "1"), f"{PLACE}/day=2/Month=1", *classes))
        assert found == SourcePartition("day=2/month=1", f"{PLACE}/day=2/Month=1", {"day": 2, "Month": 1}, "parquet")
    with pytest.raises(InvalidInput, match=r"Partition day=2/month=1 of nyc.flights: its files are not"):
        source.partition(HivePartition(("2", "1"), PLACE, *TEXT))


# Partitions.


@pytest.mark.parametrize(
    ("hive", "text", "expected"),
    [
        ("int", "01", 1),
        ("tinyint", "-5", -5),
        ("bigint", "9000000000", 9_000_000_000),
        ("string", "a/b= c%20", "a/b= c%20"),
        ("string", "", ""),
        ("varchar(9)", "x", "x"),
        ("boolean", "true", True),
        ("date", "1970-01-02", 1),
        ("decimal(9,2)", "1.5", Decimal("1.50")),
        ("double", "0.1", 0.1),
        ("float", "0.1", 0.10000000149011612),
        ("timestamp", "1970-01-01 02:00:00.0", 3_600_000_000),
        ("string", "__HIVE_DEFAULT_PARTITION__", None),
        ("int", "__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_a_partitions_values_are_typed(hive: str, text: str, expected: Any) -> None:
    source = MigrationSource.of(row_of(keys=[("Key", hive)]), time_zone=timezone(timedelta(hours=1)))
    found = source.partition(HivePartition((text,), PLACE, *PARQUET)).values
    assert found == {"Key": expected}
    assert type((found or {})["Key"]) is type(expected)


@pytest.mark.parametrize(
    ("hive", "text"),
    [("int", "x"), ("int", ""), ("int", "3000000000"), ("date", "yesterday"), ("decimal(3,1)", "1234"),
     ("boolean", "2"), ("timestamp", "noon"),
     ("timestamp with local time zone", "1970-01-01 UTC")],
)  # fmt: skip
def test_a_value_that_is_none_of_its_columns_type_is_refused_with_the_partition(hive: str, text: str) -> None:
    source = MigrationSource.of(row_of(keys=[("a", "string"), ("b", hive)]))
    with pytest.raises(InvalidInput) as caught:
        source.partition(HivePartition(("x y", text), PLACE, *PARQUET))
    name = f"a=x y/b={text or '__HIVE_DEFAULT_PARTITION__'}"
    assert caught.value.message.startswith(f"Partition {name} of nyc.flights: b: {text} is no value of type ")
    assert "ALTER TABLE" in caught.value.next_step


def test_a_partition_may_lie_elsewhere_in_another_of_the_formats() -> None:
    source = MigrationSource.of(row_of())
    found = source.partition(HivePartition(("1", "2"), "file:/elsewhere", *ORC))
    assert found == SourcePartition("month=1/day=2", "file:/elsewhere", {"month": 1, "day": 2}, "orc")


def test_a_partition_of_another_format_or_with_too_few_values_is_refused_by_name() -> None:
    source = MigrationSource.of(row_of())
    with pytest.raises(InvalidInput) as caught:
        source.partition(HivePartition(("1", "2"), PLACE, *TEXT))
    assert caught.value.message == (
        "Partition month=1/day=2 of nyc.flights: its files are not Parquet, ORC or Avro: input format "
        f"{TEXT[0]}, serde {TEXT[1]}"
    )
    with pytest.raises(InvalidInput, match=r"Partition month=1 of nyc.flights has 1 values, and the table has 2"):
        source.partition(HivePartition(("1",), PLACE, *PARQUET))


def test_partitions_are_named_as_hive_names_their_folders() -> None:
    assert partition_name(["Month", "b"], ["1", 'a/b="%x" [é} \t\x7f']) == "month=1/b=a%2Fb%3D%22%25x%22 %5Bé} %09%7F"
    assert partition_name(["a"], [""]) == "a=__HIVE_DEFAULT_PARTITION__"


@given(st.text(st.characters(max_codepoint=0x2FF), min_size=1))
def test_the_name_of_a_partition_tells_its_value(text: str) -> None:
    found = hive_folders(f"/{partition_name(['a'], [text])}/x.parquet")
    assert {name: unescaped(value) for name, value in found.items()} == {"a": text}


# Refusals.

ACID = "it is transactional (ACID): its folders have deltas that only Hive reads"
REFUSED: list[tuple[HiveRow, str, str]] = [
    (row_of(table_type="VIRTUAL_VIEW"), "it is a view, which has no files of its own", "migrate the tables"),
    (row_of(table_type="MATERIALIZED_VIEW"), "it is a materialized view", "migrate the tables"),
    (row_of(parameters={"table_type": "ICEBERG"}), "it is an Iceberg table already", "nothing is left"),
    (row_of(parameters={"table_type": "iceberg"}), "it is an Iceberg table already", "nothing is left"),
    (
        row_of(parameters={"storage_handler": "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"}),
        "it is an Iceberg table already",
        "nothing is left",
    ),
    (row_of(parameters=spark_table(provider="iceberg")), "it is an Iceberg table already", "nothing is left"),
    (row_of(parameters=spark_table(provider="delta")), "it is a table of Delta Lake, whose log", "CREATE TABLE"),
    (row_of(parameters=spark_table(provider="hudi")), "it is a table of Hudi, whose log", "CREATE TABLE"),
    (
        row_of(classes=("org.apache.hudi.hadoop.HoodieParquetInputFormat", PARQUET[1])),
        "it is a table of Hudi",
        "CREATE TABLE",
    ),
    (
        row_of(parameters={"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}),
        "'storage_handler' (parameter): its rows are not in files, but behind a storage handler",
        "CREATE TABLE",
    ),
    (row_of(parameters={"transactional": "true"}), ACID, "CREATE TABLE"),
    (row_of(parameters={"transactional": "TRUE", "transactional_properties": "insert_only"}), ACID, "CREATE TABLE"),
    (row_of(bucket_columns=["carrier"], num_buckets=8), "it has 8 buckets, by which readers join", "CREATE TABLE"),
    (row_of(parameters={f"{SPARK_SCHEMA}.numBuckets": "4"}), "Iceberg counts buckets by another hash", "CREATE TABLE"),
    (row_of(location=None), "it has no location", "SET LOCATION"),
    (row_of(classes=TEXT), f"its files are not Parquet, ORC or Avro: input format {TEXT[0]}", "CREATE TABLE"),
    (row_of(classes=(None, None)), "Avro: input format none, serde none", "CREATE TABLE"),
    (
        row_of(classes=("org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat", PARQUET[1])),
        "its files are not Parquet, ORC or Avro",
        "CREATE TABLE",
    ),
    (row_of(parameters=spark_table(provider="csv")), "Spark reads it by csv, not as Parquet", "CREATE TABLE"),
    (
        row_of(parameters={"parquet.column.index.access": "true"}),
        "'parquet.column.index.access' (parameter): finds the columns of its files by their place",
        "CREATE TABLE",
    ),
    (
        row_of(serde_parameters={"orc.force.positional.evolution": "TRUE"}, classes=ORC),
        "'orc.force.positional.evolution' (option): finds the columns",
        "CREATE TABLE",
    ),
    (
        row_of(parameters={"avro.schema.url": "hdfs:/a.avsc"}, classes=AVRO),
        "'avro.schema.url' (parameter): its columns are those of this schema",
        "UPDATE COLUMNS",
    ),
    (
        row_of(serde_parameters={"avro.schema.literal": "{}"}, classes=AVRO),
        "'avro.schema.literal' (option): its columns are those of this schema",
        "UNSET TBLPROPERTIES",
    ),
    (
        row_of(
            keys=(),
            parameters=spark_table(("a", "long"), ("b", "long"), keys=["b"], spark_sql_partitionProvider="filesystem"),
        ),
        "the metastore has no list of its partitions",
        "MSCK REPAIR TABLE",
    ),
    (
        row_of(
            keys=(), parameters={**spark_table(("b", "long"), keys=["b"]), "spark.sql.partitionProvider": "tracked"}
        ),
        "the metastore has no list of its partitions",
        "MSCK REPAIR TABLE",
    ),
    (
        row_of(keys=[("c", "int")], parameters=spark_table(("a", "long"), ("b", "long"), keys=["b"])),
        "its partition columns in the metastore are c, and spark.sql.sources.schema has others",
        "CREATE TABLE",
    ),
    (
        row_of(keys=(), parameters=spark_table(("a", "long"), ("b", "long"), keys=["b"])),
        "its partition columns in the metastore are none, and spark.sql.sources.schema has others",
        "CREATE TABLE",
    ),
    (
        row_of(parameters={"spark.sql.sources.provider": "orc"}, keys=()),
        "it is a table of Spark's, and its row has no spark.sql.sources.schema",
        "CREATE TABLE",
    ),
    (row_of([("u", "uniontype<int>")]), "Column u: Iceberg has no type for Hive's 'uniontype'", "AS SELECT"),
    (row_of(keys=[("k", "interval_day_time")]), "Column k: Iceberg has no type for Hive's", "AS SELECT"),
    (row_of(keys=[("k", "binary")]), "no partition value of column k can be read as binary", "AS SELECT"),
    (row_of(keys=[("k", "array<int>")]), "no partition value of column k can be read as list<int>", "AS SELECT"),
    (row_of(columns=()), "it has no columns but those of its partitions", "CREATE TABLE"),
    (row_of([("_file", "string")]), "Cannot call a column _file", "with another name for the column"),
    (row_of(keys=[("_partition", "int")]), "Cannot call a column _partition", "with another name for the column"),
    (row_of(columns=[("month", "int")]), "multiple fields for name month", ""),
]


@pytest.mark.parametrize(("row", "message", "next_step"), REFUSED, ids=[message for _, message, _ in REFUSED])
def test_what_cannot_be_migrated_is_refused_with_the_reason_and_what_to_do(
    row: HiveRow, message: str, next_step: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        MigrationSource.of(row)
    assert caught.value.message.startswith("Cannot migrate nyc.flights: ")
    assert message in caught.value.message
    assert next_step in caught.value.next_step


@pytest.mark.parametrize(
    "row",
    [
        # Buckets that no column decides, a switch that is off, and settings of other formats.
        row_of(num_buckets=4),
        row_of(parameters={"transactional": "false", "parquet.column.index.access": "false"}),
        row_of(parameters={"avro.schema.literal": "{}"}),
        row_of(parameters={"spark.sql.sources.provider": "hive"}),
    ],
)
def test_what_only_looks_like_a_reason_is_none(row: HiveRow) -> None:
    assert MigrationSource.of(row).file_format == "parquet"
