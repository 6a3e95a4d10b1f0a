from __future__ import annotations

from contextlib import ExitStack

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.protocol.lease_check import heartbeat_seconds
from iceberg_hms.errors import LockNotAcquired
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.poll_rate import PollRate
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.metastore.fake_hms import FakeHms
from tests.metastore.locks.test_table_lock import NAME, Timed, lists_no_locks, taken_by_another
from tests.metastore.runtimes import Counted


def test_the_more_wait_the_less_often_each_of_them_looks() -> None:
    crowd = PollRate(Counted(), 100)
    with ExitStack() as stack:
        seen = []
        for _ in range(161):
            stack.enter_context(crowd.joined())
            seen.append(crowd.seconds_between_looks)
    assert (seen[0], seen[1], seen[160]) == (0.0, 0.01, 1.6)
    assert crowd.seconds_between_looks == 0.0


def test_who_is_interrupted_waits_no_longer() -> None:
    crowd = PollRate(Counted(), 1)
    with pytest.raises(KeyboardInterrupt), crowd.joined(), crowd.joined():
        raise KeyboardInterrupt
    assert crowd.seconds_between_looks == 0.0


@pytest.mark.parametrize("seen", [True, False], ids=["in the queue", "where the queue cannot be seen"])
def test_the_more_tables_wait_the_less_often_each_is_looked_at(seen: bool, pool: ClientPool, hms: FakeHms) -> None:
    if not seen:
        lists_no_locks(hms)
    runtime = Timed()
    settings = Settings.load({"lock.max-checks-per-second": 10, "user": "ada"}, environ={})
    lock = HmsTableLock(pool, runtime, settings)
    taken_by_another(hms, lock)
    with ExitStack() as others:
        for _ in range(20):
            others.enter_context(lock._crowd.joined())
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=60, request="r")
    assert len(runtime.sleeps) == 30
    assert set(map(round, runtime.sleeps)) == {2}
    runtime.sleeps.clear()
    with pytest.raises(LockNotAcquired):
        lock.acquire(NAME, wait_seconds=60, request="r")
    assert len(runtime.sleeps) > 60, "alone it looks as often as it likes"


def test_a_waiting_entry_is_renewed_in_time_however_many_wait(pool: ClientPool, hms: FakeHms) -> None:
    runtime = Timed()
    lock = HmsTableLock(pool, runtime, Settings.load({"lock.max-checks-per-second": 1, "user": "ada"}, environ={}))
    taken_by_another(hms, lock)
    with ExitStack() as others:
        for _ in range(1_000):
            others.enter_context(lock._crowd.joined())
        with pytest.raises(LockNotAcquired):
            lock.acquire(NAME, wait_seconds=600, request="r")
    assert max(runtime.sleeps) == heartbeat_seconds(300) * 2.5
