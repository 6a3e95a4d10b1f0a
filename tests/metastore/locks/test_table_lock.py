from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import CheckLockRequest, MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.clock import ClockReading
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import LockUse, TableName
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import LockType
from iceberg_hms.metastore.locks import lost_lock_cleanup
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_entries import LockEntry
from iceberg_hms.metastore.locks.table_lock import CLOSE_SECONDS, HmsTableLock
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts.table_lock import CHECKS, Check, Guard
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Running, StoreClosed, pool_of
from tests.metastore.locks.test_holder_identity import of_a_process_that_ended
from tests.metastore.runtimes import Counted

NAME = TableName("db", "t")
SETTINGS = Settings.load(
    {
        "iceberg.hive.lock-creation-min-wait-ms": 1,
        "iceberg.hive.lock-check-min-wait-ms": 1,
        "iceberg.hive.lock-check-max-wait-ms": 5,
        "user": "ada",
    },
    environ={},
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_lock_cleanup, "LOOK_INTERVAL_SECONDS", 0.005)


@pytest.fixture
def runtime() -> Counted:
    return Counted()


@pytest.fixture
def lock(pool: ClientPool, runtime: Counted) -> Iterator[HmsTableLock]:
    lock = HmsTableLock(pool, runtime, SETTINGS)
    yield lock
    lock.close()
    runtime.join()


def taken_by_another(hms: FakeHms, lock: HmsTableLock) -> LockEntry:
    return lock._entries.enqueue(NAME, "another writer")


def lists_no_locks(hms: FakeHms) -> None:
    """show_locks fails from now on."""

    def fail(rqst: Any) -> Any:
        raise MetaException("busy")

    hms.show_locks = fail  # type: ignore[method-assign]


class Timed(Counted):
    """Its time is made of its sleeps alone."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    def jitter(self) -> float:
        return 0.5

    def now(self) -> float:
        return sum(self.sleeps)

    def read_clocks(self) -> ClockReading:
        return ClockReading(self.now(), self.now(), self.now())


class TimedWith(Timed):
    """The database's clock goes with it. paused: what a test lets happen before a sleep ends."""

    def __init__(self, hms: FakeHms) -> None:
        super().__init__()
        self._hms = hms
        self.awake = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._hms.now_ms += round(seconds * 1000)
        self.awake()


@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: Check, proven: bool, server: Running, hms: FakeHms) -> None:
    runtime = ThreadRuntime()
    with pool_of(server) as one, pool_of(server) as other:
        for pool in (one, other) if proven else ():
            pool.cas_support.learn(server.uri, NAME.namespace, CompareAndSwap.ATOMIC)
        check(Guard(HmsTableLock(one, runtime, SETTINGS), HmsTableLock(other, runtime, SETTINGS), runtime, NAME))
        assert hms.locks == {}


def test_the_lease_is_asked_for_once(lock: HmsTableLock, hms: FakeHms) -> None:
    for _ in range(3):
        held = lock.acquire(NAME, wait_seconds=1, request="r")
        assert held.lease_seconds == 300
        held.release()
    assert hms.calls.count("get_config_value") == 2


def test_a_lease_that_is_not_told_is_assumed(lock: HmsTableLock, hms: FakeHms) -> None:
    hms.config.clear()
    held = lock.acquire(NAME, wait_seconds=1, request="r")
    assert held.lease_seconds == SETTINGS.lock_lease_default_ms / 1000
    held.release()


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


@pytest.mark.parametrize("method", ["check_lock", "heartbeat", "unlock", "show_locks"])
def test_a_lock_outlives_the_store_of_one_handler(method: str, lock: HmsTableLock, hms: FakeHms) -> None:
    other = taken_by_another(hms, lock)
    hms.misbehave[method].append(StoreClosed())
    waiter = threading.Timer(0.05, lambda: hms.unlock(CheckLockRequest(lockid=other.lock_id)))
    waiter.start()
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    held.renew()
    held.ensure_held()
    held.release()
    waiter.join()
    assert not hms.misbehave[method], "the handler was asked"
    assert hms.locks == {}


