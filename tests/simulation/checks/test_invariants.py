from __future__ import annotations

import pytest

from iceberg_hms.changes import updates
from simulation.actors import requests
from simulation.checks.contents import ContentsReader
from simulation.checks.invariants import INVARIANTS, broken
from simulation.checks.observed_table import ObservedTable
from simulation.engine.runtime import EPOCH_MS
from simulation.world.cluster import TABLE
from simulation.world.first_table import empty_table
from simulation.world.history import Answer, CatalogCallKind, WriterKind
from simulation.world.metastore import METADATA_LOCATION, iceberg_row
from simulation.world.metastore_handler import SwapSupport
from tests.simulation.manual_schedule import OTHER, ManualSchedule


def names(manual: ManualSchedule) -> str:
    return (manual.failure or "").partition(":")[0]


def test_a_good_life_breaks_nothing() -> None:
    manual = ManualSchedule()
    first, second = manual.attempt(1), manual.attempt(2)
    manual.append(1)
    manual.record_answer(first, Answer.COMMITTED)
    old = manual.location
    manual.append(2)
    manual.record_answer(second, Answer.COMMITTED)
    manual.storage.delete("file:/t/data/of-nobody.parquet")
    manual.rest()
    assert manual.failure is None
    assert old in ObservedTable.read(ContentsReader(manual.storage), manual.location).needed


def test_a_pointer_to_a_file_that_is_not_there_is_seen() -> None:
    manual = ManualSchedule()
    manual.move("file:/t/metadata/nowhere.metadata.json")
    assert names(manual) == "pointer-is-whole"


@pytest.mark.parametrize("kind", ["lists", "manifests"])
def test_a_pointer_to_metadata_that_names_a_missing_list_or_manifest_is_seen(kind: str) -> None:
    manual = ManualSchedule()
    manual.append(1)
    getattr(manual.storage.store, kind).clear()
    manual.update(manual.mark("x"))
    assert names(manual) == "pointer-is-whole"


def test_a_missing_data_file_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.storage.data.clear()
    manual.update(manual.mark("x"))
    assert names(manual) == "pointer-is-whole"


def test_an_acknowledged_change_that_a_swap_takes_away_is_seen() -> None:
    manual = ManualSchedule()
    first = manual.location
    mine = manual.attempt(1)
    manual.append(1)
    manual.record_answer(mine, Answer.COMMITTED)
    assert manual.failure is None
    manual.update(manual.mark("x"), base=first, process="stranger")
    assert manual.failure == "acknowledged-is-there: wish 1 was acknowledged, and is not in 00002-x.metadata.json"


def test_an_acknowledgement_of_what_is_not_there_is_seen() -> None:
    manual = ManualSchedule()
    manual.record_answer(manual.attempt(1), Answer.COMMITTED)
    assert names(manual) == "acknowledged-is-there"


def test_an_acknowledged_tag_that_names_another_snapshot_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    tag = manual.attempt(2, snapshot_id=None, data_file=None, mark="m", ref=("release", 1))
    manual.update(manual.mark("m"), updates.set_snapshot_ref("release", 1, kind="tag"))
    manual.record_answer(tag, Answer.COMMITTED)
    assert manual.failure is None
    manual.append(3)
    manual.update(updates.set_snapshot_ref("release", 3, kind="tag"))
    assert names(manual) == "acknowledged-is-there"


def test_whose_change_is_not_promised_to_be_kept_may_be_lost() -> None:
    manual = ManualSchedule(protected=frozenset((WriterKind.OURS,)))
    first = manual.location
    theirs = manual.attempt(1, kind=WriterKind.SWAPPED)
    manual.append(1, process="swapper1")
    manual.record_answer(theirs, Answer.COMMITTED)
    manual.update(manual.mark("x"), base=first, process="locker1")
    assert manual.failure is None


def test_one_wish_fulfilled_by_two_attempts_is_seen() -> None:
    manual = ManualSchedule()
    manual.attempt(1).operation = manual.attempt(2).operation = "one wish"
    manual.append(1)
    assert manual.failure is None
    manual.append(2)
    assert names(manual) == "nothing-twice"


