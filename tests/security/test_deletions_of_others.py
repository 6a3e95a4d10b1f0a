"""A caller with `write[a]` alone keeps no table of another namespace from being purged."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, creation_of, divided
from tests.security.callers import callers
from tests.security.shapes import view_version

VERSION = {**view_version(1), "timestamp-ms": 1_000}
A, B = "/v1/namespaces/a", "/v1/namespaces/b"
#: A folder that is for all namespaces.
SHARED = "s3://shared/lake"
OF_B = f"{SHARED}/b-t"
UUID = "7b2c7b6a-6f0e-4a7b-8a51-5f8ad0a44a11"
PATHS = ("write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path")


def setting(properties: Mapping[str, str]) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": dict(properties)}]}


class World:
    """Two namespaces. reader: may write in `a`, and read everything."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.metastore = MemoryTablePointer(namespaces=())
        self.files = MemoryFiles()
        library, server = divided({"rest_allowed_locations": SHARED, **settings})
        self.catalog: Catalog = memory_catalog(pointer=self.metastore, files=self.files, **library)
        root = self.catalog.settings.warehouse
        for name, location in (("default", root), ("a", f"{root}/a.db"), ("b", f"{root}/b.db")):
            self.catalog.create_namespace(name, {"location": location})
        scopes = {"a": "write[a]", "b": "write[b]", "reader": "write[a] read[*]"}
        self.webs = callers(self.catalog, folder, scopes, server)

    def __call__(self, caller: str, method: str, path: str, body: Any = None) -> int:
        return int(self.webs(caller)(method, path, body).status_code)

    def made(self, caller: str, path: str, body: Any) -> Any:
        answer = self.webs(caller)("POST", path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()["metadata"]

    def table_of_b(self, **more: Any) -> str:
        """The location of b.t."""
        return str(self.made("b", f"{B}/tables", {"name": "t", "schema": SCHEMA, **more})["location"])

    def renamed_to_b(self) -> str:
        """The location of b.t, which an operator renamed from a.t."""
        location = self.made("a", f"{A}/tables", {"name": "t", "schema": SCHEMA})["location"]
        self.catalog.rename_table("a.t", "b.t")
        return str(location)

    def view(self, **more: Any) -> dict[str, Any]:
        return {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}, **more}

    def purges_b(self) -> bool:
        """Whether a purge of b.t leaves no file that it had."""
        location = self.catalog.load_table("b.t").metadata.location
        own = {each.location for each in self.files.list_files(location) if "/00000-" in each.location}
        assert own
        assert self("b", "DELETE", f"{B}/tables/t?purgeRequested=true") == 204
        return own.isdisjoint(self.files.locations())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.catalog:
        yield made


def test_without_an_attack_a_purge_leaves_no_file(world: World) -> None:
    world.renamed_to_b()
    assert world.purges_b()
    world.table_of_b(location=OF_B)
    assert world.purges_b()


@pytest.mark.parametrize("key", PATHS)
def test_a_view_names_no_path_in_another_namespace(world: World, key: str) -> None:
    evil = {key: f"{world.table_of_b()}/x"}
    assert world("a", "POST", f"{A}/views", world.view(location="file:/warehouse/a.db/t", properties=evil)) == 403
    world.made("a", f"{A}/views", world.view(location="file:/warehouse/a.db/t"))
    assert world("a", "POST", f"{A}/views/v", setting(evil)) == 403
    assert world.purges_b()


def test_a_view_whose_files_an_operator_has_put_elsewhere_goes_on(world: World) -> None:
    elsewhere = {"write.metadata.path": "file:/warehouse/m"}
    world.catalog.views.create(("a", "v"), SCHEMA, VERSION, properties=elsewhere)
    assert world("a", "POST", f"{A}/views/v", setting({"k": "v"})) == 200


@pytest.mark.parametrize("inner", ["", "/deeper"])
def test_a_creation_takes_no_folder_of_a_table_that_was_renamed_away(world: World, inner: str) -> None:
    location = world.renamed_to_b()
    assert world("a", "POST", f"{A}/tables/evil", creation_of(f"{location}{inner}", UUID)) == 400
    assert world.purges_b()


