"""Delete files are rewritten as others that delete the same rows: none more, and none comes back."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.rewrite import Rewrite
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    new_files,
    of,
    path_of,
    position_deletes,
)
from tests.changes.operations.test_append import NOW


def rewrite(
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
    stored.commit(rewrite(stored, [P, Q], position_deletes("pq", records=4)))
    live = stored.live()
    assert live.keys() == {"a", "b", "c", "pq"}
    assert live["pq"] == (900, 3, 5, None), "it is as old as the newer of the two"
    names = ("operation", "added-position-deletes", "removed-position-deletes", "removed-delete-files")
    assert [stored.head.summary[name] for name in names] == ["replace", "4", "4", "2"]


def test_what_others_commit_meanwhile_stays() -> None:
    stored = filled()
    change = rewrite(stored, [P, Q], position_deletes("pq", records=4))
    change.look_ahead(stored.metadata, stored.store.open())
    change.stage(stored.metadata, stored.store.open())
    stored.foreign(104, "delete", position_deletes("r", **of("a")))
    stored.foreign(105, "replace", data_file("new"), removed=["b"], sequence_number=4)
    stored.commit(change)
    assert {name: each[1] for name, each in stored.live().items()} == {"a": 1, "new": 4, "c": 4, "pq": 3, "r": 5}


def test_a_delete_file_that_others_took_is_refused() -> None:
    stored = filled()
    change = rewrite(stored, [P, Q], position_deletes("pq", records=4))
    stored.commit(rewrite(stored, [Q], position_deletes("other"), snapshot_id=901))
    with pytest.raises(RequirementFailed, match=r"main does not have 1 of the delete files: .*q\.parquet") as caught:
        stored.commit(change)
    assert caught.value.name == "files-exist"


def test_position_deletes_become_deletion_vectors_after_an_upgrade() -> None:
    stored = filled()
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    change = rewrite(stored, [P], deletion_vector("a"))
    stored.commit(change)
    live = stored.live()
    assert live.keys() == {"a", "b", "c", "q", "vector of a"}
    assert live["vector of a"][1] == 2


def test_a_vector_meanwhile_refuses_another_one() -> None:
    stored = filled()
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    change = rewrite(stored, [P], deletion_vector("a"))
    change.look_ahead(stored.metadata, stored.store.open())
    stored.foreign(104, "delete", deletion_vector("a", offset=44))
    with pytest.raises(RequirementFailed, match="has a deletion vector already, of snapshot 104"):
        stored.commit(change)


def test_an_upgrade_meanwhile_refuses_position_deletes() -> None:
    stored = filled()
    change = rewrite(stored, [P, Q], position_deletes("pq", records=4))
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    with pytest.raises(RequirementFailed) as caught:
        stored.commit(change)
    assert caught.value.name == "delete-files-fit"


def test_a_vector_takes_the_place_of_one_in_another_file() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", deletion_vector("a"))
    moved = deletion_vector("a", file_path="file:/data/compact.puffin", offset=88)
    stored.commit(rewrite(stored, [deletion_vector("a")], moved))
    assert stored.live()["vector of a"][:2] == (900, 2)


def test_equality_deletes_keep_their_number() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", equality_deletes("d"), equality_deletes("e"))
    stored.append(102, data_file("b"))
    stored.foreign(103, "delete", equality_deletes("f"))
    d, e, f = (equality_deletes(name) for name in "def")
    with pytest.raises(InvalidInput, match=r"equality deletes of the sequence numbers \[2, 4\], each of which"):
        stored.commit(rewrite(stored, [d, f], equality_deletes("new")))
    stored.commit(rewrite(stored, [d, e], equality_deletes("de", records=6)))
    assert {name: each[1] for name, each in stored.live().items()} == {"a": 1, "b": 3, "de": 2, "f": 4}


def test_equality_deletes_become_position_deletes() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", equality_deletes("e"))
    stored.append(102, data_file("b"))
    stored.commit(rewrite(stored, [equality_deletes("e")], position_deletes("p", records=9)))
    assert stored.live()["p"][1] == 2
    with pytest.raises(InvalidInput, match="replaces no delete file of its partition"):
        stored.commit(rewrite(stored, [position_deletes("p", records=9)], equality_deletes("e", records=0)))


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
        stored.commit(rewrite(stored, remove, *add))


def test_delete_files_without_any_that_they_replace_are_refused() -> None:
    stored = filled()
    with pytest.raises(InvalidInput, match="and none that they replace"):
        stored.commit(rewrite(stored, [], position_deletes("new"), data="a"))


def test_deletes_of_a_data_file_that_is_gone_may_only_be_removed() -> None:
    stored = filled()
    stored.foreign(104, "delete", removed=["a"])
    stored.commit(rewrite(stored, [P]))
    assert stored.live().keys() == {"b", "c", "q"}


def test_another_partition_is_refused() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    old = position_deletes("p", "info", **of("a"))
    stored.foreign(101, "delete", old)
    with pytest.raises(InvalidInput, match=r"new\.parquet replaces no delete file of its partition"):
        stored.commit(rewrite(stored, [old], position_deletes("new", "warn", **of("a"))))
