"""When a waiter looks at the queue before it, and which entry it takes up: by a clock that the test turns."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import heartbeat_seconds
from iceberg_hms.coordinator.ports import LockUse
from iceberg_hms.errors import LockNotAcquired
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.holder_identity import last_part
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.queue_position import PollRate, QueuePosition
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.metastore.fake_hms import FakeHms
from tests.metastore.locks.test_holder_identity import of_a_process_that_ended
from tests.metastore.locks.waiters import NAME, SETTINGS, Timed, TimedWith, lists_no_locks, taken_by_another
from tests.metastore.runtimes import ByHand, Counted


@pytest.fixture
def hand() -> ByHand:
    return ByHand()


@pytest.fixture
def position(hand: ByHand) -> QueuePosition:
    return QueuePosition(hand, 0.05)


def test_before_the_first_look_nothing_is_known(position: QueuePosition) -> None:
    assert position.ahead is None


def test_half_of_the_turns_after_the_holders_is_slept_through(hand: ByHand, position: QueuePosition) -> None:
    position.update(5)
    assert position.seconds_to_next_poll() == pytest.approx(4 * 0.05 / 2)


def test_how_long_a_turn_takes_is_learned_from_two_looks(hand: ByHand, position: QueuePosition) -> None:
    position.update(9)
    hand.time += 0.06
    position.update(6)
    assert position.seconds_to_next_poll() == pytest.approx(5 * 0.02 / 2)


def test_a_slow_turn_is_believed_by_half(hand: ByHand, position: QueuePosition) -> None:
    position.update(9)
    hand.time += 1.0
    position.update(8)
    assert position.seconds_to_next_poll() == pytest.approx(7 * (0.05 + 1.0) / 2 / 2)


def test_who_is_next_looks_soon_and_less_often_the_longer_the_holder_takes(
    hand: ByHand, position: QueuePosition
) -> None:
    position.update(2)
    hand.time += 1.55
    position.update(1)
    assert position.seconds_to_next_poll() == pytest.approx((0.05 + 1.55) / 2 / 16)
    hand.time += 8.0
    assert position.seconds_to_next_poll() == pytest.approx(1.0)
    position.update(1)
    assert position.seconds_to_next_poll() == pytest.approx(1.0)


def test_a_queue_that_does_not_move_is_looked_at_less_often(hand: ByHand, position: QueuePosition) -> None:
    position.update(3)
    hand.time += 80.0
    position.update(3)
    assert position.seconds_to_next_poll() == pytest.approx(10.0)


def test_after_it_was_out_of_sight_the_queue_is_seen_anew(hand: ByHand, position: QueuePosition) -> None:
    position.update(8)
    position.forget()
    assert position.ahead is None
    hand.time += 50.0
    position.update(2)
    assert position.seconds_to_next_poll() == pytest.approx(0.05 / 2)


ELSEWHERE = f"iceberg-hms/{'0' * 32}/1/2-3/r.000/"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lock.stale-check-interval-ms": 60_000, "iceberg.hive.lock-check-max-wait-ms": 60_000},
        {"iceberg.hive.lock-check-min-wait-ms": 5_000, "iceberg.hive.lock-check-max-wait-ms": 5_000},
    ],
    ids=["as it comes", "looks seldom", "begins with long waits"],
)
@pytest.mark.parametrize("queue_is_seen", [True, False])
def test_a_frozen_holder_on_another_machine_costs_less_than_30_seconds(
    settings: dict[str, int], queue_is_seen: bool, pool: ClientPool, entries: LockEntries, hms: FakeHms
) -> None:
    """However rarely the waiter looks otherwise, and also if its first look at the queue fails."""
    runtime = TimedWith(hms)
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada", **settings}, environ={}))
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    entries.enqueue(NAME, ELSEWHERE + "cas-15")
    if not queue_is_seen:
        hms.misbehave["show_locks"].append(MetaException("deadlock"))
    lock.acquire(NAME, wait_seconds=1_000, request="r", use=LockUse.CAS).release()
    assert 15 <= runtime.now() < 25
    runtime.join()


def test_a_waiter_with_a_short_lease_renews_its_entry_in_time(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    """Behind a writer that is not ours, and rarely awake: nobody may find it silent for half of its lease."""
    runtime = TimedWith(hms)
    settings = {"lock.stale-check-interval-ms": 60_000, "iceberg.hive.lock-check-max-wait-ms": 60_000}
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada", **settings}, environ={}))
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    taken_by_another(entries)
    silent: list[int] = []
    runtime.awake = lambda: silent.append(hms.now_ms - max(map(hms.heartbeat_ms, hms.locks.values())))
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=120, request="r", use=LockUse.CAS)
    assert max(silent) <= 3_000
    runtime.join()


def said(hms: FakeHms) -> list[str]:
    return [entry.agent_info.rpartition("/")[2] for entry in hms.locks.values()]


def test_who_slept_in_the_queue_for_a_lease_does_not_take_up_its_entry(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    """Another waiter may have found the entry silent, and be about to remove it: a later writer that sends
    no expected value would overwrite what is committed under it."""
    runtime = TimedWith(hms)
    lock = HmsTableLock(pool, runtime, SETTINGS)
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    other = taken_by_another(entries)
    slept: list[int] = []

    def sleep_through_the_release() -> None:
        if not slept:
            slept.extend(number for number in hms.locks if number != other.lock_id)
            assert said(hms)[1:] == ["cas-15"]
            runtime.sleeps.append(16.0)
            hms.locks.pop(other.lock_id)

    runtime.awake = sleep_through_the_release
    held: Any = lock.acquire(NAME, wait_seconds=60, request="r", use=LockUse.CAS)
    there, words = list(hms.locks), said(hms)
    held.release()
    lock.close()
    runtime.join()
    assert there == [held.lock_id]
    assert held.lock_id not in slept
    assert words == ["cas"], "on a metastore that is slow the short lease would end again"


def test_an_entry_of_a_call_that_was_not_answered_for_a_lease_is_not_taken_up(pool: ClientPool, hms: FakeHms) -> None:
    runtime = TimedWith(hms)
    lock = HmsTableLock(pool, runtime, SETTINGS)
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    plain = hms.lock

    def answer_too_late(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        plain(rqst)
        runtime.sleeps.append(60.0)
        hms.now_ms += 60_000
        raise TApplicationException(TApplicationException.INTERNAL_ERROR)

    hms.lock = answer_too_late  # type: ignore[method-assign]
    held: Any = lock.acquire(NAME, wait_seconds=600, request="r", use=LockUse.CAS)
    there, words = list(hms.locks), said(hms)
    held.release()
    lock.close()
    runtime.join()
    assert (there, held.lock_id, words) == ([2], 2, ["cas"])
    assert hms.locks == {}


@pytest.mark.parametrize("use", [LockUse.CAS, LockUse.BLIND])
def test_the_lock_of_a_killed_writer_stays_if_it_may_have_sent_a_drop(
    use: LockUse, pool: ClientPool, hms: FakeHms
) -> None:
    """A metastore may carry the drop out yet. It expects no value, and would remove what is committed until then."""
    runtime = TimedWith(hms)
    ended = of_a_process_that_ended().removesuffix("unproven")
    killed = HmsTableLock(
        pool, runtime, SETTINGS, new_agent_info=lambda _, word, seconds: ended + last_part(word, seconds)
    )
    lock = HmsTableLock(pool, runtime, SETTINGS)
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    left = killed.acquire(NAME, wait_seconds=1, request="r", use=use)
    left.let_expire()
    if use is LockUse.CAS:
        lock.acquire(NAME, wait_seconds=100, request="r").release()
    else:
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=30, request="r")
    assert len(hms.locks) == (0 if use is LockUse.CAS else 1)
    runtime.join()


def test_the_more_waiters_the_less_often_each_polls() -> None:
    poll_rate = PollRate(Counted(), 100)
    with ExitStack() as stack:
        seen = []
        for _ in range(161):
            stack.enter_context(poll_rate.waiting())
            seen.append(poll_rate.seconds_between_polls)
    assert (seen[0], seen[1], seen[160]) == (0.0, 0.01, 1.6)
    assert poll_rate.seconds_between_polls == 0.0


def test_an_interrupted_waiter_counts_no_longer() -> None:
    poll_rate = PollRate(Counted(), 1)
    with pytest.raises(KeyboardInterrupt), poll_rate.waiting(), poll_rate.waiting():
        raise KeyboardInterrupt
    assert poll_rate.seconds_between_polls == 0.0


@pytest.mark.parametrize("seen", [True, False], ids=["in the queue", "where the queue cannot be seen"])
def test_a_waiter_polls_less_often_while_many_wait_for_other_tables(
    seen: bool, pool: ClientPool, entries: LockEntries, hms: FakeHms
) -> None:
    if not seen:
        lists_no_locks(hms)
    runtime = Timed()
    settings = Settings.load({"lock.max-checks-per-second": 10, "user": "ada"}, environ={})
    poll_rate = PollRate(runtime, 10)
    lock = HmsTableLock(pool, runtime, settings, poll_rate=poll_rate)
    taken_by_another(entries)
    with ExitStack() as others:
        for _ in range(20):
            others.enter_context(poll_rate.waiting())
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=60, request="r")
    assert len(runtime.sleeps) == 30
    assert set(map(round, runtime.sleeps)) == {2}
    runtime.sleeps.clear()
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=60, request="r")
    assert len(runtime.sleeps) > 60, "alone it polls as often as it likes"


def test_a_waiting_entry_is_renewed_in_time_however_many_wait(pool: ClientPool, entries: LockEntries) -> None:
    runtime = Timed()
    poll_rate = PollRate(runtime, 1)
    lock = HmsTableLock(
        pool, runtime, Settings.load({"lock.max-checks-per-second": 1, "user": "ada"}, environ={}), poll_rate=poll_rate
    )
    taken_by_another(entries)
    with ExitStack() as others:
        for _ in range(1_000):
            others.enter_context(poll_rate.waiting())
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=600, request="r")
    assert max(runtime.sleeps) == heartbeat_seconds(300) * 2.5
