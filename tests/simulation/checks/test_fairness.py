from __future__ import annotations

from typing import Any

import pytest

from simulation.world.faults import FaultPlan
from simulation.world.history import Answer, Pause, WastedLock, WriteAttempt
from tests.simulation.manual_schedule import ManualSchedule

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


def names(manual: ManualSchedule) -> str:
    return (manual.failure or "").partition(":")[0]


def pass_time(manual: ManualSchedule, seconds: float) -> None:
    manual.schedule.scheduler.now += seconds


def two_in_the_queue(**late: Any) -> tuple[ManualSchedule, WriteAttempt, WriteAttempt]:
    manual = ManualSchedule(in_order=True, settings=SETTINGS)
    early = manual.attempt(1, parents_seen=[None], sent_at=[0.1])
    return manual, early, manual.attempt(2, parents_seen=[None], ahead=(), **late)


def test_a_change_that_overtakes_one_that_stood_before_it_is_seen() -> None:
    manual, early, late = two_in_the_queue()
    early.ahead = ((late, 1),)
    manual.append(1)
    assert manual.failure is None
    manual.append(2)
    seen = "wish 2 was queued before wish 1, and landed after it"
    assert manual.failure == f"served-in-order: {seen}"


@pytest.mark.parametrize("excuse", ["a turn", "it came anew", "nothing"])
def test_retry_priority_and_a_new_attempt_may_be_served_out_of_order(excuse: str) -> None:
    manual, early, late = two_in_the_queue()
    early.ahead = ((late, 1),)
    if excuse == "a turn":
        early.lost_at.append(0.05)
    elif excuse == "it came anew":
        late.parents_seen.append(None)
    manual.append(1)
    manual.append(2)
    assert names(manual) == ("served-in-order" if excuse == "nothing" else "")


def test_a_client_that_waits_for_longer_than_a_turn_and_a_rest_is_seen() -> None:
    for waited, seen in ((6.9, ""), (7.1, "served-in-time")):
        manual = ManualSchedule(in_order=True, settings=SETTINGS)
        manual.record_answer(manual.attempt(1, waited=waited), Answer.FAILED)
        manual.rest()
        assert names(manual) == seen


@pytest.mark.parametrize(
    ("left", "after", "seen"),
    [
        (None, 0.0, "may still send it"),
        (0.0, 599.0, "is deleted 599.0 s after wish 1 was committed with another list"),
        (0.0, 600.0, ""),
    ],
)
def test_a_client_s_list_that_is_deleted_too_early_is_seen(left: float | None, after: float, seen: str) -> None:
    manual = ManualSchedule(settings=SETTINGS)
    manual.storage.store.lists[LIST] = ()
    manual.attempt(1, lists={LIST}, left_at=left, left_since=left)
    pass_time(manual, after)
    manual.storage.delete(LIST)
    assert (manual.failure or "").endswith(seen)
    assert names(manual) == ("client-files-kept" if seen else "")


def test_a_file_of_a_refused_attempt_that_is_deleted_is_seen() -> None:
    manual = ManualSchedule(settings=SETTINGS)
    manual.storage.store.manifests[MANIFEST] = ()
    manual.attempt(1, left_files={MANIFEST}, left_at=0.0)
    pass_time(manual, 600.0)
    manual.storage.delete(MANIFEST)
    assert (manual.failure or "").endswith("of a refused attempt of wish 1 is deleted")
    assert names(manual) == "client-files-kept"


def away(manual: ManualSchedule, lost: float, *back: float) -> None:
    manual.record_answer(manual.attempt(1, answer=Answer.FAILED, lost_at=[lost], sent_at=[0.0, *back]), Answer.FAILED)


