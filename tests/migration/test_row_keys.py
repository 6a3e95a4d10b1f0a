"""Each key of a catalog entry, put into a Hive table: it is migrated, or refused by the key's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.hive_ports import HivePartition, HiveRow
from iceberg_hms.errors import InvalidInput
from iceberg_hms.migration.hive_types import LENGTHS
from iceberg_hms.migration.known_keys import KEYS, KeyPlace, RowKey, Verdict
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.source import MigrationSource
from iceberg_hms.migration.spark_schema import SPARK_SCHEMA
from tests.migration.test_hive_formats import AVRO, ORC, PARQUET
from tests.migration.test_source import PLACE, row_of, spark_table

CLASSES = {"parquet": PARQUET, "orc": ORC, "avro": AVRO}
#: Keys whose values a row cannot do without, or that another test has: as they are in a table of Spark's.
NEEDED = {key.name for key in KEYS if key.name.startswith((SPARK_SCHEMA, "spark.sql.partitionProvider"))} | {"path"}
#: Values that no reader takes for "false" or "0".
SAID = "7 words"


def row_with(key: RowKey, place: KeyPlace, value: str, file_format: str) -> HiveRow:
    """A table that has the key in the place. Types with lengths are those of Hive's columns."""
    name = key.name.replace("*", "x")
    row = row_of(keys=[], classes=CLASSES[file_format])
    if place is KeyPlace.OPTION:
        return replace(row, serde_parameters={name: value})
    if place is KeyPlace.PARAMETER:
        return replace(row, parameters={name: value})
    if name in LENGTHS.values():
        return row_of([("c", name.replace("n", "3")), ("d", "int")], keys=[], classes=CLASSES[file_format])
    field = {"name": "c", "type": "string", "nullable": True, "metadata": {name: value}}
    parameters = {SPARK_SCHEMA: json.dumps({"type": "struct", "fields": [field]})}
    return row_of([("c", "string")], keys=[], classes=CLASSES[file_format], parameters=parameters)


CASES = [
    (key, place, file_format)
    for key in KEYS
    for place in sorted(key.places)
    for file_format in (sorted(key.formats) if key.formats else ["parquet"])
    if key.verdict is Verdict.REFUSED
]
PASSING = [
    (key, place, SAID, "parquet")
    for key in KEYS
    for place in sorted(key.places)
    if key.verdict is not Verdict.REFUSED
    and key.name not in NEEDED
    and key.name not in ("CURRENT_DEFAULT", "format-version", "spark.sql.sources.provider", "table_type")
] + [
    (key, place, value, next(iter(sorted(key.formats)), "parquet"))
    for key in KEYS
    for place in sorted(key.places)
    for value in sorted(key.harmless)
]


def named(cases: list[Any]) -> list[str]:
    return [f"{case[1]} {case[0].name} {' '.join(case[2:])}" for case in cases]


@pytest.mark.parametrize(("key", "place", "file_format"), CASES, ids=named(CASES))
def test_a_key_that_changes_rows_is_refused_by_its_name(key: RowKey, place: KeyPlace, file_format: str) -> None:
    row = row_with(key, place, SAID, file_format)
    with pytest.raises(InvalidInput) as caught:
        MigrationSource.of(row)
    assert repr(key.name.replace("*", "x")) in caught.value.message
    assert key.why in caught.value.message
    assert key.next_step in caught.value.next_step
    if key.is_final:
        with pytest.raises(InvalidInput):
            MigrationSource.of(row, ignored=[key.name, key.name.replace("*", "x")])
    else:
        MigrationSource.of(row, ignored=[key.name.replace("*", "x").upper()])


@pytest.mark.parametrize(("key", "place", "value", "file_format"), PASSING, ids=named(PASSING))
def test_a_key_without_effect_and_a_value_that_changes_nothing_pass(
    key: RowKey, place: KeyPlace, value: str, file_format: str
) -> None:
    found = MigrationSource.of(row_with(key, place, value, file_format))
    own = found.properties.keys() - {"write.format.default", "schema.name-mapping.default"}
    assert (len(own) == 1) is (place is KeyPlace.PARAMETER and key.is_property)


@pytest.mark.parametrize(
    ("place", "name"),
    [(KeyPlace.OPTION, "etl"), (KeyPlace.OPTION, "fs.s3a.secret.key"), (KeyPlace.PARAMETER, "parquet.new"),
     (KeyPlace.PARAMETER, "a.orc.b"), (KeyPlace.PARAMETER, "spark.sql.sources.new"), (KeyPlace.PARAMETER, "hive.new"),
     (KeyPlace.COLUMN, "own")],
)  # fmt: skip
def test_an_unknown_key_that_readers_look_for_is_refused_and_its_value_not_told(place: KeyPlace, name: str) -> None:
    row = row_with(RowKey(name, frozenset({place}), Verdict.REFUSED, ""), place, "a secret", "parquet")
    with pytest.raises(InvalidInput, match=f"{name!r}.*nobody knows here") as caught:
        MigrationSource.of(row)
    assert "secret'" not in caught.value.message.replace(repr(name), "")
    assert "--ignore-key" in caught.value.next_step
    MigrationSource.of(row, ignored=[name.upper()])


