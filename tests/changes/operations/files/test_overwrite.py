"""Rows that match a filter, or the rows of partitions, are replaced by new files."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.files.overwrite import Overwrite, ReplacePartitions
from iceberg_hms.changes.operations.manifests.file_scope import Where
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import Expression, col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    equality_deletes,
    new_files,
    position_deletes,
)

LOW: Expression = col("id") < 5


def overwrites(stored: StoredTable, *files: DataFile, where: Expression | None = LOW, **more: Any) -> Overwrite:
    rows = None if where is None else Where(where, stored.metadata.schema)
    return Overwrite(stored.new(900), new_files(900, *files), rows, **more)


def started(version: int = 2) -> StoredTable:
    stored = StoredTable(version)
    stored.append(100, data_file("a", ids=(1, 4)), data_file("b", ids=(5, 9)))
    return stored


@pytest.mark.parametrize("version", [1, 2, 3])
def test_matching_files_are_replaced(version: int) -> None:
    stored = started(version)
    before = stored.live()["b"]
    stored.commit(overwrites(stored, data_file("x", ids=(2, 3))))
    live = stored.live()
    assert (live.keys(), live["b"]) == ({"b", "x"}, before)
    assert live["x"][:2] == (900, 0 if version == 1 else 2)
    assert stored.head.operation == "overwrite"


def test_without_a_filter_the_whole_table_is_replaced() -> None:
    stored = started()
    stored.foreign(101, "delete", position_deletes("p"))
    stored.commit(overwrites(stored, data_file("x"), where=None))
    assert stored.live().keys() == {"x"}


def test_without_files_it_is_a_delete() -> None:
    stored = started()
    stored.commit(overwrites(stored))
    assert (stored.live().keys(), stored.head.operation) == ({"b"}, "delete")


@pytest.mark.parametrize("ids", [(4, 5), (6, 7), None], ids=["in part", "outside", "unknown"])
def test_new_files_must_lie_in_the_filter(ids: tuple[int, int] | None) -> None:
    stored = started()
    with pytest.raises(InvalidInput, match=r"file:/data/x.parquet may have rows that do not match id < 5"):
        stored.commit(overwrites(stored, data_file("x", ids=ids)))


def test_old_files_that_match_in_part_are_refused() -> None:
    stored = started()
    stored.append(101, data_file("c", ids=(3, 8)))
    with pytest.raises(RequirementFailed, match=r"some rows of file:/data/c.parquet \(snapshot 101\)"):
        stored.commit(overwrites(stored, data_file("x", ids=(1, 2))))


@pytest.mark.parametrize(
    ("isolation", "operation", "added", "removed", "conflict"),
    [
        ("serializable", "append", [data_file("n", ids=(4, 4))], [], "no-new-data-files"),
        ("snapshot", "append", [data_file("n", ids=(4, 4))], [], None),
        ("serializable", "append", [data_file("n", ids=(5, 9))], [], None),
        ("snapshot", "delete", [], ["a"], "no-removed-data-files"),
        ("serializable", "delete", [], ["b"], None),
        ("snapshot", "replace", [data_file("n", ids=(1, 4))], ["a"], "no-removed-data-files"),
        ("serializable", "replace", [data_file("n", ids=(5, 9))], ["b"], None),
        ("snapshot", "delete", [position_deletes("p")], [], "no-new-delete-files"),
        ("snapshot", "delete", [equality_deletes("e", ids=(1, 2))], [], "no-new-delete-files"),
        ("serializable", "delete", [equality_deletes("e", ids=(6, 7))], [], None),
    ],
)
def test_what_others_did_to_matching_rows_conflicts(
    isolation: Any, operation: str, added: list[DataFile], removed: list[str], conflict: str | None
) -> None:
    stored = started()
    change = overwrites(stored, data_file("x", ids=(2, 3)), isolation=isolation)
    change.look_ahead(stored.metadata, stored.store.open())
    stored.foreign(101, operation, *added, removed=removed)
    if conflict is None:
        stored.commit(change)
        assert "x" in stored.live()
        assert "a" not in stored.live()
    else:
        with pytest.raises(RequirementFailed) as caught:
            stored.commit(change)
        assert (caught.value.name, caught.value.rests_on) == (conflict, {101})


def test_two_overwrites_of_the_same_rows_do_not_both_win() -> None:
    stored = started()
    first, second = (
        overwrites(stored, data_file("x", ids=(1, 2))),
        Overwrite(stored.new(901), new_files(901, data_file("y", ids=(3, 4))), Where(LOW, stored.metadata.schema)),
    )
    stored.commit(first)
    with pytest.raises(RequirementFailed, match="snapshot 900"):
        stored.commit(second)
    assert stored.live().keys() == {"b", "x"}


def test_two_overwrites_of_different_rows_both_win() -> None:
    stored = started()
    first = overwrites(stored, data_file("x", ids=(1, 2)))
    second = Overwrite(
        stored.new(901), new_files(901, data_file("y", ids=(5, 6))), Where(col("id") >= 5, stored.metadata.schema)
    )
    stored.commit(first)
    stored.commit(second)
    assert stored.live().keys() == {"x", "y"}


def replaces(stored: StoredTable, *files: DataFile, **more: Any) -> ReplacePartitions:
    return ReplacePartitions(stored.new(900), new_files(900, *files), **more)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_the_partitions_of_the_new_files_are_replaced(version: int) -> None:
    stored = StoredTable(version, partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    stored.append(101, data_file("c", "error"), data_file("d", "info"))
    before = stored.live()
    stored.commit(replaces(stored, data_file("x", "info"), data_file("y", "new")))
    live = stored.live()
    assert live.keys() == {"b", "c", "x", "y"}
    assert [live[name] for name in "bc"] == [before[name] for name in "bc"]
    summary = stored.head.summary
    assert (summary["operation"], summary["replace-partitions"]) == ("overwrite", "true")
    assert (summary["deleted-data-files"], summary["added-data-files"]) == ("2", "2")
    assert summary["changed-partition-count"] == "2"


def test_an_unpartitioned_table_is_replaced_as_a_whole() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", equality_deletes("e"))
    stored.commit(replaces(stored, data_file("x")))
    assert stored.live().keys() == {"x"}


def test_files_of_other_specs_stay() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    field = {"source-id": 2, "field-id": 1000, "transform": "identity", "name": "level"}
    spec = {"spec-id": 1, "fields": [field]}
    stored.metadata = apply(stored.metadata, [{"action": "add-spec", "spec": spec}], now_ms=NOW)
    stored.append(101, data_file("b", "info", spec_id=1))
    stored.commit(replaces(stored, data_file("x", "info", spec_id=1)))
    assert stored.live().keys() == {"a", "x"}
    stored.commit(ReplacePartitions(stored.new(901), new_files(901, data_file("y"))))
    assert stored.live().keys() == {"y"}, "a spec without fields is the whole table"


@pytest.mark.parametrize(
    ("isolation", "operation", "added", "removed", "conflict"),
    [
        ("serializable", "append", [data_file("n", "info")], [], "snapshot 101 added file:/data/n.parquet"),
        ("snapshot", "append", [data_file("n", "info")], [], None),
        ("serializable", "append", [data_file("n", "warn")], [], None),
        ("snapshot", "delete", [], ["a"], "snapshot 101 removed file:/data/a.parquet"),
        ("serializable", "delete", [], ["b"], None),
        ("snapshot", "replace", [data_file("n", "info")], ["a"], "snapshot 101 removed file:/data/a.parquet"),
        ("snapshot", "delete", [position_deletes("p", "info")], [], "snapshot 101 deleted rows with file:/data/p"),
        ("snapshot", "delete", [position_deletes("p", "warn")], [], None),
    ],
)
def test_what_others_did_to_the_partitions_conflicts(
    isolation: Any, operation: str, added: list[DataFile], removed: list[str], conflict: str | None
) -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    change = replaces(stored, data_file("x", "info"), isolation=isolation)
    change.look_ahead(stored.metadata, stored.store.open())
    stored.foreign(101, operation, *added, removed=removed)
    if conflict is None:
        stored.commit(change)
        assert "a" not in stored.live()
        # Snapshot isolation does not see what others added, and replaces it.
        assert ("n" in stored.live()) == (added[:1] == [data_file("n", "warn")])
    else:
        with pytest.raises(RequirementFailed, match=conflict):
            stored.commit(change)


def test_any_change_of_an_unpartitioned_table_conflicts() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = replaces(stored, data_file("x"))
    stored.append(101, data_file("b"))
    with pytest.raises(RequirementFailed, match=r"snapshot 101 added file:/data/b.parquet in the table"):
        stored.commit(change)


def test_no_files_and_files_of_several_specs_are_refused() -> None:
    stored = StoredTable()
    with pytest.raises(InvalidInput, match="nothing to replace partitions with"):
        replaces(stored)
    with pytest.raises(InvalidInput, match=r"several specs: \[0, 1\]"):
        replaces(stored, data_file("a"), data_file("b", "info", spec_id=1))


def test_a_file_that_is_in_a_replaced_partition_already_is_refused() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    with pytest.raises(RequirementFailed, match=r"has 1 of the files already: file:/data/a.parquet"):
        stored.commit(replaces(stored, data_file("a", "info")))
