from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from iceberg_hms.changes.clients.request import Client
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.clock import SYSTEM_CLOCK, SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    MetastoreRefused,
    MetastoreUnavailable,
    QueueFull,
)
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.dispatch import SMALL_BODY_BYTES
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def set_properties(**properties: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": properties}]}


def test_a_commit_returns_the_new_metadata(web: Web, table: str) -> None:
    response = web("POST", table, set_properties(a="b"))
    assert response.status_code == 200
    assert response.json().keys() == {"metadata-location", "metadata"}
    assert response.json()["metadata"]["properties"]["a"] == "b"
    loaded = web("GET", table)
    assert loaded.json()["metadata-location"] == response.json()["metadata-location"]
    assert loaded.headers["etag"] == response.headers["etag"]


def test_a_staged_table_is_created_by_its_commit(web: Web, catalog: ScriptedCatalog) -> None:
    web("POST", "/v1/namespaces/default/tables", {"name": "t", "schema": SCHEMA, "stage-create": True})
    updates, another = (create_updates(catalog.stage_table(("default", "t"), SCHEMA).metadata) for _ in range(2))
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert web("POST", "/v1/namespaces/default/tables/t", body).status_code == 200
    assert TableName("default", "t") in catalog.metastore.rows
    response = web("POST", "/v1/namespaces/default/tables/t", {**body, "updates": another})
    assert error_of(response)[:2] == (409, "CommitFailedException")
    missing = web("POST", "/v1/namespaces/none/tables/t", body)
    assert error_of(missing)[:2] == (404, "NoSuchNamespaceException")


def test_creating_a_table_whose_name_was_taken_meanwhile_fails_its_requirement(
    web: Web, table: str, catalog: ScriptedCatalog
) -> None:
    catalog.errors["commit"] = catalog.errors["submit"] = AlreadyExists("Table already exists: logging.events")
    create = {"requirements": [{"type": "assert-create"}], "updates": []}
    expected = (409, "CommitFailedException", "Requirement failed: table already exists")
    assert error_of(web("POST", table, create)) == expected
    assert error_of(web("POST", table, set_properties(a="b")))[:2] == (409, "AlreadyExistsException")


def creation(metadata: TableMetadata, snapshot_id: int) -> dict[str, Any]:
    """The commit of a staged table with a first snapshot, as Java sends it."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": metadata.last_updated_ms,
        "manifest-list": f"file:/warehouse/l/{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    added = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": [*create_updates(metadata), *added]}


def test_a_resent_creation_succeeds_and_another_one_is_a_conflict() -> None:
    path = "/v1/namespaces/db/tables/t"
    files = MemoryFiles()
    files.write("file:/warehouse/l/77.avro", encode_list(2, 77, None, 1, None, [])[0])
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("db")
        web = Web(create_app(catalog))
        ours, other = (catalog.stage_table("db.t", SCHEMA).metadata for _ in range(2))
        first = web("POST", path, creation(ours, 77))
        assert first.status_code == 200
        again = web("POST", path, creation(ours, 77))
        assert (again.status_code, again.json()) == (200, first.json())
        expected = (409, "CommitFailedException", "Requirement failed: table already exists")
        assert error_of(web("POST", path, creation(other, 78))) == expected


def test_a_first_snapshot_may_name_minus_one_as_its_parent() -> None:
    """As ClickHouse sends it, with no requirement: what another writer began meanwhile must stay."""
    path = "/v1/namespaces/db/tables/t"
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        metadata = catalog.create_table("db.t", SCHEMA).metadata
        web = Web(create_app(catalog))
        bodies = []
        for snapshot_id in (77, 78):
            list_, _ = encode_list(2, snapshot_id, None, 1, None, [])
            catalog.services.ports.files.write(f"file:/warehouse/l/{snapshot_id}.avro", list_)
            updates = creation(metadata, snapshot_id)["updates"][-2:]
            updates[0]["snapshot"]["parent-snapshot-id"] = -1
            bodies.append({"updates": updates})
        first = web("POST", path, bodies[0])
        assert first.status_code == 200
        assert "parent-snapshot-id" not in first.json()["metadata"]["snapshots"][0]
        assert web("POST", path, bodies[1]).status_code != 200
        assert catalog.load_table("db.t").metadata.current_snapshot.snapshot_id == 77  # type: ignore[union-attr]


def test_a_broken_requirement_is_a_conflict_in_javas_words(web: Web, table: str) -> None:
    body = set_properties(a="b")
    body["requirements"] = [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7}]
    status, kind, message = error_of(web("POST", table, body))
    assert (status, kind) == (409, "CommitFailedException")
    assert message.startswith("Requirement failed: last assigned field id changed")
    assert "a" not in web("GET", table).json()["metadata"]["properties"]


@pytest.mark.parametrize(
    "body",
    [
        {"requirements": [{"type": "assert-nothing-like-it"}], "updates": []},
        {"requirements": [], "updates": [{"action": "paint-it-blue"}]},
        {"requirements": [], "updates": [{"action": "set-properties"}]},
        {"requirements": {}, "updates": []},
        {"requirements": [1], "updates": []},
    ],
)
def test_unknown_requirements_and_updates_are_400(web: Web, table: str, body: Any) -> None:
    assert error_of(web("POST", table, body))[:2] == (400, "BadRequestException")


def test_malformed_json_is_400_and_reaches_no_table(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    catalog.calls.clear()
    assert error_of(web("POST", table, content=b'{"updates": ['))[:2] == (400, "BadRequestException")
    assert catalog.calls == []


@pytest.mark.parametrize("path", ["none/tables/t", "logging/tables/none", "logging%1Fevents/tables/files"])
def test_a_commit_to_a_missing_table_is_404(web: Web, table: str, path: str) -> None:
    response = web("POST", f"/v1/namespaces/{path}", set_properties(a="b"))
    assert error_of(response)[:2] == (404, "NoSuchTableException")


def test_a_body_may_repeat_the_tables_name_but_not_name_another(web: Web, table: str) -> None:
    body = set_properties(a="b")
    body["identifier"] = {"namespace": ["LOGGING"], "name": "events"}
    assert web("POST", table, body).status_code == 200
    for other in ({"namespace": ["logging"], "name": "other"}, {"namespace": ["logging", "x"], "name": "events"}):
        body["identifier"] = other
        assert error_of(web("POST", table, body))[:2] == (400, "BadRequestException")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (CommitConflict("too many others"), 409, "CommitFailedException"),
        (InvalidInput("no"), 400, "BadRequestException"),
        (QueueFull("full"), 429, "TooManyRequestsException"),
        (MetastoreUnavailable("nobody answers"), 429, "TooManyRequestsException"),
        (CommitStateUnknown("no answer"), 500, "CommitStateUnknownException"),
        (MetastoreRefused("odd"), 500, "CommitStateUnknownException"),
        (RuntimeError("a defect"), 500, "CommitStateUnknownException"),
        (TimeoutError("a defect"), 500, "CommitStateUnknownException"),
    ],
)
def test_each_error_tells_the_client_what_to_do_with_its_files(
    web: Web, table: str, catalog: ScriptedCatalog, error: Exception, status: int, kind: str
) -> None:
    catalog.errors["submit"] = error
    response = web("POST", table, set_properties(a="b"))
    assert error_of(response)[:2] == (status, kind)
    assert ("retry-after" in response.headers) == (status == 429)


def arguments(catalog: ScriptedCatalog) -> dict[str, Any]:
    method, found = catalog.calls[-1]
    assert method == "submit"
    return found


def test_the_catalog_gets_the_client_and_how_long_to_wait(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    headers = {"User-Agent": "PyIceberg/0.12.0", "X-Client-Version": "0.14.1"}
    response = web("POST", table, set_properties(a="b"), headers=headers)
    found = arguments(catalog)
    assert found["client"] == Client("PyIceberg/0.12.0", "0.14.1")
    assert 0 < found["wait_seconds"] <= catalog.rest_settings.rest_commit_wait_ms / 1000
    assert found["size"] > 10 * int(response.request.headers["content-length"]), "what it takes once it is parsed"
    assert found["idempotency_key"] is None


def append(summary: dict[str, str]) -> dict[str, Any]:
    snapshot: dict[str, Any] = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": SYSTEM_CLOCK.now_ms(),
        "manifest-list": "file:/warehouse/l",
        "summary": {"operation": "append", **summary},
        "schema-id": 0,
    }
    return {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}]}


def write_list(catalog: ScriptedCatalog) -> None:
    """The manifest list of the snapshot above, without manifests."""
    catalog.files.write("file:/warehouse/l", encode_list(2, 1, None, 1, None, [])[0])


def test_an_idempotency_key_goes_with_a_snapshot(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    write_list(catalog)
    response = web("POST", table, append({}), headers={"Idempotency-Key": KEY})
    assert response.status_code == 200, response.text
    assert arguments(catalog)["idempotency_key"] == KEY


def test_a_commit_that_cannot_keep_the_key_succeeds_without_it(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    assert web("POST", table, set_properties(a="b"), headers={"Idempotency-Key": KEY}).status_code == 200
    assert arguments(catalog)["idempotency_key"] is None
    write_list(catalog)
    own = append({IDEMPOTENCY_KEY: "nightly-2021-04-01"})
    assert web("POST", table, own, headers={"Idempotency-Key": KEY}).status_code == 200
    assert arguments(catalog)["idempotency_key"] is None


@pytest.mark.parametrize("summary", [5, True, 1.5, "x", [1], [IDEMPOTENCY_KEY], IDEMPOTENCY_KEY])
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": KEY}])
def test_a_summary_that_is_no_object_is_400(web: Web, table: str, summary: Any, headers: dict[str, str]) -> None:
    body = append({})
    body["updates"][0]["snapshot"]["summary"] = summary
    assert error_of(web("POST", table, body, headers=headers))[:2] == (400, "BadRequestException")


def test_a_malformed_idempotency_key_is_400(web: Web, table: str) -> None:
    response = web("POST", table, append({}), headers={"Idempotency-Key": "x"})
    assert error_of(response)[:2] == (400, "BadRequestException")


class Leaping(SystemClock):
    """A clock that is a minute further each time somebody looks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 60
        return self.seconds


def test_a_commit_that_waited_too_long_for_a_thread_is_429_and_not_begun(table: str, catalog: ScriptedCatalog) -> None:
    web = Web(create_app(catalog, token=None, settings=catalog.rest_settings, clock=Leaping()))
    catalog.calls.clear()
    response = web("POST", table, set_properties(a="b"))
    assert error_of(response)[:2] == (429, "TooManyRequestsException")
    assert catalog.calls == []


def test_large_commits_at_the_same_time_all_land() -> None:
    catalog = ScriptedCatalog(rest_commit_threads=4)
    catalog.create_table(("default", "t"), SCHEMA)
    app = create_app(catalog, settings=catalog.rest_settings)
    catalog.gate = threading.Event()

    async def scene() -> list[httpx.Response]:
        async with Web(app).client() as client:
            path = "/v1/namespaces/default/tables/t"
            large = [set_properties(**{f"p{i}": "x" * SMALL_BODY_BYTES}) for i in range(40)]
            tasks = [asyncio.create_task(client.post(path, json=body)) for body in large]
            # Four are in the catalog at once: the threads really work side by side.
            for _ in range(4):
                await asyncio.to_thread(catalog.waiting.acquire)
            assert catalog.gate is not None
            catalog.gate.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(scene())
    assert {answer.status_code for answer in answers} == {200}
    properties = catalog.load(("default", "t")).metadata.properties
    assert set(properties) >= {f"p{i}" for i in range(40)}
