"""Deletes that others wrote, and rows that come with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from iceberg_hms.changes.operations.files.row_delta import RowDelta
from iceberg_hms.changes.operations.manifests.file_scope import Where
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions import col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.files.test_append import NOW
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


def delta(
    stored: StoredTable, *deletes: DataFile, data: tuple[DataFile, ...] = (), snapshot_id: int = 900, **more: Any
) -> RowDelta:
    new_deletes = NewDeleteFiles(deletes, snapshot_id=snapshot_id)
    return RowDelta(stored.new(snapshot_id), new_files(snapshot_id, *data), new_deletes, **more)


def test_position_and_equality_deletes_are_added_with_the_snapshots_number() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.commit(delta(stored, position_deletes("p", **of("a")), equality_deletes("e")))
    live = stored.live()
    assert (live["p"], live["e"]) == ((900, 2, 2, None), (900, 2, 2, None))
    names = (
        "operation",
        "added-delete-files",
        "added-position-delete-files",
        "added-equality-delete-files",
        "added-position-deletes",
        "added-equality-deletes",
        "total-delete-files",
        "total-position-deletes",
        "total-equality-deletes",
        "total-records",
    )
    assert [stored.head.summary[name] for name in names] == ["delete", "2", "1", "1", "2", "3", "2", "2", "3", "20"]


def test_the_operation_says_what_is_added() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.commit(delta(stored, data=(data_file("b"),), snapshot_id=900))
    assert stored.head.operation == "append"
    stored.commit(delta(stored, position_deletes("p", **of("a")), data=(data_file("c"),), snapshot_id=901))
    assert stored.head.operation == "overwrite"
    assert (stored.live()["c"][1], stored.live()["p"][1]) == (3, 3)


def test_format_version_1_has_no_delete_files() -> None:
    stored = StoredTable(1)
    stored.append(100, data_file("a"))
    with pytest.raises(InvalidInput, match="Format version 1 has no delete files"):
        stored.commit(delta(stored, position_deletes("p", **of("a"))))


@pytest.mark.parametrize(
    ("version", "wrong"), [(2, deletion_vector("a")), (3, position_deletes("p", **of("a")))], ids=["v2", "v3"]
)
def test_each_version_takes_its_own_position_deletes(version: int, wrong: DataFile) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a"))
    with pytest.raises(InvalidInput, match=f"Format version {version} takes"):
        stored.commit(delta(stored, wrong))


def test_an_upgrade_meanwhile_refuses_position_deletes() -> None:
    stored = StoredTable(2)
    stored.append(100, data_file("a"))
    change = delta(stored, position_deletes("p", **of("a")))
    change.stage(stored.metadata, stored.store.open())
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    with pytest.raises(InvalidInput, match="Format version 3 takes deletion vectors"):
        stored.commit(change)


@pytest.mark.parametrize("by", ["record", "argument"])
def test_a_data_file_that_is_gone_is_named_with_the_snapshot_that_removed_it(by: str) -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    if by == "record":
        change = delta(stored, position_deletes("p", **of("a")))
    else:
        change = delta(stored, position_deletes("p"), referenced=[path_of("a")])
    change.look_ahead(stored.metadata, stored.store.open())
    stored.foreign(101, "replace", data_file("c"), removed=["a"])
    with pytest.raises(RequirementFailed, match=r"file:/data/a.parquet; snapshot 101 \(replace\) removed") as caught:
        stored.commit(change)
    assert caught.value.name == "files-exist"


def test_a_data_file_that_never_was_there_is_refused() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    with pytest.raises(RequirementFailed, match=r"does not have 1 of the files: file:/data/z.parquet"):
        stored.commit(delta(stored, deletion_vector("z")))


def test_a_second_vector_for_a_data_file_must_replace_the_first() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    first = deletion_vector("a", offset=4)
    stored.commit(delta(stored, first, deletion_vector("b", offset=44)))
    second = deletion_vector("a", offset=84, records=5)
    with pytest.raises(RequirementFailed, match=r"a.parquet has a deletion vector already, of snapshot 900") as caught:
        stored.commit(delta(stored, second, snapshot_id=901))
    assert caught.value.name == "one-deletion-vector"
    stored.commit(delta(stored, second, snapshot_id=902, replaced_deletes=[first]))
    assert stored.live()["vector of a"][0] == 902
    summary = stored.head.summary
    assert (summary["added-dvs"], summary["removed-dvs"], summary["total-position-deletes"]) == ("1", "1", "7")
    assert summary["total-delete-files"] == "2"


def test_a_vector_that_another_writer_added_meanwhile_conflicts() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    change = delta(stored, deletion_vector("a", offset=4))
    change.look_ahead(stored.metadata, stored.store.open())
    stored.commit(delta(stored, deletion_vector("b", offset=44), snapshot_id=901))
    change.stage(stored.metadata, stored.store.open())
    stored.commit(delta(stored, deletion_vector("a", offset=84), snapshot_id=902))
    with pytest.raises(RequirementFailed, match=r"snapshot 902 added a deletion vector for file:/data/a.parquet"):
        stored.commit(change)


def test_a_replaced_delete_file_that_is_gone_is_refused() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    change = delta(stored, deletion_vector("a", offset=84), replaced_deletes=[deletion_vector("a", offset=4)])
    with pytest.raises(RequirementFailed, match=r"does not have 1 of the delete files: file:///data/vectors.puffin"):
        stored.commit(change)


def test_a_vector_of_another_partition_than_its_data_file_is_refused() -> None:
    stored = StoredTable(3, partitioned=True)
    stored.append(100, data_file("a", "info"))
    with pytest.raises(InvalidInput, match=r"of another partition or spec than file:/data/a.parquet"):
        stored.commit(delta(stored, deletion_vector("a", "warn")))


@pytest.mark.parametrize(
    ("isolation", "data", "others", "conflict"),
    [
        ("serializable", (), [data_file("new")], "no-new-data-files"),
        ("snapshot", (), [data_file("new")], None),
        ("snapshot", (data_file("mine"),), [data_file("new")], None),
        ("snapshot", (data_file("mine"),), [position_deletes("q")], "no-new-delete-files"),
        ("serializable", (), [position_deletes("q")], None),
    ],
)
def test_rows_and_deletes_of_others_conflict_by_isolation(
    isolation: Any, data: tuple[DataFile, ...], others: list[DataFile], conflict: str | None
) -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = delta(stored, position_deletes("p", **of("a")), data=data, isolation=isolation)
    stored.foreign(101, "overwrite", *others)
    if conflict is None:
        stored.commit(change)
        assert "p" in stored.live()
    else:
        with pytest.raises(RequirementFailed) as caught:
            stored.commit(change)
        assert (caught.value.name, caught.value.rests_on) == (conflict, {101})


def test_rows_that_the_filter_does_not_match_do_not_conflict() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    change = delta(stored, position_deletes("p", **of("a")), where=Where(col("id") < 5, stored.metadata.schema))
    stored.append(101, data_file("other", ids=(5, 9)))
    change.stage(stored.metadata, stored.store.open())
    stored.append(102, data_file("new", ids=(4, 9)))
    with pytest.raises(RequirementFailed, match=r"snapshot 102 added file:/data/new.parquet in the rows where id < 5"):
        stored.commit(change)


def test_compactions_of_other_files_do_not_conflict() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = delta(stored, position_deletes("p", **of("a")), data=(data_file("mine"),))
    stored.foreign(101, "replace", data_file("c"), removed=["b"])
    stored.commit(change)
    assert stored.live().keys() == {"a", "c", "mine", "p"}


def test_nothing_to_add_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to add"):
        delta(StoredTable())


def test_a_vector_replaces_the_position_deletes_before_it() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    old = position_deletes("p", referenced_data_file=path_of("a"))
    stored.foreign(101, "delete", old)
    with pytest.raises(RequirementFailed, match=r"p\.parquet may delete rows of file:/data/a\.parquet") as caught:
        stored.commit(delta(stored, deletion_vector("a")))
    assert caught.value.name == "positions-merged"
    stored.commit(delta(stored, deletion_vector("b"), snapshot_id=901))
    stored.commit(delta(stored, deletion_vector("a", offset=44), snapshot_id=902, replaced_deletes=[old]))
    assert stored.live().keys() == {"a", "b", "vector of a", "vector of b"}


def test_position_deletes_of_older_files_of_the_partition_are_not_a_vectors() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", position_deletes("p"))
    stored.append(102, data_file("b"))
    stored.commit(delta(stored, deletion_vector("b")))
    with pytest.raises(RequirementFailed, match=r"p\.parquet may delete rows"):
        stored.commit(delta(stored, deletion_vector("a", offset=44), snapshot_id=901))


@pytest.mark.parametrize("referenced", [(), (path_of("b"),)])
def test_positions_that_name_no_data_file_are_refused_once_others_removed_one_of_the_partition(
    referenced: tuple[str, ...],
) -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    change = delta(stored, position_deletes("p"), referenced=referenced)
    stored.foreign(101, "replace", data_file("c"), removed=["a"])
    if referenced:
        stored.commit(change)
        return
    with pytest.raises(
        RequirementFailed, match=r"snapshot 101 removed file:/data/a\.parquet in one partition"
    ) as caught:
        stored.commit(change)
    assert caught.value.name == "no-removed-data-files"


@pytest.mark.parametrize("spelling", ["file:///data/a.parquet", "/data/a.parquet", "file:/data//a.parquet"])
@pytest.mark.parametrize(("version", "made"), [(2, partial(position_deletes, "p")), (3, partial(deletion_vector, "a"))])
def test_deletes_of_a_file_in_another_spelling_are_refused_since_their_own_content_has_it_too(
    version: int, made: Callable[..., DataFile], spelling: str
) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a"))
    before = stored.metadata
    change = delta(stored, made(referenced_data_file=spelling))
    change.look_ahead(stored.metadata, stored.store.open())
    with pytest.raises(InvalidInput, match=f"positions of {spelling}, which the table spells file:/data/a.parquet"):
        stored.commit(change)
    assert stored.metadata is before