def test_a_job_that_runs_again_after_its_history_was_replaced_is_in_the_table_once() -> None:
    """a writer's swap lands, and the writer is killed | the table is replaced | the job runs again under its key"""
    manual = ManualSchedule(catalog_callers=1)
    first, again = manual.attempt(1), manual.attempt(2)
    first.operation = again.operation = "w2.1"
    manual.append(1)
    manual.attempt(9, snapshot_id=None, data_file=None, mark="replaced", replaces=True)
    manual.update(requests.remove_snapshot_ref("main"), manual.mark("replaced"))
    manual.append(2)
    assert manual.failure is None
    # A branch that still has the first one makes it two.
    manual.update(updates.set_snapshot_ref("audit", 1, kind="branch"))
    assert names(manual) == "nothing-twice"


def test_a_refused_change_that_is_there_later_is_seen() -> None:
    manual = ManualSchedule()
    manual.record_answer(manual.attempt(1), Answer.FAILED)
    assert manual.failure is None
    manual.append(1)
    assert names(manual) == "refused-is-absent"


def test_a_refusal_of_what_is_there_already_is_seen() -> None:
    manual = ManualSchedule()
    mine = manual.attempt(1)
    manual.append(1)
    manual.record_answer(mine, Answer.FAILED)
    assert names(manual) == "refused-is-absent"


def test_a_refusal_after_an_unknown_answer_is_held_against_the_table() -> None:
    manual = ManualSchedule()
    mine = manual.attempt(1)
    manual.record_answer(mine, Answer.UNKNOWN)
    manual.record_answer(mine, Answer.FAILED)
    manual.append(1)
    assert names(manual) == "refused-is-absent"


def test_a_refusal_of_a_job_that_ran_before_and_is_there_is_seen() -> None:
    manual = ManualSchedule()
    first, again = manual.attempt(1, answer=Answer.UNKNOWN), manual.attempt(2)
    again.operation = first.operation
    again.refused_while_present = True
    manual.record_answer(again, Answer.FAILED)
    assert manual.failure is None
    manual.append(1)
    assert names(manual) == "resent-is-recognized"


def test_a_file_that_is_refused_because_the_table_has_it_and_is_not_there_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    twin = manual.attempt(2, data_file="file:/t/data/1.parquet")
    twin.refused_as_duplicate = True
    manual.record_answer(twin, Answer.FAILED)
    assert manual.failure is None, "the file is there, by another snapshot"
    other = manual.attempt(3)
    other.refused_as_duplicate = True
    manual.record_answer(other, Answer.FAILED)
    assert names(manual) == "duplicate-is-there"


def test_a_snapshot_beside_main_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.append(2)
    manual.update(updates.set_snapshot_ref("main", 1))
    assert names(manual) == "one-chain"


def test_a_branch_with_a_gap_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.append(2)
    metadata = manual.metadata()
    manual.point(metadata.replace(snapshots=metadata.raw["snapshots"][1:]), manual.location)
    assert names(manual) == "one-chain"


def test_a_change_that_lands_where_its_assumption_does_not_hold_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.attempt(9, snapshot_id=None, data_file=None, mark="m", requires_main=(True, None))
    manual.update(manual.mark("m"))
    assert manual.failure == "requirement-held: wish 9 requires None on main, and landed on 1"


def test_a_transaction_of_which_a_part_lands_is_seen() -> None:
    manual = ManualSchedule()
    manual.attempt(1, committed_with=manual.attempt(2))
    manual.append(1)
    assert names(manual) == "lands-whole"


def test_the_deletion_of_a_needed_file_is_seen() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.storage.delete("file:/t/data/1.parquet")
    assert names(manual) == "nothing-needed-deleted"


def test_the_deletion_of_a_file_of_the_metadata_log_is_seen() -> None:
    manual = ManualSchedule()
    first = manual.location
    manual.append(1)
    manual.storage.delete(first)
    assert names(manual) == "nothing-needed-deleted"


def test_a_client_that_waits_for_ever_is_seen() -> None:
    manual = ManualSchedule()
    manual.attempt(1)
    manual.rest()
    assert manual.failure == "every-client-answered: no answer to wish 1"


def test_a_lock_that_nobody_gave_back_is_seen() -> None:
    manual = ManualSchedule()
    manual.schedule.metastore.locks.enqueue(TABLE, "r", "w1")
    manual.rest()
    assert names(manual) == "lock-released"


