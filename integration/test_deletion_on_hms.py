"""What a client can make the server delete, on a real metastore: files of its own table, and nothing else."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.rest.server import RestServer
from integration.contract_checks import add_hive_table
from integration.faults import until
from integration.test_rest_on_hms import SCHEMA, TOKEN, set_properties
from integration.test_rest_on_hms import http as http
from tests.rest.fakes import creation_of


@pytest.fixture
def purged() -> list[Mapping[str, Any]]:
    """The purges that have ended."""
    return []


@pytest.fixture
def server(metastore: Any, purged: list[Mapping[str, Any]]) -> Iterator[RestServer]:
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
        RestServer(catalog, "127.0.0.1", 0, TOKEN) as running,
    ):
        catalog.subscribe(lambda event: purged.append(event) if event["event"] == "purged" else None)
        yield running


class Tables:
    """The tables `victim` and `evil`. kept: the victim's files."""

    def __init__(self, http: httpx.Client, namespace: str, warehouse: str, purged: Sequence[Mapping[str, Any]]) -> None:
        self._http = http
        self._purged = purged
        self.namespace = namespace
        self.root = f"{warehouse}/{namespace}.db"
        for name in ("victim", "evil"):
            self.create(name)
            self.commit(name, set_properties(n="1"))
        self.kept = self.files("victim")
        assert len(self.kept) == 2

    def create(self, name: str) -> str:
        answer = self._http.post(f"/v1/namespaces/{self.namespace}/tables", json={"name": name, "schema": SCHEMA})
        assert answer.status_code == 200, answer.text
        location: str = answer.json()["metadata"]["location"]
        return location

    def commit(self, name: str, body: dict[str, Any]) -> None:
        answer = self._http.post(f"/v1/namespaces/{self.namespace}/tables/{name}", json=body)
        assert answer.status_code == 200, answer.text

    def rename(self, name: str, to: str) -> None:
        names = [{"namespace": [self.namespace], "name": each} for each in (name, to)]
        answer = self._http.post("/v1/tables/rename", json={"source": names[0], "destination": names[1]})
        assert answer.status_code == 204, answer.text

    def purge(self, name: str) -> None:
        path, before = f"/v1/namespaces/{self.namespace}/tables/{name}?purgeRequested=true", len(self._purged)
        assert self._http.delete(path).status_code == 204
        # Of what takes longer than two seconds the rest is deleted behind the answer.
        until(lambda: len(self._purged) > before, "the purge has ended")

    def files(self, name: str) -> list[str]:
        folder = Path(f"{self.root}/{name}".removeprefix("file:"))
        return sorted(f"file:{path}" for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def tables(http: httpx.Client, namespace: str, warehouse: str, purged: Sequence[Mapping[str, Any]]) -> Tables:
    return Tables(http, namespace, warehouse, purged)


def test_a_purge_deletes_its_own_files_and_none_that_it_only_names(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    for number, path in enumerate(tables.kept, 1):
        file = {"snapshot-id": number, "statistics-path": path, "file-size-in-bytes": 1}
        update = {"action": "set-partition-statistics", "partition-statistics": file}
        tables.commit("evil", {"requirements": [], "updates": [update]})
    with caplog.at_level(logging.WARNING):
        tables.purge("evil")
    assert tables.files("victim") == tables.kept
    assert tables.files("evil") == []
    assert "2 files of" in caplog.text
    tables.purge("victim")
    assert tables.files("victim") == []


def test_a_renamed_table_and_one_made_under_its_old_name_are_purged_each_alone(tables: Tables) -> None:
    tables.rename("victim", "renamed")
    location = tables.create("victim")
    assert file_key(location).startswith(file_key(f"{tables.root}/victim-"))
    tables.purge("victim")
    assert tables.files(location.rpartition("/")[2]) == []
    assert tables.files("victim") == tables.kept
    tables.purge("renamed")
    assert tables.files("victim") == []


def move(pool: ClientPool, metastore: Any, name: TableName, location: str, **parameters: str) -> None:
    """Give a row another folder, as other writers can."""
    pointer = HmsTablePointer(pool, Settings.load({"metastore_uri": metastore.uri}, environ={}))
    row = pointer.load(name)
    row.table.sd.location = location
    row.table.parameters.update(parameters)
    arguments = {
        "dbname": name.namespace,
        "tbl_name": name.name,
        "new_tbl": row.table,
        "environment_context": None,
    }
    pool.call_once("alter_table_with_environment_context", **arguments)
    assert pointer.load(name).location == location


@pytest.mark.parametrize("place", ["/victim", "/victim/metadata", ""])
def test_a_table_that_another_writer_moved_to_anothers_folder_takes_no_file_along(
    tables: Tables, pool: ClientPool, metastore: Any, place: str
) -> None:
    move(pool, metastore, TableName(tables.namespace, "evil"), f"{tables.root}{place}")
    tables.purge("evil")
    assert tables.files("victim") == tables.kept


def drop(pool: ClientPool, name: TableName) -> None:
    """Remove a row, as other programs do."""
    arguments = {"dbname": name.namespace, "name": name.name, "deleteData": False}
    pool.call_once("drop_table", **arguments)


class HiveTable:
    """A managed Hive table with a row, in the folder that Hive gives it."""

    def __init__(self, pool: ClientPool, tables: Tables) -> None:
        self.location = f"{tables.root}/hive"
        add_hive_table(pool, TableName(tables.namespace, "hive"), self.location)
        self.data = Path(f"{self.location}/000000_0".removeprefix("file:"))
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.data.write_bytes(b"a row")


def test_a_table_in_the_folder_of_a_hive_table_deletes_none_of_its_files(
    http: httpx.Client, tables: Tables, pool: ClientPool
) -> None:
    theirs = HiveTable(pool, tables)
    path = f"/v1/namespaces/{tables.namespace}/tables"
    for location in (theirs.location, f"{theirs.location}/deeper"):
        body = {"name": "inside", "schema": SCHEMA, "location": location}
        answer = http.post(path, json=body)
        assert answer.status_code == 400, answer.text
    staged = http.post(path, json={**body, "location": theirs.location, "stage-create": True}).json()["metadata"]
    claim = {"action": "set-properties", "updates": {"iceberg-hms.owned-folder": theirs.location}}
    tables.commit("inside", creation_of(theirs.location, staged["table-uuid"], claim, schema=SCHEMA))
    file = {"snapshot-id": 1, "statistics-path": f"file:{theirs.data}", "file-size-in-bytes": 1}
    update = {"action": "set-partition-statistics", "partition-statistics": file}
    tables.commit("inside", {"requirements": [], "updates": [update]})
    tables.purge("inside")
    assert theirs.data.read_bytes() == b"a row"


def test_orphans_are_not_removed_from_a_folder_that_holds_hive_tables(
    tables: Tables, pool: ClientPool, metastore: Any
) -> None:
    """A table at the folder of its database: each file of a Hive table in it looks like an orphan."""
    theirs = HiveTable(pool, tables)
    for name in ("victim", "evil"):
        tables.purge(name)
    tables.create("wide")
    move(pool, metastore, TableName(tables.namespace, "wide"), tables.root)
    now = datetime.datetime.now(datetime.UTC)
    with iceberg_hms.connect(metastore_uri=metastore.uri) as catalog:
        wide = catalog.load_table((tables.namespace, "wide"))
        with pytest.raises(InvalidInput, match=rf"{tables.namespace}\.hive has the folder"):
            wide.remove_orphan_files(older_than=now, force=True)
        assert theirs.data.exists()
        drop(pool, TableName(tables.namespace, "hive"))
        assert wide.remove_orphan_files(older_than=now, force=True).files.locations == [f"{theirs.location}/000000_0"]


@pytest.mark.parametrize("above", [False, True], ids=["at the database's folder", "at the warehouse"])
def test_a_table_around_stops_no_purge(tables: Tables, pool: ClientPool, metastore: Any, above: bool) -> None:
    around = tables.root.rpartition("/")[0] if above else tables.root
    file = f"{around}/metadata/00000-x.metadata.json"
    move(pool, metastore, TableName(tables.namespace, "evil"), around, metadata_location=file)
    try:
        tables.purge("victim")
    finally:
        # Other tests of this metastore remove orphans.
        drop(pool, TableName(tables.namespace, "evil"))
    assert tables.files("victim") == []
