from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import CheckLockRequest, MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.coordinator.ports import LockUse, TableName
from iceberg_hms.errors import InvalidInput, LockNotAcquired, LockUnavailable
from iceberg_hms.lock_waits import LockWaits
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import LockType
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.table_lock import CLOSE_SECONDS, HmsTableLock
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts.table_lock import CHECKS, Check, Guard
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Late, Running, StoreClosed, pool_of
from tests.metastore.locks.waiters import NAME, SETTINGS, Timed, TimedWith, lists_no_locks, taken_by_another
from tests.metastore.runtimes import Counted
from tests.polling import eventually


@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: Check, proven: bool, server: Running, hms: FakeHms) -> None:
    runtime = ThreadRuntime()
    with pool_of(server) as one, pool_of(server) as other:
        for pool in (one, other) if proven else ():
            pool.cas_support.learn(server.uri, NAME.namespace, CompareAndSwap.ATOMIC)
        check(Guard(HmsTableLock(one, runtime, SETTINGS), HmsTableLock(other, runtime, SETTINGS), runtime, NAME))
        assert hms.locks == {}


def test_a_connections_server_is_asked_for_its_lease_once(lock: HmsTableLock, hms: FakeHms) -> None:
    for _ in range(3):
        held = lock.acquire(NAME, wait_seconds=1, request="r")
        assert held.lease_seconds == 300
        held.release()
    assert hms.calls.count("get_config_value") == 2


def test_a_held_lock_is_renewed_and_released_while_the_alters_of_other_tables_hang(
    server: Running, hms: FakeHms
) -> None:
    """With `clients` of 2, two swaps that wait for rows of the metastore's database have all connections."""
    runtime, hung = Counted(), [Late(), Late()]
    with pool_of(server, size=2, timeout_ms=1_000) as pool:
        lock = HmsTableLock(pool, runtime, SETTINGS)
        held = lock.acquire(NAME, wait_seconds=1, request="r", use=LockUse.CAS)
        hms.misbehave["get_all_tables"] += hung
        for _ in hung:
            runtime.spawn("swap", lambda: pool.ask("get_all_tables", db_name="db"))
        assert eventually(lambda: hms.calls.count("get_all_tables") >= len(hung))
        held.renew()
        held.release()
        assert hms.calls.count("get_all_tables") == len(hung), "they were not given up before"
        assert hms.locks == {}
        for each in hung:
            each.go.set()
        lock.close()
        runtime.join()


def test_an_unknown_lease_is_presumed_by_the_setting(lock: HmsTableLock, hms: FakeHms) -> None:
    hms.config.clear()
    held = lock.acquire(NAME, wait_seconds=1, request="r")
    assert held.lease_seconds == SETTINGS.lock_lease_default_ms / 1000
    held.release()


@pytest.mark.parametrize("method", ["check_lock", "heartbeat", "unlock", "show_locks"])
def test_a_lock_outlives_the_store_of_one_handler(
    method: str, lock: HmsTableLock, hms: FakeHms, entries: LockEntries
) -> None:
    other = taken_by_another(entries)
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


def test_a_lost_request_that_arrives_late_blocks_nobody(
    lock: HmsTableLock, hms: FakeHms, runtime: Counted, entries: LockEntries
) -> None:
    hms.misbehave["lock"].append(DropBefore())
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    (entry,) = hms.locks.values()
    late = entries.enqueue(NAME, entry.agent_info)
    held.release()
    lock.acquire(NAME, wait_seconds=5, request="next").release()
    assert late.lock_id not in hms.locks


def test_an_entry_that_could_not_be_withdrawn_is_removed_later(
    lock: HmsTableLock, hms: FakeHms, entries: LockEntries
) -> None:
    other = taken_by_another(entries)
    hms.misbehave["unlock"] += [DropBefore(), DropBefore()]
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=0.05, request="r")
    entries.remove(other)
    lock.acquire(NAME, wait_seconds=5, request="next").release()


