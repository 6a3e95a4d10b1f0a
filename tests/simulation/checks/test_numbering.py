from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.checks.contents import Contents
from simulation.checks.numbering import row_ids_unique, sequence_numbers_unique
from simulation.checks.observed_table import ObservedTable
from simulation.checks.view import View
from simulation.engine.runtime import EPOCH_MS
from simulation.world.cluster import TABLE
from simulation.world.first_table import empty_table
from simulation.world.history import History
from simulation.world.metastore import RowChange
from tests.simulation.manual_schedule import ManualSchedule


def with_snapshot(metadata: TableMetadata, number: int, **changes: Any) -> TableMetadata:
    """The same with one snapshot in another way."""
    raw = [{**each, **changes} if each["snapshot-id"] == number else each for each in metadata.raw["snapshots"]]
    return metadata.replace(snapshots=raw)


def appended(*numbers: int) -> ManualSchedule:
    manual = ManualSchedule()
    for number in numbers:
        manual.attempt(number)
        manual.append(number)
    return manual


def test_a_snapshot_that_lacks_rows_of_its_parent_or_its_own_or_has_others_is_seen() -> None:
    for lost, found in (
        (
            "file:/t/data/1.parquet",
            "snapshot-adds-its-own: wish 2 lacks 1.parquet, and has nothing beyond its parent's",
        ),
        (
            "file:/t/data/2.parquet",
            "snapshot-adds-its-own: wish 2 lacks 2.parquet, and has nothing beyond its parent's",
        ),
    ):
        manual = appended(1)
        manual.attempt(2)
        lists = manual.storage.store.lists

        def on_write(kept: dict[str, Any] = lists, lost: str = lost, manual: ManualSchedule = manual) -> None:
            location = list(kept)[-1]
            manifests = manual.storage.store.manifests
            kept[location] = tuple(
                each
                for each in kept[location]
                if all(entry.data_file.file_path != lost for entry in manifests[each.manifest_path])
            )

        manual.before_the_move = on_write
        manual.append(2)
        assert (manual.failure or "").startswith(found)


def test_a_deletion_of_a_row_that_the_parent_does_not_have_is_seen() -> None:
    manual = appended(1)
    manual.attempt(2, deleted_rows=frozenset(("file:/t/data/9.parquet",)))
    manual.append(2)
    assert manual.failure == "snapshot-adds-its-own: wish 2 deletes 9.parquet, which its parent does not have"


def test_a_row_that_should_be_deleted_and_is_there_is_seen() -> None:
    manual = appended(1)
    manual.attempt(2, deleted_rows=frozenset(("file:/t/data/1.parquet",)))
    manual.append(2)
    assert (manual.failure or "").startswith("snapshot-adds-its-own: wish 2 lacks nothing, and has 1.parquet beyond")


def test_a_wrong_total_is_seen() -> None:
    manual = appended(1)
    manual.attempt(2)
    before, world_location = manual.metadata(), manual.location
    staged = appended(1, 2)
    manual.storage.store.lists.update(staged.storage.store.lists)
    manual.storage.store.manifests.update(staged.storage.store.manifests)
    manual.storage.data.update(staged.storage.data)
    new = staged.metadata()
    summary = {**new.raw["snapshots"][1]["summary"], "total-data-files": "7"}
    wrong = before.replace(
        snapshots=[before.raw["snapshots"][0], {**new.raw["snapshots"][1], "summary": summary}],
        refs=new.raw["refs"],
        current_snapshot_id=2,
        last_sequence_number=2,
    )
    manual.point(wrong, world_location)
    assert manual.failure == "snapshot-adds-its-own: wish 2 has 2 files, and says 7"


def moved(before: TableMetadata, after: TableMetadata, listed: dict[int, set[int]], process: str = "w1") -> View:
    """A move of ours between two states; listed: what the lists of snapshots say."""
    held = {id_: Contents(numbers=frozenset(numbers)) for id_, numbers in listed.items()}
    then, now = ObservedTable("file:/a", before), ObservedTable("file:/b", after, held=held)
    step = RowChange(TABLE, "file:/b", "file:/a", "file:/a", process)
    return View(now, (now,), History(), before=then, row_change=step, ours=frozenset(("w1",)))


@pytest.mark.parametrize(
    ("changes", "listed", "found"),
    [
        ({}, {2}, None),
        ({}, {1}, "snapshot 2 has number 2 of 2, its list [1]"),
        ({"sequence-number": 1}, {1}, "snapshot 2 has sequence number 1, and the last one was 1"),
        ({"sequence-number": 3}, {3}, "snapshot 2 has number 3 of 2, its list [3]"),
    ],
)
def test_sequence_numbers_rise_and_the_list_says_the_same(
    changes: dict[str, int], listed: set[int], found: str | None
) -> None:
    manual = appended(1)
    before = manual.metadata()
    manual.append(2)
    after = with_snapshot(manual.metadata(), 2, **changes)
    assert sequence_numbers_unique(moved(before, after, {1: {1}, 2: listed})) == found
    if found is not None and "before" in found:
        assert sequence_numbers_unique(moved(before, after, {1: {1}, 2: listed}, process="locker1")) is None


@pytest.mark.parametrize(
    ("snapshots", "manifests", "seen"),
    [
        (((0, 10), (10, 10)), ((0, 10, "a"), (10, 20, "b")), False),
        (((0, 10), (9, 10)), (), True),
        ((), ((0, 10, "a"), (9, 20, "b")), True),
        ((), ((0, 10, "a"), (0, 10, "b")), True),
        (((0, 10), (10, 21)), (), True),
        ((), ((0, 10, "a"), (10, 31, "b")), True),
        ((), (), False),
    ],
)
def test_row_ids_that_are_given_twice_or_beyond_the_next_are_seen(
    snapshots: tuple[tuple[int, int], ...], manifests: tuple[tuple[int, int, str], ...], seen: bool
) -> None:
    metadata = empty_table("u", {"format-version": "3"}, EPOCH_MS).replace(
        next_row_id=30,
        snapshots=[
            {"snapshot-id": index, "timestamp-ms": 1, "first-row-id": first, "added-rows": rows}
            for index, (first, rows) in enumerate(snapshots)
        ],
    )
    state = ObservedTable("file:/m", metadata, held={1: replace(Contents(), row_ids=manifests)})
    assert (row_ids_unique(View(state, (state,), History())) is not None) is seen
