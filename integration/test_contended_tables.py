"""Another writer holds the locks of many tables: commits to other tables go on, and the waiting commits land in
order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.assembly import connect
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockNotAcquired
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry

CONTENDED = 40
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def foreign(metastore: Any) -> Iterator[LockEntries]:
    pool = ClientPool([metastore.uri])
    yield LockEntries(pool, "foreign")
    pool.close()


def tables(catalog: Catalog, namespace: str, count: int) -> list[TableName]:
    names = [TableName(namespace, f"t{number}") for number in range(count)]
    for name in names:
        catalog.create_table((name.namespace, name.name), SCHEMA)
    return names


def locked(foreign: LockEntries, names: list[TableName]) -> list[LockEntry]:
    entries = [foreign.enqueue(name, "somebody else") for name in names]
    assert all(entry.acquired for entry in entries)
    return entries


def update(number: int) -> list[dict[str, Any]]:
    return [{"action": "set-properties", "updates": {"number": str(number)}}]


def submit(catalog: Catalog, name: TableName, number: int, seconds: float = 120.0) -> Any:
    return catalog.submit((name.namespace, name.name), [], update(number), wait_seconds=seconds)


def test_forty_tables_that_wait_keep_no_other_waiting(metastore: Any, foreign: LockEntries, namespace: str) -> None:
    catalog = connect(metastore.uri, metastore.warehouse)
    *contended, free = tables(catalog, namespace, CONTENDED + 1)
    entries = locked(foreign, contended)
    members = [submit(catalog, name, 0) for name in contended]
    for number in range(10):
        report = catalog.commit((free.namespace, free.name), [], update(number), wait_seconds=30)
        assert report.group_size == 1
    assert not any(member.outcome for member in members)
    for entry in entries:
        foreign.remove(entry)
    assert [member.wait().group_size for member in members] == [1] * CONTENDED
    assert not [entry for name in contended for entry in foreign.of(name)]
    catalog.close()


def test_more_tables_than_threads_wait_in_line_and_are_served(
    metastore: Any, foreign: LockEntries, namespace: str
) -> None:
    catalog = connect(metastore.uri, metastore.warehouse, commit_threads=2, lock_max_checks_per_second=5)
    *contended, free = tables(catalog, namespace, 4)
    entries = locked(foreign, contended)
    members = [submit(catalog, name, 0) for name in contended]
    with pytest.raises(LockNotAcquired, match="did not get its turn"):
        catalog.commit((free.namespace, free.name), [], update(0), wait_seconds=1)
    late = submit(catalog, free, 1)
    foreign.remove(entries[0])
    assert members[0].wait().group_size == 1
    # Two of the locked tables have the threads now; one of them has to give up its own before the free one is served.
    foreign.remove(entries[1])
    assert members[1].wait().group_size == 1
    assert late.wait().group_size == 1
    foreign.remove(entries[2])
    assert members[2].wait().group_size == 1
    catalog.close()