def test_an_entry_whose_release_failed_is_removed_later(lock: HmsTableLock, hms: FakeHms) -> None:
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    hms.misbehave["unlock"].append(MetaException("deadlock"))
    held.release()
    lock.acquire(NAME, wait_seconds=5, request="next").release()


def test_a_lock_whose_heartbeats_cannot_start_is_withdrawn(
    lock: HmsTableLock, hms: FakeHms, runtime: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*given: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "spawn", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        lock.acquire(NAME, wait_seconds=5, request="r")
    assert hms.locks == {}


def test_a_waiter_that_times_out_learns_who_holds_the_lock(
    lock: HmsTableLock, hms: FakeHms, entries: LockEntries
) -> None:
    taken_by_another(entries)
    with pytest.raises(
        LockNotAcquired,
        match=r"^Timed out after 0 s waiting for the lock on db.t \(held by lock 1 of ada on \S+ \(another writer\), "
        r"last heartbeat 2023-11-14 22:13:20.000 UTC\) "
        r"\(try again; `iceberg-hms locks list` shows",
    ):
        lock.acquire(NAME, wait_seconds=0.02, request="r")
    assert len(hms.locks) == 1


def test_a_long_wait_is_logged_once_and_asks_no_more_of_the_metastore(
    pool: ClientPool, hms: FakeHms, entries: LockEntries, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = TimedWith(hms)
    waits = LockWaits(runtime)
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_check_max_wait_ms=500), waits=waits)
    other = taken_by_another(entries)
    seen: list[str] = []

    def release_after_a_while() -> None:
        seen.append(waits.held_by(NAME))
        if runtime.now() > 20:
            entries.remove(other)

    runtime.awake = release_after_a_while
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    reports = [message for message in caplog.messages if "Waiting for the lock" in message]
    assert len(reports) == 1
    assert reports[0].startswith("Waiting for the lock of db.t for 5 s: held by lock 1 of ada on ")
    assert "`iceberg-hms locks break 1 --yes`" in reports[0]
    assert seen[-1].startswith("held by lock 1 of ada")
    assert waits.held_by(NAME) == ""
    calls = hms.calls.count("show_locks")
    hms.calls.clear()
    runtime.sleeps.clear()
    other = taken_by_another(entries)
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_check_max_wait_ms=500), waits=Unasked(runtime))
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    assert hms.calls.count("show_locks") == calls


def test_a_wait_at_a_metastore_that_shows_no_locks_is_logged_and_ends_as_ever(
    pool: ClientPool, hms: FakeHms, entries: LockEntries, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = TimedWith(hms)
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_check_max_wait_ms=500, lock_stale_check_interval_ms=0))
    other = taken_by_another(entries)
    lists_no_locks(hms)
    runtime.awake = lambda: entries.remove(other) if runtime.now() > 20 else None
    lock.acquire(NAME, wait_seconds=60, request="r").release()
    reports = [message for message in caplog.messages if "Waiting for the lock" in message]
    assert reports == ["Waiting for the lock of db.t for 5 s; its holder is not known"]


class Unasked(LockWaits):
    """Notes nothing."""

    def saw(self, name: TableName, holder: Any) -> None:
        return


def test_closing_ends_waits_and_leaves_no_entry(
    lock: HmsTableLock, runtime: Counted, hms: FakeHms, entries: LockEntries
) -> None:
    other = taken_by_another(entries)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            lock.acquire(NAME, wait_seconds=600, request="r")
        except LockNotAcquired as error:
            errors.append(error)

    runtime.spawn("waiter", wait)
    assert eventually(lambda: len(hms.locks) > 1)
    lock.close()
    assert list(hms.locks) == [other.lock_id], "it was withdrawn before close returned"
    runtime.join()
    assert "the catalog is closed" in str(errors[0])


