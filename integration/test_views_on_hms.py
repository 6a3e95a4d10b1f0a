"""Views through the Python API on a real metastore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, NoSuchView

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}]}


@pytest.fixture(params=["metastore", "stock_metastore"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def catalog(server: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_namespace("views_a")
        catalog.create_namespace("views_b")
        yield catalog
        for namespace in ("views_a", "views_b"):
            for view in catalog.views.list(namespace):
                catalog.views.drop(view)
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)
            catalog.drop_namespace(namespace)


def version(sql: str, number: int = 1) -> dict[str, Any]:
    return {
        "version-id": number,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"engine-name": "Spark"},
        "default-namespace": ["views_a"],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }


def replace(catalog: Catalog, view: str, sql: str) -> Any:
    found = catalog.views.load(view)
    return catalog.views.commit(
        view,
        [{"type": "assert-view-uuid", "uuid": found.metadata.uuid}],
        [
            {"action": "add-view-version", "view-version": version(sql, 2)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    )


def test_a_view_lives(catalog: Catalog) -> None:
    created = catalog.views.create("views_a.v", SCHEMA, version("select 1"), properties={"comment": "c"})
    assert catalog.views.load("views_a.V").metadata == created.metadata
    after = replace(catalog, "views_a.v", "select 2")
    assert after.metadata.current_version.sql_for("spark") == "select 2"
    assert catalog.views.load("views_a.v") == after
    assert after.metadata_location.rpartition("/")[2].startswith("00001-")
    catalog.views.rename("views_a.v", "views_b.w")
    assert (catalog.views.list("views_a"), [str(each) for each in catalog.views.list("views_b")]) == ([], ["views_b.w"])
    assert replace(catalog, "views_b.w", "select 3").metadata.current_version_id == 3
    catalog.views.drop("views_b.w")
    assert not catalog.views.exists("views_b.w")
    again = catalog.views.register("views_a.again", after.metadata_location)
    assert again.metadata == after.metadata
    with pytest.raises(NoSuchView, match=r"View does not exist: views_b\.w"):
        catalog.views.load("views_b.w")


def test_views_and_tables_are_never_taken_for_each_other(catalog: Catalog) -> None:
    catalog.views.create("views_a.v", SCHEMA, version("select 1"))
    catalog.create_table("views_a.t", SCHEMA)
    assert [each.name for each in catalog.list_tables("views_a")] == ["t"]
    assert [each.name for each in catalog.views.list("views_a")] == ["v"]
    with pytest.raises(NoSuchTable, match=r"Table does not exist: views_a\.v"):
        catalog.load_table("views_a.v")
    with pytest.raises(NoSuchView, match=r"View does not exist: views_a\.t"):
        catalog.views.load("views_a.t")
    for call, message in (
        (lambda: catalog.create_table("views_a.v", SCHEMA), "View with same name already exists: views_a.v"),
        (
            lambda: catalog.views.create("views_a.t", SCHEMA, version("x")),
            "Table with same name already exists: views_a.t",
        ),
        (lambda: catalog.views.create("views_a.v", SCHEMA, version("x")), "View already exists: views_a.v"),
        (
            lambda: catalog.rename_table("views_a.t", "views_a.v"),
            "Cannot rename views_a.t to views_a.v. View already exists",
        ),
        (
            lambda: catalog.views.rename("views_a.v", "views_a.t"),
            "Cannot rename views_a.v to views_a.t. Table already exists",
        ),
    ):
        with pytest.raises(AlreadyExists) as raised:
            call()
        assert raised.value.message == message
    with pytest.raises(NoSuchView):
        catalog.views.drop("views_a.t")
    with pytest.raises(NoSuchTable):
        catalog.drop_table("views_a.v")


def test_a_missing_namespace_is_named(catalog: Catalog) -> None:
    for call in (
        lambda: catalog.views.list("no_such"),
        lambda: catalog.views.create("no_such.v", SCHEMA, version("select 1")),
        lambda: catalog.views.register("no_such.v", "file:/none"),
    ):
        with pytest.raises(NoSuchNamespace):
            call()
    catalog.views.create("views_a.v", SCHEMA, version("select 1"))
    with pytest.raises(NoSuchNamespace):
        catalog.views.rename("views_a.v", "no_such.v")
