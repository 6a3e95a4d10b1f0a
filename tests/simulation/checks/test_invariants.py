from __future__ import annotations

import pytest

from iceberg_hms.changes import updates
from simulation.actors import requests
from simulation.checks.contents import ContentsReader
from simulation.checks.invariants import INVARIANTS, broken
from simulation.checks.observed_table import ObservedTable
from simulation.engine.runtime import EPOCH_MS
from simulation.world.first_table import empty_table
from simulation.world.history import Answer, Kind, MoveKind
from simulation.world.metastore import LockRow, SwapSupport
from simulation.world.site import TABLE
from tests.simulation.worlds import OTHER, World


def names(world: World) -> str:
    return (world.failure or "").partition(":")[0]


def test_a_good_life_breaks_nothing() -> None:
    world = World()
    first, second = world.attempt(1), world.attempt(2)
    world.append(1)
    world.tell(first, Answer.COMMITTED)
    old = world.location
    world.append(2)
    world.tell(second, Answer.COMMITTED)
    world.storage.delete("file:/t/data/of-nobody.parquet")
    world.rest()
    assert world.failure is None
    assert old in ObservedTable.read(ContentsReader(world.storage), world.location).needed


def test_a_pointer_to_a_file_that_is_not_there_is_seen() -> None:
    world = World()
    world.move("file:/t/metadata/nowhere.metadata.json")
    assert names(world) == "pointer-is-whole"


@pytest.mark.parametrize("kind", ["lists", "manifests"])
def test_a_pointer_to_metadata_that_names_a_missing_list_or_manifest_is_seen(kind: str) -> None:
    world = World()
    world.append(1)
    getattr(world.storage.store, kind).clear()
    world.update(world.mark("x"))
    assert names(world) == "pointer-is-whole"


def test_a_missing_data_file_is_seen() -> None:
    world = World()
    world.append(1)
    world.storage.data.clear()
    world.update(world.mark("x"))
    assert names(world) == "pointer-is-whole"


def test_an_acknowledged_change_that_a_swap_takes_away_is_seen() -> None:
    world = World()
    first = world.location
    mine = world.attempt(1)
    world.append(1)
    world.tell(mine, Answer.COMMITTED)
    assert world.failure is None
    world.update(world.mark("x"), base=first, process="stranger")
    assert world.failure == "acknowledged-is-there: wish 1 was acknowledged, and is not in 00002-x.metadata.json"


def test_an_acknowledgement_of_what_is_not_there_is_seen() -> None:
    world = World()
    world.tell(world.attempt(1), Answer.COMMITTED)
    assert names(world) == "acknowledged-is-there"


def test_an_acknowledged_tag_that_names_another_snapshot_is_seen() -> None:
    world = World()
    world.append(1)
    tag = world.attempt(2, snapshot_id=None, data_file=None, mark="m", ref=("release", 1))
    world.update(world.mark("m"), updates.set_snapshot_ref("release", 1, kind="tag"))
    world.tell(tag, Answer.COMMITTED)
    assert world.failure is None
    world.append(3)
    world.update(updates.set_snapshot_ref("release", 3, kind="tag"))
    assert names(world) == "acknowledged-is-there"


def test_whose_change_is_not_promised_to_be_kept_may_be_lost() -> None:
    world = World(kept=frozenset((Kind.OURS,)))
    first = world.location
    theirs = world.attempt(1, kind=Kind.SWAPPED)
    world.append(1, process="swapper1")
    world.tell(theirs, Answer.COMMITTED)
    world.update(world.mark("x"), base=first, process="locker1")
    assert world.failure is None


def test_one_wish_fulfilled_by_two_attempts_is_seen() -> None:
    world = World()
    world.attempt(1).wish = world.attempt(2).wish = "one wish"
    world.append(1)
    assert world.failure is None
    world.append(2)
    assert names(world) == "nothing-twice"


def test_a_job_that_runs_again_after_its_history_was_replaced_is_in_the_table_once() -> None:
    """a writer's swap lands, and the writer is killed | the table is replaced | the job runs again under its key"""
    world = World(movers=1)
    first, again = world.attempt(1), world.attempt(2)
    first.wish = again.wish = "w2.1"
    world.append(1)
    world.attempt(9, snapshot_id=None, data_file=None, mark="replaced", replaces=True)
    world.update(requests.remove_snapshot_ref("main"), world.mark("replaced"))
    world.append(2)
    assert world.failure is None
    # A branch that still has the first one makes it two.
    world.update(updates.set_snapshot_ref("audit", 1, kind="branch"))
    assert names(world) == "nothing-twice"


def test_a_refused_change_that_is_there_later_is_seen() -> None:
    world = World()
    world.tell(world.attempt(1), Answer.FAILED)
    assert world.failure is None
    world.append(1)
    assert names(world) == "refused-is-absent"


