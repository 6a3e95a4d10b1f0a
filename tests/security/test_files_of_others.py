"""A caller with `write[a]` alone has the server delete no file of another namespace's table, or of Hive's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, creation_of
from tests.security.callers import callers
from tests.security.test_deletion import assert_main, set_ref, snapshot

A, B = "/v1/namespaces/a/tables", "/v1/namespaces/b/tables"
REBASED = {"iceberg-hms.rebase-appends": "all"}


class World:
    """Two namespaces on a local disk, with `shared` beside the warehouse, which is for both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.metastore = MemoryTablePointer(namespaces=())
        self.catalog = memory_catalog(
            files=RoutedFiles(fsync=False),
            pointer=self.metastore,
            warehouse=f"file:{root}/wh",
            replaced_list_age_ms=1,
        )
        (root / "shared").mkdir()
        for name in "ab":
            self.catalog.create_namespace(name)
        self.catalog.create_namespace("default", {"location": f"file:{root}/wh"})
        scopes = {"a": "write[a]", "b": "write[b]", "d": "write[default]", "x": "admin[*]"}
        server = RestSettings(rest_allowed_locations=f"file:{root}/shared")
        self.webs = callers(self.catalog, root, scopes, server)

    def __call__(self, caller: str, method: str, path: str, body: Any = None, want: int = 200) -> Any:
        answer = self.webs(caller)(method, path, body)
        assert answer.status_code == want, answer.text
        return answer.json() if answer.content else None

    def commit(self, name: str, *updates: dict[str, Any], requirements: Any = ()) -> None:
        self("a", "POST", f"{A}/{name}", {"requirements": list(requirements), "updates": list(updates)})

    def append(self, table: str, folder: Path, number: int) -> None:
        """A row, as a stock client appends it by its own rights."""
        path = rows(folder / "data" / f"{table}-{number}.parquet")
        self.catalog.load_table(table).append([f"file:{path}"])

    def name_list_of_b(self, table: str) -> str:
        """`a` sends a stale append whose manifest list is that of b.t, and goes on until replaced lists are deleted.
        Returns this list."""
        theirs = self.catalog.load_table("b.t").metadata.current_snapshot
        assert theirs is not None
        first = self.catalog.load_table(f"a.{table}").metadata.snapshots[0].snapshot_id
        add = snapshot(str(theirs.manifest_list), theirs.snapshot_id, first, 2)
        self.commit(table, add, set_ref(theirs.snapshot_id), requirements=[assert_main(first)])
        for number in range(3):
            self.catalog.services.ports.runtime.sleep(0.002)
            self.commit(table, {"action": "set-properties", "updates": {"n": str(number)}})
        return str(theirs.manifest_list)

    def purge(self, path: str) -> None:
        """Drop a table with purge, and wait for its end, which may come behind the answer."""
        ended = threading.Event()
        self.catalog.subscribe(lambda event: ended.set() if event["event"] == "purged" else None)
        self("a", "DELETE", f"{path}?purgeRequested=true", want=204)
        assert ended.wait(60), "the purge did not end"


def rows(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table({"level": ["1"], "message": ["b"]}), path)
    return path


def exists(location: str) -> bool:
    return Path(location.removeprefix("file://").removeprefix("file:")).exists()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.catalog:
        yield made


def test_a_table_around_another_one_deletes_none_of_its_lists(world: World) -> None:
    """In a folder for all, `a` makes a table around that of `b`. No search finds it, since its metadata lies elsewhere;
    later it writes its metadata beside that of `b`."""
    elsewhere = {**REBASED, "write.metadata.path": f"file:{world.root}/wh/a.db/m"}
    around = {"name": "evil", "schema": SCHEMA, "location": f"file:{world.root}/shared/x", "properties": elsewhere}
    world("a", "POST", A, around)
    theirs = world.root / "shared/x/t"
    world("b", "POST", B, {"name": "t", "schema": SCHEMA, "location": f"file:{theirs}"})
    world.append("b.t", theirs, 0)
    world.commit("evil", {"action": "set-properties", "updates": {"write.metadata.path": f"file:{theirs}/metadata"}})
    for number in (1, 2):
        world.append("a.evil", world.root / "wh/a.db/evil", number)
    assert exists(world.name_list_of_b("evil"))