def test_the_users_own_parameters_are_properties_and_metadata_that_is_no_text_is_judged_by_its_key() -> None:
    found = MigrationSource.of(row_of(parameters={"etl.job": "x", "team": "air", "pathGlobFilter": "x*"}))
    assert found.properties.items() >= {("etl.job", "x"), ("team", "air"), ("pathGlobFilter", "x*")}
    field = {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "icu.UNICODE"}}}
    parameters = {SPARK_SCHEMA: json.dumps({"type": "struct", "fields": [field]})}
    with pytest.raises(InvalidInput, match="column c: '__COLLATIONS'"):
        MigrationSource.of(row_of([("c", "string")], keys=[], parameters=parameters))


def test_all_refused_keys_are_named_at_once_and_a_bounded_number_of_them() -> None:
    options = {f"key{number:03}": "x" for number in range(30)}
    with pytest.raises(InvalidInput) as caught:
        MigrationSource.of(row_of(serde_parameters=options, parameters={"skip.header.line.count": "1"}))
    message = caught.value.message
    assert message.count("nobody knows") == 20
    assert message.endswith("; and 11 more")


@pytest.mark.parametrize("text", ["char(3)", "array<char(3)>", "struct<a:map<int,char(3)>>"])
def test_lengths_are_found_in_nested_types_of_hives_and_of_sparks(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"column c[.a-z]*: 'char\(n\)' \(column\): Spark pads"):
        MigrationSource.of(row_of([("c", text)], keys=[]))
    field = {"name": "C", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": text}}
    parameters = {SPARK_SCHEMA: json.dumps({"type": "struct", "fields": [field]})}
    row = row_of([("c", "string")], keys=[], parameters=parameters)
    with pytest.raises(InvalidInput, match=r"column C: 'char\(n\)'"):
        MigrationSource.of(row)
    MigrationSource.of(row, ignored=["CHAR(n)"])


# Partitions.


def partition(options: Mapping[str, str], parameters: Mapping[str, str]) -> HivePartition:
    return HivePartition(("1", "2"), PLACE, *PARQUET, parameters, options)


def test_a_partition_with_keys_of_its_own_is_a_problem_by_their_names() -> None:
    row = row_of(serde_parameters={"etl": "x"}, parameters={"numRows": "3"})
    source, problems = MigrationSource.of(row, ignored=["etl"]), Problems()
    good = [
        partition({}, {}),
        partition({"etl": "x", "serialization.format": "1"}, {"numRows": "4", "own": "x"}),
        partition({"etl": "y"}, {"impala_intermediate_stats_chunk0": "x"}),
    ]
    bad = [partition({"timeZone": "UTC"}, {}), partition({"key": "1"}, {}), partition({}, {"is_archived": "true"})]
    assert len(source.folders([*good, *bad], problems)) == len(good)
    assert [each.partition for each in problems.named] == ["month=1/day=2"] * 3
    assert [each.reason.split("'")[1] for each in problems.named] == ["timeZone", "key", "is_archived"]
    assert "UNARCHIVE" in problems.named[2].next_step


# Defaults.


def with_default(version: str | None, **metadata: str) -> HiveRow:
    parameters = spark_table(("id", "integer"), ("added", "integer"), provider="parquet")
    schema = json.loads(parameters[SPARK_SCHEMA])
    schema["fields"][1]["metadata"] = metadata
    parameters[SPARK_SCHEMA] = json.dumps(schema)
    if version is not None:
        parameters["format-version"] = version
    return row_of(keys=[], parameters=parameters)


@pytest.mark.parametrize("version", [None, "1", "2"])
def test_what_writers_write_by_default_is_refused_where_the_format_has_no_defaults(version: str | None) -> None:
    row = with_default(version, CURRENT_DEFAULT="41 + 1")
    with pytest.raises(InvalidInput, match=r"column added: CURRENT_DEFAULT.*format has no defaults") as caught:
        MigrationSource.of(row)
    assert "('format-version'='3')" in caught.value.next_step
    assert MigrationSource.of(row, ignored=["current_default"]).schema.fields[1].write_default is None


@pytest.mark.parametrize("version", [None, "1", "2", "3"])
def test_what_older_files_have_in_a_later_column_is_refused_in_each_version(version: str | None) -> None:
    row = with_default(version, EXISTS_DEFAULT="42")
    with pytest.raises(InvalidInput, match=r"column added: 'EXISTS_DEFAULT'.*leave rows") as caught:
        MigrationSource.of(row)
    assert "INSERT OVERWRITE" in caught.value.next_step
    assert MigrationSource.of(row, ignored=["EXISTS_DEFAULT"]).schema.fields[1].initial_default is None
    for text in ("NULL", "CAST(NULL AS INT)"):
        MigrationSource.of(with_default(version, EXISTS_DEFAULT=text, CURRENT_DEFAULT=text))


def test_what_writers_write_by_default_is_carried_over_where_the_format_has_defaults() -> None:
    source = MigrationSource.of(with_default("3", CURRENT_DEFAULT="43", comment="late"))
    field = source.schema.fields[1]
    assert (field.initial_default, field.write_default, field.doc) == (None, 43, "late")
    assert source.properties["format-version"] == "3"
    row = with_default(None, CURRENT_DEFAULT="43")
    assert MigrationSource.of(row, format_version=3).schema.fields[1].write_default == 43
    row = with_default("3", CURRENT_DEFAULT="now()")
    with pytest.raises(InvalidInput, match=r"CURRENT_DEFAULT 'now\(\)' is no literal of type int"):
        MigrationSource.of(row)
    assert MigrationSource.of(row, ignored=["Current_Default"]).schema.fields[1].write_default is None


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="format-version must be 1, 2 or 3"):
        MigrationSource.of(with_default("three"))
