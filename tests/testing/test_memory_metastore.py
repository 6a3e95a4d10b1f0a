from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    LockLost,
    MetastoreRefused,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
)
from iceberg_hms.testing.memory_metastore import LockQueues, MemoryMetastore

T, OTHER, NOWHERE = TableName("db", "t"), TableName("db", "u"), TableName("nope", "t")


@dataclass(frozen=True)
class Row:
    parameters: dict[str, str] = field(default_factory=dict)


def metastore() -> MemoryMetastore[Row]:
    made = MemoryMetastore[Row]()
    made.create_database("db", {})
    made.insert(T, Row({"k": "a"}))
    return made


def test_a_row_is_inserted_replaced_renamed_and_removed() -> None:
    made, row = metastore(), Row({"k": "b"})
    made.alter(T, T, row)
    assert made.get(T) is row
    made.alter(T, OTHER, row)
    assert made.rows_in("db") == {OTHER: row}
    made.remove(OTHER)
    assert made.rows == {}


def test_names_that_are_taken_or_missing_are_refused_and_nothing_changes() -> None:
    made, row = metastore(), Row()
    made.insert(OTHER, row)
    before = dict(made.rows)
    refusals: list[tuple[type[Exception], Any]] = [
        (AlreadyExists, lambda: made.insert(T, row)),
        (NoSuchNamespace, lambda: made.insert(NOWHERE, row)),
        (AlreadyExists, lambda: made.alter(T, OTHER, row)),
        (NoSuchNamespace, lambda: made.alter(T, NOWHERE, row)),
        (NoSuchTable, lambda: made.alter(TableName("db", "x"), T, row)),
        (NoSuchTable, lambda: made.remove(NOWHERE)),
        (NoSuchTable, lambda: made.get(NOWHERE)),
    ]
    for error, call in refusals:
        with pytest.raises(error):
            call()
    assert made.rows == before


def test_a_row_with_another_value_than_expected_is_refused() -> None:
    made = metastore()
    made.compare(T, "k", "a")
    for key, expected in (("k", "b"), ("missing", "a")):
        with pytest.raises(MetastoreRefused, match=f"value for key '{key}' is '"):
            made.compare(T, key, expected)
    with pytest.raises(NoSuchTable):
        made.compare(OTHER, "k", "a")


def test_a_database_is_dropped_when_it_is_empty() -> None:
    made = metastore()
    with pytest.raises(AlreadyExists):
        made.create_database("db", {})
    with pytest.raises(NamespaceNotEmpty):
        made.drop_database("db")
    made.remove(T)
    made.drop_database("db")
    for call in (made.drop_database, made.database):
        with pytest.raises(NoSuchNamespace):
            call("db")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_locks_queue_by_table_in_the_order_of_their_arrival() -> None:
    locks = LockQueues()
    first, second, elsewhere = locks.enqueue(T, "r1"), locks.enqueue(T, "r2"), locks.enqueue(OTHER, "r3")
    assert (locks.check(first.id), locks.check(second.id), locks.check(elsewhere.id)) == (True, False, True)
    assert [entry.agent_info for entry in locks.entries(T)] == ["r1", "r2"]
    assert len(locks.entries()) == 3
    locks.remove(first.id)
    locks.remove(first.id)
    with pytest.raises(LockLost):
        locks.check(first.id)
    assert locks.check(second.id) is True


def test_a_lease_ends_where_nobody_renews_it_waiting_or_not() -> None:
    clock = Clock()
    locks = LockQueues(clock, lease_seconds=60.0)
    first, second = locks.enqueue(T, "r1"), locks.enqueue(T, "r2")
    clock.now = 50.0
    assert locks.check(first.id) is True
    clock.now = 100.0
    assert locks.renew(first.id) is first
    for gone in (second, first):
        with pytest.raises(LockLost):
            locks.check(gone.id)
        clock.now = 161.0


def test_without_a_lease_a_lock_stays() -> None:
    clock = Clock()
    locks = LockQueues(clock)
    locks.enqueue(T, "r1")
    waiting = locks.enqueue(T, "r2")
    clock.now = 1e6
    assert locks.check(waiting.id) is False


def test_a_lock_that_is_acquired_is_reported_once() -> None:
    locks = LockQueues()
    acquired: list[str] = []
    locks.on_acquired = lambda entry: acquired.append(entry.agent_info)
    first, second = locks.enqueue(T, "r1"), locks.enqueue(T, "r2")
    for entry in (second, first, first):
        locks.check(entry.id)
    assert acquired == ["r1"]


def test_reaping_removes_the_holder_alone() -> None:
    locks = LockQueues()
    locks.enqueue(T, "r1")
    second = locks.enqueue(T, "r2")
    locks.reap(T)
    locks.reap(OTHER)
    assert locks.entries() == [second]
