"""Compare-and-swap and dead locks on a real metastore, Hive 2.3.10, that runs no reaper of locks."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Refused, Sending, Swapped, TableName
from iceberg_hms.errors import CommitConflict, LockNotAcquired, MetastoreUnavailable
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, alter_arguments
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.columns import columns, storage_descriptor
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.polling import eventually

#: What a writer may take to commit over a dead one's lock, which announces a lease of 15 s.
SECONDS = 30.0

# A process that takes the lock of a table (or asks for it and waits), says so, and stays until it is killed. "cas": it
# commits before, so that its compare-and-swap is proved.
WRITER = """
import sys
import iceberg_hms
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import LockUse, TableName
from iceberg_hms.metastore.locks.table_lock import HmsTableLock

uri, warehouse, namespace, protection = sys.argv[1:]
catalog = iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse)
if protection == "cas":
    update = {"action": "set-properties", "updates": {"by": "the one who dies"}}
    catalog.commit(f"{namespace}.t", requirements=[], updates=[update])
lock = catalog.services.ports.lock
sys.stdout.write("asking\\n")
sys.stdout.flush()
held = lock.acquire(TableName(namespace, "t"), wait_seconds=600, request="dies", use=LockUse.CAS)
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def pool(metastore: Any) -> Iterator[ClientPool]:
    pool = ClientPool([metastore.uri])
    yield pool
    pool.close()


@pytest.fixture
def catalog(metastore: Any, warehouse: str, namespace: str) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=warehouse) as catalog:
        catalog.create_table(f"{namespace}.t", iceberg_schema())
        yield catalog


def iceberg_schema() -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def commit(catalog: Catalog, namespace: str) -> None:
    update = {"action": "set-properties", "updates": {"by": "the one who lives"}}
    catalog.commit(f"{namespace}.t", requirements=[], updates=[update])
    assert catalog.load_table(f"{namespace}.t").metadata.properties["by"] == "the one who lives"


