"""The REST protocol over a real Hive Metastore: plain HTTP and PyIceberg's REST client."""

from __future__ import annotations

import contextlib
import re
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE_REPLY
from integration.faults import until
from tests.polling import eventually

TOKEN = "correct-horse-battery"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "level", "required": False, "type": "string"}],
}


@pytest.fixture
def server(metastore: Any) -> Iterator[RestServer]:
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
        RestServer(catalog, "127.0.0.1", 0, TOKEN) as running,
    ):
        yield running


@pytest.fixture
def http(server: RestServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server.uri, headers=headers, timeout=60) as client:
        yield client


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]


def set_properties(**properties: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": properties}]}


def wait_for_requests(http: httpx.Client, number: int) -> None:
    """Until so many are being worked on, the one that asks for it not counted."""

    def under_way() -> int:
        found = re.search(r"^\S*rest_requests_in_flight (\d+)", http.get("/metrics").text, re.MULTILINE)
        return 0 if found is None else int(found[1])

    assert eventually(lambda: under_way() > number)


def local_path(location: str) -> Path:
    parts = urlsplit(location)
    return Path(parts.path if " " in location else unquote(parts.path))


def test_a_tables_life(http: httpx.Client, namespace: str) -> None:
    tables = f"/v1/namespaces/{namespace}/tables"
    created = http.post(tables, json={"name": "events", "schema": SCHEMA})
    assert created.status_code == 200, created.text
    table = f"{tables}/events"
    assert http.head(table).status_code == 204
    assert error_of(http.post(tables, json={"name": "EVENTS", "schema": SCHEMA})) == (409, "AlreadyExistsException")
    loaded = http.get(table)
    assert loaded.json()["metadata"] == created.json()["metadata"]
    tag = {"If-None-Match": loaded.headers["etag"]}
    assert http.get(table, headers=tag).status_code == 304

    committed = http.post(table, json=set_properties(a="b"))
    assert committed.status_code == 200, committed.text
    again = http.get(table, headers=tag)
    assert again.json()["metadata-location"] == committed.json()["metadata-location"]
    assert again.json()["metadata"]["properties"]["a"] == "b"

    names = {
        "source": {"namespace": [namespace], "name": "events"},
        "destination": {"namespace": [namespace], "name": "x"},
    }
    assert http.post("/v1/tables/rename", json=names).status_code == 204
    assert error_of(http.get(table)) == (404, "NoSuchTableException")
    listed = http.get(tables, params={"pageToken": "", "pageSize": "1"}).json()
    assert [identifier["name"] for identifier in listed["identifiers"]] == ["x"]
    assert error_of(http.delete(f"/v1/namespaces/{namespace}")) == (409, "NamespaceNotEmptyException")

    location = again.json()["metadata-location"]
    assert http.delete(f"{tables}/x").status_code == 204
    assert local_path(location).exists()
    registered = http.post(f"/v1/namespaces/{namespace}/register", json={"name": "back", "metadata-location": location})
    assert registered.status_code == 200, registered.text
    assert http.get(f"{tables}/back").json() == registered.json()
    assert http.delete(f"{tables}/back?purgeRequested=true").status_code == 204
    until(lambda: not local_path(location).exists(), "the purge has ended")
    assert http.delete(f"/v1/namespaces/{namespace}").status_code == 204


def test_a_staged_table_is_created_once(http: httpx.Client, namespace: str) -> None:
    tables = f"/v1/namespaces/{namespace}/tables"
    staged = http.post(tables, json={"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    assert http.head(f"{tables}/t").status_code == 404
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    first, again = http.post(f"{tables}/t", json=body), http.post(f"{tables}/t", json=body)
    assert first.status_code == 200, first.text
    assert again.json() == first.json(), "the same creation, whose answer may have been lost"
    another = {**body, "updates": [{**updates[0], "uuid": str(uuid.uuid4())}, *updates[1:]]}
    assert error_of(http.post(f"{tables}/t", json=another)) == (409, "CommitFailedException")
    assert http.get(f"{tables}/t").json()["metadata"]["table-uuid"] == staged["table-uuid"]


def test_commits_at_the_same_time_all_land(http: httpx.Client, namespace: str) -> None:
    tables = f"/v1/namespaces/{namespace}/tables"
    http.post(tables, json={"name": "t", "schema": SCHEMA})
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: http.post(f"{tables}/t", json=set_properties(**{f"p{i}": "x"})), range(48)))
    assert {answer.status_code for answer in answers} == {200}
    properties = http.get(f"{tables}/t").json()["metadata"]["properties"]
    assert set(properties) >= {f"p{i}" for i in range(48)}


@pytest.mark.parametrize("path", ["{n}/tables/none", "no_such_db/tables/t", "{n}%1Ft/tables/files"])
def test_what_is_not_there_lets_spark_ask_hive(http: httpx.Client, namespace: str, path: str) -> None:
    url = f"/v1/namespaces/{path.format(n=namespace)}"
    assert error_of(http.get(url)) == (404, "NoSuchTableException")
    assert error_of(http.delete(url)) == (404, "NoSuchTableException")
    assert http.head(url).status_code == 404


def test_a_missing_namespace_is_named_where_a_table_would_be_made(http: httpx.Client) -> None:
    tables = "/v1/namespaces/no_such_db/tables"
    assert error_of(http.get(tables)) == (404, "NoSuchNamespaceException")
    assert error_of(http.post(tables, json={"name": "t", "schema": SCHEMA})) == (404, "NoSuchNamespaceException")


def test_a_metadata_file_that_is_gone_or_damaged(http: httpx.Client, namespace: str, metastore: Any) -> None:
    register, place = f"/v1/namespaces/{namespace}/register", f"{metastore.warehouse}/{namespace}.db"
    gone = {"name": "t", "metadata-location": f"{place}/gone.metadata.json"}
    assert error_of(http.post(register, json=gone)) == (404, "NotFoundException")
    folder = local_path(place)
    folder.mkdir(exist_ok=True)
    (folder / "cut.metadata.json").write_bytes(b'{"format-version": 2, "table-uuid"')
    damaged = http.post(register, json={"name": "t", "metadata-location": f"{place}/cut.metadata.json"})
    assert error_of(damaged) == (400, "BadRequestException")
    assert "table-uuid" not in damaged.text
    assert http.head(f"/v1/namespaces/{namespace}/tables/t").status_code == 404


def test_a_metastore_that_is_away_is_never_a_missing_table() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{taken.getsockname()[1]}"
        with (
            iceberg_hms.connect(metastore_uri=uri, warehouse="file:/nowhere") as catalog,
            RestServer(catalog, "127.0.0.1", 0, None, settings=RestSettings(rest_commit_wait_ms=1_000)) as server,
            httpx.Client(base_url=server.uri, timeout=60) as http,
        ):
            table = "/v1/namespaces/db/tables/t"
            loaded, committed = http.get(table), http.post(table, json=set_properties(a="b"))
            assert error_of(loaded) == (503, "ServiceUnavailableException")
            assert error_of(committed) == (429, "TooManyRequestsException")
            assert loaded.headers["retry-after"] == committed.headers["retry-after"] == "1"
            assert http.head(table).status_code == 503
            assert http.get("/health/live").status_code == 200
            assert http.get("/health/ready").status_code == 503


def test_pyiceberg_writes_and_reads_rows(server: RestServer, namespace: str) -> None:
    rows = pa.table({"level": ["ERROR", "WARN"], "n": pa.array([1, 2], pa.int64())})
    with contextlib.closing(RestCatalog("ours", uri=server.uri, token=TOKEN)) as rest:
        table = rest.create_table(f"{namespace}.events", rows.schema)
        table.append(rows)
        table.append(rows.slice(0, 1))
        table.delete("n = 2")
        with table.update_schema() as update:
            update.rename_column("n", "number")
        read = rest.load_table(f"{namespace}.events").scan().to_arrow()
        assert read.sort_by("number").to_pydict() == {"level": ["ERROR", "ERROR"], "number": [1, 1]}
        assert len(table.refresh().snapshots()) >= 3
        rest.purge_table(f"{namespace}.events")
        assert not rest.table_exists(f"{namespace}.events")


def test_loads_at_the_same_time_share_looks_at_the_metastore_and_none_is_stale(metastore: Any, namespace: str) -> None:
    with (
        FaultProxy(metastore.uri) as proxy,
        iceberg_hms.connect(metastore_uri=proxy.uri, warehouse=metastore.warehouse) as inner,
        # Patient, so that no load starts its own call on a slow machine.
        Catalog(lambda: inner.services, load_wait_seconds=120) as catalog,
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as another,
        RestServer(catalog, "127.0.0.1", 0, None) as server,
        httpx.Client(base_url=server.uri, timeout=60) as http,
        ThreadPoolExecutor(16) as pool,
    ):
        another.create_table((namespace, "t"), SCHEMA)

        def load() -> dict[str, str]:
            answer = http.get(f"/v1/namespaces/{namespace}/tables/t")
            assert answer.status_code == 200, answer.text
            properties: dict[str, str] = answer.json()["metadata"]["properties"]
            return properties

        load()
        looks = proxy.count("get_table_req")
        first_look = proxy.on("get_table_req", FREEZE_REPLY)
        first = pool.submit(load)
        assert first_look.held(30)
        others = [pool.submit(load) for _ in range(10)]
        wait_for_requests(http, 11)
        another.commit((namespace, "t"), [], set_properties(seen="yes")["updates"])
        late = pool.submit(load)
        wait_for_requests(http, 12)
        first_look.release()
        assert "seen" not in first.result(60), "it was read before the commit, and was asked for before it"
        assert all(each.result(60)["seen"] == "yes" for each in (*others, late))
        # Two, and one for those that were on their way to the first two.
        assert proxy.count("get_table_req") - looks in (2, 3)
