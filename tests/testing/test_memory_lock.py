from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, LockUnavailable
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts.table_lock import CHECKS, Check, Guard
from iceberg_hms.testing.memory_lock import MemoryHeldLock, MemoryTableLock

NAME = TableName("db", "t")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_memory_lock_keeps_the_contract(check: Check) -> None:
    runtime = ThreadRuntime()
    first = MemoryTableLock(runtime=runtime)
    check(Guard(first, MemoryTableLock(first.queues, runtime=runtime), runtime, NAME))


def test_a_reaped_lock_is_lost() -> None:
    lock = MemoryTableLock()
    held = lock.acquire(NAME, wait_seconds=1, request="r")
    lock.queues.reap(NAME)
    with pytest.raises(LockLost):
        held.seconds_since_renewal()
    with pytest.raises(LockLost):
        held.renew()
    held.release()


def test_reaping_takes_the_lock_from_its_holder_and_gives_it_to_the_next() -> None:
    lock = MemoryTableLock()
    lock.acquire(NAME, wait_seconds=1, request="r")
    lock.queues.reap(NAME)
    lock.acquire(NAME, wait_seconds=0, request="s").renew()


def test_without_heartbeats_the_lease_runs_out() -> None:
    lock = MemoryTableLock(lease_seconds=0.01)
    held = lock.acquire(NAME, wait_seconds=1, request="r")
    assert isinstance(held, MemoryHeldLock)
    lock.runtime.sleep(0.02)
    held.seconds_since_renewal()
    held.heartbeats = False
    lock.runtime.sleep(0.02)
    with pytest.raises(LockLost):
        held.seconds_since_renewal()


def test_scripted_errors_are_raised_once() -> None:
    lock = MemoryTableLock()
    lock.errors.append(LockUnavailable("broken"))
    with pytest.raises(LockUnavailable):
        lock.acquire(NAME, wait_seconds=1, request="r")
    lock.acquire(NAME, wait_seconds=1, request="r").release()
    assert lock.acquired == 1
