"""Statistics files of snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.statistics import RemoveStatistics, SetStatistics
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.columns import NOW, committed
from tests.changes.tables import snapshot, with_main

PARTITIONS = {"snapshot-id": 7, "statistics-path": "file:/w/p.parquet", "file-size-in-bytes": 9}
COLUMNS = {
    "snapshot-id": 7,
    "statistics-path": "file:/w/s.puffin",
    "file-size-in-bytes": 9,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [
        {"type": "apache-datasketches-theta-v1", "snapshot-id": 7, "sequence-number": 1, "fields": [1]},
    ],
}


@pytest.mark.parametrize(("kind", "file"), [("statistics", COLUMNS), ("partition-statistics", PARTITIONS)])
def test_a_file_is_set_replaced_and_removed(kind: Any, file: dict[str, Any]) -> None:
    base = with_main()
    first = committed(base, SetStatistics(base, kind, file))
    second = committed(first, SetStatistics(base, kind, {**file, "statistics-path": "file:/w/new"}))
    assert [each["statistics-path"] for each in second.raw[kind]] == ["file:/w/new"]
    removed = committed(second, RemoveStatistics(base, kind, 7))
    assert not removed.raw[kind]
    assert committed(removed, RemoveStatistics(base, kind, 7)) is removed


@pytest.mark.parametrize("gone", sorted(COLUMNS))
def test_an_incomplete_file_is_refused(gone: str) -> None:
    file = {key: value for key, value in COLUMNS.items() if key != gone}
    with pytest.raises(InvalidInput, match=gone):
        SetStatistics(with_main(), "statistics", file)


def test_what_is_no_object_or_id_is_refused() -> None:
    bad: Any = "file:/w/s.puffin"
    with pytest.raises(InvalidInput):
        SetStatistics(with_main(), "statistics", bad)
    with pytest.raises(InvalidInput):
        RemoveStatistics(with_main(), "statistics", bad)


def test_a_snapshot_that_the_table_lacks_or_lost_is_named() -> None:
    with pytest.raises(InvalidInput, match="no snapshot 8"):
        SetStatistics(with_main(), "partition-statistics", {**PARTITIONS, "snapshot-id": 8})
    base = with_main(snapshots=[snapshot(7), snapshot(8)])
    change = SetStatistics(base, "partition-statistics", {**PARTITIONS, "snapshot-id": 8})
    expired = apply(base, [{"action": "remove-snapshots", "snapshot-ids": [8]}], now_ms=NOW)
    with pytest.raises(RequirementFailed, match="no snapshot 8"):
        committed(expired, change)
