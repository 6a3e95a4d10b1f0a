from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.protocol.replaced_lists import READ_MAX
from simulation.world.fault_plan import FaultPlan
from simulation.world.history import Answer, CommitCall, FailedCall, Held
from tests.simulation.worlds import World

LIST = "file:/t/metadata/snap-left.avro"
MANIFEST = "file:/t/metadata/left-m0.avro"
#: Whatever the defaults are.
SETTINGS = {
    "retry_priority_max_wait_ms": 1_000,
    "retry_priority_max_hold_ms": 4_000,
    "retry_priority_max_share_percent": 50,
    "foreign_writer_max_wait_ms": 1_000,
    "foreign_writer_max_share_percent": 20,
    "replaced_list_age_ms": 600_000,
}


def names(world: World) -> str:
    return (world.failure or "").partition(":")[0]


def pass_time(world: World, seconds: float) -> None:
    world.schedule.scheduler.now += seconds


def two_in_the_queue(**late: Any) -> tuple[World, CommitCall, CommitCall]:
    world = World(in_order=True, settings=SETTINGS)
    early = world.attempt(1, seen=[None], sent=[0.1])
    return world, early, world.attempt(2, seen=[None], ahead=(), **late)


def test_a_change_that_overtakes_one_that_stood_before_it_is_seen() -> None:
    world, early, late = two_in_the_queue()
    early.ahead = ((late, 1),)
    world.append(1)
    assert world.failure is None
    world.append(2)
    seen = "wish 2 stood before wish 1 in the queue, and came into the table after it"
    assert world.failure == f"first-come-first-served: {seen}"


@pytest.mark.parametrize("excuse", ["a turn", "it came anew", "nothing"])
def test_who_has_a_turn_and_who_came_anew_may_be_served_out_of_turn(excuse: str) -> None:
    world, early, late = two_in_the_queue()
    early.ahead = ((late, 1),)
    if excuse == "a turn":
        early.lost.append(0.05)
    elif excuse == "it came anew":
        late.seen.append(None)
    world.append(1)
    world.append(2)
    assert names(world) == ("first-come-first-served" if excuse == "nothing" else "")


def test_a_client_that_waits_for_longer_than_a_turn_and_a_rest_is_seen() -> None:
    for waited, seen in ((6.9, ""), (7.1, "served-in-time")):
        world = World(in_order=True, settings=SETTINGS)
        world.tell(world.attempt(1, waited=waited), Answer.FAILED)
        world.rest()
        assert names(world) == seen


@pytest.mark.parametrize(
    ("left", "after", "seen"),
    [
        (None, 0.0, "has it in its hands"),
        (0.0, 599.0, "is deleted 599.0 s after wish 1 was committed with another one"),
        (0.0, 600.0, ""),
    ],
)
def test_a_client_s_list_that_is_deleted_too_early_is_seen(left: float | None, after: float, seen: str) -> None:
    world = World(settings=SETTINGS)
    world.storage.store.lists[LIST] = ()
    world.attempt(1, lists={LIST}, left=left)
    pass_time(world, after)
    world.storage.delete(LIST)
    assert (world.failure or "").endswith(seen)
    assert names(world) == ("list-left-in-peace" if seen else "")


@pytest.mark.parametrize(
    ("is_merged", "left", "seen"),
    [
        (False, 0.0, "is deleted, and wish 1 may have been handed it"),
        (True, None, "has it in its hands"),
        (True, 0.0, ""),
    ],
)
def test_a_refused_attempt_s_manifest_that_is_deleted_though_it_stays_is_seen(
    is_merged: bool, left: float | None, seen: str
) -> None:
    world = World(settings=SETTINGS)
    world.storage.store.manifests[MANIFEST] = ()
    world.attempt(1, litter={MANIFEST: is_merged}, left=left)
    pass_time(world, 600.0)
    world.storage.delete(MANIFEST)
    assert (world.failure or "").endswith(seen)
    assert names(world) == ("list-left-in-peace" if seen else "")


def away(world: World, lost: float, *back: float) -> None:
    world.tell(world.attempt(1, told=Answer.FAILED, lost=[lost], sent=[0.0, *back]), Answer.FAILED)


