"""What a request for a plan asks for. What the server refuses is in test_scan_planning.py, too."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import ALWAYS_TRUE, col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.rest import plan_requests
from iceberg_hms.rest.plan_tokens import PlannedScan
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "price", "required": False, "type": "double"},
        {"id": 3, "name": "note", "required": False, "type": "string"},
    ],
}


def is_null(name: str) -> dict[str, str]:
    return {"type": "is-null", "term": name}


@pytest.fixture(scope="module")
def metadata() -> TableMetadata:
    """Two snapshots; then `note` was dropped, `price` renamed to `note`, and `amount` added."""
    with memory_catalog() as catalog:
        catalog.create_namespace("default")
        table = catalog.create_table(("default", "t"), SCHEMA)
        for name in "ab":
            table.append([DataFile(f"{table.metadata.location}/{name}.parquet", "PARQUET", 1, 10)])
        table.update_schema().delete_column("note").commit()
        table.update_schema().rename_column("price", "note").add_column("amount", "long").commit()
        return catalog.load_table(("default", "t")).metadata


def old_of(metadata: TableMetadata) -> int:
    return metadata.snapshots[0].snapshot_id


def ask(metadata: TableMetadata, **fields: Any) -> PlannedScan:
    return plan_requests.parsed({name.replace("_", "-"): value for name, value in fields.items()}, metadata)


def test_nothing_named_is_all_of_the_current_snapshot(metadata: TableMetadata) -> None:
    scan = ask(metadata)
    assert scan == PlannedScan(str(metadata.uuid), metadata.current_snapshot_id, metadata.current_schema_id)
    request = plan_requests.request_of(scan)
    assert (request.filter, request.snapshot_id) == (ALWAYS_TRUE, metadata.current_snapshot_id)


def test_null_counts_as_absent_but_for_a_filter(metadata: TableMetadata) -> None:
    absent = dict.fromkeys(("snapshot_id", "select", "case_sensitive", "use_snapshot_schema", "stats_fields"))
    assert ask(metadata, **absent, min_rows_requested=None) == ask(metadata)
    with pytest.raises(InvalidInput):
        ask(metadata, filter=None)


def test_an_incremental_scan_ends_with_its_last_snapshot(metadata: TableMetadata) -> None:
    last = metadata.current_snapshot_id
    scan = ask(metadata, start_snapshot_id=old_of(metadata), end_snapshot_id=last, min_rows_requested=5)
    request = plan_requests.request_of(scan)
    assert (request.start_snapshot_id, request.snapshot_id, request.min_rows) == (old_of(metadata), last, 5)


def test_a_filter_of_any_client_is_read(metadata: TableMetadata) -> None:
    scan = ask(metadata, filter={"type": "gt", "term": "id", "value": "1.5"}, case_sensitive=False)
    request = plan_requests.request_of(scan)
    assert request.filter == (col("id") > "1.5")
    assert not request.case_sensitive


def test_a_filter_that_each_task_would_repeat_is_not_long(metadata: TableMetadata) -> None:
    values = ["x" * 1_000] * 4_200
    with pytest.raises(InvalidInput, match="bytes"):
        ask(metadata, filter={"type": "in", "term": "id", "values": values})


def test_java_names_todays_columns_when_it_reads_the_current_snapshot(metadata: TableMetadata) -> None:
    current = metadata.current_snapshot_id
    for name in ("amount", "note"):
        scan = ask(metadata, snapshot_id=current, use_snapshot_schema=True, filter=is_null(name), select=["id"])
        assert not scan.use_snapshot_schema


@pytest.mark.parametrize("use_snapshot_schema", [True, False])
def test_a_name_that_became_another_column_s_is_refused_for_old_snapshots(
    metadata: TableMetadata, use_snapshot_schema: bool
) -> None:
    old = old_of(metadata)
    asked: dict[str, Any] = {"snapshot_id": old, "use_snapshot_schema": use_snapshot_schema}
    with pytest.raises(InvalidInput, match="note is another column"):
        ask(metadata, filter=is_null("note"), **asked)
    with pytest.raises(InvalidInput, match="NOTE is another column"):
        ask(metadata, filter=is_null("NOTE"), case_sensitive=False, **asked)
    with pytest.raises(InvalidInput, match="note is another column"):
        ask(metadata, stats_fields=["note"], **asked)
    for name in ("id", "price", "amount"):
        assert ask(metadata, filter=is_null(name), **asked).use_snapshot_schema == use_snapshot_schema


def test_pyiceberg_names_the_columns_of_a_snapshot_that_is_the_current_one(metadata: TableMetadata) -> None:
    with pytest.raises(InvalidInput, match="another column"):
        ask(metadata, snapshot_id=metadata.current_snapshot_id, filter=is_null("note"))
    # Without a snapshot the names are today's.
    assert ask(metadata, filter=is_null("note")).schema_id == metadata.current_schema_id


def test_a_client_that_may_copy_whole_files_gets_no_residuals(metadata: TableMetadata) -> None:
    asked = {"snapshot_id": metadata.current_snapshot_id, "use_snapshot_schema": True, "filter": is_null("id")}
    assert not ask(metadata, **asked).has_residuals
    assert ask(metadata, filter=is_null("id")).has_residuals
