"""Summaries: counts and running totals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.summary import IDEMPOTENCY_KEY, AddedFiles, check_custom, manifest_counts, totals, with_wap_id
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile


def data_file(name: str, level: str | None = None, records: int = 10, size: int = 100) -> DataFile:
    partition = {} if level is None else {"level": level}
    return DataFile(f"file:/data/{name}", "PARQUET", records, size, partition)


def test_added_files_and_rows_are_counted() -> None:
    files = [data_file("a", "info"), data_file("b", "warn", records=5, size=50), data_file("c", "info")]
    assert AddedFiles.of(files).to_summary() == {
        "added-data-files": "3",
        "added-records": "25",
        "added-files-size": "250",
        "changed-partition-count": "2",
    }


def test_an_unpartitioned_table_counts_as_one_partition() -> None:
    assert AddedFiles.of([data_file("a"), data_file("b")]).partitions == 1


def test_zero_is_left_out_as_in_java() -> None:
    assert AddedFiles.of([]).to_summary() == {"changed-partition-count": "0"}
    assert "added-records" not in AddedFiles.of([data_file("a", records=0)]).to_summary()


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
        changes = AddedFiles.of([data_file(str(number), records=records, size=size)]).to_summary()
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