def test_a_lost_request_that_arrives_after_all_blocks_nobody(
    lock: HmsTableLock, hms: FakeHms, runtime: Counted
) -> None:
    hms.misbehave["lock"].append(DropBefore())
    held: Any = lock.acquire(NAME, wait_seconds=5, request="r")
    late = lock._entries.enqueue(NAME, held._entry.agent_info)
    held.release()
    lock.acquire(NAME, wait_seconds=5, request="next").release()
    assert late.lock_id not in hms.locks


def test_a_late_request_that_got_the_lock_is_used_by_who_waits_behind_it(lock: HmsTableLock, hms: FakeHms) -> None:
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


def test_an_entry_that_could_not_be_withdrawn_is_removed_later(lock: HmsTableLock, hms: FakeHms) -> None:
    other = taken_by_another(hms, lock)
    hms.misbehave["unlock"] += [DropBefore(), DropBefore()]
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=0.05, request="r")
    lock._entries.remove(other)
    lock.acquire(NAME, wait_seconds=5, request="next").release()


def test_a_release_that_failed_is_made_good(lock: HmsTableLock, hms: FakeHms) -> None:
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    hms.misbehave["unlock"].append(MetaException("deadlock"))
    held.release()
    lock.acquire(NAME, wait_seconds=5, request="next").release()


@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_while_asking_leaves_no_entry(lock: HmsTableLock, hms: FakeHms) -> None:
    interrupted = threading.Event()
    plain = hms.lock

    def interrupt(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        answer = plain(rqst)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        interrupted.wait(10)
        return answer

    hms.lock = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(NAME, wait_seconds=5, request="r")
    interrupted.set()
    lock.acquire(NAME, wait_seconds=5, request="next").release()
    assert hms.locks == {}


def test_a_lock_whose_heartbeats_cannot_begin_is_not_kept(
    lock: HmsTableLock, hms: FakeHms, runtime: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*given: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "spawn", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.locks == {}


def test_a_waiting_entry_that_was_reaped_asks_again(pool: ClientPool, runtime: Counted, hms: FakeHms) -> None:
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_stale_check_interval_ms=1))
    other = taken_by_another(hms, lock)
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


def test_who_waits_in_vain_is_told_who_holds_it(lock: HmsTableLock, hms: FakeHms) -> None:
    taken_by_another(hms, lock)
    with pytest.raises(LockNotAcquired, match=r"held by lock 1 of ada on .* \(another writer\)"):
        lock.acquire(NAME, wait_seconds=0.02, request="r")
    assert len(hms.locks) == 1


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


def test_a_deadlock_in_the_locks_database_is_no_broken_api(lock: HmsTableLock, hms: FakeHms) -> None:
    other = taken_by_another(hms, lock)
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


def test_a_metastore_that_is_gone_is_unavailable_when_the_time_is_over(lock: HmsTableLock, server: Running) -> None:
    server.stop()
    with pytest.raises(MetastoreUnavailable):
        lock.acquire(NAME, wait_seconds=0.05, request="r")


@pytest.mark.parametrize("method", ["show_locks", "check_lock"])
def test_a_metastore_that_restarts_is_waited_for(
    method: str, lock: HmsTableLock, server: Running, hms: FakeHms
) -> None:
    other = taken_by_another(hms, lock)
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
    ("interval", "word", "seconds"), [(2_000, "cas-15", 7.5), (2_000, "cas", 10), (0, "cas-15", 0)]
)
def test_a_waiter_removes_what_a_killed_writer_left_unless_it_is_turned_off(
    interval: int, word: str, seconds: float, pool: ClientPool, hms: FakeHms
) -> None:
    runtime = TimedWith(hms)
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_stale_check_interval_ms=interval))
    lock._entries.enqueue(NAME, of_a_process_that_ended().replace("unproven", word))
    if interval:
        lock.acquire(NAME, wait_seconds=100, request="r").release()
        assert hms.locks == {}
        assert seconds <= runtime.now() < seconds + 3
    else:
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=100, request="r")
        assert len(hms.locks) == 1
    lock.close()
    runtime.join()


