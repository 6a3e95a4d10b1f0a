"""What records of an Avro schema may cost."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.format.avro.manifest_schemas import manifest_entry, manifest_file
from iceberg_hms.format.avro.schema_cost import check_cost
from iceberg_hms.format.schema.types import LONG, NestedField, StructType


def record(*types: Any, name: str = "r") -> Any:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)],
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_schemas_of_manifests_cost_little(version: int) -> None:
    check_cost(manifest_file(version))
    many = StructType(tuple(NestedField(1000 + at, f"p{at}", LONG) for at in range(2_000)))
    check_cost(manifest_entry(version, many))


@pytest.mark.parametrize(
    "schema",
    [
        record("null", {"type": "null"}),
        record({"type": "array", "items": ["null", "long"]}),
        record({"type": "map", "values": "null"}),
        record({"type": "enum", "name": "e", "symbols": ["A"]}, "e"),
        record({"type": "record", "name": "a.b", "fields": []}, "a.b", "b"),
        record({"type": {"type": "string"}}, {"type": ["null", "long"]}),
        record({"type": "fixed", "name": "x", "size": 4}, {"type": "array", "items": "x"}),
    ],
)
def test_what_takes_bytes_is_allowed(schema: Any) -> None:
    check_cost(schema)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record({"type": "array", "items": "null"}), "may have no bytes"),
        (record({"type": "array", "items": record("null", name="i")}), "may have no bytes"),
        (record(["null", "r"]), "contains itself"),
        (record(*["null"] * 300), "a record may have 301 values in 0 bytes"),
        (record({"type": "map", "values": record(*["null"] * 300, name="i")}), "an item of a map may have 301 values"),
    ],
)
def test_what_costs_far_more_than_its_bytes_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_cost(schema)


@pytest.mark.parametrize("nonsense", [None, 5, {}, {"type": "record", "name": "r"}, {"type": "array"}, []])
def test_what_is_no_schema_is_an_error(nonsense: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        check_cost(nonsense)
