from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.rest.access.audit import LOGGER as AUDIT
from iceberg_hms.rest.access_log import LOGGER
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.log_lines import TEXT_MAX
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web

TABLE = "/v1/namespaces/logging/tables/events"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, LOGGER), caplog.at_level(logging.INFO, AUDIT):
        yield caplog


@pytest.fixture
def catalog() -> ScriptedCatalog:
    catalog = ScriptedCatalog(rest_access_log=True)
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    return catalog


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, settings=catalog.rest_settings))


def written(lines: pytest.LogCaptureFixture, logger: str = LOGGER) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in lines.records if record.name == logger]


def test_each_request_has_a_line(web: Web, lines: pytest.LogCaptureFixture) -> None:
    response = web("GET", TABLE, headers={"X-Request-ID": "job-7"})
    [line] = written(lines)
    assert line.pop("time").endswith("Z")
    assert 0 <= line.pop("ms") < 60_000
    assert line == {
        "request": "job-7",
        "peer": "127.0.0.1",
        "caller": "",
        "method": "GET",
        "path": TABLE,
        "status": 200,
        "bytes": len(response.content),
    }


def test_the_audit_trail_the_response_and_the_line_have_one_id(web: Web, lines: pytest.LogCaptureFixture) -> None:
    response = web("POST", "/v1/namespaces", {"namespace": ["made"]})
    ids = {response.headers["x-request-id"], written(lines)[-1]["request"], written(lines, AUDIT)[-1]["request"]}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/no/such", 404), ("HEAD", TABLE, 204), ("PATCH", TABLE, 405), ("GET", TABLE + "x", 404)],
)
def test_whatever_comes_of_a_request_is_in_its_line(
    web: Web, lines: pytest.LogCaptureFixture, method: str, path: str, status: int
) -> None:
    assert web(method, path).status_code == status
    assert [(line["method"], line["path"], line["status"]) for line in written(lines)] == [(method, path, status)]


def test_a_client_that_leaves_has_a_line_too(catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture) -> None:
    app = create_app(catalog, settings=catalog.rest_settings)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": TABLE, "headers": [], "query_string": b"", "client": None}
    asyncio.run(app(scope, receive, send))
    assert [(line["status"], line["bytes"]) for line in written(lines)] == [(499, 0)]


def test_health_checks_have_lines_only_when_they_fail(
    web: Web, catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture
) -> None:
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert web("GET", path).status_code == 200
    assert written(lines) == []
    catalog.errors["namespace_exists"] = MetastoreUnavailable("x")
    assert web("GET", "/health/ready").status_code == 503
    assert [line["path"] for line in written(lines)] == ["/health/ready"]


def test_no_client_forges_a_line_or_makes_it_long(catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture) -> None:
    app = create_app(catalog, settings=catalog.rest_settings)
    evil = b'/v1/x\n{"time": "\x1b[2J\x7f\xff'

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    for path in (evil, b"/" + b"y" * 100_000):
        scope = {
            "type": "http",
            "method": "GET\n" * 1000,
            "path": "/",
            "raw_path": path,
            "headers": [(b"x-request-id", b"a\nb"), (b"user-agent", b"\n")],
            "query_string": b"",
            "client": ("\n" * 10_000, 1),
        }
        asyncio.run(app(scope, receive, send))
    for record in (record for record in lines.records if record.name == LOGGER):
        text = record.getMessage()
        assert text.isascii()
        assert text.isprintable()
        assert len(text) < 8 * TEXT_MAX
    assert [line["path"][:5] for line in written(lines)] == ["/v1/x", "/yyyy"]


def test_it_is_off_unless_the_setting_is_on(lines: pytest.LogCaptureFixture) -> None:
    catalog = ScriptedCatalog()
    assert Web(create_app(catalog, settings=catalog.rest_settings))("GET", "/v1/config").status_code == 200
    assert written(lines) == []


def test_a_log_that_wants_no_lines_gets_none(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        assert web("GET", "/v1/config").status_code == 200
    assert written(caplog) == []


def test_a_line_names_a_warehouse_that_is_not_the_default_one(
    catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture
) -> None:
    web = Web(
        create_app(catalog, settings=catalog.rest_settings, warehouses={"sales": (ScriptedCatalog(), RestSettings())})
    )
    for path in ("/v1/sales/namespaces", "/v1/namespaces"):
        assert web("GET", path).status_code == 200
    assert [line.get("warehouse") for line in written(lines)] == ["sales", None]