def test_a_table_that_moved_while_another_one_was_made_deletes_none_of_its_lists(world: World) -> None:
    """Neither sees the other, and both get the folder by record."""
    place = world.root / "shared/x"
    world("a", "POST", A, {"name": "evil", "schema": SCHEMA, "properties": REBASED})
    there = f"file:{place}"
    world.metastore.before_moves.append(lambda: world.catalog.create_table(("b", "t"), SCHEMA, location=there))
    world.commit("evil", {"action": "set-location", "location": there})
    assert TableName("b", "t") in world.metastore.rows
    world.append("b.t", place, 0)
    for number in (1, 2):
        world.append("a.evil", world.root / "wh/a.db/evil", number)
    assert exists(world.name_list_of_b("evil"))


def test_a_table_that_was_registered_over_owns_its_folder_no_more(world: World) -> None:
    """The file may name other tables' files, as in its log."""
    made = world("a", "POST", A, {"name": "t", "schema": SCHEMA})
    assert world.catalog.pointer("a.t").owns_folder
    body = {"name": "t", "metadata-location": made["metadata-location"], "overwrite": True}
    world("x", "POST", "/v1/namespaces/a/register", body)
    assert not world.catalog.pointer("a.t").owns_folder


def test_no_namespace_is_made_in_the_folder_of_a_table_of_another(world: World) -> None:
    world("d", "POST", "/v1/namespaces/default/tables", squatting(world))
    world("x", "POST", "/v1/namespaces", {"namespace": ["c"]}, want=400)


def squatting(world: World) -> dict[str, Any]:
    """A table of `default` where the namespace `c` will have its folder."""
    elsewhere = {"write.metadata.path": f"file:{world.root}/wh/m"}
    return {"name": "evil", "schema": SCHEMA, "location": f"file:{world.root}/wh/c.db", "properties": elsewhere}


def test_a_table_around_a_namespace_that_hive_made_deletes_nothing_in_it(world: World) -> None:
    world("d", "POST", "/v1/namespaces/default/tables", squatting(world))
    world.metastore.metastore.databases["c"] = {}
    world.metastore.folders["c"] = [f"file:{world.root}/wh/c.db"]
    world.metastore.add_hive_table(TableName("c", "h"), f"file:{world.root}/wh/c.db/h")
    data = rows(world.root / "wh/c.db/h/000000_0.parquet")
    into = {"action": "set-properties", "updates": {"write.data.path": f"file:{world.root}/wh/c.db/t"}}
    path = "/v1/namespaces/default/tables/evil"
    world("d", "POST", path, {"requirements": [], "updates": [into]}, want=403)
    world.catalog.load_table("default.evil").append([f"file:{data}"])
    world("d", "DELETE", f"{path}?purgeRequested=true", want=204)
    assert data.exists()


def test_a_purge_keeps_the_files_of_a_hive_table_that_got_its_name_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's `migrate` renames the Hive table and makes an Iceberg one in its folder. That is dropped with purge; the
    metastore is slow, so the purge goes on behind the answer, and meanwhile the Hive table gets its name back."""
    folder, metastore = world.root / "wh/a.db/t", world.metastore
    backup = TableName("a", "t_backup_")
    metastore.add_hive_table(backup, f"file:{folder}")
    data = rows(folder / "000000_0.parquet")
    stage = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": f"file:{folder}"}
    staged = world("a", "POST", A, stage)["metadata"]
    world("a", "POST", f"{A}/t", creation_of(staged["location"], staged["table-uuid"]))
    world.catalog.load_table("a.t").append([f"file:{data}"])
    find = metastore.folders_in

    def slow_once(namespace: str, *, timeout_seconds: float) -> Any:
        if backup in metastore.rows:
            metastore.rows[TableName("a", "t")] = metastore.rows.pop(backup)
            raise MetastoreUnavailable("slow")
        return find(namespace, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(metastore, "folders_in", slow_once)
    world.purge(f"{A}/t")
    assert data.exists()


def test_a_purge_keeps_the_files_of_a_table_that_was_registered_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody undoes the drop while the purge goes on behind its answer."""
    metastore = world.metastore
    world("a", "POST", A, {"name": "t", "schema": SCHEMA})
    world.append("a.t", world.root / "wh/a.db/t", 1)
    file = world.catalog.load_table("a.t").metadata_location
    find = metastore.find_by_folder

    def slow_once(*arguments: Any, **keywords: Any) -> Any:
        if TableName("a", "t") in metastore.rows:
            return find(*arguments, **keywords)
        monkeypatch.setattr(metastore, "find_by_folder", find)
        world.catalog.register_table("a.t", file)
        raise MetastoreUnavailable("slow")

    monkeypatch.setattr(metastore, "find_by_folder", slow_once)
    world.purge(f"{A}/t")
    assert exists(file)
