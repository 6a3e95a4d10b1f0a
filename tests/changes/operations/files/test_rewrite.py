"""Compaction: other files with the same rows, beside whatever others commit."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.files.rewrite import Rewrite
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    moved_file,
    new_files,
    of,
    path_of,
    position_deletes,
)


def rewrite(stored: StoredTable, remove: str, *add: DataFile, snapshot_id: int = 900, **new: object) -> Rewrite:
    """remove: names of one letter each."""
    number = stored.metadata.current_snapshot.sequence_number if stored.metadata.current_snapshot else 0
    added = new_files(snapshot_id, *add, sequence_number=number)
    return Rewrite(stored.new(snapshot_id, **new), [path_of(name) for name in remove], added)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_new_files_replace_the_old_ones(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"), data_file("c"))
    before = stored.live()["c"]
    stored.commit(rewrite(stored, "ab", moved_file("ab", records=20)))
    live = stored.live()
    assert live.keys() == {"ab", "c"}
    assert live["c"] == before
    assert live["ab"][:3] == ((900, 0, 0) if version == 1 else (900, 1, 2)), "the data is as old as the start"
    summary = stored.head.summary
    assert (summary["operation"], summary["total-records"], summary["total-data-files"]) == ("replace", "30", "2")
    assert (summary["added-records"], summary["deleted-records"]) == ("20", "20")
    if version == 3:
        assert live["ab"][3] == 30, "it gets row ids that its rows do not need, as in Java"
        assert stored.metadata.next_row_id == 60, "also for c, whose entry was written again"


def test_appends_and_equality_deletes_meanwhile_do_not_conflict_and_still_apply() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = rewrite(stored, "ab", data_file("ab", records=20))
    change.look_ahead(stored.metadata, stored.store.open())
    stored.append(101, data_file("c"))
    stored.foreign(102, "delete", equality_deletes("e"))
    stored.commit(change)
    live = stored.live()
    assert live.keys() == {"ab", "c", "e"}
    assert (live["ab"][1], live["e"][1]) == (1, 3), "the deletes are newer than the rows"


def test_position_deletes_meanwhile_conflict() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = rewrite(stored, "ab", data_file("ab", records=20))
    stored.foreign(101, "delete", position_deletes("p", referenced_data_file=path_of("b")))
    with pytest.raises(
        RequirementFailed, match=r"snapshot 101 deleted rows of file:/data/b.parquet.*p.parquet"
    ) as caught:
        stored.commit(change)
    assert caught.value.name == "no-new-deletes-for-files"


def test_a_deletion_vector_meanwhile_conflicts() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    change = rewrite(stored, "a", moved_file("new"))
    stored.foreign(101, "delete", deletion_vector("b"))
    change.stage(stored.metadata, stored.store.open())
    stored.foreign(102, "delete", deletion_vector("a", offset=44))
    with pytest.raises(RequirementFailed, match=r"snapshot 102 deleted rows of file:/data/a.parquet"):
        stored.commit(change)


def test_a_file_that_another_compaction_took_is_refused() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    mine, theirs = (
        rewrite(stored, "ab", data_file("mine", records=20)),
        rewrite(stored, "b", data_file("theirs"), snapshot_id=901),
    )
    stored.commit(theirs)
    with pytest.raises(RequirementFailed, match=r"file:/data/b.parquet; snapshot 901 \(replace\) removed"):
        stored.commit(mine)


def test_a_file_that_came_after_the_start_is_refused() -> None:
    """Its rows would become older than deletes that do not apply to them."""
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = rewrite(stored, "ab", data_file("ab", records=20))
    stored.append(101, data_file("b"))
    with pytest.raises(RequirementFailed, match=r"snapshot 101 added file:/data/b.parquet after the state") as caught:
        stored.commit(change)
    assert caught.value.name == "planned-files"


@pytest.mark.parametrize("records", [19, 21])
def test_other_numbers_of_rows_are_refused(records: int) -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    with pytest.raises(InvalidInput, match=f"the new files have {records} rows, and those that they replace 20"):
        stored.commit(rewrite(stored, "ab", data_file("ab", records=records)))


def test_fewer_rows_are_right_where_deletes_applied() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", position_deletes("p"))
    with pytest.raises(InvalidInput, match="the new files have 21 rows"):
        stored.commit(rewrite(stored, "ab", data_file("ab", records=21)))
    stored.commit(rewrite(stored, "ab", data_file("ab", records=18)))
    assert stored.live().keys() == {"ab", "p"}, "the deletes are as old as the new file says of itself"


def test_deletes_of_another_file_explain_nothing() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", deletion_vector("b"))
    with pytest.raises(InvalidInput, match="the new files have 9 rows, and those that they replace 10"):
        stored.commit(rewrite(stored, "a", moved_file("new", records=9)))
    stored.commit(rewrite(stored, "b", moved_file("new", records=8)))
    assert stored.live().keys() == {"a", "new"}, "the vector went with its file"


def test_files_may_only_be_removed_if_deletes_left_nothing_of_them() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    with pytest.raises(InvalidInput, match="the new files have 0 rows"):
        stored.commit(rewrite(stored, "a"))
    stored.foreign(101, "delete", position_deletes("p", records=10, referenced_data_file=path_of("a")))
    stored.commit(rewrite(stored, "a"))
    assert "a" not in stored.live()


def test_nothing_to_rewrite_is_refused() -> None:
    stored = StoredTable()
    with pytest.raises(InvalidInput, match="nothing to rewrite"):
        rewrite(stored, "", data_file("a"))


def test_a_table_upgraded_meanwhile_keeps_the_old_number() -> None:
    stored = StoredTable(1)
    stored.append(100, data_file("a"), data_file("b"))
    change = rewrite(stored, "ab", data_file("ab", records=20))
    change.stage(stored.metadata, stored.store.open())
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(2)], now_ms=NOW)
    stored.foreign(101, "delete", equality_deletes("e"))
    stored.commit(change)
    assert (stored.live()["ab"][1], stored.live()["e"][1]) == (0, 1)


def rewrite_deletes(
    stored: StoredTable, remove: list[DataFile], *add: DataFile, data: str = "", snapshot_id: int = 900
) -> Rewrite:
    """data: names of one letter of data files that are removed, too."""
    deletes = NewDeleteFiles(add, snapshot_id=snapshot_id, planned=stored.metadata)
    paths, new = [path_of(name) for name in data], stored.new(snapshot_id)
    return Rewrite(new, paths, new_files(snapshot_id), remove_deletes=remove, deletes=deletes)


def filled(version: int = 2) -> StoredTable:
    """Data files a and b, and c, which is newer than position deletes p and q."""
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", position_deletes("p", **of("a")))
    stored.foreign(102, "delete", position_deletes("q", **of("b")))
    stored.append(103, data_file("c"))
    return stored


P, Q = position_deletes("p", **of("a")), position_deletes("q", **of("b"))


def test_position_deletes_become_one_file_with_their_highest_number() -> None:
    stored = filled()
    stored.commit(rewrite_deletes(stored, [P, Q], position_deletes("pq", records=4)))
    live = stored.live()
    assert live.keys() == {"a", "b", "c", "pq"}
    assert live["pq"] == (900, 3, 5, None), "it is as old as the newer of the two"
    names = ("operation", "added-position-deletes", "removed-position-deletes", "removed-delete-files")
    assert [stored.head.summary[name] for name in names] == ["replace", "4", "4", "2"]


def test_what_others_commit_meanwhile_stays() -> None:
    stored = filled()
    change = rewrite_deletes(stored, [P, Q], position_deletes("pq", records=4))
    change.look_ahead(stored.metadata, stored.store.open())
    change.stage(stored.metadata, stored.store.open())
    stored.foreign(104, "delete", position_deletes("r", **of("a")))
    stored.foreign(105, "replace", data_file("new"), removed=["b"], sequence_number=4)
    stored.commit(change)
    assert {name: each[1] for name, each in stored.live().items()} == {"a": 1, "new": 4, "c": 4, "pq": 3, "r": 5}


def test_a_delete_file_that_others_took_is_refused() -> None:
    stored = filled()
    change = rewrite_deletes(stored, [P, Q], position_deletes("pq", records=4))
    stored.commit(rewrite_deletes(stored, [Q], position_deletes("other"), snapshot_id=901))
    with pytest.raises(RequirementFailed, match=r"main does not have 1 of the delete files: .*q\.parquet") as caught:
        stored.commit(change)
    assert caught.value.name == "files-exist"


def test_position_deletes_become_deletion_vectors_after_an_upgrade() -> None:
    stored = filled()
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    change = rewrite_deletes(stored, [P], deletion_vector("a"))
    stored.commit(change)
    live = stored.live()
    assert live.keys() == {"a", "b", "c", "q", "vector of a"}
    assert live["vector of a"][1] == 2


def test_a_vector_meanwhile_refuses_another_one() -> None:
    stored = filled()
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    change = rewrite_deletes(stored, [P], deletion_vector("a"))
    change.look_ahead(stored.metadata, stored.store.open())
    stored.foreign(104, "delete", deletion_vector("a", offset=44))
    with pytest.raises(RequirementFailed, match="has a deletion vector already, of snapshot 104"):
        stored.commit(change)


def test_an_upgrade_meanwhile_refuses_position_deletes() -> None:
    stored = filled()
    change = rewrite_deletes(stored, [P, Q], position_deletes("pq", records=4))
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    with pytest.raises(RequirementFailed) as caught:
        stored.commit(change)
    assert caught.value.name == "delete-files-fit"


def test_a_vector_takes_the_place_of_one_in_another_file() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", deletion_vector("a"))
    moved = deletion_vector("a", file_path="file:/data/compact.puffin", offset=88)
    stored.commit(rewrite_deletes(stored, [deletion_vector("a")], moved))
    assert stored.live()["vector of a"][:2] == (900, 2)


def test_equality_deletes_keep_their_number() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", equality_deletes("d"), equality_deletes("e"))
    stored.append(102, data_file("b"))
    stored.foreign(103, "delete", equality_deletes("f"))
    d, e, f = (equality_deletes(name) for name in "def")
    with pytest.raises(InvalidInput, match=r"equality deletes of the sequence numbers \[2, 4\], each of which"):
        stored.commit(rewrite_deletes(stored, [d, f], equality_deletes("new")))
    stored.commit(rewrite_deletes(stored, [d, e], equality_deletes("de", records=6)))
    assert {name: each[1] for name, each in stored.live().items()} == {"a": 1, "b": 3, "de": 2, "f": 4}


def test_equality_deletes_become_position_deletes() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", equality_deletes("e"))
    stored.append(102, data_file("b"))
    stored.commit(rewrite_deletes(stored, [equality_deletes("e")], position_deletes("p", records=9)))
    assert stored.live()["p"][1] == 2
    with pytest.raises(InvalidInput, match="replaces no delete file of its partition"):
        stored.commit(rewrite_deletes(stored, [position_deletes("p", records=9)], equality_deletes("e", records=0)))


def test_data_files_take_their_deletes_along() -> None:
    stored = filled()
    add = position_deletes("b only", records=2, **of("b"))
    change = Rewrite(
        stored.new(900),
        [path_of("a")],
        new_files(900, data_file("new", records=8), sequence_number=4),
        remove_deletes=[P, Q],
        deletes=NewDeleteFiles([add], snapshot_id=900),
    )
    stored.commit(change)
    assert {name: each[1] for name, each in stored.live().items()} == {"new": 4, "b": 1, "c": 4, "b only": 3}


@pytest.mark.parametrize(
    ("remove", "add", "says"),
    [
        ([], [], "nothing to rewrite"),
        ([], [position_deletes("new")], "nothing to rewrite"),
        ([data_file("a")], [], r"Not a delete file: file:/data/a\.parquet"),
        (
            [P],
            [position_deletes("new", records=3)],
            "the new delete files have 3 deletes, and those that they replace 2",
        ),
        ([P], [equality_deletes("new")], "the new delete files have 3 deletes"),
        ([P], [data_file("new")], "Not a delete file"),
    ],
)
def test_what_would_change_rows_is_refused(remove: list[DataFile], add: list[DataFile], says: str) -> None:
    stored = filled()
    with pytest.raises(InvalidInput, match=says):
        stored.commit(rewrite_deletes(stored, remove, *add))


def test_delete_files_without_any_that_they_replace_are_refused() -> None:
    stored = filled()
    with pytest.raises(InvalidInput, match="and none that they replace"):
        stored.commit(rewrite_deletes(stored, [], position_deletes("new"), data="a"))


def test_deletes_of_a_data_file_that_is_gone_may_only_be_removed() -> None:
    stored = filled()
    stored.foreign(104, "delete", removed=["a"])
    stored.commit(rewrite_deletes(stored, [P]))
    assert stored.live().keys() == {"b", "c", "q"}


def test_another_partition_is_refused() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    old = position_deletes("p", "info", **of("a"))
    stored.foreign(101, "delete", old)
    with pytest.raises(InvalidInput, match=r"new\.parquet replaces no delete file of its partition"):
        stored.commit(rewrite_deletes(stored, [old], position_deletes("new", "warn", **of("a"))))
