"""A suite that cannot fail proves nothing: broken locks are found."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.ports import HeldLock, LockUse, TableName
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_metastore import LockQueues

NAME = TableName("db", "t")


class LockForAll(MemoryTableLock):
    """Gives everybody a lock of their own."""

    def acquire(self, name: TableName, **options: Any) -> HeldLock:
        self.queues = LockQueues()
        return super().acquire(name, **options)


class LeavesEntries(LockQueues):
    def remove(self, lock: int) -> None:
        return


def check(name: str, first: MemoryTableLock, second: MemoryTableLock) -> None:
    getattr(table_lock, name)(table_lock.Guard(first, second, ThreadRuntime(), NAME))


def test_a_lock_that_excludes_no_one_is_found() -> None:
    with pytest.raises(AssertionError, match="acquire of a held lock"):
        check("a_held_lock_is_not_acquired_again", LockForAll(), LockForAll())


def test_a_lock_given_away_while_it_is_held_is_found() -> None:
    with pytest.raises(AssertionError, match="got a held lock"):
        check("a_waiter_gets_the_lock_on_release", LockForAll(), LockForAll())


def test_lock_entries_that_stay_are_found() -> None:
    lock = MemoryTableLock(LeavesEntries())
    with pytest.raises(AssertionError, match="renew after release"):
        check("a_released_lock_is_not_renewed", lock, lock)


class ShortForAll(MemoryTableLock):
    """Gives a drop a short lease, so that another writer takes the lock while the drop sleeps."""

    def acquire(self, name: TableName, **options: Any) -> HeldLock:
        return super().acquire(name, **{**options, "use": LockUse.CAS})


class ShortWithoutCas(MemoryTableLock):
    """Gives compare-and-swap a short lease, and allows blind calls under it."""

    def acquire(self, name: TableName, **options: Any) -> HeldLock:
        held: Any = super().acquire(name, **options)
        held.require_cas = False
        return held


@pytest.mark.parametrize(
    ("kind", "found"), [(ShortForAll, "for blind calls requires"), (ShortWithoutCas, "does not require")]
)
def test_a_short_lease_without_compare_and_swap_is_found(kind: type[MemoryTableLock], found: str) -> None:
    lock = kind()
    lock.short_lease_seconds = 10.0
    with pytest.raises(AssertionError, match=found):
        check("only_a_lock_for_compare_and_swap_has_a_shorter_lease", lock, lock)


def test_every_check_has_a_name_of_its_own() -> None:
    names = [check.__name__ for check in table_lock.CHECKS]
    assert len(set(names)) == len(names) == 12
