"""What stock clients may name, over a real Hive Metastore: tables elsewhere go on, new ones lie in the warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError

import iceberg_hms
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.namespaces import LOCATION, HmsNamespaces
from iceberg_hms.rest.server import RestServer
from integration.rest_clients import TOKEN, catalog, server
from integration.servers import make_namespace
from tests.rest.fakes import SCHEMA
from tests.security.callers import callers

__all__ = ["catalog", "server"]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def rest(server: RestServer) -> Any:
    return load_catalog("stock", type="rest", uri=server.uri, token=TOKEN)


@pytest.fixture
def sql(spark: Any, server: RestServer, namespace: str) -> Iterator[str]:
    """The name of a stock REST catalog in Spark."""
    name = f"rest_{namespace}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": server.uri, ".token": TOKEN}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    yield name
    for key in settings:
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_a_table_outside_of_the_warehouse_goes_on(
    rest: Any, catalog: Any, pool: ClientPool, namespace: str, tmp_path: Path
) -> None:
    far = f"{namespace}_far"
    HmsNamespaces(pool).create(far, {LOCATION: f"file:{tmp_path}/far.db"})
    catalog.create_table((namespace, "t"), ROWS.schema, location=f"file:{tmp_path}/t")
    own = {"write.metadata.path": f"file:{tmp_path}/metadata"}
    catalog.create_table((far, "t"), ROWS.schema, properties=own)
    rest.create_table((far, "made"), ROWS.schema)
    for name in ((namespace, "t"), (far, "t"), (far, "made")):
        table = rest.load_table(name)
        for _ in range(2):
            table.append(ROWS)
        assert rest.load_table(name).scan().to_arrow().num_rows == 4
        with pytest.raises(ForbiddenError, match=r"rest\.allowed-locations"):
            table.transaction().set_properties({"write.data.path": f"file:{tmp_path}/else"}).commit_transaction()


def test_a_table_that_pyiceberg_staged_owns_its_folder(rest: Any, catalog: Any, namespace: str) -> None:
    with rest.create_table_transaction((namespace, "t"), ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert catalog.pointer((namespace, "t")).owns_folder
    assert "iceberg-hms.stage-proof" not in rest.load_table((namespace, "t")).properties


def test_nothing_is_made_outside_of_the_warehouse(rest: Any, namespace: str, tmp_path: Path) -> None:
    outside = f"file:{tmp_path}/outside"
    for attempt in (
        lambda: rest.create_table((namespace, "t"), ROWS.schema, location=outside),
        lambda: rest.create_table_transaction((namespace, "t"), ROWS.schema, location=outside),
        lambda: rest.create_table((namespace, "t"), ROWS.schema, properties={"write.metadata.path": outside}),
        lambda: rest.create_namespace(f"{namespace}_far", {"location": outside}),
        lambda: rest.update_namespace_properties(namespace, updates={"location": outside}),
        lambda: rest.register_table((namespace, "t"), f"{outside}/v1.metadata.json"),
    ):
        with pytest.raises(ForbiddenError, match=r"rest\.allowed-locations"):
            attempt()
    assert list(tmp_path.iterdir()) == []
    assert rest.list_tables(namespace) == []


@pytest.mark.slow
def test_sparks_location_clause_names_the_warehouse(
    spark: Any, sql: str, metastore: Any, namespace: str, tmp_path: Path
) -> None:
    """CREATE TABLE creates at once, CREATE TABLE AS SELECT stages first."""
    inside, outside = f"{metastore.warehouse}/{namespace}.db", f"file:{tmp_path}"
    for name, columns, query, count in (("plain", "(id BIGINT)", "", 1), ("staged", "", "AS SELECT 1L AS id", 2)):
        statement = f"CREATE TABLE {sql}.{namespace}.{name} {columns} USING iceberg LOCATION '{{}}' {query}"
        with pytest.raises(Exception, match=r"ForbiddenException.*rest\.allowed-locations"):
            spark.sql(statement.format(f"{outside}/{name}"))
        spark.sql(statement.format(f"{inside}/at_{name}"))
        spark.sql(f"INSERT INTO {sql}.{namespace}.{name} VALUES (2)")
        assert spark.table(f"{sql}.{namespace}.{name}").count() == count
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Exception, match=r"ForbiddenException.*rest\.allowed-locations"):
        spark.sql(f"ALTER TABLE {sql}.{namespace}.plain SET LOCATION '{outside}/moved'")
    spark.sql(f"ALTER TABLE {sql}.{namespace}.plain SET LOCATION '{inside}/moved'")
    spark.sql(f"CREATE OR REPLACE TABLE {sql}.{namespace}.plain USING iceberg AS SELECT 3L AS id")
    assert [row.id for row in spark.table(f"{sql}.{namespace}.plain").collect()] == [3]


def test_a_caller_of_one_namespace_puts_nothing_into_anothers_folder(
    metastore: Any, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`default` has the warehouse itself as its folder here, as in most metastores."""
    other = make_namespace(metastore, request)
    scopes = {"one": f"write[{namespace}]", "both": f"write[{namespace} {other}]", "all": "write[*]"}
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        root = catalog.load_namespace_properties(other)["location"]
        webs = callers(catalog, tmp_path, scopes)

        def create(caller: str, name: str, location: str) -> int:
            body = {"name": name, "schema": SCHEMA, "location": location}
            return webs(caller)("POST", f"/v1/namespaces/{namespace}/tables", body).status_code

        assert create("one", "evil", f"{root}/t") == 403
        assert create("one", "evil", f"{metastore.warehouse}/t") == 403
        assert create("both", "shared", f"{root}/t") == 200
        assert create("all", "wide", f"{metastore.warehouse}/{namespace}-apart") == 200
        assert create("one", "mine", f"{metastore.warehouse}/{namespace}.db/somewhere") == 200
        names = [each.name for each in catalog.list_tables(namespace)]
        assert names == ["mine", "shared", "wide"]
        for name in names:
            catalog.purge_table((namespace, name))