def test_a_stage_proof_that_is_sent_again_after_a_rename_proves_nothing(world: World) -> None:
    staged = world.made("a", f"{A}/tables", {"name": "t", "schema": SCHEMA, "stage-create": True})
    proof = {"action": "set-properties", "updates": staged["properties"]}
    creation = creation_of(staged["location"], staged["table-uuid"], proof)
    assert world("a", "POST", f"{A}/tables/t", creation) == 200
    world.catalog.rename_table("a.t", "b.t")
    assert world("a", "POST", f"{A}/tables/t", creation) == 400
    assert world.purges_b()


@pytest.mark.parametrize("key", PATHS[:2])
@pytest.mark.parametrize("where", ["renamed away", "shared"])
def test_no_path_leads_into_the_folder_of_another_table(world: World, key: str, where: str) -> None:
    """Where the caller may put things: its own namespace's folder, in which b's table was left, or one for all."""
    location = world.renamed_to_b() if where == "renamed away" else world.table_of_b(location=OF_B)
    # A search finds a data path only of a table or view whose own folder has the same last part.
    named, evil = location.rpartition("/")[2], {key: f"{location}/x"}
    new = {"schema": SCHEMA, "location": f"file:/warehouse/a.db/{named}-1/{named}"}
    assert world("a", "POST", f"{A}/tables", {"name": "evil", **new, "properties": evil}) == 400
    world.made("a", f"{A}/tables", {"name": "evil", **new})
    assert world("a", "POST", f"{A}/tables/evil", setting(evil)) == 400
    assert world("a", "POST", f"{A}/views", world.view(location=f"{new['location']}-v", properties=evil)) == 400
    world.made("a", f"{A}/views", world.view(location=f"{new['location']}-v"))
    assert world("a", "POST", f"{A}/views/v", setting(evil)) == 400
    assert world.purges_b()


def test_another_spelling_of_a_cluster_leads_into_no_folder_of_another_namespace(tmp_path: Path) -> None:
    """docs/security.md advises operators to list the other spelling."""
    world = World(tmp_path, warehouse="hdfs://nn:8020/lake", rest_allowed_locations="hdfs:///lake")
    with world.catalog:
        world.table_of_b()
        new = {"name": "evil", "schema": SCHEMA}
        path = {"write.metadata.path": "hdfs:///lake/b.db/t/x"}
        assert world("a", "POST", f"{A}/tables", {**new, "properties": path}) == 403
        assert world("a", "POST", f"{A}/tables", {**new, "location": "hdfs:///lake/b.db/new"}) == 403
        assert world("a", "POST", f"{A}/tables", {**new, "location": "hdfs:///lake/a.db/new"}) == 200
        assert world.purges_b()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("inner", ["", "/deeper"])
def test_nothing_is_registered_in_the_folder_of_another_table(world: World, overwrite: bool, inner: str) -> None:
    location = world.table_of_b(location=OF_B)
    world.made("a", f"{A}/tables", {"name": "own", "schema": SCHEMA})
    raw = {**world.catalog.load_table("a.own").metadata.raw, "location": f"{location}{inner}"}
    file = "file:/warehouse/a.db/crafted/metadata/b-t/1.metadata.json"
    world.files.write(file, orjson.dumps(raw))
    body = {"name": "own" if overwrite else "evil", "metadata-location": file, "overwrite": overwrite}
    assert world("reader", "POST", f"{A}/register", body) == 400
    assert TableName("a", "evil") not in world.metastore.rows
    assert world.purges_b()


def test_no_view_is_registered_in_the_folder_of_a_table(world: World) -> None:
    location = world.table_of_b(location=OF_B)
    world.made("a", f"{A}/views", world.view())
    raw = orjson.loads(gzip.decompress(world.files.read(world.catalog.views.load("a.v").metadata_location)))
    file = "file:/warehouse/a.db/crafted/metadata/b-t/1.metadata.json"
    world.files.write(file, orjson.dumps({**raw, "location": f"{location}/deeper"}))
    assert world("reader", "POST", f"{A}/register-view", {"name": "evil", "metadata-location": file}) == 400
    assert world.purges_b()
