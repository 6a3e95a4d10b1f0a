"""The ports' contracts on a real metastore: one check at a time, in namespaces of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts import hive_tables, table_lock, table_pointer, view_pointer
from iceberg_hms.testing.contracts.hive_tables import HivePlace
from iceberg_hms.testing.contracts.table_lock import Guard
from integration.servers import make_namespace


def add_hive_table(
    pool: ClientPool,
    name: TableName,
    location: str,
    table_type: str = "MANAGED_TABLE",
    parameters: Mapping[str, str] | None = None,
    partitions: Sequence[str] = (),
) -> None:
    """As `hive_tables.AddHiveTable`."""
    marks = {"EXTERNAL": "TRUE"} if table_type == "EXTERNAL_TABLE" else {}
    storage = StorageDescriptor(
        cols=[FieldSchema(name="id", type="int")],
        location=location,
        serdeInfo=SerDeInfo(parameters={}),
        parameters={},
    )
    row = Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="hive",
        tableType=table_type,
        partitionKeys=[FieldSchema(name="p", type="string")] if partitions else [],
        parameters={**(parameters or {}), **marks},
        sd=storage,
    )
    pool.call_once("create_table", tbl=row)
    for number, folder in enumerate(partitions):
        elsewhere = copy.copy(storage)
        elsewhere.location = folder
        partition = Partition(
            dbName=name.namespace, tableName=name.name, values=[str(number)], parameters={}, sd=elsewhere
        )
        pool.call_once("add_partition", new_part=partition)


@contextmanager
def _place(server: Any, request: pytest.FixtureRequest) -> Iterator[tuple[ClientPool, HmsTablePointer, HivePlace]]:
    pool = ClientPool([server.uri], size=4)
    namespace, other = make_namespace(server, request), make_namespace(server, request)
    place = HivePlace(namespace, other, f"{server.warehouse}/{namespace}.db", partial(add_hive_table, pool))
    try:
        yield pool, HmsTablePointer(pool, _settings(server)), place
    finally:
        pool.close()


def _settings(server: Any) -> Settings:
    return Settings.load({"metastore_uri": server.uri}, environ={})


def check_pointer(check: table_pointer.Check, server: Any, request: pytest.FixtureRequest) -> None:
    """One check of the TablePointer contract."""
    with _place(server, request) as (_, pointer, place):
        check(pointer, place)


def check_views(check: view_pointer.Check, server: Any, request: pytest.FixtureRequest) -> None:
    """One check of the ViewPointer contract."""
    with _place(server, request) as (pool, pointer, place):
        check(HmsViewPointer(pool, _settings(server)), pointer, place)


def check_hive_tables(check: hive_tables.Check, server: Any, request: pytest.FixtureRequest) -> None:
    """One check of the HiveTables contract."""
    with _place(server, request) as (pool, pointer, place):
        check(HmsHiveTables(pool, _settings(server)), pointer, place)


def check_lock(check: table_lock.Check, server: Any, namespace: str) -> None:
    """One check of the TableLock contract; no entry is left."""
    runtime, name = ThreadRuntime(), TableName(namespace, "t")
    pools = [ClientPool([server.uri], size=2) for _ in range(2)]
    try:
        first, second = (HmsTableLock(pool, runtime, _settings(server)) for pool in pools)
        check(Guard(first, second, runtime, name))
        assert LockEntries(pools[0], "checks").of(name) == []
    finally:
        for pool in pools:
            pool.close()
