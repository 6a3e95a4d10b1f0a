"""A server that is read-only (`rest.read-only`) changes nothing, and says so before it does anything."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.rest.access.audit import CHANGES, LOGGER
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.configuration import ENDPOINTS, advertised
from iceberg_hms.rest.dispatch import Endpoint
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.security.test_protected_properties import SNAPSHOT_LIST, append_and_set

TABLE = "/v1/namespaces/logging/tables/events"
CHANGING = [endpoint for endpoint in ENDPOINTS if endpoint.action in CHANGES]
PROPERTIES = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


@pytest.fixture
def catalog() -> ScriptedCatalog:
    catalog = ScriptedCatalog(rest_read_only=True)
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    catalog.calls.clear()
    return catalog


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, settings=catalog.rest_settings))


def path_of(endpoint: Endpoint) -> str:
    return endpoint.template.format(namespace="logging", table="events", view="events")


def changes(catalog: ScriptedCatalog) -> list[str]:
    reads = {"load", "list_namespaces", "load_namespace_properties", "namespace_exists", "list_tables", "table_exists"}
    return [name for name, _ in catalog.calls if name not in reads]


@pytest.mark.parametrize("endpoint", CHANGING, ids=advertised)
def test_every_change_is_refused_before_anything_is_done(
    web: Web, catalog: ScriptedCatalog, caplog: pytest.LogCaptureFixture, endpoint: Endpoint
) -> None:
    before = (catalog.files.locations(), catalog.pointer(("logging", "events")))
    with caplog.at_level(logging.INFO, LOGGER):
        status, kind, message = error_of(web(endpoint.method, path_of(endpoint), PROPERTIES))
    assert (status, kind) == (403, "ForbiddenException")
    assert message.startswith("This server is read-only")
    assert changes(catalog) == []
    assert (catalog.files.locations(), catalog.pointer(("logging", "events"))) == before
    [line] = [json.loads(record.getMessage()) for record in caplog.records if record.name == LOGGER]
    assert (line["action"], line["outcome"], line["reason"]) == (endpoint.action, "refused", "read-only")


@pytest.mark.parametrize("body", [{"name": "t", "schema": SCHEMA, "stage-create": True}, {"name": "t"}])
def test_a_staged_creation_is_refused_at_its_beginning(web: Web, body: dict[str, Any]) -> None:
    assert error_of(web("POST", "/v1/namespaces/logging/tables", body))[0] == 403


def test_reads_and_metrics_reports_go_on(web: Web) -> None:
    for method, path in (("GET", TABLE), ("HEAD", TABLE), ("GET", "/v1/namespaces"), ("GET", "/v1/config")):
        assert web(method, path).status_code in (200, 204), path
    assert web("POST", f"{TABLE}/metrics", {"report-type": "another"}).status_code == 204


def test_clients_learn_of_all_endpoints(web: Web) -> None:
    """They ask once, when they start: without an endpoint they could not write after the server is writable again."""
    assert web("GET", "/v1/config").json()["endpoints"] == [advertised(endpoint) for endpoint in ENDPOINTS]


def test_a_drop_of_what_is_no_iceberg_table_is_404_so_that_spark_asks_hive(web: Web) -> None:
    for path in (f"{TABLE}x", "/v1/namespaces/none/tables/t"):
        assert error_of(web("DELETE", path))[:2] == (404, "NoSuchTableException")


def test_a_commit_that_landed_before_is_not_refused(catalog: ScriptedCatalog) -> None:
    """A 4xx would make its client delete files that the table names."""
    catalog.files.write(SNAPSHOT_LIST, encode_list(2, 7, None, 1, None, [])[0])
    body = append_and_set("a", "b")
    body["requirements"].append(
        {"type": "assert-table-uuid", "uuid": catalog.load(("logging", "events")).metadata.uuid}
    )
    read_only = Web(create_app(catalog, settings=catalog.rest_settings))
    writable = Web(create_app(catalog, settings=replace(catalog.rest_settings, rest_read_only=False)))
    assert error_of(read_only("POST", TABLE, body))[0] == 403
    assert writable("POST", TABLE, body).status_code == 200
    assert error_of(read_only("POST", TABLE, body))[:2] == (500, "CommitStateUnknownException")