def test_closing_ends_the_wait_and_leaves_no_entry(lock: HmsTableLock, runtime: Counted, hms: FakeHms) -> None:
    other = taken_by_another(hms, lock)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            lock.acquire(NAME, wait_seconds=600, request="r")
        except LockNotAcquired as error:
            errors.append(error)

    runtime.spawn("waiter", wait)
    while len(hms.locks) < 2:
        runtime.sleep(0.001)
    lock.close()
    assert list(hms.locks) == [other.lock_id], "it was withdrawn before close returned"
    runtime.join()
    assert "the catalog is closed" in str(errors[0])


def test_closing_waits_until_a_held_lock_is_given_back(
    lock: HmsTableLock, pool: ClientPool, runtime: Counted, hms: FakeHms, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    monkeypatch.setattr(runtime, "sleep", lambda seconds: held.release())
    lock.close()
    pool.close()
    held.release()
    assert hms.locks == {}, "whoever closes takes the connections away"


def test_closing_waits_for_no_lock_for_ever(pool: ClientPool, hms: FakeHms) -> None:
    runtime = Timed()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    lock.close()
    held.release()
    assert sum(runtime.sleeps) == pytest.approx(CLOSE_SECONDS, abs=0.1)
    assert hms.locks == {}
    runtime.join()


def test_closing_does_not_wait_for_locks_that_were_given_back_or_never_got(
    pool: ClientPool, hms: FakeHms, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Timed()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    hms.misbehave["unlock"].append(MetaException("deadlock"))
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    taken_by_another(hms, lock)
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=0, request="r")
    runtime.sleeps.clear()
    lock.close()
    runtime.join()
    assert runtime.sleeps == []


def test_after_closing_no_lock_is_asked_for(lock: HmsTableLock, hms: FakeHms) -> None:
    lock.close()
    with pytest.raises(LockNotAcquired, match="the catalog is closed"):
        lock.acquire(NAME, wait_seconds=5, request="r").release()
    assert "lock" not in hms.calls


def test_a_lost_reply_is_not_forgotten_when_the_next_server_has_no_lock_api(
    lock: HmsTableLock, runtime: Counted, hms: FakeHms
) -> None:
    hms.misbehave["lock"] += [DropAfter(), TApplicationException(TApplicationException.UNKNOWN_METHOD, "no lock here")]
    hms.misbehave["show_locks"] += [MetaException("busy")] * 2
    with pytest.raises(LockUnavailable):
        lock.acquire(NAME, wait_seconds=5, request="r")
    lock.close()
    runtime.join()
    assert hms.locks == {}


def test_a_lock_says_what_its_process_knows_of_the_fence(lock: HmsTableLock, pool: ClientPool, hms: FakeHms) -> None:
    said = []
    for verdict in (CompareAndSwap.UNKNOWN, CompareAndSwap.ATOMIC, CompareAndSwap.IGNORED):
        pool.cas_support.learn(pool.uris[0], NAME.namespace, verdict)
        for use in (LockUse.CAS, LockUse.BLIND):
            held = lock.acquire(NAME, wait_seconds=1, request="r", use=use)
            (entry,) = hms.locks.values()
            said.append(entry.agentInfo.rpartition("/")[2])
            held.release()
    assert said == ["unproven", "blind", "cas-15", "blind", "blind", "blind"]


def test_who_is_not_first_counts_those_before_it_and_asks_once(pool: ClientPool, hms: FakeHms) -> None:
    """Ten turns of 100 ms: a handful of looks, most of them at the end, and one check when nobody is left before us."""
    runtime, plain = Timed(), hms.show_locks

    def give_back(rqst: Any) -> Any:
        over = int(runtime.now() / 0.1)
        for other in others[:over]:
            hms.locks.pop(other.lock_id, None)
        return plain(rqst)

    hms.show_locks = give_back  # type: ignore[method-assign]
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada"}, environ={}))
    others = [taken_by_another(hms, lock) for _ in range(10)]
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    assert 1.0 <= runtime.now() <= 1.02, "it must not sleep when its turn has come"
    assert hms.calls.count("check_lock") == 1
    assert hms.calls.count("show_locks") <= 16
    runtime.join()


@pytest.mark.parametrize(("stale_check_ms", "between_checks"), [(0, 5.0), (2_000, 2.0)])
def test_a_queue_that_stands_still_is_watched_without_haste_and_our_entry_renewed(
    stale_check_ms: int, between_checks: float, pool: ClientPool, hms: FakeHms
) -> None:
    runtime, plain, checked_at = Timed(), hms.check_lock, []

    def check(rqst: Any) -> Any:
        checked_at.append(runtime.now())
        return plain(rqst)

    keywords = {"lock.stale-check-interval-ms": stale_check_ms, "iceberg.hive.lock-check-max-wait-ms": 5_000}
    lock = HmsTableLock(pool, runtime, Settings.load({**keywords, "user": "ada"}, environ={}))
    for _ in range(3):
        taken_by_another(hms, lock)
    hms.check_lock = check  # type: ignore[method-assign]
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=600, request="r")
    assert max(runtime.sleeps) <= 5.0
    assert len(runtime.sleeps) < 600 / min(5.0, between_checks) + 60
    longest = max(later - earlier for earlier, later in itertools.pairwise(checked_at))
    assert between_checks <= longest <= between_checks + 5.0, "a heartbeat, or the stale check"
    runtime.join()


