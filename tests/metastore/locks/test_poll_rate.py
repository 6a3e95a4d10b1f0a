from __future__ import annotations

from contextlib import ExitStack

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import heartbeat_seconds
from iceberg_hms.errors import LockNotAcquired
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.poll_rate import PollRate
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.metastore.fake_hms import FakeHms
from tests.metastore.locks.waiters import NAME, Timed, lists_no_locks, taken_by_another
from tests.metastore.runtimes import Counted


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
