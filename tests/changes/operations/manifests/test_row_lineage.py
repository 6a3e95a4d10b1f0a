"""Row ids that must stay with their rows, and those that a file cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.files.overwrite import Overwrite, ReplacePartitions
from iceberg_hms.changes.operations.files.rewrite import Rewrite
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, LINEAGE_COLUMNS, ROW_ID
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    long_bound,
    moved_file,
    new_files,
    path_of,
)


def rewrite(stored: StoredTable, remove: str, *add: DataFile, snapshot_id: int = 900) -> Rewrite:
    """remove: names of one letter each."""
    added = new_files(snapshot_id, *add, sequence_number=stored.head.sequence_number)
    return Rewrite(stored.new(snapshot_id), [path_of(name) for name in remove], added)


def carrying(name: str, *, row_id: Any = 0, updated: Any = 0, records: int = 10) -> DataFile:
    """row_id, updated: how many rows have none; None: the file lacks the column."""
    counts = {ROW_ID.id: row_id, LAST_UPDATED.id: updated}
    return data_file(name, records=records, null_value_counts={id_: n for id_, n in counts.items() if n is not None})


def ranged(column: int, low: int, high: int) -> DataFile:
    return moved_file("new", lower_bounds={column: long_bound(low)}, upper_bounds={column: long_bound(high)})


def upgraded() -> StoredTable:
    """A table of version 3 whose rows have no ids yet."""
    stored = StoredTable(2)
    stored.append(100, data_file("a"), data_file("b"))
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(3)], now_ms=NOW)
    return stored


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (data_file("new"), r"new.parquet has no _row_id for 10 of its rows"),
        (carrying("new", row_id=None), r"no _row_id for 10"),
        (carrying("new", updated=None), r"no _last_updated_sequence_number for 10"),
        (carrying("new", row_id=1), r"no _row_id for 1 of"),
        (carrying("new", updated=2), r"no _last_updated_sequence_number for 2 of"),
    ],
)
def test_a_rewrite_without_the_ids_of_its_rows_is_refused(file: DataFile, why: str) -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    with pytest.raises(RequirementFailed, match=why) as caught:
        stored.commit(rewrite(stored, "a", file))
    assert caught.value.name == "row-ids-kept"
    assert "2147483540 and 2147483539" in str(caught.value.next_step)
    stored.commit(rewrite(stored, "a", moved_file("new")))
    assert stored.live().keys() == {"b", "new"}


def test_each_of_the_new_files_must_carry_them() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    with pytest.raises(RequirementFailed, match=r"bare.parquet has no _row_id for 5"):
        stored.commit(rewrite(stored, "ab", moved_file("good", records=15), data_file("bare", records=5)))


def test_deleted_rows_leave_no_room_for_rows_without_ids() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", deletion_vector("a"))
    with pytest.raises(RequirementFailed, match="no _row_id for 2 of"):
        stored.commit(rewrite(stored, "a", carrying("new", row_id=2, records=8)))
    stored.commit(rewrite(stored, "a", moved_file("new", records=8)))


def test_rows_from_before_an_upgrade_have_no_ids_to_keep() -> None:
    """Spec: Row Lineage for Upgraded Tables. The first snapshot after the upgrade gives them theirs."""
    stored = upgraded()
    stored.commit(rewrite(stored, "a", data_file("c")))
    assert {name: found[3] for name, found in stored.live().items()} == {"c": 0, "b": 10}
    assert stored.metadata.next_row_id == 20
    with pytest.raises(RequirementFailed, match="no _row_id for 10"):
        stored.commit(rewrite(stored, "c", data_file("d"), snapshot_id=901))
    stored.commit(rewrite(stored, "cb", moved_file("d", records=20), snapshot_id=901))
    assert stored.live()["d"][3] == 20, "no other row had these"


def test_a_rewrite_that_others_overtook_with_the_ids_is_refused() -> None:
    stored = upgraded()
    change = rewrite(stored, "a", data_file("new"))
    change.stage(stored.metadata, stored.store.open())
    stored.append(101, data_file("c"))
    with pytest.raises(RequirementFailed, match=r"new.parquet has no _row_id for 10"):
        stored.commit(change)


@pytest.mark.parametrize("version", [1, 2])
def test_older_tables_have_none(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a"))
    stored.commit(rewrite(stored, "a", data_file("new")))
    assert stored.live().keys() == {"new"}


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (ranged(ROW_ID.id, 5, 20), r"has _row_id from 5 to 20, and .* below 20"),
        (ranged(ROW_ID.id, -1, 5), "has _row_id from -1 to 5"),
        (ranged(LAST_UPDATED.id, 1, 2), r"has _last_updated_sequence_number from 1 to 2, and .* below 2"),
    ],
)
def test_values_that_the_table_never_gave_are_refused(file: DataFile, why: str) -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    with pytest.raises(InvalidInput, match=why):
        stored.commit(rewrite(stored, "a", file))
    with pytest.raises(InvalidInput, match=why):
        stored.commit(Overwrite(stored.new(900), new_files(900, file)))


def test_the_last_values_that_it_gave_are_taken() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    stored.commit(rewrite(stored, "a", ranged(ROW_ID.id, 0, 19)))
    stored.commit(rewrite(stored, "b", data_file("c", **last_updated(2)), snapshot_id=901))


def last_updated(number: int) -> dict[str, Any]:
    bounds = {LAST_UPDATED.id: long_bound(number)}
    return {"null_value_counts": dict.fromkeys(LINEAGE_COLUMNS, 0), "lower_bounds": bounds, "upper_bounds": bounds}


def test_operations_that_replace_rows_take_those_that_keep_their_ids_and_new_ones() -> None:
    """An engine's UPDATE or MERGE that copies on write: updated rows have no number, inserted ones no id."""
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    stored.commit(Overwrite(stored.new(900), new_files(900, carrying("c", row_id=3, updated=7))))
    stored.commit(ReplacePartitions(stored.new(901), new_files(901, carrying("d", row_id=10, updated=10))))
    assert stored.live().keys() == {"d"}


@pytest.mark.parametrize("file", [carrying("new", updated=10), carrying("new", row_id=10, updated=9)])
def test_an_append_of_rows_that_have_ids_is_refused(file: DataFile) -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"))
    with pytest.raises(InvalidInput, match=r"new.parquet carries values of _"):
        stored.append(101, file)
    stored.append(101, carrying("new", row_id=10, updated=10))
    assert stored.live()["new"][3] == 10


def test_an_append_must_prove_that_there_are_none() -> None:
    stored = StoredTable(3)
    with pytest.raises(InvalidInput, match="or does not say that all are null"):
        stored.append(100, data_file("a", column_sizes={ROW_ID.id: 50}))
