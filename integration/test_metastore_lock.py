"""The lock on a real metastore: what its table of locks shows, and what happens when it or the lock API goes away."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms import connect
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.capabilities import probe
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
)
from iceberg_hms.metastore.locks.holder_identity import AGENT_INFO_MAX
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.runtime import ThreadRuntime
from integration.faults import SCHEMA
from tests.polling import eventually


def settings_for(server: Any) -> Settings:
    return Settings.load({"metastore_uri": server.uri, "user": "ada"}, environ={})


@pytest.fixture
def lock(pool: ClientPool, metastore: Any) -> HmsTableLock:
    return HmsTableLock(pool, ThreadRuntime(), settings_for(metastore))


def test_an_entry_says_who_holds_it_and_is_gone_after_release(
    lock: HmsTableLock, pool: ClientPool, namespace: str
) -> None:
    name = TableName(namespace, "t")
    held = lock.acquire(name, wait_seconds=10, request="3f2c-a")
    (entry,) = LockEntries(pool, "x").of(name)
    assert entry.acquired
    assert entry.user == "ada"
    assert entry.agent_info.startswith("iceberg-hms/")
    assert "/3f2c-a." in entry.agent_info
    assert entry.agent_info.endswith("/blind")
    assert len(entry.agent_info) <= AGENT_INFO_MAX
    assert held.lease_seconds == 300
    held.release()
    assert LockEntries(pool, "x").of(name) == []


def test_the_error_of_a_waiter_names_the_holder(lock: HmsTableLock, namespace: str) -> None:
    name = TableName(namespace, "t")
    held = lock.acquire(name, wait_seconds=10, request="holder")
    with pytest.raises(LockNotAcquired, match=r"held by lock \d+ of ada on .*holder"):
        lock.acquire(name, wait_seconds=0.3, request="waiter")
    held.release()


def test_a_commit_behind_a_stuck_foreign_lock_says_who_holds_it_and_how_to_free_the_table(
    metastore: Any, pool: ClientPool, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Java's clients, and Hive's, lock so: without an agentInfo of ours, and with heartbeats or without."""
    with connect(metastore_uri=metastore.uri) as catalog:
        catalog.create_table((namespace, "t"), SCHEMA)
    component = LockComponent(
        type=LockType.EXCLUSIVE,
        level=LockLevel.TABLE,
        dbname=namespace,
        tablename="t",
        operationType=DataOperationType.NO_TXN,
    )
    stuck = pool.call_once("lock", rqst=LockRequest(component=[component], user="spark", hostname="worker-9"))
    with connect(metastore_uri=metastore.uri, **{"iceberg.hive.lock-timeout-ms": 6_000}) as impatient:
        began = time.monotonic()
        with pytest.raises(LockNotAcquired) as late:
            impatient.load_table((namespace, "t")).set_properties({"a": "b"})
        assert 6.0 <= time.monotonic() - began < 8.0, "an explicit lock timeout holds"
    holder = rf"held by lock {stuck.lockid} of spark on worker-9 \(.*\), since \d.* UTC, last heartbeat \d.* UTC"
    assert re.search(holder, str(late.value))
    assert "`iceberg-hms locks list`" in str(late.value)
    (report,) = [message for message in caplog.messages if "Waiting for the lock" in message]
    assert re.search(rf"for [56] s: {holder}\. ", report)
    assert f"`iceberg-hms locks break {stuck.lockid} --yes`" in report
    with connect(metastore_uri=metastore.uri) as catalog:
        catalog.locks.break_lock(str(stuck.lockid))
        catalog.load_table((namespace, "t")).set_properties({"a": "b"}, wait_seconds=5.0)


def test_a_lock_that_an_operator_removed_is_lost(lock: HmsTableLock, pool: ClientPool, namespace: str) -> None:
    name = TableName(namespace, "t")
    held = lock.acquire(name, wait_seconds=10, request="r")
    entries = LockEntries(pool, "operator")
    entries.remove(entries.of(name)[0])
    with pytest.raises(LockLost):
        held.renew()
    with pytest.raises(LockLost):
        held.seconds_since_renewal()
    held.release()