def test_a_refusal_of_what_is_there_already_is_seen() -> None:
    world = World()
    mine = world.attempt(1)
    world.append(1)
    world.tell(mine, Answer.FAILED)
    assert names(world) == "refused-is-absent"


def test_a_failure_after_unknown_proves_nothing_and_is_not_held_against_the_table() -> None:
    world = World()
    mine = world.attempt(1)
    world.tell(mine, Answer.UNKNOWN)
    world.tell(mine, Answer.FAILED)
    world.append(1)
    assert world.failure is None


def test_a_refusal_of_what_was_sent_again_and_is_there_is_seen() -> None:
    world = World()
    mine = world.attempt(1, told=Answer.UNKNOWN)
    mine.denied = True
    world.tell(mine, Answer.FAILED)
    assert world.failure is None
    world.append(1)
    assert names(world) == "resent-is-known"


def test_a_file_that_is_refused_because_the_table_has_it_and_is_not_there_is_seen() -> None:
    world = World()
    world.append(1)
    twin = world.attempt(2, data_file="file:/t/data/1.parquet")
    twin.said_there = True
    world.tell(twin, Answer.FAILED)
    assert world.failure is None, "the file is there, by another snapshot"
    other = world.attempt(3)
    other.said_there = True
    world.tell(other, Answer.FAILED)
    assert names(world) == "duplicate-is-there"


def test_our_swap_that_does_not_follow_what_it_replaces_is_seen() -> None:
    world = World()
    first = world.location
    world.append(1)
    world.append(2, base=first)
    assert (
        world.failure
        == "one-chain: 00002-x.metadata.json follows 00000-first.metadata.json, and replaced 00001-x.metadata.json"
    )


def test_a_snapshot_beside_main_is_seen() -> None:
    world = World()
    world.append(1)
    world.append(2)
    world.update(updates.set_snapshot_ref("main", 1))
    assert names(world) == "one-chain"


def test_a_branch_with_a_gap_is_seen() -> None:
    world = World()
    world.append(1)
    world.append(2)
    metadata = world.metadata()
    world.point(metadata.replace(snapshots=metadata.raw["snapshots"][1:]), world.location)
    assert names(world) == "one-chain"


def test_a_change_that_lands_where_its_assumption_does_not_hold_is_seen() -> None:
    world = World()
    world.append(1)
    world.attempt(9, snapshot_id=None, data_file=None, mark="m", assumes_main=(True, None))
    world.update(world.mark("m"))
    assert world.failure == "assumption-held: wish 9 assumed None on main, and landed on 1"


def test_the_deletion_of_a_needed_file_is_seen() -> None:
    world = World()
    world.append(1)
    world.storage.delete("file:/t/data/1.parquet")
    assert names(world) == "nothing-needed-deleted"


def test_the_deletion_of_a_file_of_the_metadata_log_is_seen() -> None:
    world = World()
    first = world.location
    world.append(1)
    world.storage.delete(first)
    assert names(world) == "nothing-needed-deleted"


def test_a_client_that_waits_for_ever_is_seen() -> None:
    world = World()
    world.attempt(1)
    world.rest()
    assert world.failure == "answered: no answer to wish 1"


def test_a_lock_that_nobody_gave_back_is_seen() -> None:
    world = World()
    world.schedule.metastore.locks.append(LockRow(1, TABLE, "r", "w1", 0.0))
    world.rest()
    assert names(world) == "lock-given-back"


def test_a_failure_where_nothing_went_wrong_is_seen() -> None:
    world = World(all_commit=True)
    world.tell(world.attempt(1), Answer.FAILED)
    world.rest()
    assert names(world) == "all-committed"


def test_a_pointer_name_that_comes_back_is_seen() -> None:
    world = World()
    first = world.location
    world.append(1, process="stranger")
    world.move(first, process="stranger")
    assert names(world) == "pointer-names-are-new"


def test_a_swap_to_another_table_is_seen_unless_it_registers_that_one_over() -> None:
    uuid = "11111111-1111-4111-8111-111111111111"
    other = empty_table(uuid, {}, EPOCH_MS)
    world = World(movers=1)
    world.mover(MoveKind.OVERWRITE, "mover1")
    world.point(other, world.location, process="mover1")
    assert world.failure is None
    world.point(world.metadata().replace(**{"table-uuid": "2" + uuid[1:]}), world.location, process="w1")
    assert names(world) == "same-table"


def test_a_move_that_was_made_and_is_answered_as_failed_is_seen() -> None:
    world = World(movers=1)
    move = world.mover(MoveKind.RENAME, "mover1")
    world.rename("mover1")
    world.history.tell_move(move, Answer.UNKNOWN)
    assert world.failure is None
    world.history.tell_move(move, Answer.FAILED)
    assert names(world) == "move-told-truly"


def test_a_failed_move_that_is_made_later_is_seen() -> None:
    world = World(movers=1)
    world.history.tell_move(world.mover(MoveKind.DROP, "mover1"), Answer.FAILED)
    assert world.failure is None
    world.drop("mover1")
    world.tell(world.attempt(1), Answer.FAILED)
    assert names(world) == "move-told-truly"