@pytest.mark.parametrize(
    ("times", "seen"),
    [
        ([(1.0, 2.0)], ""),
        ([(1.0, 2.5)], "the queue waited for a retry for 1.5 s"),
        ([(1.0, 2.0), (3.0, 3.1)], ""),
        ([(1.0, 2.0), (2.2, 2.3)], "the queue waited for a retry for 1.0 s, and again 0.2 s after that"),
    ],
)
def test_a_turn_that_lasts_too_long_or_comes_again_too_soon_is_seen(
    times: list[tuple[float, float]], seen: str
) -> None:
    manual = ManualSchedule(settings=SETTINGS)
    away(manual, 0.9)
    manual.history.priority_waits.extend(Pause("w1", begun, ended) for begun, ended in times)
    manual.rest()
    assert (manual.failure or "") == (f"priority-waits-in-bounds: {seen}" if seen else "")


@pytest.mark.parametrize(
    ("lost", "back", "seen"),
    [
        (0.9, (), ""),
        (0.9, (1.95,), ""),
        (0.9, (1.2,), "priority-waits-for-a-retry"),
        (1.5, (), "priority-waits-for-a-retry"),
    ],
)
def test_a_queue_that_waits_for_nobody_is_seen(lost: float, back: tuple[float, ...], seen: str) -> None:
    manual = ManualSchedule(settings=SETTINGS)
    away(manual, lost, *back)
    manual.history.priority_waits.append(Pause("w1", 1.0, 2.0))
    manual.rest()
    assert names(manual) == seen


@pytest.mark.parametrize(("process", "seen"), [("w1++", ""), ("w11", "priority-waits-for-a-retry")])
def test_the_clients_of_a_server_come_back_to_the_one_that_takes_its_place(process: str, seen: str) -> None:
    manual = ManualSchedule(settings=SETTINGS)
    away(manual, 0.9)
    manual.history.priority_waits.append(Pause(process, 1.0, 2.0))
    manual.rest()
    assert names(manual) == seen


def test_a_process_that_sleeps_holds_its_queue_back_for_as_long() -> None:
    manual = ManualSchedule(settings=SETTINGS, faults=FaultPlan(pauses=1))
    manual.history.priority_waits.append(Pause("w1", 1.0, 12.0))
    manual.rest()
    assert manual.failure is None


def test_a_lock_that_is_kept_too_long_or_too_often_is_seen() -> None:
    for times, seen in (
        ([(1.0, 2.0)], ""),
        ([(1.0, 3.5)], "locks-kept-in-bounds: the process kept the lock for 2.5 s"),
        (
            [(1.0, 2.0), (2.1, 3.0)],
            "locks-kept-in-bounds: the process kept the lock for 1.0 s, and again 0.1 s after that",
        ),
    ):
        manual = ManualSchedule(settings=SETTINGS)
        manual.history.locks_kept.extend(Pause("w1", begun, ended) for begun, ended in times)
        manual.rest()
        assert (manual.failure or "") == seen


def test_a_table_that_rests_for_nobody_too_long_or_too_often_is_seen() -> None:
    for foreign, times, seen in (
        (0, [(1.0, 1.1)], "backoffs-in-bounds: w1 backed off at 1.000, and there is no foreign writer"),
        (1, [(1.0, 2.0)], ""),
        (1, [(1.0, 2.5)], "backoffs-in-bounds: the process backed off for 1.5 s"),
        (
            1,
            [(1.0, 2.0), (4.0, 5.0)],
            "backoffs-in-bounds: the process backed off for 1.0 s, and again 2.0 s after that",
        ),
        (1, [(1.0, 2.0), (6.1, 7.0)], ""),
    ):
        manual = ManualSchedule(java_writers=foreign, settings=SETTINGS)
        manual.history.backoffs.extend(Pause("w1", begun, ended) for begun, ended in times)
        manual.rest()
        assert (manual.failure or "") == seen