def test_a_waiting_entry_that_was_removed_asks_again(pool: ClientPool, metastore: Any, namespace: str) -> None:
    name = TableName(namespace, "t")
    runtime = ThreadRuntime()
    lock = HmsTableLock(pool, runtime, settings_for(metastore))
    held = lock.acquire(name, wait_seconds=10, request="holder")
    entries = LockEntries(pool, "operator")
    got = runtime.event()

    def wait() -> None:
        lock.acquire(name, wait_seconds=30, request="waiter").release()
        got.set()

    runtime.spawn("waiter", wait)
    [waiting] = eventually(lambda: [entry for entry in entries.of(name) if not entry.acquired])
    entries.remove(waiting)
    held.release()
    assert got.wait(30)
    assert entries.of(name) == []


def test_without_transaction_tables_the_lock_api_is_unavailable(tmp_path: Path) -> None:
    with LocalMetastore(tmp_path / "no locks", transaction_tables=False) as server:
        pool = ClientPool([server.uri])
        with pytest.raises(LockUnavailable, match="lock API fails"):
            HmsTableLock(pool, ThreadRuntime(), settings_for(server)).acquire(
                TableName("default", "t"), wait_seconds=30, request="r"
            )
        found = probe(server.uri, settings_for(server))
        assert not found.lock_api
        assert not found.transaction_tables
        assert found.compare_and_swap is CompareAndSwap.ATOMIC
        assert len(found.problems) == 2
        pool.close()


def test_doctor_reports_what_this_metastore_can_do(metastore: Any, stock_metastore: Any) -> None:
    found = probe(metastore.uri, settings_for(metastore))
    assert (found.version, found.lock_api, found.lease_seconds) == ("2.x", True, 300)
    assert found.transaction_tables
    assert found.compare_and_swap is CompareAndSwap.ATOMIC
    assert found.disallow_incompatible_col_type_changes is False
    assert found.problems == ()
    pool = ClientPool([metastore.uri])
    left = pool.ask("get_all_tables", db_name="default")
    assert [name for name in left if name.startswith("iceberg_hms_probe")] == []
    pool.close()
    assert probe(stock_metastore.uri, settings_for(stock_metastore)).disallow_incompatible_col_type_changes is True


def test_a_metastore_that_is_gone_is_unavailable_and_its_successor_is_found(tmp_path: Path) -> None:
    with LocalMetastore(tmp_path / "first") as first:
        settings = settings_for(first)
        with LocalMetastore(tmp_path / "second") as second:
            pool = ClientPool([second.uri, first.uri])
            lock = HmsTableLock(pool, ThreadRuntime(), settings)
            lock.acquire(TableName("default", "t"), wait_seconds=10, request="r").release()
        lock.acquire(TableName("default", "t"), wait_seconds=10, request="r").release()
    with pytest.raises(MetastoreUnavailable, match="cannot be reached"):
        lock.acquire(TableName("default", "t"), wait_seconds=0.2, request="r")
    pool.close()


@pytest.mark.slow
def test_a_metastore_that_was_restarted_with_a_shorter_lease_is_asked_for_it(tmp_path: Path) -> None:
    """The lock's holder lives by the lease of the server that has the lock now, not by that of the first one."""
    folder, name = tmp_path / "hms", TableName("default", "t")
    with LocalMetastore(folder, conf={"hive.txn.timeout": "300s"}) as first:
        pool = ClientPool([first.uri])
        lock = HmsTableLock(pool, ThreadRuntime(), settings_for(first))
        held = lock.acquire(name, wait_seconds=30, request="before")
        assert held.lease_seconds == 300
        held.release()
    with LocalMetastore(folder, port=first.port, conf={"hive.txn.timeout": "20s"}):
        held = lock.acquire(name, wait_seconds=60, request="after")
        assert held.lease_seconds == 20
        held.release()
        lock.close()
        pool.close()
