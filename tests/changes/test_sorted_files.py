"""CREATE OR REPLACE with a sort order whose id another writer has taken meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.append import Append
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.changes.request import from_request
from iceberg_hms.changes.sorted_files import has_files_sorted_as
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.clients import NOW, Writer, data_file
from tests.changes.tables import UUID, table


def order(column: int, id_: int) -> dict[str, Any]:
    field = {"transform": "identity", "source-id": column, "direction": "asc", "null-order": "nulls-first"}
    return {"order-id": id_, "fields": [field]}


def taken() -> TableMetadata:
    """A table in which another writer has added order 1."""
    return table(sort_orders=[{"order-id": 0, "fields": []}, order(1, 1)])


def replacing(writer: Writer, *claims: int | None) -> list[dict[str, Any]]:
    """The updates of a client that saw no order 1: an order, sent as 1, and a file for each claim."""
    change = Append(
        NewSnapshot(branch="main", snapshot_id=77, table_uuid=UUID, now_ms=lambda: NOW),
        NewDataFiles(
            [data_file(str(number), sort_order_id=claim) for number, claim in enumerate(claims)],
            snapshot_id=77,
            schema_id=0,
            specs={0: None},
        ),
        check_duplicates=False,
    )
    files = [dict(update) for update in change.stage(table(), writer.manifests).updates]
    writer.manifests.flush()
    return [
        {"action": "add-sort-order", "sort-order": order(2, 1)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        *files,
    ]


def commit(writer: Writer, sent: list[dict[str, Any]]) -> TableMetadata:
    change = from_request([{"type": "assert-table-uuid", "uuid": UUID}], sent)
    metadata, _ = stage_one(taken(), change, RecordedWrites(writer.store.open()), lambda: NOW)
    return metadata


@pytest.mark.parametrize("claims", [(), (None,), (None, 0)])
def test_files_that_claim_no_such_order_come_with_it_under_its_new_id(claims: tuple[int | None, ...]) -> None:
    """As the REST compatibility kit asks (testConcurrentReplaceTransactionSortOrderConflict)."""
    writer = Writer(MemoryManifestStore())
    metadata = commit(writer, replacing(writer, *claims))
    assert [each.raw for each in metadata.sort_orders][1:] == [order(1, 1), order(2, 2)]
    assert (metadata.raw["default-sort-order-id"], metadata.current_snapshot_id) == (2, 77)


def test_files_that_claim_to_be_sorted_by_the_sent_id_would_claim_the_order_of_another_writer() -> None:
    writer = Writer(MemoryManifestStore())
    with pytest.raises(RequirementFailed, match="the sort order that was sent as 1 would become 2"):
        commit(writer, replacing(writer, None, 1))


def test_a_snapshot_that_cannot_be_read_may_have_such_files() -> None:
    missing = Snapshot({"snapshot-id": 1, "manifest-list": "file:/gone"})
    assert has_files_sorted_as(1, [missing.raw], MemoryManifestStore().open())