def test_closing_waits_until_a_held_lock_is_released(
    lock: HmsTableLock, pool: ClientPool, runtime: Counted, hms: FakeHms, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    monkeypatch.setattr(runtime, "sleep", lambda seconds: held.release())
    lock.close()
    pool.close()
    held.release()
    assert hms.locks == {}, "close returns only after the release, which needs the connections"


def test_closing_waits_for_a_held_lock_only_so_long(pool: ClientPool, hms: FakeHms) -> None:
    runtime = Timed()
    lock = HmsTableLock(pool, runtime, SETTINGS, cleanup_poll_seconds=0.005)
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    lock.close()
    held.release()
    assert sum(runtime.sleeps) == pytest.approx(CLOSE_SECONDS, abs=0.1)
    assert hms.locks == {}
    runtime.join()


def test_closing_does_not_wait_for_locks_that_were_released_or_never_acquired(
    pool: ClientPool, hms: FakeHms, monkeypatch: pytest.MonkeyPatch, entries: LockEntries
) -> None:
    runtime = Timed()
    lock = HmsTableLock(pool, runtime, SETTINGS, cleanup_poll_seconds=0.005)
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    hms.misbehave["unlock"].append(MetaException("deadlock"))
    lock.acquire(NAME, wait_seconds=5, request="r").release()
    taken_by_another(entries)
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=0, request="r")
    runtime.sleeps.clear()
    lock.close()
    runtime.join()
    assert runtime.sleeps == []


def test_after_closing_no_lock_is_requested(lock: HmsTableLock, hms: FakeHms) -> None:
    lock.close()
    with pytest.raises(LockNotAcquired, match="the catalog is closed"):
        lock.acquire(NAME, wait_seconds=5, request="r").release()
    assert "lock" not in hms.calls


def test_an_entry_whose_reply_was_lost_is_removed_even_if_the_next_server_has_no_lock_api(
    lock: HmsTableLock, runtime: Counted, hms: FakeHms
) -> None:
    hms.misbehave["lock"] += [DropAfter(), TApplicationException(TApplicationException.UNKNOWN_METHOD, "no lock here")]
    hms.misbehave["show_locks"] += [MetaException("busy")] * 2
    with pytest.raises(LockUnavailable):
        lock.acquire(NAME, wait_seconds=5, request="r")
    lock.close()
    runtime.join()
    assert hms.locks == {}


def test_a_lock_that_is_left_loses_the_entry_that_a_lost_call_made_beside_it(
    pool: ClientPool, hms: FakeHms, entries: LockEntries
) -> None:
    """lock: no answer | the same again: acquired | a swap is not answered, and the lock is left | the first call"""
    runtime = Counted()
    lock = HmsTableLock(pool, runtime, SETTINGS, cleanup_poll_seconds=0.002)
    hms.misbehave["lock"].append(DropBefore())
    held = lock.acquire(NAME, wait_seconds=5, request="r")
    [left] = hms.locks.values()
    held.let_expire()
    lost = entries.enqueue(NAME, left.agent_info)
    assert eventually(lambda: lost.lock_id not in hms.locks)
    assert list(hms.locks.values()) == [left]
    lock.close()
    runtime.join()


def test_a_lock_announces_what_its_process_knows_of_compare_and_swap(
    lock: HmsTableLock, pool: ClientPool, hms: FakeHms
) -> None:
    said = []
    for support in (CompareAndSwap.UNKNOWN, CompareAndSwap.ATOMIC, CompareAndSwap.IGNORED):
        pool.cas_support.learn(pool.uris[0], NAME.namespace, support)
        for use in (LockUse.CAS, LockUse.BLIND):
            held = lock.acquire(NAME, wait_seconds=1, request="r", use=use)
            (entry,) = hms.locks.values()
            said.append(entry.agent_info.rpartition("/")[2])
            held.release()
    assert said == ["unproven-15", "blind", "cas-15", "blind", "blind", "blind"]


def removes_a_dead_writers_lock(lock: HmsTableLock, entries: LockEntries, clock: TimedWith) -> float:
    """It announced a short lease. Returns when its lock was removed."""
    entries.enqueue(NAME, f"iceberg-hms/{'0' * 32}/1/2-3/r.000/cas-15")
    lock.acquire(NAME, wait_seconds=60, request="r", use=LockUse.CAS).release()
    return clock.now()


@pytest.fixture
def clock(hms: FakeHms) -> TimedWith:
    return TimedWith(hms)


