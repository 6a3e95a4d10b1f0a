"""Spark's schema in the parameters of a row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.types import MAX_NESTING, TIMESTAMP, parse_type, walk_fields
from iceberg_hms.migration.spark_schema import MAX_SCHEMA_TEXT, SPARK_SCHEMA, spark_schema


def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    described = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields]
    return {"type": "struct", "fields": described}


def parameters(schema: Any) -> dict[str, str]:
    return {SPARK_SCHEMA: json.dumps(schema)}


SPARKS = {
    "boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float",
    "double": "double", "string": "string", "binary": "binary", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp", "decimal(7,2)": "decimal(7, 2)", "char(3)": "string", "varchar(9)": "string",
}  # fmt: skip


@pytest.mark.parametrize(("spark", "iceberg"), SPARKS.items())
def test_each_type_of_sparks_becomes_icebergs(spark: str, iceberg: str) -> None:
    schema = spark_schema(parameters(struct(("Ca", spark))))
    assert schema is not None
    assert [(field.name, field.type) for field in schema.fields] == [("Ca", parse_type(iceberg))]


def test_a_timestamp_becomes_what_the_caller_says() -> None:
    schema = spark_schema(parameters(struct(("a", "timestamp"))), timestamp=TIMESTAMP)
    assert schema is not None
    assert schema.fields[0].type == TIMESTAMP


def test_nested_types_keep_names_and_comments_and_may_hold_nulls() -> None:
    point = struct(("X", "double"), ("y z", "double"))
    point["fields"][0] |= {"nullable": False, "metadata": {"comment": "east"}}
    raw = struct(
        ("Id", "long"),
        ("Points", {"type": "array", "elementType": point, "containsNull": False}),
        ("Tags", {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": False}),
        ("Code", "string"),
    )
    raw["fields"][0] |= {"nullable": False}
    raw["fields"][3] |= {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)", "comment": ""}}
    schema = spark_schema(parameters(raw))
    assert schema is not None
    assert {schema.name_of(field.id): (field.id, field.doc) for field in walk_fields(schema.as_struct())} == {
        "Id": (1, None), "Points": (2, None), "Tags": (3, None), "Code": (4, None), "Points.element": (5, None),
        "Points.element.X": (6, "east"), "Points.element.y z": (7, None), "Tags.key": (8, None),
        "Tags.value": (9, None),
    }  # fmt: skip
    assert {schema.name_of(field.id) for field in walk_fields(schema.as_struct()) if field.required} == {"Tags.key"}


def test_the_parts_of_a_long_schema_are_put_together() -> None:
    text = json.dumps(struct(*((f"Column{at}", "long") for at in range(30))))
    cut = {f"{SPARK_SCHEMA}.part.{at}": text[at * 100 : at * 100 + 100] for at in range(len(text) // 100 + 1)}
    schema = spark_schema({f"{SPARK_SCHEMA}.numParts": str(len(cut)), **cut})
    assert schema is not None
    assert [field.name for field in schema.fields] == [f"Column{at}" for at in range(30)]


def test_a_row_without_a_schema_has_none() -> None:
    assert spark_schema({"spark.sql.create.version": "4.1.0"}) is None


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("void", "Column a: Iceberg has no type for Spark's 'void'"),
        ("interval day to second", "Column a: Iceberg has no type for Spark's 'interval day to second'"),
        ("variant", "Column a: Iceberg has no type for Spark's 'variant'"),
        ("decimal(39,1)", "Column a: decimal(39, 1): the precision"),
        (
            {"type": "udt", "class": "org.Vector", "sqlType": "binary"},
            "Column a: Iceberg has no type for Spark's 'udt'",
        ),
        (struct(("b", {"type": "array", "elementType": "void"})), "Column a.b.element: Iceberg has no type for"),
        ({"type": "map", "keyType": "void", "valueType": "int"}, "Column a.key: Iceberg has no type for"),
        ({"type": "map", "keyType": "long", "valueType": "void"}, "Column a.value: Iceberg has no type for"),
        (None, "Column a: the type in spark.sql.sources.schema must be a JSON object"),
        ({"type": "struct"}, "Column a: required field is missing: fields"),
        ({"type": "struct", "fields": [7]}, "spark.sql.sources.schema: a field must be a JSON object"),
        ({"type": "struct", "fields": [{"type": "long"}]}, "a field: required field is missing: name"),
    ],
)
def test_a_type_that_iceberg_lacks_is_refused_with_the_columns_path(type_: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        spark_schema(parameters(struct(("a", type_))))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({SPARK_SCHEMA: "{"}, "spark.sql.sources.schema is not JSON"),
        ({SPARK_SCHEMA: "[]"}, "spark.sql.sources.schema must be a JSON object"),
        ({SPARK_SCHEMA: '"long"'}, "spark.sql.sources.schema must be a JSON object"),
        ({SPARK_SCHEMA: '{"type":"array","elementType":"long"}'}, "spark.sql.sources.schema is no struct"),
        ({f"{SPARK_SCHEMA}.numParts": "2", f"{SPARK_SCHEMA}.part.0": "{"}, "part.1 is not there, of 2 parts"),
        ({f"{SPARK_SCHEMA}.numParts": "0"}, "is not JSON"),
        ({f"{SPARK_SCHEMA}.numParts": "x"}, "numParts is no number of parts: 'x'"),
        ({f"{SPARK_SCHEMA}.numParts": "9" * 5_000}, "numParts is no number of parts"),
        ({SPARK_SCHEMA: " " * (MAX_SCHEMA_TEXT + 1)}, "has more than 16777216 characters"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(rows: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        spark_schema(rows)


def test_the_depth_is_bounded() -> None:
    def nested(depth: int) -> Any:
        type_: Any = "long"
        for _ in range(depth):
            type_ = {"type": "array", "elementType": type_}
        return parameters(struct(("a", type_)))

    assert spark_schema(nested(MAX_NESTING - 1)) is not None
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        spark_schema(nested(MAX_NESTING))
    with pytest.raises(InvalidInput):
        spark_schema({SPARK_SCHEMA: '{"type":"array","elementType":' * 100_000})
