from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.config import Settings
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.ctrl_c import CtrlC
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Running, StoreClosed
from tests.metastore.locks.test_holder_identity import of_a_process_that_ended
from tests.metastore.locks.waiters import NAME, SETTINGS, Timed, TimedWith, lists_no_locks, taken_by_another
from tests.metastore.runtimes import ByHand, Counted


def test_a_lock_whose_reply_was_lost_is_found_and_used(lock: HmsTableLock, hms: FakeHms) -> None:
    hms.misbehave["lock"].append(DropAfter())
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.calls.count("lock") == 1
    assert len(hms.locks) == 1
    held.renew()
    held.release()
    assert hms.locks == {}


def test_a_lost_request_is_sent_again(lock: HmsTableLock, hms: FakeHms) -> None:
    hms.misbehave["lock"].append(DropBefore())
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.calls.count("lock") == 2
    held.release()
    assert hms.locks == {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_lock_call_that_met_a_closed_store_may_have_left_an_entry(
    after: bool, lock: HmsTableLock, hms: FakeHms
) -> None:
    plain = hms.lock

    def enqueue_and_lose_the_store(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        plain(rqst)
        raise MetaException("the store of this handler is closed")

    if after:
        hms.lock = enqueue_and_lose_the_store  # type: ignore[method-assign]
    else:
        hms.misbehave["lock"].append(StoreClosed())
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.calls.count("lock") == (1 if after else 2)
    assert len(hms.locks) == 1, "the entry that the first call left is used"
    held.release()
    assert hms.locks == {}


def test_a_waiter_uses_its_late_entry_that_got_the_lock(lock: HmsTableLock, hms: FakeHms) -> None:
    hms.misbehave["lock"].append(DropBefore())
    hms.misbehave["show_locks"] += [MetaException("busy")]
    plain = hms.lock

    def lock_with_a_late_one(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        plain(rqst)
        return plain(rqst)

    hms.lock = lock_with_a_late_one  # type: ignore[method-assign]
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    held.renew()
    held.release()
    lock.acquire(NAME, wait_seconds=5, request="next").release()


def test_a_waiter_that_is_interrupted_leaves_no_entry(lock: HmsTableLock, hms: FakeHms, ctrl_c: CtrlC) -> None:
    interrupted = threading.Event()
    plain = hms.lock

    def interrupt(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        answer = plain(rqst)
        ctrl_c.send()
        interrupted.wait(10)
        return answer

    hms.lock = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(NAME, wait_seconds=5, request="r")
    interrupted.set()
    lock.acquire(NAME, wait_seconds=5, request="next").release()
    assert hms.locks == {}


def test_a_waiter_whose_entry_was_removed_requests_the_lock_again(
    pool: ClientPool, runtime: Counted, hms: FakeHms, entries: LockEntries
) -> None:
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_stale_check_interval_ms=1), cleanup_poll_seconds=0.005)
    other = taken_by_another(entries)
    plain = hms.check_lock

    def reap_the_waiter_once(rqst: Any) -> Any:
        if rqst.lockid != other.lock_id and hms.calls.count("check_lock") == 2:
            hms.check_lock = plain  # type: ignore[method-assign]
            hms.locks.clear()
        return plain(rqst)

    hms.check_lock = reap_the_waiter_once  # type: ignore[method-assign]
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    assert hms.calls.count("lock") == 3
    assert hms.locks == {}
    lock.close()
    runtime.join()


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (MetaException("Unable to update transaction database: HIVE_LOCKS does not exist"), 3),
        (TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing lock"), 3),
        (TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'lock'"), 1),
    ],
)
def test_a_broken_lock_api_is_unavailable_after_a_few_tries(
    error: Exception, calls: int, lock: HmsTableLock, hms: FakeHms
) -> None:
    hms.misbehave["lock"] += [error] * 5
    with pytest.raises(LockUnavailable, match="lock API fails"):
        lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.calls.count("lock") == calls


def test_a_deadlock_in_the_locks_database_is_no_broken_api(
    lock: HmsTableLock, hms: FakeHms, entries: LockEntries
) -> None:
    other = taken_by_another(entries)
    hms.misbehave["lock"] += [MetaException("deadlock")] * 2
    hms.misbehave["check_lock"] += [MetaException("deadlock")] * 2
    plain = hms.show_locks

    def free_later(rqst: Any) -> Any:
        if hms.calls.count("show_locks") > 4:
            hms.locks.pop(other.lock_id, None)
        return plain(rqst)

    hms.show_locks = free_later  # type: ignore[method-assign]
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    assert hms.calls.count("check_lock") == 3


def test_a_metastore_that_is_gone_is_unavailable_after_the_timeout(lock: HmsTableLock, server: Running) -> None:
    server.stop()
    with pytest.raises(MetastoreUnavailable):
        lock.acquire(NAME, wait_seconds=0.05, request="r")


@pytest.mark.parametrize("method", ["show_locks", "check_lock"])
def test_a_waiter_survives_a_restart_of_the_metastore(
    method: str, lock: HmsTableLock, server: Running, hms: FakeHms, entries: LockEntries
) -> None:
    other = taken_by_another(entries)
    if method == "check_lock":
        lists_no_locks(hms)
    plain = getattr(hms, method)

    def restart_and_free(rqst: Any) -> Any:
        if hms.calls.count(method) == 3:
            server.hang_up()
            hms.locks.pop(other.lock_id, None)
        return plain(rqst)

    setattr(hms, method, restart_and_free)
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    assert hms.locks == {}


@pytest.mark.parametrize(
    ("interval", "word", "seconds"),
    [(2_000, "cas-15", 15), (2_000, "unproven-15", 15), (2_000, "cas", 300), (0, "cas-15", 0)],
)
def test_a_waiter_removes_a_killed_writers_entry_unless_that_is_turned_off(
    interval: int, word: str, seconds: float, pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    runtime = TimedWith(hms)
    settings = replace(SETTINGS, lock_stale_check_interval_ms=interval, lock_check_max_wait_ms=500)
    lock = HmsTableLock(pool, runtime, settings)
    entries.enqueue(NAME, of_a_process_that_ended().replace("unproven", word))
    if interval:
        lock.acquire(NAME, wait_seconds=400, request="r").release()
        assert hms.locks == {}
        assert seconds <= runtime.now() < seconds + 3
    else:
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=30, request="r")
        assert len(hms.locks) == 1
    lock.close()
    runtime.join()


def test_a_waiter_counts_those_before_it_and_checks_its_entry_once(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    """Ten turns of 100 ms: a handful of looks, most of them at the end, and one check when nobody is left before us."""
    runtime, plain = Timed(), hms.show_locks

    def give_back(rqst: Any) -> Any:
        over = int(runtime.now() / 0.1)
        for other in others[:over]:
            hms.locks.pop(other.lock_id, None)
        return plain(rqst)

    hms.show_locks = give_back  # type: ignore[method-assign]
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada"}, environ={}))
    others = [taken_by_another(entries) for _ in range(10)]
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    assert 1.0 <= runtime.now() <= 1.02, "it must not sleep when its turn has come"
    assert hms.calls.count("check_lock") == 1
    assert hms.calls.count("show_locks") <= 16
    runtime.join()


@pytest.mark.parametrize(("stale_check_ms", "between_checks"), [(0, 5.0), (2_000, 2.0)])
def test_a_queue_that_does_not_move_is_polled_rarely_and_our_entry_is_renewed(
    stale_check_ms: int, between_checks: float, pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    runtime, plain, checked_at = Timed(), hms.check_lock, []

    def check(rqst: Any) -> Any:
        checked_at.append(runtime.now())
        return plain(rqst)

    keywords = {"lock.stale-check-interval-ms": stale_check_ms, "iceberg.hive.lock-check-max-wait-ms": 5_000}
    lock = HmsTableLock(pool, runtime, Settings.load({**keywords, "user": "ada"}, environ={}))
    for _ in range(3):
        taken_by_another(entries)
    hms.check_lock = check  # type: ignore[method-assign]
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=600, request="r")
    assert max(runtime.sleeps) <= 5.0
    assert len(runtime.sleeps) < 600 / min(5.0, between_checks) + 60
    longest = max(later - earlier for earlier, later in itertools.pairwise(checked_at))
    assert between_checks <= longest <= between_checks + 5.0, "a heartbeat, or the stale check"
    runtime.join()


def test_without_sight_of_the_queue_waits_grow_as_javas_and_are_spread(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    lists_no_locks(hms)
    runtime = Timed()
    settings = Settings.load({"iceberg.hive.lock-check-max-wait-ms": 5_000, "user": "ada"}, environ={})
    lock = HmsTableLock(pool, runtime, settings)
    taken_by_another(entries)
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=30, request="r")
    assert runtime.sleeps[:3] == pytest.approx([0.0375, 0.05625, 0.084375])
    # An entry that waits is renewed by these looks alone.
    assert max(runtime.sleeps) == settings.lock_stale_check_interval_ms / 1000
    assert sum(runtime.sleeps) == pytest.approx(30)
    assert hms.calls.count("check_lock") == len(runtime.sleeps)


def test_a_waiter_that_loses_sight_of_the_queue_checks_its_own_entry(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    runtime, plain, plain_list = Timed(), hms.check_lock, hms.show_locks
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada"}, environ={}))
    other = taken_by_another(entries)

    def list_once(rqst: Any) -> Any:
        lists_no_locks(hms)
        return plain_list(rqst)

    hms.show_locks = list_once  # type: ignore[method-assign]

    def give_back(rqst: Any) -> Any:
        if runtime.now() > 0.5:
            hms.locks.pop(other.lock_id, None)
        return plain(rqst)

    hms.check_lock = give_back  # type: ignore[method-assign]
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    assert runtime.now() < 1.0
    runtime.join()


@pytest.mark.parametrize(
    ("other", "foreign"), [("Iceberg-0123", True), (agent_info("r-1"), False)], ids=["java", "ours"]
)
def test_an_attempt_notes_a_foreign_writer_before_it(
    hms: FakeHms, lock: HmsTableLock, runtime: Counted, other: str, foreign: bool, entries: LockEntries
) -> None:
    before = entries.enqueue(NAME, other)
    plain = hms.show_locks

    def give_back(rqst: Any) -> Any:
        seen = plain(rqst)
        hms.locks.pop(before.lock_id, None)
        return seen

    hms.show_locks = give_back  # type: ignore[method-assign]
    held = lock.acquire(NAME, wait_seconds=60, request="r")
    assert held.behind_foreign_writer is foreign
    held.release()
    again = lock.acquire(NAME, wait_seconds=60, request="r")
    assert not again.behind_foreign_writer
    again.release()
    runtime.join()


@pytest.mark.parametrize(("seconds", "said"), [(40, True), (1, False)])
def test_the_likely_reason_of_a_lock_call_that_stands_still_is_said(
    seconds: float, said: bool, pool: ClientPool, hms: FakeHms, caplog: pytest.LogCaptureFixture
) -> None:
    """lock: no answer for 40 s | lock: granted"""
    runtime = ByHand()
    plain = hms.lock

    def stand_still(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        runtime.time += seconds
        raise DropBefore

    hms.lock = stand_still  # type: ignore[method-assign]
    lock = HmsTableLock(pool, runtime, SETTINGS)
    held = lock.acquire(NAME, wait_seconds=100, request="r")
    assert ("datanucleus.connectionPool.maxPoolSize" in caplog.text) is said
    held.release()
    lock.close()
    runtime.join()
    assert hms.locks == {}