@pytest.fixture
def timed_lock(pool: ClientPool, clock: TimedWith) -> Iterator[HmsTableLock]:
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    lock = HmsTableLock(pool, clock, replace(SETTINGS, lock_check_max_wait_ms=500))
    yield lock
    lock.close()
    clock.join()


@pytest.mark.parametrize("use", [LockUse.CAS, LockUse.BLIND])
def test_a_writer_that_meets_a_server_without_compare_and_swap_lets_the_servers_lease_of_a_removed_lock_pass(
    use: LockUse, timed_lock: HmsTableLock, entries: LockEntries, clock: TimedWith, pool: ClientPool, hms: FakeHms
) -> None:
    """A swap that was sent under the removed lock may arrive until then, and this writer's would overwrite it."""
    removed = removes_a_dead_writers_lock(timed_lock, entries, clock)
    assert 15 <= removed < 30
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.IGNORED)
    hms.calls.clear()
    with pytest.raises(LockNotAcquired, match=f"Timed out after 30 s waiting for the lock on {NAME}"):
        timed_lock.acquire(NAME, wait_seconds=30, request="r", use=use)
    assert "lock" not in hms.calls, "it does not block other writers meanwhile"
    timed_lock.acquire(NAME, wait_seconds=300, request="r", use=use).release()
    assert 300 <= clock.now() < 310


def test_closing_ends_the_wait_for_the_lease_of_a_removed_lock(
    timed_lock: HmsTableLock, entries: LockEntries, clock: TimedWith, pool: ClientPool, hms: FakeHms
) -> None:
    removed = removes_a_dead_writers_lock(timed_lock, entries, clock)
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.IGNORED)
    hms.calls.clear()

    def close() -> None:
        clock.awake = lambda: None
        timed_lock.close()

    clock.awake = close
    with pytest.raises(LockNotAcquired, match="the catalog is closed"):
        timed_lock.acquire(NAME, wait_seconds=300, request="r")
    assert clock.now() < removed + 1 + CLOSE_SECONDS
    assert "lock" not in hms.calls


def test_a_foreign_writer_waits_only_if_it_is_not_ours_and_has_no_lock_yet(
    lock: HmsTableLock, entries: LockEntries
) -> None:
    entries.enqueue(NAME, "Iceberg-0123")
    assert not lock.foreign_writer_waits(NAME), "it has the lock"
    entries.enqueue(NAME, agent_info("r-1"))
    assert not lock.foreign_writer_waits(NAME), "it is ours"
    entries.enqueue(NAME, "Iceberg-4567")
    assert lock.foreign_writer_waits(NAME)
    assert not lock.foreign_writer_waits(TableName("db", "u"))


def test_a_query_of_hives_that_reads_is_no_foreign_writer(
    hms: FakeHms, lock: HmsTableLock, entries: LockEntries
) -> None:
    entries.enqueue(NAME, "Iceberg-0123")
    reader = entries.enqueue(NAME, "hive-query")
    assert lock.foreign_writer_waits(NAME)
    hms.locks[reader.lock_id].kind = LockType.SHARED_READ
    assert not lock.foreign_writer_waits(NAME)


def test_without_sight_of_the_lock_table_no_foreign_writer_waits(
    hms: FakeHms, lock: HmsTableLock, entries: LockEntries
) -> None:
    for writer in ("Iceberg-0123", "Iceberg-4567"):
        entries.enqueue(NAME, writer)
    hms.misbehave["show_locks"].append(TApplicationException(TApplicationException.UNKNOWN_METHOD, "none"))
    assert not lock.foreign_writer_waits(NAME)


def test_a_name_that_the_server_cannot_lock_is_refused_before_it_is_asked(lock: HmsTableLock, hms: FakeHms) -> None:
    long = TableName("db", "t" * 129)
    with pytest.raises(InvalidInput, match="the table's name"):
        lock.acquire(long, wait_seconds=1, request="r")
    assert "lock" not in hms.calls
    hms.version = "4.0.1"
    lock.acquire(long, wait_seconds=1, request="r").release()
