"""Deletes that are replaced come back for no data file that stays, and a data file has at most one deletion vector."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.files.rewrite import Rewrite
from iceberg_hms.changes.operations.files.row_delta import RowDelta
from iceberg_hms.changes.operations.manifests.kept_deletes import LiveVectors
from iceberg_hms.changes.operations.manifests.manifest_filter import delete_file_key
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
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

E = equality_deletes("e")


def convert(
    stored: StoredTable, *add: DataFile, remove: DataFile = E, known: str = "", snapshot_id: int = 900
) -> Rewrite:
    """Replace a delete file by others. known: names of one letter of data files of which no row is deleted."""
    deletes = NewDeleteFiles(add, snapshot_id=snapshot_id, planned=stored.metadata)
    referenced = [path_of(name) for name in known]
    new = stored.new(snapshot_id)
    return Rewrite(new, [], new_files(snapshot_id), remove_deletes=[remove], deletes=deletes, referenced=referenced)


def compact(stored: StoredTable, remove: str, *, records: int, snapshot_id: int = 901, **new: Any) -> Rewrite:
    number = stored.head.sequence_number
    added = new_files(snapshot_id, data_file("compacted", records=records), sequence_number=number)
    return Rewrite(stored.new(snapshot_id, **new), [path_of(name) for name in remove], added)


def table(version: int = 2) -> StoredTable:
    """Data files a and b, older than the equality deletes e, which may have rows of both."""
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", E)
    return stored


def refused(stored: StoredTable, change: Any, match: str, name: str = "deletes-kept") -> None:
    before = stored.live()
    with pytest.raises(RequirementFailed, match=match) as caught:
        stored.commit(change)
    assert caught.value.name == name
    assert stored.live() == before


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_that_did_not_see_equality_deletes_is_refused_once_they_are_positions(version: int) -> None:
    """Its new file keeps an old number, so that equality deletes apply to it. Positions do not."""
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"))
    compaction = compact(stored, "ab", records=20)
    stored.foreign(101, "delete", E)
    new = position_deletes("p", records=1, **of("a")) if version == 2 else deletion_vector("a", records=1)
    stored.commit(convert(stored, new, known="b"))
    refused(stored, compaction, "snapshot 900 deleted rows of file:/data/a.parquet", "no-new-deletes-for-files")


def test_a_conversion_is_refused_once_a_compaction_moved_rows_that_the_deletes_apply_to() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    compaction = compact(stored, "ab", records=20)
    stored.foreign(101, "delete", E)
    conversion = convert(stored, position_deletes("p", records=1, **of("a")), known="b")
    stored.commit(compaction)
    refused(stored, conversion, r"compacted\.parquet stays, and its deletes are removed: file:/data/e\.parquet")


def test_a_compaction_that_applied_the_deletes_goes_with_a_conversion_in_either_order() -> None:
    for first in (0, 1):
        stored = table()
        changes = [
            convert(stored, position_deletes("p", records=1, **of("a")), known="b"),
            compact(stored, "ab", records=19),
        ]
        for change in (changes[first], changes[1 - first]):
            stored.commit(change)
        assert stored.live()["compacted"][1] == 2
        assert "e" not in stored.live()


def test_equality_deletes_go_only_if_each_file_that_they_apply_to_has_others() -> None:
    stored = table()
    refused(stored, convert(stored), r"a\.parquet stays, and its deletes are removed: file:/data/e\.parquet")
    one = position_deletes("p", records=1, **of("a"))
    refused(stored, convert(stored, one), r"b\.parquet stays")
    stored.commit(convert(stored, one, position_deletes("q", records=1, **of("b"))))
    assert stored.live().keys() == {"a", "b", "p", "q"}


def test_bounds_and_numbers_rule_out_files_that_the_deletes_do_not_apply_to() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a", ids=(1, 5)), data_file("b", ids=(6, 9)))
    old = equality_deletes("e", ids=(2, 3))
    stored.foreign(101, "delete", old)
    stored.append(102, data_file("c", ids=(1, 5)))
    stored.commit(convert(stored, position_deletes("p", records=1, **of("a")), remove=old))
    assert stored.live().keys() == {"a", "b", "c", "p"}


def test_equality_deletes_of_other_columns_are_others() -> None:
    stored = table()
    refused(stored, convert(stored, equality_deletes("f", equality_ids=(2,))), r"a\.parquet stays")
    stored.commit(convert(stored, equality_deletes("f")))
    assert stored.live()["f"][1] == 2


def test_positions_of_a_whole_partition_go_only_with_those_of_each_of_its_files() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    old = position_deletes("p")
    stored.foreign(101, "delete", old)
    one = position_deletes("q", records=1, **of("a"))
    refused(stored, convert(stored, one, remove=old), r"b\.parquet stays")
    stored.commit(convert(stored, one, remove=old, known="b"))


def test_a_deletion_vector_that_stays_has_the_positions_of_older_files() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    old = position_deletes("p", **of("a"))
    stored.foreign(101, "delete", old)
    refused(stored, convert(stored, remove=old), r"a\.parquet stays")
    stored.foreign(102, "delete", deletion_vector("a"))
    stored.commit(convert(stored, remove=old))
    assert stored.live().keys() == {"a", "vector of a"}


def test_new_deletes_of_a_file_that_never_was_there_are_refused() -> None:
    stored = table()
    change = convert(stored, position_deletes("p", records=1, **of("z")), known="ab")
    refused(stored, change, "does not have 1 of the files: file:/data/z.parquet", "files-exist")
    deletes = NewDeleteFiles([position_deletes("p", records=1, **of("a"))], snapshot_id=900)
    change = Rewrite(
        stored.new(900), [path_of("a")], new_files(900, data_file("new")), remove_deletes=[E], deletes=deletes
    )
    with pytest.raises(InvalidInput, match=r"a\.parquet is replaced, and there are new deletes for it"):
        stored.commit(change)


def test_a_row_delta_replaces_deletes_of_no_other_file() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    old = position_deletes("p", **of("a"))
    stored.foreign(101, "delete", old)

    def delta(of_file: str, snapshot_id: int) -> RowDelta:
        deletes = NewDeleteFiles([position_deletes("q", **of(of_file))], snapshot_id=snapshot_id)
        return RowDelta(stored.new(snapshot_id), None, deletes, replaced_deletes=[old])

    refused(stored, delta("b", 900), r"a\.parquet stays, and its deletes are removed: file:/data/p\.parquet")
    stored.commit(delta("a", 901))
    assert stored.live().keys() == {"a", "b", "q"}


def test_a_compaction_undoes_no_deletes_of_an_earlier_step_of_its_transaction() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    compaction = compact(stored, "ab", records=20, earlier_ids=frozenset({102}))
    stored.foreign(102, "delete", position_deletes("p", **of("a")))
    refused(stored, compaction, "snapshot 102 deleted rows of file:/data/a.parquet", "no-new-deletes-for-files")


def test_a_second_vector_is_refused_unless_it_replaces_the_first() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    new, first = deletion_vector("a", offset=44), deletion_vector("a")
    deletes = NewDeleteFiles([new], snapshot_id=900)
    alone, replacing = LiveVectors(deletes, frozenset()), LiveVectors(deletes, frozenset({delete_file_key(first)}))
    stored.foreign(101, "delete", deletion_vector("b"))
    for each in (alone, replacing):
        each.find(stored.state(), stored.store.open())
        each.refuse(stored.state(), {}, stored.store.open())
    stored.foreign(102, "delete", first)
    replacing.refuse(stored.state(), {}, stored.store.open())
    with pytest.raises(RequirementFailed, match=r"a\.parquet has a deletion vector already, of snapshot 102") as caught:
        alone.refuse(stored.state(), {}, stored.store.open())
    assert (caught.value.name, caught.value.rests_on) == ("one-deletion-vector", frozenset({102}))
