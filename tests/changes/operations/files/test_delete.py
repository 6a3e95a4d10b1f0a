"""Data files are deleted by name, and rows by whole files, on whatever the branch has become."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.files.delete import DeleteFiles, DeleteRows
from iceberg_hms.changes.operations.manifests.file_scope import Where
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import ALWAYS_TRUE, Expression, col
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    path_of,
    position_deletes,
)


def deletes(stored: StoredTable, *names: str, snapshot_id: int = 900) -> DeleteFiles:
    return DeleteFiles(stored.new(snapshot_id), [path_of(name) for name in names])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_files_go_and_the_others_keep_their_numbers(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a", records=7), data_file("b", records=5), data_file("c", records=3))
    stored.append(101, data_file("d"))
    before = stored.live()
    stored.commit(deletes(stored, "b", "d"))
    assert stored.live() == {name: before[name] for name in "ac"}
    assert stored.deleted() == {"b": 900, "d": 900}
    assert stored.head.parent_snapshot_id == 101
    if version == 3:
        ids = [each.first_row_id or 0 for each in stored.metadata.snapshots]
        assert ids == sorted(ids)


def test_the_summary_is_javas() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", records=7), data_file("b", records=5))
    stored.commit(deletes(stored, "b"))
    assert stored.head.summary == {
        "operation": "delete",
        "deleted-data-files": "1",
        "deleted-records": "5",
        "removed-files-size": "50",
        "changed-partition-count": "1",
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "1",
        "total-records": "7",
        "total-files-size": "70",
        "total-data-files": "1",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_what_others_committed_meanwhile_stays() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = deletes(stored, "a")
    change.look_ahead(stored.metadata, stored.store.open())
    stored.append(101, data_file("c"))
    stored.foreign(102, "overwrite", data_file("d"), removed=["b"])
    stored.commit(change)
    assert stored.live().keys() == {"c", "d"}
    assert stored.head.parent_snapshot_id == 102


def test_a_replay_reuses_what_was_written_ahead() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = deletes(stored, "a")
    change.look_ahead(stored.metadata, stored.store.open())
    written = stored.manifest_locations()
    stored.append(101, data_file("c"))
    after = stored.manifest_locations()
    staged = stored.commit(change)
    assert stored.manifest_locations() == after
    assert len(set(staged.files) & written) == 1


def test_a_file_that_another_writer_removed_is_refused_and_the_snapshot_named() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = deletes(stored, "a", "b")
    stored.foreign(101, "replace", data_file("c"), removed=["b"])
    stored.append(102, data_file("d"))
    with pytest.raises(
        RequirementFailed, match=r"1 of the files: file:/data/b.parquet; snapshot 101 \(replace\)"
    ) as caught:
        stored.commit(change)
    assert (caught.value.name, caught.value.rests_on) == ("files-exist", {101})


def test_a_file_that_never_was_there_is_refused_also_if_the_history_has_expired() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = DeleteFiles(stored.new(900, start_id=77), ["file:/elsewhere/z.parquet"])
    with pytest.raises(RequirementFailed, match=r"does not have 1 of the files: file:/elsewhere/z.parquet \("):
        change.stage(stored.metadata, stored.store.open())


def test_many_missing_files_are_counted() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = deletes(stored, *(f"z{at}" for at in range(7)))
    with pytest.raises(RequirementFailed, match=r"does not have 7 of the files: .* and 2 more"):
        stored.commit(change)


def test_nothing_to_delete_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to delete"):
        DeleteFiles(StoredTable().new(900), [])


def test_an_empty_table_lacks_the_files() -> None:
    stored = StoredTable()
    with pytest.raises(RequirementFailed, match="does not have 1 of the files"):
        stored.commit(deletes(stored, "a"))


def test_deletes_that_apply_to_nothing_any_more_go_too() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", deletion_vector("a", offset=4), deletion_vector("b", offset=44))
    stored.commit(deletes(stored, "a"))
    assert stored.live().keys() == {"b", "vector of b"}
    names = ("removed-delete-files", "removed-dvs", "removed-position-deletes", "removed-files-size", "deleted-records")
    assert [stored.head.summary[name] for name in names] == ["1", "1", "2", "140", "10"]


def test_two_deletes_in_a_row_list_each_file_once() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"), data_file("c"))
    stored.commit(deletes(stored, "a", snapshot_id=900))
    stored.commit(deletes(stored, "b", snapshot_id=901))
    assert stored.deleted() == {"b": 901}
    stored.commit(deletes(stored, "c", snapshot_id=902))
    assert (stored.live(), stored.deleted()) == ({}, {"c": 902})
    stored.append(903, data_file("d"))
    assert stored.head.summary["total-data-files"] == "1"


def test_deletes_of_an_upgraded_table_keep_number_zero() -> None:
    stored = StoredTable(1)
    stored.append(100, data_file("a"), data_file("b"))
    change = deletes(stored, "a")
    change.look_ahead(stored.metadata, stored.store.open())
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(2)], now_ms=NOW)
    stored.foreign(101, "delete", position_deletes("p"))
    stored.commit(change)
    assert stored.live() == {"b": (100, 0, 0, None), "p": (101, 1, 1, None)}


def deletes_rows(stored: StoredTable, where: Expression, snapshot_id: int = 900) -> DeleteRows:
    return DeleteRows(stored.new(snapshot_id), Where(where, stored.metadata.schema))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_whose_bounds_all_match_go(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    stored.append(101, data_file("c", ids=(2, 3)))
    before = stored.live()
    stored.commit(deletes_rows(stored, col("id") < 5))
    assert stored.live() == {"b": before["b"]}
    assert stored.deleted() == {"a": 900, "c": 900}
    assert (stored.head.operation, stored.head.summary["total-data-files"]) == ("delete", "1")


def test_a_file_that_matches_in_part_is_named_and_nothing_is_left_behind() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(3, 9)))
    before = stored.manifest_locations()
    change = deletes_rows(stored, col("id") < 5)
    change.look_ahead(stored.metadata, stored.store.open())
    with pytest.raises(RequirementFailed, match=r"some rows of file:/data/b.parquet \(snapshot 100\) may match id < 5"):
        stored.commit(change)
    assert stored.manifest_locations() == before


def test_a_file_without_bounds_is_refused() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    with pytest.raises(RequirementFailed, match="some rows of"):
        stored.commit(deletes_rows(stored, col("id") < 5))


def test_what_others_added_meanwhile_is_judged_too() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    change = deletes_rows(stored, col("id") < 5)
    change.look_ahead(stored.metadata, stored.store.open())
    stored.append(101, data_file("c", ids=(0, 2)))
    stored.foreign(102, "replace", data_file("d", ids=(5, 8)), removed=["b"])
    stored.commit(change)
    assert stored.live().keys() == {"d"}


def test_partitions_and_their_delete_files_go() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    stored.foreign(101, "delete", position_deletes("p", "info"), equality_deletes("e", "warn"))
    stored.commit(deletes_rows(stored, col("level") == "info"))
    assert stored.live().keys() == {"b", "e"}
    assert stored.head.summary["removed-position-delete-files"] == "1"


def test_manifests_of_other_partitions_are_not_read() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    stored.append(101, data_file("b", "warn"))
    stored.files.delete(stored.state().manifests[1].manifest_path)
    stored.commit(deletes_rows(stored, col("level") == "warn"))
    assert (stored.head.summary["manifests-kept"], stored.head.summary["manifests-replaced"]) == ("1", "1")


def test_an_equality_delete_goes_if_all_its_rows_go() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    stored.foreign(101, "delete", equality_deletes("e", ids=(2, 3)), equality_deletes("f", ids=(4, 5)))
    stored.commit(deletes_rows(stored, col("id") < 5))
    assert stored.live().keys() == {"b", "f"}


def test_every_row_of_the_table_goes() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.commit(deletes_rows(stored, ALWAYS_TRUE))
    assert stored.live() == {}
    totals = {name: value for name, value in stored.head.summary.items() if name.startswith("total-")}
    assert set(totals.values()) == {"0"}


def test_a_filter_that_matches_nothing_makes_a_snapshot_that_removes_nothing() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(5, 9)))
    before = stored.live()
    stored.commit(deletes_rows(stored, col("id") < 5))
    assert (stored.live(), stored.head.snapshot_id) == (before, 900)
    assert "deleted-data-files" not in stored.head.summary


def test_a_column_that_the_table_lacks_is_refused() -> None:
    stored = StoredTable()
    with pytest.raises(InvalidInput, match="port"):
        deletes_rows(stored, col("port") == 80).check(stored.metadata)
