"""Whose a table is and who made a snapshot is what the server knows, and not what a client says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.rest.app import create_app
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.rest.test_views import body as view
from tests.security.callers import callers
from tests.security.test_protected_properties import by_commit_of_a_staged_table, by_creation, by_registration

SCOPES = {"etl": "admin[*]"}
ORDERS = "/v1/namespaces/sales/tables/orders"


def world(folder: Path, **settings: Any) -> tuple[ScriptedCatalog, Web]:
    catalog = ScriptedCatalog(user="server", **settings)
    catalog.create_namespace("sales")
    catalog.create_table(("sales", "orders"), SCHEMA)
    return catalog, callers(catalog, folder, SCOPES, catalog.rest_settings)("etl")


def append(**summary: str) -> dict[str, Any]:
    snapshot = {"snapshot-id": 7, "sequence-number": 1, "timestamp-ms": SYSTEM_CLOCK.now_ms(), "schema-id": 0}
    snapshot |= {"manifest-list": "file:/warehouse/sales.db/orders/metadata/snap-7.avro"}
    added = {"action": "add-snapshot", "snapshot": {**snapshot, "summary": {"operation": "append", **summary}}}
    return {"requirements": [], "updates": [added]}


@pytest.mark.parametrize("way", [by_creation, by_commit_of_a_staged_table, by_registration])
def test_the_caller_owns_the_table_that_it_makes(tmp_path: Path, way: Callable[..., Any]) -> None:
    catalog, web = world(tmp_path)
    assert way(web, catalog, {}).status_code == 200
    assert catalog.metastore.rows[TableName("sales", "new")].owner == "etl"
    assert catalog.metastore.rows[TableName("sales", "orders")].owner == "server"


OWNER = "hive.metastore.table.owner"


@pytest.mark.parametrize("way", [by_creation, by_commit_of_a_staged_table, by_registration])
def test_no_client_names_another_owner_of_its_table(tmp_path: Path, way: Callable[..., Any]) -> None:
    catalog, web = world(tmp_path)
    assert way(web, catalog, {OWNER: "grace"}).status_code == 200
    assert catalog.metastore.rows[TableName("sales", "new")].owner == "etl"
    assert catalog.load(("sales", "new")).metadata.properties[OWNER] == "grace"


def test_no_client_gives_its_table_away_later(tmp_path: Path) -> None:
    catalog, web = world(tmp_path)
    update = {"action": "set-properties", "updates": {OWNER: "grace"}}
    assert web("POST", ORDERS, {"requirements": [], "updates": [update]}).status_code == 200
    assert catalog.metastore.rows[TableName("sales", "orders")].owner == "server"


def test_no_client_names_another_owner_of_its_view(tmp_path: Path) -> None:
    catalog, web = world(tmp_path)
    assert web("POST", "/v1/namespaces/sales/views", view("v", properties={OWNER: "grace"})).status_code == 200
    assert catalog.metastore.rows[TableName("sales", "v")].owner == "etl"


def test_a_caller_without_a_name_and_a_python_program_name_an_owner_as_in_java(tmp_path: Path) -> None:
    catalog, _ = world(tmp_path)
    catalog.create_table(("sales", "one"), SCHEMA, properties={OWNER: "grace"})
    without_names = Web(create_app(catalog, settings=catalog.rest_settings))
    made = {"name": "two", "schema": SCHEMA, "properties": {OWNER: "ada"}}
    assert without_names("POST", "/v1/namespaces/sales/tables", made).status_code == 200
    owners = {name.name: row.owner for name, row in catalog.metastore.rows.items()}
    assert owners == {"orders": "server", "one": "grace", "two": "ada"}


@pytest.mark.parametrize("setting", [True, False])
def test_a_client_s_own_word_on_who_it_is_is_refused(tmp_path: Path, setting: bool) -> None:
    catalog, web = world(tmp_path, rest_caller_in_summary=setting)
    status, kind, message = error_of(web("POST", ORDERS, append(**{"iceberg-hms.caller": "admin"})))
    assert (status, kind, "iceberg-hms.caller" in message) == (400, "BadRequestException", True)
    assert catalog.load(("sales", "orders")).metadata.snapshots == ()


@pytest.mark.parametrize(("setting", "expected"), [(True, "etl"), (False, None)])
def test_the_setting_puts_the_caller_into_the_summary(tmp_path: Path, setting: bool, expected: str | None) -> None:
    catalog, web = world(tmp_path, rest_caller_in_summary=setting)
    location = "file:/warehouse/sales.db/orders/metadata/snap-7.avro"
    catalog.files.write(location, encode_list(2, 7, None, 1, None, [])[0])
    response = web("POST", ORDERS, append())
    assert response.status_code == 200, response.text
    [snapshot] = catalog.load(("sales", "orders")).metadata.snapshots
    assert snapshot.raw["summary"].get("iceberg-hms.caller") == expected
