"""Rows of tables and databases on a real metastore: what is kept, what is listed, what a foreign writer sees."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Refused, Sending, Swapped, TableName
from iceberg_hms.errors import AlreadyExists, InvalidInput, NamespaceNotEmpty, NoSuchNamespace
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import EnvironmentContext
from iceberg_hms.metastore.tables.namespaces import COMMENT, LOCATION, OWNER, OWNER_TYPE, HmsNamespaces
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from integration.contract_checks import add_hive_table
from integration.servers import make_namespace


@pytest.fixture
def pointer(metastore: Any, pool: ClientPool) -> HmsTablePointer:
    return HmsTablePointer(pool, Settings.load({"metastore_uri": metastore.uri}, environ={}))


@pytest.fixture
def namespaces(pool: ClientPool) -> HmsNamespaces:
    return HmsNamespaces(pool, "ada")


def alter(pool: ClientPool, name: TableName, row: Any) -> None:
    pool.call_once(
        "alter_table_with_environment_context",
        dbname=name.namespace,
        tbl_name=name.name,
        new_tbl=row,
        environment_context=EnvironmentContext(properties={}),
    )


def columns_of(pointer: HmsTablePointer, name: TableName) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in pointer.load(name).table.sd.cols]


def test_what_others_put_into_a_row_survives_a_swap(
    pointer: HmsTablePointer, pool: ClientPool, metastore: Any, namespace: str
) -> None:
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{metastore.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, "ada") == Swapped()
    row = copy.copy(pointer.load(name).table)
    row.parameters = {**row.parameters, "foreign": "kept", "comment": "ours"}
    row.owner = "grace"
    row.retention = 7
    row.sd = copy.copy(row.sd)
    row.sd.bucketCols, row.sd.numBuckets = ["id"], 4
    row.sd.parameters = {"sd": "kept"}
    alter(pool, name, row)
    assert pointer.swap(pointer.load(name), "file:/m1", metadata, metadata, Sending()) == Swapped()
    now = pointer.load(name)
    assert now.metadata_location == "file:/m1"
    assert now.parameters["foreign"] == "kept"
    table = now.table
    assert (table.owner, table.retention, table.tableType) == ("grace", 7, "EXTERNAL_TABLE")
    assert (table.sd.bucketCols, table.sd.numBuckets, table.sd.parameters) == (["id"], 4, {"sd": "kept"})


def test_a_row_has_the_owner_times_and_formats_that_java_gives_it(
    pointer: HmsTablePointer, metastore: Any, namespace: str
) -> None:
    location = f"{metastore.warehouse}/{namespace}.db/t"
    pointer.create(TableName(namespace, "t"), "file:/m0", table_metadata(location), "ada")
    row = pointer.load(TableName(namespace, "t")).table
    assert row.owner == "ada"
    assert row.createTime > 1_700_000_000
    assert row.retention == 2**31 - 1
    assert row.sd.location == location
    assert row.sd.inputFormat == "org.apache.hadoop.mapred.FileInputFormat"
    assert row.sd.serdeInfo.serializationLib == "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    owned = table_metadata(location + "2", {"hive.metastore.table.owner": "grace"})
    pointer.create(TableName(namespace, "t2"), "file:/m0", owned, None)
    mine = pointer.load(TableName(namespace, "t2"))
    assert mine.table.owner == "grace"
    assert "hive.metastore.table.owner" not in mine.parameters


EVERY_TYPE = (
    "boolean", "int", "long", "float", "double", "decimal(38,2)", "date", "time", "timestamp", "timestamptz", "string",
    "uuid", "fixed[16]", "binary", "timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry(srid:4326)",
)  # fmt: skip


def test_columns_of_every_type_are_created_and_altered(
    pointer: HmsTablePointer, metastore: Any, namespace: str
) -> None:
    nested = [
        {"type": "list", "element-id": 100, "element-required": False, "element": "timestamptz"},
        {"type": "map", "key-id": 101, "key": "string", "value-id": 102, "value-required": False, "value": "variant"},
        {"type": "struct", "fields": [{"id": 103, "name": "B", "required": False, "type": "timestamptz_ns"}]},
    ]
    every = tuple((number, f"c{number}", kind) for number, kind in enumerate((*EVERY_TYPE, *nested), 1))
    metadata = table_metadata(f"{metastore.warehouse}/{namespace}.db/t", columns=every)
    name = TableName(namespace, "t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    assert pointer.swap(pointer.load(name), "file:/m1", metadata, metadata, Sending()) == Swapped()
    types = dict(columns_of(pointer, name))
    assert types["c10"] == "timestamp"
    assert types[f"c{len(every)}"] == "struct<B:timestamp>"


def test_a_stock_metastore_keeps_its_columns_and_takes_the_swap(
    stock_metastore: Any, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = make_namespace(stock_metastore, request)
    pool = ClientPool([stock_metastore.uri])
    pointer = HmsTablePointer(pool, Settings.load({"metastore_uri": stock_metastore.uri}, environ={}))
    name = TableName(namespace, "t")
    location = f"{stock_metastore.warehouse}/{namespace}.db/t"
    before = table_metadata(location, columns=((1, "a", "string"), (2, "b", "long")))
    after = table_metadata(location, columns=((2, "b", "long"),))
    pointer.create(name, "file:/m0", before, None)
    assert pointer.swap(pointer.load(name), "file:/m1", after, before, Sending()) == Swapped()
    assert pointer.swap(pointer.load(name), "file:/m2", after, after, Sending()) == Swapped()
    assert pointer.load(name).metadata_location == "file:/m2"
    assert columns_of(pointer, name) == [("a", "string"), ("b", "bigint")]
    warnings = [record for record in caplog.records if "disallow.incompatible.col.type.changes" in record.message]
    assert len(warnings) == 1
    pool.close()


def test_an_outdated_swap_on_a_stock_metastore_is_a_conflict_whatever_its_columns(
    stock_metastore: Any, request: pytest.FixtureRequest
) -> None:
    namespace = make_namespace(stock_metastore, request)
    pool = ClientPool([stock_metastore.uri])
    pointer = HmsTablePointer(pool, Settings.load({"metastore_uri": stock_metastore.uri}, environ={}))
    name = TableName(namespace, "t")
    location = f"{stock_metastore.warehouse}/{namespace}.db/t"
    before = table_metadata(location, columns=((1, "a", "string"), (2, "b", "long")))
    after = table_metadata(location, columns=((2, "b", "long"),))
    pointer.create(name, "file:/m0", before, None)
    base = replace(pointer.load(name), metadata_location="file:/outdated")
    answer = pointer.swap(base, "file:/m1", after, before, Sending())
    assert isinstance(answer, Refused)
    assert answer.conflict
    assert pointer.load(name).metadata_location == "file:/m0"
    pool.close()


def test_only_iceberg_tables_are_listed_unless_all_are_asked_for(
    pointer: HmsTablePointer, pool: ClientPool, metastore: Any, namespace: str
) -> None:
    assert pointer.list_tables(namespace) == []
    add_hive_table(pool, TableName(namespace, "hive"), f"{metastore.warehouse}/{namespace}.db/hive")
    for table in ("b", "a"):
        metadata = table_metadata(f"{metastore.warehouse}/{namespace}.db/{table}")
        pointer.create(TableName(namespace, table), "file:/m0", metadata, None)
    assert pointer.list_tables(namespace) == ["a", "b"]
    everything = Settings.load({"metastore_uri": metastore.uri, "list-all-tables": True}, environ={})
    assert HmsTablePointer(pool, everything).list_tables(namespace) == ["a", "b", "hive"]
    with pytest.raises(NoSuchNamespace):
        pointer.list_tables("no_such_namespace")


def test_a_name_that_hive_refuses_is_bad_input(pointer: HmsTablePointer, namespace: str, metastore: Any) -> None:
    metadata = table_metadata(f"{metastore.warehouse}/x")
    answer = pointer.create(TableName(namespace, "no spaces"), "file:/m0", metadata, None)
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)


def test_a_namespace_lives_and_dies(namespaces: HmsNamespaces, metastore: Any, namespace: str) -> None:
    name = f"{namespace}_x"
    location = f"{metastore.warehouse}/{name} here"
    namespaces.create(name, {LOCATION: location, COMMENT: "why", "k": "v", "gone": "soon"})
    with pytest.raises(AlreadyExists):
        namespaces.create(name, {})
    assert name in namespaces.list()
    assert namespaces.exists(name)
    assert namespaces.load(name) == {
        LOCATION: location, COMMENT: "why", "k": "v", "gone": "soon", OWNER: "ada", OWNER_TYPE: "USER",
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="comment"):
        namespaces.update(name, {"k": "w", COMMENT: "because"}, [])
    namespaces.update(name, {"k": "w", "new": "1", COMMENT: "why"}, ["gone", "never was"])
    assert namespaces.load(name) == {
        LOCATION: location, COMMENT: "why", "k": "w", "new": "1", OWNER: "ada", OWNER_TYPE: "USER",
    }  # fmt: skip
    namespaces.update(name, {OWNER: "team", OWNER_TYPE: "GROUP"}, [])
    assert namespaces.load(name)[OWNER_TYPE] == "GROUP"
    namespaces.drop(name)
    assert not namespaces.exists(name)
    for call in (lambda: namespaces.load(name), lambda: namespaces.drop(name), lambda: namespaces.update(name, {}, [])):
        with pytest.raises(NoSuchNamespace):
            call()


def test_a_namespace_with_tables_is_not_dropped(
    namespaces: HmsNamespaces, pool: ClientPool, metastore: Any, namespace: str
) -> None:
    add_hive_table(pool, TableName(namespace, "hive"), f"{metastore.warehouse}/{namespace}.db/hive")
    with pytest.raises(NamespaceNotEmpty):
        namespaces.drop(namespace)
    assert namespaces.exists(namespace)


def test_a_namespace_is_refused_for_what_it_cannot_be(namespaces: HmsNamespaces, namespace: str) -> None:
    with pytest.raises(InvalidInput):
        namespaces.create("a.b", {})
    with pytest.raises(InvalidInput):
        namespaces.create(f"{namespace}_y", {OWNER_TYPE: "USER"})
    with pytest.raises(InvalidInput, match="KING"):
        namespaces.create(f"{namespace}_y", {OWNER: "a", OWNER_TYPE: "KING"})
    with pytest.raises(InvalidInput):
        namespaces.update(namespace, {OWNER: "a"}, [])
    with pytest.raises(InvalidInput):
        namespaces.update(namespace, {}, [COMMENT])
    assert not namespaces.exists(f"{namespace}_y")
