"""Views through the Python API on a real metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.views import LoadedView
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AlreadyExists, IcebergHmsError, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from iceberg_hms.format.views.apply import new_view_metadata

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


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call returns, or the error that it raises."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait(30)
        try:
            return call()
        except IcebergHmsError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_one_of_several_views_and_tables_that_are_created_at_once_gets_the_name(catalog: Catalog) -> None:
    for number in range(5):
        name = f"views_a.n{number}"

        def view(name: str = name) -> Any:
            return catalog.views.create(name, SCHEMA, version("select 1"))

        def table(name: str = name) -> Any:
            return catalog.create_table(name, SCHEMA)

        results = at_once(view, table, view, table)
        refused = [each for each in results if isinstance(each, Exception)]
        assert [type(each) for each in refused] == [AlreadyExists] * 3
        [made] = [each for each in results if each not in refused]
        is_view = catalog.views.exists(name)
        assert (is_view, catalog.table_exists(name)) == (made in (results[0], results[2]), not is_view)
        if is_view:
            assert catalog.views.load(name) == made
        else:
            assert catalog.load_table(name).metadata.uuid == made.metadata.uuid


def test_replacing_renaming_and_dropping_a_view_at_once_loses_no_acknowledged_replacement(catalog: Catalog) -> None:
    texts = [f"select {each} as n" for each in (1, 2)]
    for number in range(3):
        old, new = f"views_a.r{number}", f"views_b.r{number}"
        uuid = catalog.views.create(old, SCHEMA, version("select 0")).metadata.uuid
        replaced = at_once(
            lambda old=old: replace(catalog, old, texts[0]),
            lambda old=old, new=new: catalog.views.rename(old, new),
            lambda old=old: replace(catalog, old, texts[1]),
        )
        assert replaced[1] is None
        found = catalog.views.load(new).metadata
        assert (found.uuid, catalog.views.exists(old)) == (uuid, False)
        said = {each.sql_for("spark") for each in found.versions}
        made = {text for text, result in zip(texts, replaced[::2], strict=True) if not isinstance(result, Exception)}
        assert said == {"select 0", *made}
        refused = [each for each in replaced if isinstance(each, Exception)]
        assert all(isinstance(each, NoSuchView) for each in refused)

        dropped = at_once(lambda new=new: catalog.views.drop(new), lambda new=new: replace(catalog, new, "select 3"))
        assert dropped[0] is None
        assert not catalog.views.exists(new)
        assert not isinstance(dropped[1], Exception) or isinstance(dropped[1], NoSuchView)


def foreign_view(catalog: Catalog, name: TableName, location: str) -> LoadedView:
    """As another engine makes it, in a folder that this package refuses a view."""
    metadata = new_view_metadata(SYSTEM_CLOCK.uuid(), location, {}, SCHEMA, version("select 1"), now_ms=1_000)
    return catalog.services.views.create(name, metadata, owner=None)


def test_a_table_with_a_view_in_its_folder_loses_no_file(catalog: Catalog) -> None:
    table = catalog.create_table("views_a.t", SCHEMA)
    views = [
        foreign_view(catalog, TableName(namespace, "v"), table.metadata.location)
        for namespace in ("views_a", "views_b")
    ]
    now = table.metadata.last_updated_ms + 3_600_000
    with pytest.raises(InvalidInput, match=r"views_[ab]\.v has the folder"):
        catalog.load_table("views_a.t").remove_orphan_files(older_than=now, force=True)
    catalog.purge_table("views_a.t")
    assert [catalog.views.load(each.name) for each in views] == views
