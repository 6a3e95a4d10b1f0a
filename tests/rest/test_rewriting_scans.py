from __future__ import annotations

from typing import Any

import orjson
import pytest

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.rest.rewriting_scans import may_rewrite

#: Snapshots written with the table's schema, with an older one, and by a writer that does not say.
NOW, OLD, UNSAID = 1, 2, 3


def _field(number: int, name: str, of: Any = "long") -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": of}


def _schema(schema_id: int, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema_id, "fields": list(fields)}


def _snapshot(snapshot_id: int, **more: int) -> dict[str, Any]:
    return {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id,
        "timestamp-ms": snapshot_id,
        "manifest-list": f"file:///t/{snapshot_id}.avro",
        "summary": {"operation": "append"},
        **more,
    }


@pytest.fixture(scope="module")
def metadata() -> TableMetadata:
    place = {"type": "struct", "fields": [_field(3, "x"), _field(4, "y.z")]}
    raw = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///t",
        "last-sequence-number": 3,
        "last-updated-ms": 3,
        "last-column-id": 5,
        "schemas": [
            _schema(0, _field(1, "id")),
            _schema(1, _field(1, "id"), _field(2, "place", place), _field(5, "a.b")),
        ],
        "current-schema-id": 1,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": UNSAID,
        "snapshots": [
            _snapshot(NOW, **{"schema-id": 1}),
            _snapshot(OLD, **{"schema-id": 0}),
            _snapshot(UNSAID),
        ],
    }
    return TableMetadata.parse(orjson.dumps(raw))


def _scan(snapshot_id: int = NOW, *, select: list[str] | None = None, **more: Any) -> dict[str, Any]:
    fields = {"snapshot-id": snapshot_id, "use-snapshot-schema": True, "filter": True, **more}
    return fields if select is None else {**fields, "select": select}


ALL = ["id", "place.x", "place.y.z", "place", "a.b"]


@pytest.mark.parametrize("snapshot_id", [NOW, UNSAID])
def test_a_scan_of_all_columns_may_be_for_a_rewrite(metadata: TableMetadata, snapshot_id: int) -> None:
    assert may_rewrite(_scan(snapshot_id, select=ALL), metadata)
    assert may_rewrite(_scan(snapshot_id, select=[*ALL, "_pos", "_row_id"]), metadata)
    assert may_rewrite(_scan(snapshot_id), metadata)
    assert may_rewrite(_scan(snapshot_id, select=[]), metadata)


def test_a_part_of_a_column_counts_as_the_column(metadata: TableMetadata) -> None:
    assert may_rewrite(_scan(select=["id", "place.x", "a.b"]), metadata)
    assert may_rewrite(_scan(select=["id", "place.y.z", "a.b"]), metadata)


def test_a_scan_that_asks_for_its_files_may_be_for_a_rewrite(metadata: TableMetadata) -> None:
    assert may_rewrite(_scan(select=["id", "_file"]), metadata)


@pytest.mark.parametrize("left_out", ["id", "a.b"])
def test_a_scan_without_a_column_is_for_none(metadata: TableMetadata, left_out: str) -> None:
    assert not may_rewrite(_scan(select=[each for each in ALL if each != left_out]), metadata)


def test_a_name_with_a_dot_is_no_part_of_another_column(metadata: TableMetadata) -> None:
    assert not may_rewrite(_scan(select=["id", "place", "a"]), metadata)


def test_clients_that_read_by_the_schema_of_the_table_rewrite_nothing(metadata: TableMetadata) -> None:
    assert not may_rewrite(_scan(**{"use-snapshot-schema": False}), metadata)
    assert not may_rewrite({"filter": True, "use-snapshot-schema": True}, metadata)
    assert not may_rewrite({"snapshot-id": OLD, "select": ["id"]}, metadata)
    assert not may_rewrite({}, metadata)


def test_a_snapshot_with_another_schema_has_no_residuals(metadata: TableMetadata) -> None:
    """Java would look for the columns of residuals in the table's schema."""
    assert may_rewrite(_scan(OLD, select=["id"]), metadata)
