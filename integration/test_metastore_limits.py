"""What a metastore's database cannot hold, on a real one: refused at once, or kept in the metadata alone.

The metastores of these tests retry what their database refuses as Hive does by default, for 20 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import PARAMETERS_MAX
from iceberg_hms.metastore.connection.thrift_types import GetTableRequest
from integration.engines.postgresql import postgresql
from integration.old_metastores import HMS_4_0_1, OldMetastore
from integration.servers import make_namespace

#: Far less than the metastore's own retries.
AT_ONCE_SECONDS = 10.0
EMOJI = "\U0001f600"


@pytest.fixture(scope="module")
def hive_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    folder = tmp_path_factory.mktemp("limits")
    with postgresql() as database, OldMetastore(folder, HMS_4_0_1, database="postgres", conf=database.conf) as server:
        yield server


@pytest.fixture(params=["metastore", pytest.param("hive_4", marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def server(request: pytest.FixtureRequest) -> Any:
    """The wheel's 2.3.10 on Derby, and 4.0.1 on PostgreSQL."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def namespace(server: Any, request: pytest.FixtureRequest) -> str:
    return make_namespace(server, request)


@pytest.fixture
def pool(server: Any) -> Iterator[ClientPool]:
    pool = ClientPool([server.uri])
    yield pool
    pool.close()


@pytest.fixture
def catalog(server: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        yield catalog


@pytest.fixture(autouse=True)
def at_once(catalog: Any, namespace: str) -> Iterator[None]:
    """After the server and the namespace are there."""
    started = SYSTEM_CLOCK.monotonic()
    yield
    assert SYSTEM_CLOCK.monotonic() - started < AT_ONCE_SECONDS


def row_of(pool: ClientPool, name: Any) -> Any:
    request = GetTableRequest(dbName=name.namespace, tblName=name.name)
    return pool.ask("get_table_req", req=request).table


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    plain = {"required": False, "type": "int"}
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": number, **plain, **field} for number, field in enumerate(fields, 1)],
    }


ID = {"name": "id"}


def test_properties_that_the_metastore_cannot_hold_stay_in_the_metadata(
    catalog: Any, namespace: str, pool: ClientPool
) -> None:
    odd = {
        "k" * 300: "long key",
        "long value": "v" * 40_000,
        "emoji": EMOJI * 20_000,
        EMOJI * 100: "emoji key",
        "nul": "a\0b",
        "nul\0key": "x",
        "key": "1",
        "key ": "2",
        "": "empty key",
    }
    table = catalog.create_table(f"{namespace}.odd", schema(ID), properties=odd | {"plain": EMOJI})
    assert odd.items() <= table.metadata.properties.items()
    shown = row_of(pool, table.name()).parameters
    assert shown.keys() & odd.keys() == {"key"}
    assert shown["plain"] == EMOJI
    more = {f"{key}2": value for key, value in odd.items() if key}
    report = catalog.commit(table.name(), [], [{"action": "set-properties", "updates": more | {"plain": "a\0b"}}])
    assert (odd | more).items() <= report.metadata.properties.items()
    assert "plain" not in row_of(pool, table.name()).parameters


def test_properties_beyond_the_bound_stay_in_the_metadata(catalog: Any, namespace: str, pool: ClientPool) -> None:
    """As parameters, many properties would keep the metastore's database busy, for commits to other tables too."""
    many = {f"p{number:06}": "v" for number in range(20_000)}
    table = catalog.create_table(f"{namespace}.many", schema(ID))
    report = catalog.commit(table.name(), [], [{"action": "set-properties", "updates": {**many, "comment": "c"}}])
    assert many.items() <= report.metadata.properties.items()
    shown = row_of(pool, table.name()).parameters
    assert shown["comment"] == "c"
    assert len(shown.keys() & report.metadata.properties.keys()) == PARAMETERS_MAX


def test_columns_that_the_metastore_cannot_hold_are_left_out_of_the_row(
    catalog: Any, namespace: str, pool: ClientPool, request: pytest.FixtureRequest
) -> None:
    inner = [{"id": 100 + each, "name": f"{'n' * 100}{each}", "required": False, "type": "int"} for each in range(400)]
    fields = [
        ID,
        {"name": "ID"},
        {"name": "c" * 800},
        {"name": "nul\0"},
        {"name": "wide", "type": {"type": "struct", "fields": inner}},
        {"name": "told", "doc": "d" * 5_000},
        {"name": "emoji", "doc": EMOJI * 200},
        {"name": "zero", "doc": "a\0b"},
    ]
    table = catalog.create_table(f"{namespace}.odd", schema(*fields))
    held = {column.name: column.comment for column in row_of(pool, table.name()).sd.cols}
    assert list(held) == ["id", "told", "emoji", "zero"]
    wide = "hive_4" in request.node.callspec.id
    assert held["told"] == "d" * (3_997 if wide else 253) + "..."
    assert held["emoji"] == (EMOJI * 200 if wide else EMOJI * 63 + "...")
    assert held["zero"] == "ab"
    assert table.metadata.schema.fields[5].doc == "d" * 5_000
    updates = [{"action": "set-properties", "updates": {"next": "1"}}]
    assert catalog.commit(table.name(), [], updates).metadata.properties["next"] == "1"