@pytest.mark.parametrize(
    ("times", "seen"),
    [
        ([(1.0, 2.0)], ""),
        ([(1.0, 2.5)], "the queue was held back for 1.5 s"),
        ([(1.0, 2.0), (3.0, 3.1)], ""),
        ([(1.0, 2.0), (2.2, 2.3)], "the queue was held back for 1.0 s, and once more 0.2 s after that"),
    ],
)
def test_a_turn_that_lasts_too_long_or_comes_again_too_soon_is_seen(
    times: list[tuple[float, float]], seen: str
) -> None:
    world = World(settings=SETTINGS)
    away(world, 0.9)
    world.history.held_back.extend(Held("w1", begun, ended) for begun, ended in times)
    world.rest()
    assert (world.failure or "") == (f"held-back-in-bounds: {seen}" if seen else "")


@pytest.mark.parametrize(
    ("lost", "back", "seen"),
    [
        (0.9, (), ""),
        (0.9, (1.95,), ""),
        (0.9, (1.2,), "held-back-for-somebody"),
        (1.5, (), "held-back-for-somebody"),
    ],
)
def test_a_queue_that_waits_for_nobody_is_seen(lost: float, back: tuple[float, ...], seen: str) -> None:
    world = World(settings=SETTINGS)
    away(world, lost, *back)
    world.history.held_back.append(Held("w1", 1.0, 2.0))
    world.rest()
    assert names(world) == seen


def test_a_process_that_sleeps_holds_its_queue_back_for_as_long() -> None:
    world = World(settings=SETTINGS, weather=FaultPlan(pauses=1))
    world.history.held_back.append(Held("w1", 1.0, 12.0))
    world.rest()
    assert world.failure is None


def test_a_table_that_rests_for_nobody_too_long_or_too_often_is_seen() -> None:
    for foreign, times, seen in (
        (0, [(1.0, 1.1)], "rested-in-bounds: w1 let the table rest at 1.000, and there is nobody to rest for"),
        (1, [(1.0, 2.0)], ""),
        (1, [(1.0, 2.5)], "rested-in-bounds: the table rested for 1.5 s"),
        (1, [(1.0, 2.0), (4.0, 5.0)], "rested-in-bounds: the table rested for 1.0 s, and once more 2.0 s after that"),
        (1, [(1.0, 2.0), (6.1, 7.0)], ""),
    ):
        world = World(java_writers=foreign, settings=SETTINGS)
        world.history.rested.extend(Held("w1", begun, ended) for begun, ended in times)
        world.rest()
        assert (world.failure or "") == seen


@pytest.mark.parametrize(
    ("waited", "given_back", "movers", "rested", "seen"),
    [
        ("w1", 2.0, "w1 w1 w1", [], True),
        ("w1", 2.0, "w1 w1 w1", [(3.1, 3.2)], False),
        ("w1", 2.0, "w1 w1 w1", [(0.5, 0.6)], True),
        # A fifth of all time: it may rest again at 4.5.
        ("w1", 2.0, "w1 w1 w1", [(0.5, 1.3)], False),
        # Somebody else was before us and moved the table: the lock was not had in vain.
        ("w1", 2.0, "w1 java1 w1 w1", [], False),
        ("w1", 2.0, "java1 w1 w1", [], False),
        ("w1", 0.5, "w1 w1 w1", [], False),
        ("w2", 2.0, "w1 w1 w1", [], False),
    ],
)
def test_a_table_that_does_not_rest_after_a_lock_was_had_in_vain_is_seen(
    waited: str, given_back: float, movers: str, rested: list[tuple[float, float]], seen: bool
) -> None:
    world = World(java_writers=1, settings=SETTINGS)
    world.history.in_vain.append(FailedCall(given_back, frozenset((waited,))))
    world.history.rested.extend(Held("w1", begun, ended) for begun, ended in rested)
    for number, process in enumerate(movers.split(), 1):
        # One at 1 s, the next at 3 s, and so on.
        pass_time(world, 1.0 if number == 1 else 2.0)
        world.append(number, process=process)
    assert names(world) == ("rested-for-who-lost" if seen else "")


