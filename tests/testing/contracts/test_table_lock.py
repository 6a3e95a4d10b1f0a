"""A suite that cannot fail proves nothing: broken locks are found."""

from __future__ import annotations

import pytest

from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.coordinator.ports import HeldLock, TableName
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.memory_lock import LockTable, MemoryTableLock

NAME = TableName("db", "t")


class LockForAll(MemoryTableLock):
    """Gives everybody a lock of their own."""

    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> HeldLock:
        self.table = LockTable(self.table.runtime)
        return super().acquire(name, wait_seconds=wait_seconds, request=request)


class LeavesEntries(LockTable):
    def remove(self, name: TableName, entry: str) -> None:
        return


def check(name: str, first: MemoryTableLock, second: MemoryTableLock) -> None:
    getattr(table_lock, name)(table_lock.Guard(first, second, ThreadRuntime(), NAME))


def test_a_lock_that_excludes_nobody_is_found() -> None:
    with pytest.raises(AssertionError, match="acquire of a held lock"):
        check("a_held_lock_is_not_given_twice", LockForAll(), LockForAll())


def test_a_lock_given_away_while_it_is_held_is_found() -> None:
    with pytest.raises(AssertionError, match="given away"):
        check("a_waiter_gets_it_on_release", LockForAll(), LockForAll())


def test_entries_that_stay_are_found() -> None:
    lock = MemoryTableLock(LeavesEntries(ThreadRuntime()))
    with pytest.raises(AssertionError, match="renew after release"):
        check("a_released_lock_is_not_renewed", lock, lock)


def test_every_check_has_a_name_of_its_own() -> None:
    names = [check.__name__ for check in table_lock.CHECKS]
    assert len(set(names)) == len(names) == 11