def test_a_table_without_a_column_that_the_metastore_can_hold_works(catalog: Any, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.odd", schema({"name": "c" * 800}))
    catalog.commit(table.name(), [], [{"action": "set-properties", "updates": {"next": "1"}}])


REFUSED: dict[str, Callable[[Any, str], object]] = {
    "table name": lambda catalog, db: catalog.create_table(f"{db}.{'t' * 257}", schema(ID)),
    "new table name": lambda catalog, db: catalog.rename_table(
        catalog.create_table(f"{db}.t", schema(ID)).name(), f"{db}.{'t' * 300}"
    ),
    "owner": lambda catalog, db: catalog.create_table(
        f"{db}.t", schema(ID), properties={"hive.metastore.table.owner": "o" * 768}
    ),
    "owner with NUL": lambda catalog, db: catalog.create_table(
        f"{db}.t", schema(ID), properties={"hive.metastore.table.owner": "o\0"}
    ),
    "location": lambda catalog, db: catalog.create_table(f"{db}.t", schema(ID), location="file:/" + "d/" * 2_500),
    "new location": lambda catalog, db: catalog.commit(
        catalog.create_table(f"{db}.t", schema(ID)).name(),
        [],
        [{"action": "set-location", "location": "file:/" + "d/" * 2_500}],
    ),
    "namespace": lambda catalog, db: catalog.create_namespace("n" * 129),
    "comment": lambda catalog, db: catalog.create_namespace(f"{db}2", {"comment": "c" * 4_001}),
    "comment with NUL": lambda catalog, db: catalog.create_namespace(f"{db}2", {"comment": "c\0"}),
    "namespace owner": lambda catalog, db: catalog.create_namespace(
        f"{db}2", {"hive.metastore.database.owner": "o" * 129}
    ),
    "namespace location": lambda catalog, db: catalog.create_namespace(f"{db}2", {"location": "file:/" + "d/" * 2_500}),
    "namespace key": lambda catalog, db: catalog.create_namespace(f"{db}2", {"k" * 181: "v"}),
    "namespace value": lambda catalog, db: catalog.create_namespace(f"{db}2", {"k": "v" * 4_001}),
    "namespace value in emoji": lambda catalog, db: catalog.create_namespace(f"{db}2", {"k": EMOJI * 2_001}),
    "two namespace keys": lambda catalog, db: catalog.create_namespace(f"{db}2", {"k": "v", "k ": "v"}),
    "changed namespace value": lambda catalog, db: catalog.update_namespace_properties(db, updates={"k": "v" * 4_001}),
    "changed namespace key": lambda catalog, db: catalog.update_namespace_properties(db, updates={"k" * 181: "v"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_place_but_the_metastore_is_refused_with_the_limit(what: str, catalog: Any, namespace: str) -> None:
    with pytest.raises(iceberg_hms.InvalidInput) as caught:
        REFUSED[what](catalog, namespace)
    assert caught.value.next_step.startswith("use at most ")


@pytest.mark.parametrize("length", [257, 40_000])
def test_no_table_has_a_name_that_no_metastore_holds(length: int, catalog: Any, namespace: str) -> None:
    name = f"{namespace}.{'t' * length}"
    for call in use_of(catalog, namespace, name):
        with pytest.raises(iceberg_hms.NoSuchTable):
            call()
    catalog.create_table(f"{namespace}.after", schema(ID))
    catalog.drop_table(f"{namespace}.after")


def test_a_long_name_is_made_only_where_it_can_be_locked(
    catalog: Any, namespace: str, request: pytest.FixtureRequest
) -> None:
    name = f"{namespace}.{'t' * 129}"
    for call in use_of(catalog, namespace, name):
        with pytest.raises((iceberg_hms.NoSuchTable, iceberg_hms.InvalidInput)):
            call()
    if "hive_4" in request.node.callspec.id:
        catalog.create_table(name, schema(ID))
        catalog.commit(name, [], [{"action": "set-properties", "updates": {"k": "v"}}])
        catalog.drop_table(name)
    else:
        with pytest.raises(iceberg_hms.InvalidInput, match="the table's name"):
            catalog.create_table(name, schema(ID))
    catalog.create_table(f"{namespace}.after", schema(ID))
    catalog.drop_table(f"{namespace}.after")


def use_of(catalog: Any, namespace: str, name: str) -> list[Callable[[], object]]:
    return [
        lambda: catalog.load_table(name),
        lambda: catalog.drop_table(name),
        lambda: catalog.rename_table(name, f"{namespace}.other"),
        lambda: catalog.commit(name, [], [{"action": "set-properties", "updates": {"k": "v"}}]),
    ]
