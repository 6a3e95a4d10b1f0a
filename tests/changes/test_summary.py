"""Summaries: counts and running totals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.summary import (
    IDEMPOTENCY_KEY,
    check_custom,
    file_metrics,
    manifest_counts,
    totals,
    with_wap_id,
)
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from tests.changes.operations.stored_tables import data_file, deletion_vector, equality_deletes, position_deletes


def test_totals_of_an_empty_table_start_at_zero() -> None:
    assert totals(None, {"added-data-files": "2", "added-records": "7", "added-files-size": "30"}) == {
        "total-records": "7",
        "total-files-size": "30",
        "total-data-files": "2",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


@pytest.mark.parametrize("parent", [{}, {"total-records": "many"}, {"total-records": "-1"}])
def test_a_total_that_the_parent_lacks_is_left_out(parent: dict[str, str]) -> None:
    assert totals(parent, {"added-records": "7"}) == {}


def test_a_total_below_zero_is_left_out() -> None:
    assert totals({"total-records": "3", "total-data-files": "4"}, {"deleted-records": "5"}) == {
        "total-data-files": "4"
    }


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**12)), max_size=20))
def test_totals_add_up(added: list[tuple[int, int]]) -> None:
    summary: dict[str, str] | None = None
    for number, (records, size) in enumerate(added):
        changes = file_metrics([DataFile(f"file:/data/{number}", "PARQUET", records, size)])
        summary = changes | totals(summary, changes)
    if summary is not None:
        assert int(summary["total-records"]) == sum(records for records, _ in added)
        assert int(summary["total-files-size"]) == sum(size for _, size in added)
        assert int(summary["total-data-files"]) == len(added)


def test_manifests_are_counted() -> None:
    assert manifest_counts(created=1, kept=3) == {
        "manifests-created": "1",
        "manifests-kept": "3",
        "manifests-replaced": "0",
    }


def test_the_callers_properties_are_kept() -> None:
    mine = {"app": "loader"}
    assert check_custom(mine, "job-1") == {"app": "loader", IDEMPOTENCY_KEY: "job-1"}
    assert check_custom({IDEMPOTENCY_KEY: "job-1"}, "job-1") == {IDEMPOTENCY_KEY: "job-1"}
    assert mine == {"app": "loader"}


@pytest.mark.parametrize(
    "name", ["operation", "added-records", "total-data-files", "changed-partition-count", "partitions.level=info"]
)
def test_computed_metrics_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        check_custom({name: "5"})


def test_values_are_strings_and_a_job_has_one_key() -> None:
    with pytest.raises(InvalidInput, match="strings"):
        check_custom({"rows": 5})  # type: ignore[dict-item]
    for empty in ("", "  "):
        with pytest.raises(InvalidInput, match="idempotency key is empty"):
            check_custom({}, empty)
        with pytest.raises(InvalidInput, match="idempotency key is empty"):
            check_custom({IDEMPOTENCY_KEY: empty})
    with pytest.raises(InvalidInput, match="one idempotency key"):
        check_custom({IDEMPOTENCY_KEY: "a"}, "b")


def test_a_snapshot_is_staged_under_one_id() -> None:
    assert with_wap_id({"job": "x"}, None) == {"job": "x"}
    assert with_wap_id({"job": "x"}, "w") == {"job": "x", "wap.id": "w"}
    assert with_wap_id({"wap.id": "w"}, "w") == {"wap.id": "w"}
    with pytest.raises(InvalidInput, match="staged under one WAP id"):
        with_wap_id({}, " ")
    with pytest.raises(InvalidInput, match="staged under one WAP id"):
        with_wap_id({"wap.id": "other"}, "w")


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


def test_an_unpartitioned_table_counts_as_one_partition() -> None:
    assert file_metrics([data_file("a"), data_file("b")])["changed-partition-count"] == "1"


def test_a_partition_that_loses_and_gains_files_counts_once() -> None:
    found = file_metrics([data_file("a", "info")], [data_file("b", "info", spec_id=3)])
    assert found["changed-partition-count"] == "1"