def test_an_acknowledged_move_that_was_not_made_is_seen() -> None:
    for kind in (MoveKind.RENAME, MoveKind.DROP, MoveKind.PURGE, MoveKind.CREATE, MoveKind.OVERWRITE):
        world = World(movers=1)
        world.history.tell_move(world.mover(kind, "mover1"), Answer.COMMITTED)
        assert names(world) == "move-told-truly"


def test_a_drop_may_be_acknowledged_when_somebody_else_took_the_name_away() -> None:
    for take_away in (World.drop, World.rename):
        world = World(movers=2)
        move = world.mover(MoveKind.DROP, "mover1")
        take_away(world, "mover2")
        world.history.tell_move(move, Answer.COMMITTED)
        assert world.failure is None


def test_an_acknowledged_change_is_in_the_renamed_table() -> None:
    world = World(movers=1)
    before = world.location
    mine = world.attempt(1)
    world.append(1)
    world.tell(mine, Answer.COMMITTED)
    world.mover(MoveKind.RENAME, "mover1")
    world.rename("mover1")
    assert world.failure is None
    world.update(world.mark("x"), base=before, process="mover1", table=OTHER)
    assert names(world) == "acknowledged-is-there"


def test_a_rename_that_writes_an_older_row_back_is_seen() -> None:
    world = World(movers=1, verdict=SwapSupport.IGNORED)
    before = world.location
    mine = world.attempt(1)
    world.append(1)
    world.tell(mine, Answer.COMMITTED)
    world.rename("mover1", location=before)
    assert names(world) == "acknowledged-is-there"


def test_a_dropped_or_replaced_table_takes_its_changes_along() -> None:
    for kind in (MoveKind.DROP, MoveKind.OVERWRITE):
        world = World(movers=1)
        before = world.metadata()
        mine = world.attempt(1)
        world.append(1)
        world.tell(mine, Answer.COMMITTED)
        world.mover(kind, "mover1")
        if kind is MoveKind.DROP:
            world.drop("mover1")
        else:
            world.point(before, "file:/t/metadata/older.metadata.json", process="mover1")
        world.rest()
        assert world.failure is None


def test_a_change_that_was_answered_as_failed_and_was_in_a_table_that_is_gone_is_seen() -> None:
    world = World(movers=1)
    mine = world.attempt(1)
    world.append(1)
    world.drop("mover1")
    world.tell(mine, Answer.FAILED)
    assert names(world) == "refused-is-absent"


def test_the_deletion_of_a_file_of_a_table_that_was_renamed_is_seen() -> None:
    world = World(movers=1)
    world.append(1)
    world.rename("mover1")
    world.storage.delete("file:/t/data/1.parquet")
    assert names(world) == "nothing-needed-deleted"


def test_the_files_of_a_dropped_table_stay_unless_it_was_dropped_to_be_purged() -> None:
    for kind, seen in ((MoveKind.DROP, "nothing-needed-deleted"), (MoveKind.PURGE, "")):
        world = World(movers=1)
        world.append(1)
        world.mover(kind, "mover1")
        world.drop("mover1")
        world.storage.delete("file:/t/data/1.parquet")
        assert names(world) == seen


def test_a_sound_change_that_is_called_malformed_is_seen() -> None:
    world = World()
    world.attempt(1).blamed = True
    world.tell(world.history.attempts[0], Answer.FAILED)
    assert names(world) == "sound-is-sound"


def test_a_change_that_may_not_be_rebased_lands_on_what_its_client_saw() -> None:
    for seen, found in (([None], "assumption-held"), ([None, 1], "")):
        world = World()
        world.append(1)
        world.attempt(2, stays=True, seen=seen)
        world.append(2)
        assert names(world) == found


def test_what_cannot_be_applied_and_what_is_moot_may_fail_in_any_weather() -> None:
    world = World(all_commit=True)
    world.tell(world.attempt(1, mark="m"), Answer.FAILED)
    world.tell(world.attempt(2, moot=True), Answer.FAILED)
    world.rest()
    assert world.failure is None


def test_every_invariant_is_shown_red_in_a_test() -> None:
    elsewhere = {invariant.name for invariant in INVARIANTS if invariant.predicate.__module__ != broken.__module__}
    shown = elsewhere | {
        "pointer-is-whole",
        "acknowledged-is-there",
        "nothing-twice",
        "sound-is-sound",
        "refused-is-absent",
        "resent-is-known",
        "duplicate-is-there",
        "one-chain",
        "assumption-held",
        "pointer-names-are-new",
        "same-table",
        "move-told-truly",
        "nothing-needed-deleted",
        "answered",
        "lock-given-back",
        "all-committed",
    }
    assert {invariant.name for invariant in INVARIANTS} == shown