def test_where_the_queue_cannot_be_seen_waits_grow_as_javas_and_are_spread(pool: ClientPool, hms: FakeHms) -> None:
    lists_no_locks(hms)
    runtime = Timed()
    settings = Settings.load({"iceberg.hive.lock-check-max-wait-ms": 5_000, "user": "ada"}, environ={})
    lock = HmsTableLock(pool, runtime, settings)
    taken_by_another(hms, lock)
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=30, request="r")
    assert runtime.sleeps[:3] == pytest.approx([0.0375, 0.05625, 0.084375])
    # An entry that waits is renewed by these looks alone.
    assert max(runtime.sleeps) == settings.lock_stale_check_interval_ms / 1000
    assert sum(runtime.sleeps) == pytest.approx(30)
    assert hms.calls.count("check_lock") == len(runtime.sleeps)


def test_who_loses_sight_of_the_queue_asks_for_its_own_entry_instead(pool: ClientPool, hms: FakeHms) -> None:
    runtime, plain, plain_list = Timed(), hms.check_lock, hms.show_locks
    lock = HmsTableLock(pool, runtime, Settings.load({"user": "ada"}, environ={}))
    other = taken_by_another(hms, lock)

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


def test_only_a_writer_that_is_not_ours_and_waits_is_a_foreign_waiter(lock: HmsTableLock) -> None:
    lock._entries.enqueue(NAME, "Iceberg-0123")
    assert not lock.foreign_writer_waits(NAME), "it has the lock"
    lock._entries.enqueue(NAME, agent_info("r-1"))
    assert not lock.foreign_writer_waits(NAME), "it is ours"
    lock._entries.enqueue(NAME, "Iceberg-4567")
    assert lock.foreign_writer_waits(NAME)
    assert not lock.foreign_writer_waits(TableName("db", "u"))


def test_a_query_of_hives_that_reads_is_no_foreign_writer(hms: FakeHms, lock: HmsTableLock) -> None:
    lock._entries.enqueue(NAME, "Iceberg-0123")
    reader = lock._entries.enqueue(NAME, "hive-query")
    assert lock.foreign_writer_waits(NAME)
    hms.locks[reader.lock_id].type = LockType.SHARED_READ
    assert not lock.foreign_writer_waits(NAME)


@pytest.mark.parametrize(
    ("other", "foreign"), [("Iceberg-0123", True), (agent_info("r-1"), False)], ids=["java", "ours"]
)
def test_who_held_the_lock_before_is_known(
    hms: FakeHms, lock: HmsTableLock, runtime: Counted, other: str, foreign: bool
) -> None:
    before = lock._entries.enqueue(NAME, other)
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


def test_who_waits_is_not_known_where_the_lock_table_cannot_be_read(hms: FakeHms, lock: HmsTableLock) -> None:
    for writer in ("Iceberg-0123", "Iceberg-4567"):
        lock._entries.enqueue(NAME, writer)
    hms.misbehave["show_locks"].append(TApplicationException(TApplicationException.UNKNOWN_METHOD, "none"))
    assert not lock.foreign_writer_waits(NAME)