def test_a_failure_where_nothing_went_wrong_is_seen() -> None:
    manual = ManualSchedule(all_commit=True)
    manual.record_answer(manual.attempt(1), Answer.FAILED)
    manual.rest()
    assert names(manual) == "all-committed"


def test_a_pointer_name_that_comes_back_is_seen() -> None:
    manual = ManualSchedule()
    first = manual.location
    manual.append(1, process="stranger")
    manual.move(first, process="stranger")
    assert names(manual) == "locations-never-reused"


@pytest.mark.parametrize("registered", ["first", "another"])
def test_a_pointer_name_may_come_back_where_a_caller_registered_what_its_swap_expects(registered: str) -> None:
    """a swap | the table is dropped, and a file of it registered | the same swap once more"""
    manual = ManualSchedule(catalog_callers=2)
    first = manual.location
    second = manual.append(1, process="stranger")
    manual.caller(CatalogCallKind.DROP, "caller1")
    manual.drop("caller1")
    manual.caller(CatalogCallKind.REGISTER, "caller2")
    location = first if registered == "first" else "file:/t/metadata/another.metadata.json"
    manual.storage.files[location] = manual.storage.files[first]
    manual.schedule.metastore.insert(TABLE, iceberg_row(TABLE, {METADATA_LOCATION: location}), process="caller2")
    assert manual.failure is None
    manual.move(second, process="stranger")
    if registered == "first":
        assert manual.failure is None
    else:
        assert names(manual) == "locations-never-reused"


def test_a_swap_to_another_table_is_seen_unless_it_registers_that_one_over() -> None:
    uuid = "11111111-1111-4111-8111-111111111111"
    other = empty_table(uuid, {}, EPOCH_MS)
    manual = ManualSchedule(catalog_callers=1)
    manual.caller(CatalogCallKind.OVERWRITE, "caller1")
    manual.point(other, manual.location, process="caller1")
    assert manual.failure is None
    manual.point(manual.metadata().replace(**{"table-uuid": "2" + uuid[1:]}), manual.location, process="w1")
    assert names(manual) == "same-table"


def test_a_move_that_was_made_and_is_answered_as_failed_is_seen() -> None:
    manual = ManualSchedule(catalog_callers=1)
    move = manual.caller(CatalogCallKind.RENAME, "caller1")
    manual.rename("caller1")
    manual.history.record_catalog_answer(move, Answer.UNKNOWN)
    assert manual.failure is None
    manual.history.record_catalog_answer(move, Answer.FAILED)
    assert names(manual) == "catalog-answer-is-true"


def test_a_failed_move_that_is_made_later_is_seen() -> None:
    manual = ManualSchedule(catalog_callers=1)
    manual.history.record_catalog_answer(manual.caller(CatalogCallKind.DROP, "caller1"), Answer.FAILED)
    assert manual.failure is None
    manual.drop("caller1")
    manual.record_answer(manual.attempt(1), Answer.FAILED)
    assert names(manual) == "catalog-answer-is-true"


def test_an_acknowledged_move_that_was_not_made_is_seen() -> None:
    for kind in (
        CatalogCallKind.RENAME,
        CatalogCallKind.DROP,
        CatalogCallKind.PURGE,
        CatalogCallKind.CREATE,
        CatalogCallKind.OVERWRITE,
    ):
        manual = ManualSchedule(catalog_callers=1)
        manual.history.record_catalog_answer(manual.caller(kind, "caller1"), Answer.COMMITTED)
        assert names(manual) == "catalog-answer-is-true"


def test_a_drop_may_be_acknowledged_when_somebody_else_took_the_name_away() -> None:
    for take_away in (ManualSchedule.drop, ManualSchedule.rename):
        manual = ManualSchedule(catalog_callers=2)
        move = manual.caller(CatalogCallKind.DROP, "caller1")
        take_away(manual, "caller2")
        manual.history.record_catalog_answer(move, Answer.COMMITTED)
        assert manual.failure is None