@contextmanager
def writer(server: Any, namespace: str, protection: str, until: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs WRITER and has said `until`; it is killed at the end, if it was not before."""
    command = [sys.executable, "-c", WRITER, server.uri, server.warehouse, namespace, protection]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == until:
                break
        else:
            pytest.fail("the writer ended early")
        yield process
    finally:
        process.kill()
        process.communicate()


def of(pool: ClientPool, namespace: str) -> list[LockEntry]:
    return LockEntries(pool, "x").of(TableName(namespace, "t"))


def test_the_probe_is_refused_before_anything_else_and_changes_nothing(
    stock_metastore: Any, request: pytest.FixtureRequest
) -> None:
    settings = Settings.load({}, environ={})
    name = TableName("default", "cas_probe")
    pool = ClientPool([stock_metastore.uri])
    client = MetastoreClient(stock_metastore.uri, connect_timeout_ms=10_000, socket_timeout_ms=60_000)
    pointer = HmsTablePointer(pool, settings)
    metadata = table_metadata(f"{stock_metastore.warehouse}/cas_probe")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    base = pointer.load(name)
    wrong_columns = table_metadata(metadata.location, columns=((1, "id", "binary"),))

    def refused(expected: tuple[str, str] | None, schema: Any, *, partition: bool = False) -> Fault:
        row = copy.copy(base.table)
        cols = columns(schema.schema, local_time_zones=False)
        row.sd = storage_descriptor(row.sd, cols, schema.location, hive_engine=False)
        row.partitionKeys = [FieldSchema(name="probe", type="string")] if partition else []
        row.parameters = {**base.parameters, "metadata_location": "file:/m1"}
        with pytest.raises(ServerFault) as caught:
            client.call(ALTER, **alter_arguments(name, row, expected))
        return caught.value.fault

    for schema in (metadata, wrong_columns):
        for partition in (True, False):
            assert refused(("iceberg-hms.probe", "absent"), schema, partition=partition) is Fault.EXPECTED_KEY_MISSING
        assert refused(("metadata_location", "outdated"), schema) is Fault.TABLE_MODIFIED
    assert refused(("metadata_location", "file:/m0"), wrong_columns) is Fault.INCOMPATIBLE_COLUMNS
    # As a server answers a probe that ignores what it expects.
    assert refused(None, metadata, partition=True) is Fault.PARTITION_KEYS_CHANGED
    assert pointer.load(name) == base
    client.close()
    pool.close()


def test_the_first_swap_proves_the_connection_and_the_next_says_so(
    metastore: Any, pool: ClientPool, namespace: str
) -> None:
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{metastore.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    assert pool.cas_support.protection(namespace) is SwapProtection.UNPROVEN
    assert pointer.swap(pointer.load(name), "file:/m1", metadata, metadata, Sending()) == Swapped()
    assert pool.cas_support.protection(namespace) is SwapProtection.CAS
    assert pool.run(lambda client: client.cas_support.of(namespace), idempotent=True) is CompareAndSwap.ATOMIC


def test_a_swap_that_requires_cas_leaves_no_scratch_row(metastore: Any, pool: ClientPool, namespace: str) -> None:
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{metastore.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    base = pointer.load(name)
    assert pointer.swap(base, "file:/m1", metadata, metadata, Sending(require_cas=True)) == Swapped()
    assert isinstance(pointer.swap(base, "file:/m1", metadata, metadata, Sending(require_cas=True)), Refused)
    assert pool.ask("get_all_tables", db_name=namespace) == ["t"]
    folder = Path(metastore.warehouse.removeprefix("file:")) / f"{namespace}.db"
    assert [path.name for path in folder.glob("iceberg_hms_probe*")] == []


def test_without_direct_sql_compare_and_swap_is_broken_and_the_swap_goes_without_it(tmp_path: Path) -> None:
    with LocalMetastore(tmp_path / "no direct sql", conf={"hive.metastore.try.direct.sql": "false"}) as server:
        pool = ClientPool([server.uri])
        pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
        name = TableName("default", "t")
        metadata = table_metadata(f"{server.warehouse}/t")
        assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
        base = pointer.load(name)
        for number in (1, 2):
            assert pointer.swap(pointer.load(name), f"file:/m{number}", metadata, metadata, Sending()) == Swapped()
        assert pool.cas_support.of(server.uri, name.namespace) is CompareAndSwap.BROKEN
        assert pool.cas_support.protection(name.namespace) is SwapProtection.BLIND
        with pytest.raises(MetastoreUnavailable, match="broken"):
            pointer.swap(base, "file:/m3", metadata, metadata, Sending(require_cas=True))
        assert pointer.load(name).metadata_location == "file:/m2"
        pool.close()


@pytest.mark.parametrize("protection", ["cas", pytest.param("unproven", marks=pytest.mark.slow)])
def test_a_writer_that_was_killed_with_the_lock_holds_nobody_up(
    protection: str, catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    with writer(metastore, namespace, protection, "held") as killed:
        (entry,) = of(pool, namespace)
        assert entry.acquired
        assert entry.agent_info.endswith(f"/{protection}-15")
        killed.kill()
        killed.wait()
    assert of(pool, namespace) == [entry], "the metastore removes nothing by itself"
    started = time.monotonic()
    commit(catalog, namespace)
    assert time.monotonic() - started < SECONDS
    assert of(pool, namespace) == []


@pytest.mark.slow
def test_a_writer_that_was_killed_while_it_waited_delays_nobody(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    lock = HmsTableLock(pool, ThreadRuntime(), Settings.load({}, environ={}))
    held = lock.acquire(TableName(namespace, "t"), wait_seconds=10, request="holder")
    with writer(metastore, namespace, "unproven", "asking") as killed:
        assert eventually(lambda: len(of(pool, namespace)) > 1)
        killed.kill()
        killed.wait()
    held.release()
    (entry,) = of(pool, namespace)
    assert not entry.acquired
    started = time.monotonic()
    commit(catalog, namespace)
    assert time.monotonic() - started < SECONDS
    assert of(pool, namespace) == []


def test_a_writer_that_lives_keeps_its_lock(
    catalog: Catalog, metastore: Any, warehouse: str, namespace: str, pool: ClientPool
) -> None:
    quick: dict[str, Any] = {"lock.stale-check-interval-ms": 100, "iceberg.hive.lock-timeout-ms": 1_000}
    with writer(metastore, namespace, "cas", "held") as alive:
        with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=warehouse, **quick) as other:
            update = {"action": "set-properties", "updates": {"by": "nobody"}}
            with pytest.raises((LockNotAcquired, CommitConflict)):
                other.commit(f"{namespace}.t", requirements=[], updates=[update], wait_seconds=2)
        assert alive.poll() is None
        assert [entry.acquired for entry in of(pool, namespace)] == [True]
    # It was killed now, and the next writer removes its lock.
    commit(catalog, namespace)


@pytest.mark.slow
def test_a_killed_writers_lock_stays_if_waiters_do_not_poll(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    with writer(metastore, namespace, "cas", "held"):
        pass
    blind = HmsTableLock(pool, ThreadRuntime(), Settings.load({"lock.stale-check-interval-ms": 0}, environ={}))
    with pytest.raises(LockNotAcquired):
        blind.acquire(TableName(namespace, "t"), wait_seconds=3, request="r")
    assert len(of(pool, namespace)) == 1
    commit(catalog, namespace)


@pytest.mark.slow
def test_a_lock_of_another_machine_goes_after_its_lease_by_both_clocks(tmp_path: Path) -> None:
    lease = 4.0
    with LocalMetastore(tmp_path / "short lease", conf={"hive.txn.timeout": f"{lease:.0f}s"}) as server:
        pool = ClientPool([server.uri])
        settings = Settings.load({"lock.stale-check-interval-ms": 200}, environ={})
        pool.cas_support.learn(server.uri, "default", CompareAndSwap.ATOMIC)
        lock = HmsTableLock(pool, ThreadRuntime(), settings)
        name = TableName("default", "t")
        elsewhere = LockEntries(pool, "x").enqueue(name, f"iceberg-hms/{'0' * 32}/1/2-3/r.000/cas")
        assert elsewhere.acquired
        started = time.monotonic()
        held = lock.acquire(name, wait_seconds=60, request="r")
        assert lease <= time.monotonic() - started < SECONDS
        assert held.lease_seconds == lease
        held.release()
        assert LockEntries(pool, "x").of(name) == []
        pool.close()
