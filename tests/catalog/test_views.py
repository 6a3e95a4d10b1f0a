"""Views of a catalog over fakes of its ports; integration/test_views_on_hms.py runs the same paths on a metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    InvalidInput,
    LocationNotAllowed,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    RequirementFailed,
)
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.format.views.samples import schema, version

VIEW = TableName("db", "v")


@pytest.fixture
def pointer() -> MemoryTablePointer:
    return MemoryTablePointer(namespaces=())


@pytest.fixture
def catalog(pointer: MemoryTablePointer) -> Iterator[Catalog]:
    with memory_catalog(pointer=pointer) as catalog:
        catalog.create_namespace("db")
        yield catalog


def make(catalog: Catalog, name: str = "db.v", **more: Any) -> Any:
    return catalog.views.create(name, schema(), version(1, "select 1"), **more)


def replacing(sql: str) -> list[dict[str, Any]]:
    return [
        {"action": "add-view-version", "view-version": version(2, sql)},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def test_a_view_is_created_in_its_namespaces_folder(catalog: Catalog, pointer: MemoryTablePointer) -> None:
    created = make(catalog, "DB.V", properties={"comment": "c"}, client=Client(caller="grace"))
    assert created.name == VIEW
    assert created.metadata.location.startswith("file:///warehouse/db.db/v-")
    assert created.metadata.properties == {"comment": "c"}
    assert pointer.rows[VIEW].owner == "grace"
    assert catalog.views.load("db.V") == created
    assert catalog.views.list("DB") == [VIEW]
    assert (catalog.views.exists("db.v"), catalog.views.exists("db.w")) == (True, False)


def test_a_view_and_a_table_that_gets_its_name_later_share_no_folder(catalog: Catalog) -> None:
    view = make(catalog).metadata
    catalog.views.rename("db.v", "db.w")
    table = catalog.create_table("db.v", schema()).metadata
    assert not f"{view.location}/".startswith(f"{table.location}/")
    assert make(catalog, "db.here", location="file:/warehouse/here/").metadata.location == "file:/warehouse/here/"


def test_a_table_that_gets_the_name_of_a_view_of_java_shares_no_folder_with_it(catalog: Catalog) -> None:
    view = make(catalog, location="file:/warehouse/db.db/v")
    catalog.views.rename("db.v", "db.w")
    table = catalog.create_table("db.v", schema()).metadata
    assert table.location.startswith("file:///warehouse/db.db/v-")
    with pytest.raises(InvalidInput, match=r"that of the table db\.w"):
        catalog.create_table("db.x", schema(), location=view.metadata.location)
    catalog.purge_table("db.v")
    assert catalog.views.load("db.w").metadata == view.metadata


def test_a_view_is_replaced(catalog: Catalog) -> None:
    uuid = make(catalog).metadata.uuid
    after = catalog.views.commit("db.v", [{"type": "assert-view-uuid", "uuid": uuid}], replacing("select 2"))
    assert catalog.views.load("db.v") == after
    assert after.metadata.current_version.sql_for("spark") == "select 2"
    with pytest.raises(RequirementFailed):
        catalog.views.commit("db.v", [{"type": "assert-view-uuid", "uuid": "another"}], replacing("select 3"))
    with pytest.raises(InvalidInput, match="to a view"):
        catalog.views.commit("db.v", [], [{"action": "set-current-schema", "schema-id": 0}])


def test_a_commit_may_have_as_many_updates_as_a_tables() -> None:
    with memory_catalog(max_updates=1) as catalog:
        catalog.create_namespace("db")
        make(catalog)
        with pytest.raises(InvalidInput, match=r"commit\.max-updates"):
            catalog.views.commit("db.v", [], replacing("select 2"))


def test_a_view_is_renamed_dropped_and_registered(catalog: Catalog) -> None:
    catalog.create_namespace("other")
    created = make(catalog)
    catalog.views.rename("db.v", "other.W")
    assert (catalog.views.list("db"), catalog.views.list("other")) == ([], [TableName("other", "w")])
    catalog.views.drop("other.w")
    with pytest.raises(NoSuchView):
        catalog.views.drop("other.w")
    again = catalog.views.register("other.again", created.metadata_location, owner="grace")
    assert again.metadata == created.metadata


def test_texts_name_what_the_caller_wrote(catalog: Catalog) -> None:
    make(catalog, "db.viewOne")
    make(catalog, "db.viewTwo")
    with pytest.raises(AlreadyExists) as raised:
        catalog.views.rename("db.viewOne", ("db", "viewTwo"))
    assert raised.value.message == "Cannot rename db.viewOne to db.viewTwo. View already exists"


def test_views_and_tables_are_never_taken_for_each_other(catalog: Catalog) -> None:
    make(catalog)
    catalog.create_table("db.t", schema())
    assert ([each.name for each in catalog.list_tables("db")], catalog.views.list("db")) == (["t"], [VIEW])
    assert (catalog.table_exists("db.v"), catalog.views.exists("db.t")) == (False, False)
    location = catalog.views.load("db.v").metadata_location
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: catalog.create_table("db.v", schema()), "View with same name already exists: db.v"),
        (lambda: catalog.register_table("db.v", "file:/x"), "View with same name already exists: db.v"),
        (lambda: make(catalog, "db.t"), "Table with same name already exists: db.t"),
        (lambda: make(catalog), "View already exists: db.v"),
        (lambda: catalog.views.register("db.t", location), "Table with same name already exists: db.t"),
        (lambda: catalog.views.register("db.v", location), "View already exists: db.v"),
        (lambda: catalog.rename_table("db.t", "db.v"), "Cannot rename db.t to db.v. View already exists"),
        (lambda: catalog.views.rename("db.v", "db.t"), "Cannot rename db.v to db.t. Table already exists"),
    ]
    for call, message in refused:
        with pytest.raises(AlreadyExists) as raised:
            call()
        assert raised.value.message == message
    with pytest.raises(NoSuchTable, match=r"Table does not exist: db\.v"):
        catalog.load_table("db.v")
    with pytest.raises(NoSuchView, match=r"View does not exist: db\.t"):
        catalog.views.load("db.t")


def test_a_namespace_that_is_missing_is_named(catalog: Catalog) -> None:
    make(catalog)
    calls: list[Callable[[], Any]] = [
        lambda: catalog.views.list("none"),
        lambda: make(catalog, "none.v"),
        lambda: catalog.views.register("none.v", "file:/x"),
        lambda: catalog.views.rename("db.v", "none.v"),
    ]
    for call in calls:
        with pytest.raises(NoSuchNamespace):
            call()
    with pytest.raises(NoSuchView):
        catalog.views.load("none.v")


@pytest.mark.parametrize("name", ["db.v ", " db.v", "db.v\0", "@x#db.v"])
def test_a_name_that_the_metastore_would_take_for_another_names_nothing(name: str, catalog: Catalog) -> None:
    make(catalog)
    with pytest.raises(NoSuchView):
        catalog.views.load(name)
    assert not catalog.views.exists(name)
    with pytest.raises((InvalidInput, NoSuchNamespace)):
        make(catalog, name)


def test_clients_name_only_locations_that_they_may() -> None:
    files = MemoryFiles()
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("db")
        clients = catalog.for_clients()
        created = make(clients)
        with pytest.raises(LocationNotAllowed):
            make(clients, "db.w", location="file:/etc/w")
        with pytest.raises(LocationNotAllowed):
            make(clients, "db.w", properties={"write.metadata.path": "file:/etc/w"})
        with pytest.raises(LocationNotAllowed):
            clients.views.commit("db.v", [], [{"action": "set-location", "location": "file:/etc/v"}])
        with pytest.raises(LocationNotAllowed):
            clients.views.register("db.w", "file:/etc/v.metadata.json")
        clients.views.drop("db.v")
        assert clients.views.register("db.w", created.metadata_location).metadata == created.metadata
        assert make(catalog, "db.x", location="file:/etc/w").metadata.location == "file:/etc/w"


def test_strict_clients_read_no_view_elsewhere() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        make(catalog, location="file:/elsewhere/v")
        assert catalog.views.load("db.v").metadata.location == "file:/elsewhere/v"
        with pytest.raises(LocationNotAllowed):
            catalog.for_clients(strict=True).views.load("db.v")