def test_an_acknowledged_change_is_in_the_renamed_table() -> None:
    manual = ManualSchedule(catalog_callers=1)
    before = manual.location
    mine = manual.attempt(1)
    manual.append(1)
    manual.record_answer(mine, Answer.COMMITTED)
    manual.caller(CatalogCallKind.RENAME, "caller1")
    manual.rename("caller1")
    assert manual.failure is None
    manual.update(manual.mark("x"), base=before, process="caller1", table=OTHER)
    assert names(manual) == "acknowledged-is-there"


def test_a_rename_that_writes_an_older_row_back_is_seen() -> None:
    manual = ManualSchedule(catalog_callers=1, swap_support=SwapSupport.IGNORED)
    before = manual.location
    mine = manual.attempt(1)
    manual.append(1)
    manual.record_answer(mine, Answer.COMMITTED)
    manual.rename("caller1", location=before)
    assert names(manual) == "acknowledged-is-there"


def test_a_dropped_or_replaced_table_takes_its_changes_along() -> None:
    for kind in (CatalogCallKind.DROP, CatalogCallKind.OVERWRITE):
        manual = ManualSchedule(catalog_callers=1)
        before = manual.metadata()
        mine = manual.attempt(1)
        manual.append(1)
        manual.record_answer(mine, Answer.COMMITTED)
        manual.caller(kind, "caller1")
        if kind is CatalogCallKind.DROP:
            manual.drop("caller1")
        else:
            manual.point(before, "file:/t/metadata/older.metadata.json", process="caller1")
        manual.rest()
        assert manual.failure is None


def test_a_change_that_was_answered_as_failed_and_was_in_a_table_that_is_gone_is_seen() -> None:
    manual = ManualSchedule(catalog_callers=1)
    mine = manual.attempt(1)
    manual.append(1)
    manual.drop("caller1")
    manual.record_answer(mine, Answer.FAILED)
    assert names(manual) == "refused-is-absent"


def test_the_deletion_of_a_file_of_a_table_that_was_renamed_is_seen() -> None:
    manual = ManualSchedule(catalog_callers=1)
    manual.append(1)
    manual.rename("caller1")
    manual.storage.delete("file:/t/data/1.parquet")
    assert names(manual) == "nothing-needed-deleted"


def test_the_files_of_a_dropped_table_stay_unless_it_was_dropped_to_be_purged() -> None:
    for kind, seen in ((CatalogCallKind.DROP, "nothing-needed-deleted"), (CatalogCallKind.PURGE, "")):
        manual = ManualSchedule(catalog_callers=1)
        manual.append(1)
        manual.caller(kind, "caller1")
        manual.drop("caller1")
        manual.storage.delete("file:/t/data/1.parquet")
        assert names(manual) == seen


def test_a_sound_change_that_is_called_malformed_is_seen() -> None:
    manual = ManualSchedule()
    manual.attempt(1).called_invalid = True
    manual.record_answer(manual.history.attempts[0], Answer.FAILED)
    assert names(manual) == "valid-not-called-invalid"


def test_a_change_that_may_not_be_rebased_lands_on_what_its_client_saw() -> None:
    for seen, found in (([None], "requirement-held"), ([None, 1], "")):
        manual = ManualSchedule()
        manual.append(1)
        manual.attempt(2, never_rebased=True, parents_seen=seen)
        manual.append(2)
        assert names(manual) == found


def test_what_cannot_be_applied_and_what_is_moot_may_fail_in_any_weather() -> None:
    manual = ManualSchedule(all_commit=True)
    manual.record_answer(manual.attempt(1, mark="m"), Answer.FAILED)
    manual.record_answer(manual.attempt(2, obsolete=True), Answer.FAILED)
    manual.rest()
    assert manual.failure is None


def test_every_invariant_is_shown_red_in_a_test() -> None:
    elsewhere = {invariant.name for invariant in INVARIANTS if invariant.predicate.__module__ != broken.__module__}
    shown = elsewhere | {
        "pointer-is-whole",
        "acknowledged-is-there",
        "nothing-twice",
        "valid-not-called-invalid",
        "refused-is-absent",
        "resent-is-recognized",
        "duplicate-is-there",
        "one-chain",
        "requirement-held",
        "lands-whole",
        "locations-never-reused",
        "same-table",
        "catalog-answer-is-true",
        "nothing-needed-deleted",
        "every-client-answered",
        "lock-released",
        "all-committed",
    }
    assert {invariant.name for invariant in INVARIANTS} == shown
