"""The drivers keep the ports' contracts on a real metastore, with its embedded settings and with Hive's own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
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
from iceberg_hms.testing.contracts.table_pointer import Place
from integration.conftest import make_namespace


@pytest.fixture(params=["metastore", "stock_metastore"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def pool(server: Any) -> Iterator[ClientPool]:
    pool = ClientPool([server.uri], size=4)
    yield pool
    pool.close()


def hive_row(name: TableName, location: str, table_type: str = "MANAGED_TABLE") -> Any:
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="hive",
        tableType=table_type,
        partitionKeys=[],
        parameters={},
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")],
            location=location,
            serdeInfo=SerDeInfo(parameters={}),
            parameters={},
        ),
    )


def hive_table(pool: ClientPool, name: TableName, location: str) -> None:
    row = hive_row(name, location)
    pool.run(lambda client: client.call("create_table", tbl=row), idempotent=False)


@pytest.mark.parametrize("check", table_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract(
    check: table_pointer.Check, server: Any, pool: ClientPool, request: pytest.FixtureRequest
) -> None:
    settings = Settings.load({"metastore_uri": server.uri}, environ={})
    namespace, other = make_namespace(server, request), make_namespace(server, request)
    place = Place(namespace, other, f"{server.warehouse}/{namespace}.db", partial(hive_table, pool))
    check(HmsTablePointer(pool, settings), place)


@pytest.mark.parametrize("check", view_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_views_keep_the_contract(
    check: view_pointer.Check, server: Any, pool: ClientPool, request: pytest.FixtureRequest
) -> None:
    settings = Settings.load({"metastore_uri": server.uri}, environ={})
    namespace, other = make_namespace(server, request), make_namespace(server, request)
    place = Place(namespace, other, f"{server.warehouse}/{namespace}.db", partial(hive_table, pool))
    check(HmsViewPointer(pool, settings), HmsTablePointer(pool, settings), place)


def add_hive_table(
    pool: ClientPool,
    name: TableName,
    location: str,
    table_type: str = "MANAGED_TABLE",
    parameters: Mapping[str, str] | None = None,
    partitions: Sequence[str] = (),
) -> None:
    row = hive_row(name, location, table_type)
    row.parameters = {**(parameters or {}), **({"EXTERNAL": "TRUE"} if table_type == "EXTERNAL_TABLE" else {})}
    row.partitionKeys = [FieldSchema(name="p", type="string")] if partitions else []
    pool.run(lambda client: client.call("create_table", tbl=row), idempotent=False)
    for number, folder in enumerate(partitions):
        storage = copy.copy(row.sd)
        storage.location = folder
        partition = Partition(
            dbName=name.namespace, tableName=name.name, values=[str(number)], parameters={}, sd=storage
        )
        pool.run(lambda client, new=partition: client.call("add_partition", new_part=new), idempotent=False)  # type: ignore[misc]


@pytest.mark.parametrize("check", hive_tables.CHECKS, ids=lambda check: check.__name__)
def test_the_hive_tables_keep_the_contract(
    check: hive_tables.Check, server: Any, pool: ClientPool, request: pytest.FixtureRequest
) -> None:
    settings = Settings.load({"metastore_uri": server.uri}, environ={})
    namespace, other = make_namespace(server, request), make_namespace(server, request)
    place = HivePlace(namespace, other, f"{server.warehouse}/{namespace}.db", partial(add_hive_table, pool))
    check(HmsHiveTables(pool), HmsTablePointer(pool, settings), place)


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, metastore: Any, namespace: str) -> None:
    settings = Settings.load({"metastore_uri": metastore.uri}, environ={})
    runtime = ThreadRuntime()
    pools = [ClientPool([metastore.uri], size=2) for _ in range(2)]
    first, second = (HmsTableLock(pool, runtime, settings) for pool in pools)
    try:
        check(Guard(first, second, runtime, TableName(namespace, "t")))
        assert LockEntries(pools[0], "checks").of(TableName(namespace, "t")) == []
    finally:
        for pool in pools:
            pool.close()
