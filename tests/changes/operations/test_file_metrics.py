"""Metrics of a snapshot's summary, as Java names and counts them."""

from __future__ import annotations

from iceberg_hms.changes.operations.file_metrics import file_metrics
from tests.changes.operations.stored_tables import data_file, deletion_vector, equality_deletes, position_deletes


def test_every_kind_of_file_has_its_own_counts() -> None:
    added = [
        data_file("a", "info", 7),
        data_file("b", "warn", 5),
        position_deletes("p", "info", 2),
        deletion_vector("a", "info", records=4),
        equality_deletes("e", "error", 3),
    ]
    assert file_metrics(added, []) == {
        "added-data-files": "2",
        "added-delete-files": "3",
        "added-dvs": "1",
        "added-equality-delete-files": "1",
        "added-equality-deletes": "3",
        "added-files-size": str(70 + 50 + 20 + 40 + 30),
        "added-position-delete-files": "1",
        "added-position-deletes": "6",
        "added-records": "12",
        "changed-partition-count": "3",
    }
    removed = file_metrics([], added, duplicates=2)
    assert removed == {
        "deleted-data-files": "2",
        "deleted-duplicate-files": "2",
        "deleted-records": "12",
        "removed-delete-files": "3",
        "removed-dvs": "1",
        "removed-equality-delete-files": "1",
        "removed-equality-deletes": "3",
        "removed-files-size": "210",
        "removed-position-delete-files": "1",
        "removed-position-deletes": "6",
        "changed-partition-count": "3",
    }


def test_zeros_are_left_out_but_for_the_partitions() -> None:
    assert file_metrics([], []) == {"changed-partition-count": "0"}
    assert file_metrics([data_file("a", records=0)], []) == {
        "added-data-files": "1",
        "changed-partition-count": "1",
    }


def test_a_partition_that_loses_and_gains_files_counts_once() -> None:
    found = file_metrics([data_file("a", "info")], [data_file("b", "info", spec_id=3)])
    assert found["changed-partition-count"] == "1"
