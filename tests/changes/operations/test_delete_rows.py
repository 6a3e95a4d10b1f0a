"""Rows are deleted by whole files, on whatever the branch has become."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.delete_rows import DeleteRows
from iceberg_hms.changes.operations.where import Where
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import ALWAYS_TRUE, Expression, col
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    equality_deletes,
    position_deletes,
)


def deletes(stored: StoredTable, where: Expression, snapshot_id: int = 900) -> DeleteRows:
    return DeleteRows(stored.new(snapshot_id), Where(where, stored.metadata.schema))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_whose_bounds_all_match_go(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    stored.append(101, data_file("c", ids=(2, 3)))
    before = stored.live()
    stored.commit(deletes(stored, col("id") < 5))
    assert stored.live() == {"b": before["b"]}
    assert stored.deleted() == {"a": 900, "c": 900}
    assert (stored.head.operation, stored.head.summary["total-data-files"]) == ("delete", "1")


def test_a_file_that_matches_in_part_is_named_and_nothing_is_left_behind() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(3, 9)))
    before = stored.manifest_locations()
    change = deletes(stored, col("id") < 5)
    change.look_ahead(stored.metadata, stored.store.open())
    with pytest.raises(RequirementFailed, match=r"some rows of file:/data/b.parquet \(snapshot 100\) may match id < 5"):
        stored.commit(change)
    assert stored.manifest_locations() == before


def test_a_file_without_bounds_is_refused() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    with pytest.raises(RequirementFailed, match="some rows of"):
        stored.commit(deletes(stored, col("id") < 5))


def test_what_others_added_meanwhile_is_judged_too() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    change = deletes(stored, col("id") < 5)
    change.look_ahead(stored.metadata, stored.store.open())
    stored.append(101, data_file("c", ids=(0, 2)))
    stored.foreign(102, "replace", data_file("d", ids=(5, 8)), removed=["b"])
    stored.commit(change)
    assert stored.live().keys() == {"d"}


def test_partitions_and_their_delete_files_go() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    stored.foreign(101, "delete", position_deletes("p", "info"), equality_deletes("e", "warn"))
    stored.commit(deletes(stored, col("level") == "info"))
    assert stored.live().keys() == {"b", "e"}
    assert stored.head.summary["removed-position-delete-files"] == "1"


def test_manifests_of_other_partitions_are_not_read() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    stored.append(101, data_file("b", "warn"))
    stored.files.delete(stored.state().manifests[1].manifest_path)
    stored.commit(deletes(stored, col("level") == "warn"))
    assert (stored.head.summary["manifests-kept"], stored.head.summary["manifests-replaced"]) == ("1", "1")


def test_an_equality_delete_goes_if_all_its_rows_go() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    stored.foreign(101, "delete", equality_deletes("e", ids=(2, 3)), equality_deletes("f", ids=(4, 5)))
    stored.commit(deletes(stored, col("id") < 5))
    assert stored.live().keys() == {"b", "f"}


def test_every_row_of_the_table_goes() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.commit(deletes(stored, ALWAYS_TRUE))
    assert stored.live() == {}
    totals = {name: value for name, value in stored.head.summary.items() if name.startswith("total-")}
    assert set(totals.values()) == {"0"}


def test_a_filter_that_matches_nothing_makes_a_snapshot_that_removes_nothing() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(5, 9)))
    before = stored.live()
    stored.commit(deletes(stored, col("id") < 5))
    assert (stored.live(), stored.head.snapshot_id) == (before, 900)
    assert "deleted-data-files" not in stored.head.summary


def test_a_column_that_the_table_lacks_is_refused() -> None:
    stored = StoredTable()
    with pytest.raises(InvalidInput, match="port"):
        deletes(stored, col("port") == 80).check(stored.metadata)