def test_a_process_that_sleeps_may_rest_when_it_is_too_late() -> None:
    world = World(java_writers=1, settings=SETTINGS, weather=FaultPlan(pauses=1))
    world.history.in_vain.append(FailedCall(0.5, frozenset(("w1",))))
    for number in (1, 2, 3):
        world.append(number)
        pass_time(world, 1.0)
    assert world.failure is None


def test_a_list_that_nobody_names_is_seen_unless_its_client_has_it() -> None:
    for lists, seen in (({LIST}, ""), (set(), "nothing-left-behind: snap-left.avro is left behind")):
        world = World(tidy=True, settings=SETTINGS)
        world.append(1)
        world.storage.store.lists[LIST] = ()
        world.tell(world.attempt(1, lists=lists), Answer.COMMITTED)
        world.rest()
        assert (world.failure or "") == seen


def test_a_list_whose_time_is_over_goes_with_the_next_commit_of_its_server() -> None:
    for sent, seen in ((600.0, ""), (601.0, "nothing-left-behind")):
        world = World(tidy=True, settings=SETTINGS)
        world.append(1)
        world.append(2)
        world.storage.store.lists[LIST] = ()
        world.tell(world.attempt(1, lists={LIST}, left=0.0), Answer.COMMITTED)
        world.tell(world.attempt(2, sent=[sent]), Answer.COMMITTED)
        world.rest()
        assert names(world) == seen


@pytest.mark.parametrize(("is_merged", "named"), [(True, False), (False, False), (True, True)])
def test_a_merged_manifest_goes_as_well_unless_the_table_names_it(is_merged: bool, named: bool) -> None:
    world = World(tidy=True, settings=SETTINGS)
    world.append(1)
    world.append(2)
    manifest = next(iter(world.storage.store.manifests)) if named else MANIFEST
    world.storage.store.manifests.setdefault(manifest, ())
    world.tell(world.attempt(1, litter={manifest: is_merged}, left=0.0), Answer.COMMITTED)
    world.tell(world.attempt(2, sent=[601.0]), Answer.COMMITTED)
    world.rest()
    assert names(world) == ("nothing-left-behind" if is_merged and not named else "")


@pytest.mark.parametrize(("gone", "seen"), [(READ_MAX - 1, "nothing-left-behind"), (READ_MAX, "")])
def test_a_server_may_look_after_a_few_refused_attempts_at_a_time(gone: int, seen: str) -> None:
    world = World(tidy=True, settings=SETTINGS)
    world.append(1)
    world.append(2)
    world.storage.store.lists[LIST] = ()
    refused = world.attempt(1, lists={LIST}, lost=[0.0] * (gone + 1), litter={MANIFEST: True}, left=0.0)
    world.tell(refused, Answer.COMMITTED)
    world.tell(world.attempt(2, sent=[601.0]), Answer.COMMITTED)
    world.rest()
    assert names(world) == seen


@pytest.mark.parametrize(("gone", "seen"), [(READ_MAX - 1, "nothing-left-behind"), (READ_MAX, "")])
def test_a_list_waits_behind_refused_attempts_whose_manifest_went_with_a_later_one(gone: int, seen: str) -> None:
    """a client leaves its first attempt, and names the same manifest in the second, which it deletes with it: what
    waits is a list alone | the server looks after as many attempts of others as it may"""
    world = World(tidy=True, settings=SETTINGS)
    world.append(1)
    world.append(2)
    world.append(3)
    world.storage.store.lists[LIST] = ()
    world.tell(world.attempt(1, lost=[0.0] * gone, left=0.0), Answer.COMMITTED)
    world.tell(world.attempt(2, lists={LIST}, lost=[0.0], left=0.0), Answer.COMMITTED)
    world.tell(world.attempt(3, sent=[601.0]), Answer.COMMITTED)
    world.rest()
    assert names(world) == seen


@pytest.mark.parametrize("refused", [True, False])
def test_what_a_refused_swap_carried_may_be_left_and_nothing_else(refused: bool) -> None:
    world = World(tidy=True, settings=SETTINGS)
    first = world.location
    world.append(1)
    world.append(2)
    left = "file:/t/metadata/00001-left.metadata.json"
    world.storage.files[left] = world.storage.files[first]
    if refused:
        world.schedule.metastore.refused.add(left)
    world.rest()
    assert names(world) == ("" if refused else "nothing-left-behind")
