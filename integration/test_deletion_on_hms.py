"""What a client can make the server delete, on a real metastore: files of its own table, and nothing else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.locations import file_key
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from integration.test_rest_on_hms import SCHEMA, set_properties
from integration.test_rest_on_hms import http as http
from integration.test_rest_on_hms import server as server


class Tables:
    """The tables `victim` and `evil`. kept: the victim's files."""

    def __init__(self, http: httpx.Client, namespace: str, warehouse: str) -> None:
        self._http = http
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
        path = f"/v1/namespaces/{self.namespace}/tables/{name}?purgeRequested=true"
        assert self._http.delete(path).status_code == 204

    def files(self, name: str) -> list[str]:
        folder = Path(f"{self.root}/{name}".removeprefix("file:"))
        return sorted(f"file:{path}" for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def tables(http: httpx.Client, namespace: str, warehouse: str) -> Tables:
    return Tables(http, namespace, warehouse)


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


@pytest.mark.parametrize("place", ["/victim", "/victim/metadata", ""])
def test_a_table_that_another_writer_moved_to_anothers_folder_takes_no_file_along(
    tables: Tables, pool: ClientPool, metastore: Any, place: str
) -> None:
    pointer = HmsTablePointer(pool, Settings.load({"metastore_uri": metastore.uri}, environ={}))
    row = pointer.load(TableName(tables.namespace, "evil"))
    row.table.sd.location = f"{tables.root}{place}"
    arguments = {"dbname": tables.namespace, "tbl_name": "evil", "new_tbl": row.table, "environment_context": None}
    pool.run(lambda client: client.call("alter_table_with_environment_context", **arguments), idempotent=False)
    assert pointer.load(row.name).location == f"{tables.root}{place}"
    tables.purge("evil")
    assert tables.files("victim") == tables.kept
