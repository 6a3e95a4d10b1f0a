from __future__ import annotations

from dataclasses import replace
from typing import Any

from simulation.checks.observed_table import ObservedTable
from simulation.checks.snapshots import history_is_sound
from simulation.checks.view import View
from simulation.world.cluster import TABLE
from simulation.world.history import History
from simulation.world.metastore import RowChange
from tests.simulation.manual_schedule import ManualSchedule


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
    assert manual.failure == "history-is-sound: TOTALS: snapshot 2 says total-data-files=7, its manifests make 2"


def test_numbers_that_do_not_rise_are_seen() -> None:
    manual = appended(1, 2)
    again = [{**each, "sequence-number": 1} for each in manual.metadata().raw["snapshots"]]
    manual.point(manual.metadata().replace(snapshots=again), manual.location, process="stranger")
    assert manual.failure == "history-is-sound: CHAIN: main: 1 -> 2: number 1 is followed by 1"


def test_a_list_that_contradicts_its_manifests_is_seen() -> None:
    manual = appended(1)
    manual.attempt(2)
    lists = manual.storage.store.lists

    def on_write() -> None:
        location = list(lists)[-1]
        lists[location] = tuple(replace(each, sequence_number=1) for each in lists[location])

    manual.before_the_move = on_write
    manual.append(2)
    assert (manual.failure or "").startswith("history-is-sound: LIST: snapshot 2 has number 2, its manifest ")


def test_row_ids_that_are_given_twice_are_seen() -> None:
    manual = ManualSchedule(properties={"format-version": "3"})
    manual.append(1)
    manual.append(2)
    assert manual.failure is None
    again = [{**each, "first-row-id": 0} for each in manual.metadata().raw["snapshots"]]
    manual.point(manual.metadata().replace(snapshots=again), manual.location, process="stranger")
    assert manual.failure == "history-is-sound: ROW_IDS: snapshot 1 and snapshot 2 both have row 0"


def test_our_swap_that_does_not_follow_what_it_replaces_is_seen() -> None:
    manual = ManualSchedule()
    first = manual.location
    manual.append(1)
    manual.append(2, base=first)
    assert manual.failure == (
        "history-is-sound: LOG: 00001-x.metadata.json -> 00002-x.metadata.json: "
        "the later file's log ends in 00000-first.metadata.json"
    )


def test_a_swap_of_another_or_without_knowledge_of_what_it_replaces_need_not_follow_it() -> None:
    for process, changes in (("locker1", {}), ("w1", {"slept_past_lease": True}), ("w1", {"replaced_unseen": True})):
        manual = ManualSchedule()
        first = manual.location
        manual.append(1)
        metadata = manual.metadata(first).with_metadata_log_entry(first, 1)
        then, now = (ObservedTable(location, metadata) for location in (manual.location, "file:/t/metadata/n.json"))
        step = RowChange(TABLE, now.location, then.location, then.location, process, **changes)
        view = View(now, (now,), History(), before=then, row_change=step, ours=frozenset(("w1",)))
        assert history_is_sound(view) is None
        assert history_is_sound(replace(view, row_change=replace(step, process="w1", **dict.fromkeys(changes, False))))
