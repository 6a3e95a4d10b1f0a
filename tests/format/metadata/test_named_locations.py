"""What metadata names that its base does not."""

from __future__ import annotations

from typing import Any

from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES, new_locations
from iceberg_hms.format.metadata.table_metadata import TableMetadata

FIELDS: dict[str, Any] = {
    "location": "file:/t",
    "properties": {"write.data.path": "file:/d", "colour": "red", "write.metadata.path": ""},
    "statistics": [{"statistics-path": "file:/s1"}],
    "partition-statistics": [{"statistics-path": "file:/p1"}],
    "metadata-log": [{"metadata-file": "file:/m1"}],
}


def test_everything_of_a_new_table_is_new() -> None:
    snapshots = [{"manifest-list": "file:/l1"}, {"manifests": ["file:/m2", "file:/m3"]}, {}]
    assert list(new_locations(None, TableMetadata(FIELDS), snapshots)) == [
        ("location", "file:/t"),
        ("write.data.path", "file:/d"),
        ("manifest-list", "file:/l1"),
        ("manifests", "file:/m2"),
        ("manifests", "file:/m3"),
        ("statistics", "file:/s1"),
        ("partition-statistics", "file:/p1"),
        ("metadata-log", "file:/m1"),
    ]


def test_what_the_base_names_is_not_new() -> None:
    base = TableMetadata(FIELDS)
    assert list(new_locations(base, TableMetadata({**FIELDS}), [])) == []
    changed = {
        "location": "file:/u",
        "properties": dict.fromkeys(LOCATION_PROPERTIES, "file:/e"),
        "statistics": [{"statistics-path": "file:/s1"}, {"statistics-path": "file:/s2"}],
        "partition-statistics": None,
        "metadata-log": [{"metadata-file": "file:/m1"}, {"metadata-file": "file:/m4"}],
    }
    assert list(new_locations(base, TableMetadata({**FIELDS, **changed}), [])) == [
        ("location", "file:/u"),
        *((key, "file:/e") for key in LOCATION_PROPERTIES),
        ("statistics", "file:/s2"),
        ("metadata-log", "file:/m4"),
    ]


def test_entries_that_name_no_file_are_passed_over() -> None:
    odd = {"location": "file:/t", "statistics": ["x", {}, {"statistics-path": 7}], "partition-statistics": [None]}
    assert list(new_locations(None, TableMetadata(odd), [])) == [("location", "file:/t")]
