from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, creation_of, error_of


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/config", "/v1/config/", "/v1/namespaces/", "/v1/namespaces/a/tables/b/c/d"]
)
def test_an_unknown_route_is_404_with_an_error_model(web: Web, path: str) -> None:
    status, kind, message = error_of(web("GET", path))
    assert (status, kind) == (404, "NotFoundException")
    assert message.startswith("No such route: GET /")


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_a_table_in_no_namespace_is_a_missing_table(web: Web, method: str) -> None:
    """Java's client asks for it after `db.files`, and looks for a Hive table of that name after NoSuchTable alone."""
    refusal = error_of(web(method, "/v1/namespaces//tables/d+b"))
    assert refusal == (404, "NoSuchTableException", "Table does not exist: d b")


def test_a_table_in_no_namespace_with_a_name_that_is_no_text_is_refused(web: Web) -> None:
    assert error_of(web("GET", "/v1/namespaces//tables/%FC"))[:2] == (400, "BadRequestException")


def test_an_encoded_slash_belongs_to_the_name(web: Web, catalog: ScriptedCatalog) -> None:
    response = web("GET", "/v1/namespaces/a%2Fb")
    assert error_of(response) == (404, "NoSuchNamespaceException", "Namespace does not exist: a/b")
    assert catalog.calls == [("load_namespace_properties", {})]


@pytest.mark.parametrize("path", ["a+b", "a%20b"])
def test_a_blank_may_be_written_in_both_ways(web: Web, path: str) -> None:
    response = web("GET", f"/v1/namespaces/{path}")
    assert error_of(response) == (404, "NoSuchNamespaceException", "Namespace does not exist: a b")


def test_names_beyond_ascii_arrive_whole(web: Web) -> None:
    response = web("GET", "/v1/namespaces/default/tables/b%C3%BCro")
    assert error_of(response) == (404, "NoSuchTableException", "Table does not exist: default.büro")
    assert error_of(web("GET", "/v1/namespaces/default/tables/b%FCro"))[:2] == (400, "BadRequestException")


def test_of_a_header_that_comes_twice_the_first_counts(catalog: ScriptedCatalog) -> None:
    web = Web(create_app(catalog, token="right"))

    async def ask(*tokens: str) -> int:
        async with web.client() as client:
            headers = [("Authorization", f"Bearer {token}") for token in tokens]
            return (await client.get("/v1/config", headers=headers)).status_code

    assert [asyncio.run(ask(*tokens)) for tokens in (("right", "wrong"), ("wrong", "right"))] == [200, 401]


def test_an_asgi_server_without_raw_path_works_too(catalog: ScriptedCatalog) -> None:
    app = create_app(catalog)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/v1/namespaces/default", "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 204


def test_the_threads_end_with_the_application(catalog: ScriptedCatalog) -> None:
    app = create_app(catalog)
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def scene() -> int:
        await app({"type": "lifespan"}, receive, send)
        async with Web(app).client() as client:
            return (await client.get("/v1/namespaces")).status_code

    assert asyncio.run(scene()) == 500
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("error", [RuntimeError("secret"), MemoryError("secret"), RecursionError("secret")])
def test_a_defect_is_500_without_its_text(web: Web, catalog: ScriptedCatalog, error: Exception) -> None:
    catalog.errors["list_namespaces"] = error
    status, kind, message = error_of(web("GET", "/v1/namespaces"))
    assert (status, kind) == (500, "ServiceFailureException")
    assert "secret" not in message


@pytest.mark.parametrize("shared", [True, False])
def test_a_server_takes_what_another_one_with_the_same_key_file_staged_as_its_own(tmp_path: Path, shared: bool) -> None:
    (tmp_path / "key").write_text("k" * 32)
    settings = RestSettings(rest_signing_key_file=str(tmp_path / "key") if shared else "")
    files, pointer = MemoryFiles(), MemoryTablePointer(namespaces=("default",))
    catalogs = [memory_catalog(files=files, pointer=pointer) for _ in range(2)]
    stages, creates = (Web(create_app(each, settings=settings)) for each in catalogs)
    table = "/v1/namespaces/default/tables"
    staged = stages("POST", table, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    proof = {"action": "set-properties", "updates": staged["properties"]}
    files.write(f"{staged['location']}/data/1.parquet", b"")
    assert (
        creates("POST", f"{table}/t", creation_of(staged["location"], staged["table-uuid"], proof)).status_code == 200
    )
    assert catalogs[0].pointer("default.t").owns_folder == shared