@pytest.mark.parametrize(
    ("waited", "given_back", "catalog_callers", "backoffs", "seen"),
    [
        ("w1", 2.0, "w1 w1 w1", [], True),
        ("w1", 2.0, "w1 w1 w1", [(3.1, 3.2)], False),
        ("w1", 2.0, "w1 w1 w1", [(0.5, 0.6)], True),
        # A fifth of all time: it may rest again at 4.5.
        ("w1", 2.0, "w1 w1 w1", [(0.5, 1.3)], False),
        # Another process changed the table first, so the foreign writer did not waste its lock.
        ("w1", 2.0, "w1 java1 w1 w1", [], False),
        ("w1", 2.0, "java1 w1 w1", [], False),
        ("w1", 0.5, "w1 w1 w1", [], False),
        ("w2", 2.0, "w1 w1 w1", [], False),
    ],
)
def test_a_process_that_does_not_back_off_after_a_wasted_lock_is_found(
    waited: str, given_back: float, catalog_callers: str, backoffs: list[tuple[float, float]], seen: bool
) -> None:
    manual = ManualSchedule(java_writers=1, settings=SETTINGS)
    manual.history.wasted_locks.append(WastedLock(given_back, frozenset((waited,))))
    manual.history.backoffs.extend(Pause("w1", begun, ended) for begun, ended in backoffs)
    for number, process in enumerate(catalog_callers.split(), 1):
        # One at 1 s, the next at 3 s, and so on.
        pass_time(manual, 1.0 if number == 1 else 2.0)
        manual.append(number, process=process)
    assert names(manual) == ("backoff-after-wasted-lock" if seen else "")


def test_a_process_that_sleeps_may_rest_when_it_is_too_late() -> None:
    manual = ManualSchedule(java_writers=1, settings=SETTINGS, faults=FaultPlan(pauses=1))
    manual.history.wasted_locks.append(WastedLock(0.5, frozenset(("w1",))))
    for number in (1, 2, 3):
        manual.append(number)
        pass_time(manual, 1.0)
    assert manual.failure is None


def test_a_list_that_nobody_names_is_seen_unless_its_client_has_it() -> None:
    for lists, seen in (({LIST}, ""), (set(), "no-garbage-left: nothing needs snap-left.avro")):
        manual = ManualSchedule(tidy=True, settings=SETTINGS)
        manual.append(1)
        manual.storage.store.lists[LIST] = ()
        manual.record_answer(manual.attempt(1, lists=lists), Answer.COMMITTED)
        manual.rest()
        assert (manual.failure or "") == seen


def test_a_list_whose_time_is_over_goes_with_the_next_commit_of_its_server() -> None:
    for sent, seen in ((600.0, ""), (601.0, "no-garbage-left")):
        manual = ManualSchedule(tidy=True, settings=SETTINGS)
        manual.append(1)
        manual.append(2)
        manual.storage.store.lists[LIST] = ()
        manual.record_answer(manual.attempt(1, lists={LIST}, left_at=0.0), Answer.COMMITTED)
        manual.record_answer(manual.attempt(2, sent_at=[sent]), Answer.COMMITTED)
        manual.rest()
        assert names(manual) == seen


def test_files_of_a_refused_attempt_stay() -> None:
    manual = ManualSchedule(tidy=True, settings=SETTINGS)
    manual.append(1)
    manual.append(2)
    manual.storage.store.manifests[MANIFEST] = ()
    manual.record_answer(manual.attempt(1, left_files={MANIFEST}, left_at=0.0), Answer.COMMITTED)
    manual.record_answer(manual.attempt(2, sent_at=[601.0]), Answer.COMMITTED)
    manual.rest()
    assert manual.failure is None


@pytest.mark.parametrize("refused", [True, False])
def test_what_a_refused_swap_carried_may_be_left_and_nothing_else(refused: bool) -> None:
    manual = ManualSchedule(tidy=True, settings=SETTINGS)
    first = manual.location
    manual.append(1)
    manual.append(2)
    left = "file:/t/metadata/00001-left.metadata.json"
    manual.storage.files[left] = manual.storage.files[first]
    if refused:
        manual.schedule.metastore.refused.add(left)
    manual.rest()
    assert names(manual) == ("" if refused else "no-garbage-left")
