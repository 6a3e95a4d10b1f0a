"""Planned files as records."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "part", "required": False, "type": "string"},
    ],
}


def file(name: str, part: str | None = None, spec_id: int = 0, **more: Any) -> DataFile:
    partition = {} if spec_id else {"part": part}
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 3, 10, partition, spec_id=spec_id, **more)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_records_have_what_manifests_have(version: int) -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        properties = {"format-version": str(version)}
        table = catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties=properties)
        table.append([file("a", "x", split_offsets=[4, 7]), file("b", None), file("c", "x")])
        with table.update_spec() as change:
            change.remove_field("part")
        table.append([DataFile("file:/in/d.parquet", "ORC", 4, 11, dict.fromkeys(_names(table)), spec_id=1)])
        found = {each.path[9]: each for each in table.scan("part = 'x' or id = 7").files()}
    assert {name: each.partition.get("part") for name, each in found.items()} == {
        "a": "x",
        "b": None,
        "c": "x",
        "d": None,
    }
    assert {name: str(each.residual) for name, each in found.items()} == {
        "a": "true",
        "b": "id = 7",
        "c": "true",
        "d": "(part = 'x' or id = 7)",
    }
    numbers = {"a": 1, "b": 1, "c": 1, "d": 2} if version > 1 else dict.fromkeys("abcd", 0)
    assert {name: each.sequence_number for name, each in found.items()} == numbers
    rows = {"a": 0, "b": 3, "c": 6, "d": 9} if version > 2 else dict.fromkeys("abcd")
    assert {name: each.first_row_id for name, each in found.items()} == rows
    assert (found["a"].split_offsets, found["b"].split_offsets) == ([4, 7], None)
    assert (found["d"].format, found["d"].rows, found["d"].size, found["d"].spec_id) == ("ORC", 4, 11, 1)
    assert [each.deletes for each in found.values()] == [()] * 4
    # One record of values for all files of a partition.
    assert found["a"].partition is found["c"].partition


def _names(table: Any) -> list[str]:
    """Of the fields of the current spec: version 1 keeps a removed one, which has no values."""
    return [each.name for each in table.spec().fields]
