"""A caller who may write in one namespace puts nothing into another's folder: there it could delete files that no table
names, and keep the other's from being deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, Web, creation_of, error_of
from tests.security.callers import callers
from tests.security.shapes import view_version

PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
B = "file:/warehouse/b.db"
FORBIDDEN = (403, "ForbiddenException")
UUID = "7b2c7b6a-6f0e-4a7b-8a51-5f8ad0a44a11"
VERSION = {**view_version(1), "timestamp-ms": 1_000}
#: Places in which only who may write in `b`, or in `default`, may put anything.
ELSEWHERE = [
    B,
    f"{B}/t",
    f"{B}/new",
    f"{B}/hive/x",
    "file:///warehouse//b.db/t",
    "file:/warehouse",
    "file:/warehouse/x",
]


class World:
    """The namespaces `a` and `b` below the folder of `default`, and callers who may write in one or more of them."""

    def __init__(self, folder: Path) -> None:
        self.metastore = MemoryTablePointer(namespaces=())
        self.catalog: Catalog = memory_catalog(pointer=self.metastore)
        self.catalog.create_namespace("default", {"location": "file:/warehouse"})
        for name in "ab":
            self.catalog.create_namespace(name, {"location": f"file:/warehouse/{name}.db"})
            self.catalog.create_table((name, "t"), SCHEMA)
            self.catalog.views.create((name, "v"), SCHEMA, VERSION)
        scopes = {
            "a": "write[a]",
            "both": "write[a b]",
            "all": "write[*]",
            "admin": "admin[a c]",
            "default": "write[default]",
        }
        self.webs = callers(self.catalog, folder, scopes, RestSettings(rest_allowed_locations="s3://shared/lake"))

    def refuses(self, method: str, path: str, body: Any, caller: str = "a") -> None:
        before = (dict(self.metastore.rows), self.catalog.services.ports.files.locations())  # type: ignore[attr-defined]
        answer = self.webs(caller)(method, path, body)
        assert error_of(answer)[:2] == FORBIDDEN, answer.text
        assert "folder of" in answer.json()["error"]["message"]
        assert before == (dict(self.metastore.rows), self.catalog.services.ports.files.locations())  # type: ignore[attr-defined]

    def takes(self, method: str, path: str, body: Any, caller: str = "a") -> Any:
        answer = self.webs(caller)(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.catalog:
        yield made


def new(location: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "evil", "schema": SCHEMA, **({} if location is None else {"location": location}), **more}


def commit(*updates: dict[str, Any]) -> dict[str, Any]:
    return {"requirements": [], "updates": list(updates)}


TABLES, TABLE = "/v1/namespaces/a/tables", "/v1/namespaces/a/tables/t"
VIEWS, VIEW = "/v1/namespaces/a/views", "/v1/namespaces/a/views/v"


@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_table_is_made_moved_and_written_nowhere_else(world: World, location: str) -> None:
    for stage in (False, True):
        world.refuses("POST", TABLES, {**new(location), "stage-create": stage})
        for key in PATHS:
            world.refuses("POST", TABLES, {**new(properties={key: location}), "stage-create": stage})
    world.refuses("POST", f"{TABLES}/evil", creation_of(location, UUID))
    world.refuses("POST", TABLE, commit({"action": "set-location", "location": location}))
    for key in PATHS:
        world.refuses("POST", TABLE, commit({"action": "set-properties", "updates": {key: location}}))


@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_view_is_made_and_moved_nowhere_else(world: World, location: str) -> None:
    made = {"name": "evil", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    world.refuses("POST", VIEWS, {**made, "location": location})
    world.refuses("POST", VIEWS, {**made, "properties": {"write.metadata.path": location}})
    world.refuses("POST", VIEW, commit({"action": "set-location", "location": location}))
    world.refuses("POST", VIEW, commit({"action": "set-properties", "updates": {"write.metadata.path": location}}))


@pytest.mark.parametrize("location", ["file:/warehouse/a.db/new", "file:/warehouse/a.db/deep/er", "s3://shared/lake/t"])
def test_its_own_folder_and_that_of_the_settings_are_open(world: World, location: str) -> None:
    world.takes("POST", TABLES, new(location))
    world.takes("POST", TABLE, commit({"action": "set-properties", "updates": {PATHS[0]: f"{location}-data"}}))


@pytest.mark.parametrize("location", ["file:/warehouse/a.db", B, "file:/warehouse"])
def test_nothing_lies_at_the_folder_of_a_namespace_or_around_it(world: World, location: str) -> None:
    """Not even by who may write in `default`, or in the namespace itself."""
    for caller in ("a", "both", "default"):
        namespace = "default" if caller == "default" else "a"
        world.refuses("POST", f"/v1/namespaces/{namespace}/tables", new(location), caller)


def test_who_may_write_in_the_other_namespace_may_use_its_folder(world: World) -> None:
    world.takes("POST", TABLES, new(f"{B}/new"), "both")
    world.refuses("POST", TABLES, {**new("file:/warehouse/x"), "name": "evil2"}, "both")
    world.takes("POST", TABLES, {**new("file:/warehouse/x"), "name": "evil2"}, "all")


def test_a_table_that_is_elsewhere_already_goes_on(world: World) -> None:
    """An operator put it there, or it was renamed from the other namespace."""
    world.catalog.rename_table("b.t", "a.old")
    path = f"{TABLES}/old"
    world.takes("POST", path, commit({"action": "set-properties", "updates": {"a": "b"}}))
    world.takes("POST", path, commit({"action": "set-properties", "updates": {PATHS[0]: f"{B}/t/data2"}}))
    world.refuses("POST", path, commit({"action": "set-properties", "updates": {PATHS[0]: f"{B}/t2"}}))
    world.takes("GET", path, None)


def test_a_file_that_names_another_namespaces_folder_is_not_registered(world: World, tmp_path: Path) -> None:
    location = world.catalog.load_table("b.t").metadata_location
    world.catalog.drop_table("b.t")
    body = {"name": "evil", "metadata-location": location}
    reader = callers(world.catalog, tmp_path, {"reader": "write[a] read[*]", "both": "write[a b] read[*]"})
    answer = reader("reader")("POST", "/v1/namespaces/a/register", body)
    assert error_of(answer)[:2] == FORBIDDEN
    assert reader("both")("POST", "/v1/namespaces/a/register", body).status_code == 200


@pytest.mark.parametrize("location", [B, f"{B}/c.db", "file:/warehouse"])
def test_a_namespace_lies_neither_in_nor_around_another(world: World, location: str) -> None:
    world.refuses("POST", "/v1/namespaces", {"namespace": ["c"], "properties": {"location": location}}, "admin")
    world.refuses("POST", "/v1/namespaces/a/properties", {"updates": {"location": location}}, "admin")
    ours = {"namespace": ["c"], "properties": {"location": "file:/warehouse/c.db"}}
    world.takes("POST", "/v1/namespaces", ours, "admin")


@pytest.mark.parametrize("inner", ["", "/deeper", "/metadata"])
@pytest.mark.parametrize("table", ["owned", "hive"])
def test_a_namespace_lies_in_no_table_of_another(world: World, table: str, inner: str) -> None:
    """`default` holds the warehouse, so its own folder is no reason to refuse one. A table that was made there would
    keep the files of this one."""
    world.takes("POST", "/v1/namespaces/default/tables", {"name": "owned", "schema": SCHEMA}, "default")
    world.metastore.add_hive_table(TableName("default", "hive"), "file:/warehouse/hive")
    location = f"file:/warehouse/{table}{inner}"
    made = {"namespace": ["c"], "properties": {"location": location}}
    for path, body in (("/v1/namespaces", made), ("/v1/namespaces/a/properties", {"updates": {"location": location}})):
        answer = world.webs("admin")("POST", path, body)
        assert error_of(answer)[:2] == (400, "BadRequestException"), answer.text
    world.takes("POST", "/v1/namespaces/a/properties", {"updates": {"location": "file:/warehouse/owned2"}}, "admin")


def test_a_namespace_that_has_moved_has_its_new_folder_at_once(world: World) -> None:
    world.takes("POST", TABLES, new("file:/warehouse/a.db/x"))
    moved = {"updates": {"location": "file:/warehouse/a2.db"}}
    world.takes("POST", "/v1/namespaces/a/properties", moved, "admin")
    world.metastore.folders["a"] = ["file:/warehouse/a2.db"]
    world.takes("POST", TABLES, {**new(), "name": "later"})
    world.takes("POST", TABLES, {**new("file:/warehouse/a2.db/named"), "name": "named"})


def test_a_link_leads_into_no_other_namespaces_folder(tmp_path: Path) -> None:
    files: Any = RoutedFiles(fsync=False)
    with memory_catalog(files=files, warehouse=f"file:{tmp_path}/wh") as catalog:
        for name in "ab":
            catalog.create_namespace(name)
            catalog.create_table((name, "t"), SCHEMA)
        (tmp_path / "wh/a.db/link").symlink_to(tmp_path / "wh/b.db")
        web: Web = callers(catalog, tmp_path, {"a": "write[a]"})("a")
        for inner in ("link", "link/new"):
            answer = web("POST", TABLES, new(f"file:{tmp_path}/wh/a.db/{inner}"))
            assert error_of(answer)[:2] == FORBIDDEN
        assert TableName("a", "evil") not in catalog.list_tables("a")
