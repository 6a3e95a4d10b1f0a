"""Properties that decide how all writers lock a table are not for everyone who may commit to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import MissingFile
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.format.metadata import table_properties
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.rest.access import protected
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.security.callers import callers

TABLE = ("sales", "orders")
ORDERS = "/v1/namespaces/sales/tables/orders"
SCOPES = {"writer": "write[*]", "admin": "admin[*]"}
SNAPSHOT_LIST = "file:/warehouse/sales.db/orders/metadata/snap-7.avro"
CHANGED = {"iceberg-hms.lock": "zookeeper", "iceberg-hms.exclusive": "true", "engine.hive.lock-enabled": "false"}
UNCHANGED = {"iceberg-hms.lock": "hms", "iceberg-hms.exclusive": "false", "engine.hive.lock-enabled": "true"}
JUNK = {
    "iceberg-hms.lock": ["junk", "", "ZOOKEEPER ", "hms\n"],
    "iceberg-hms.exclusive": ["junk", "yes"],
    "engine.hive.lock-enabled": ["junk", "0"],
    "iceberg-hms.rebase-appends": ["junk", "", "everything"],
}


@pytest.fixture
def catalog() -> ScriptedCatalog:
    found = ScriptedCatalog()
    found.create_namespace("sales")
    found.create_table(TABLE, SCHEMA)
    return found


@pytest.fixture
def as_caller(catalog: ScriptedCatalog, tmp_path: Path) -> Callable[[str], Web]:
    return callers(catalog, tmp_path, SCOPES)


def commit(*updates: dict[str, Any], creates: bool = False) -> dict[str, Any]:
    return {"requirements": [{"type": "assert-create"}] if creates else [], "updates": list(updates)}


def setting(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def creation(catalog: ScriptedCatalog, properties: dict[str, str]) -> dict[str, Any]:
    staged = catalog.stage_table(("sales", "new"), SCHEMA).metadata
    return commit(*create_updates(staged), setting(**properties), creates=True)


def properties_of(catalog: ScriptedCatalog, name: tuple[str, str] = TABLE) -> dict[str, str]:
    """Without what every new table has."""
    found = dict(catalog.load(name).metadata.properties)
    del found["write.parquet.compression-codec"]
    return found


Way = Callable[[Web, ScriptedCatalog, dict[str, str]], Any]


def by_commit(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    return web("POST", ORDERS, commit(setting(**properties)))


def by_staging(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    body = {"name": "new", "schema": SCHEMA, "stage-create": True, "properties": properties}
    return web("POST", "/v1/namespaces/sales/tables", body)


def by_creation(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    return web("POST", "/v1/namespaces/sales/tables", {"name": "new", "schema": SCHEMA, "properties": properties})


def by_commit_of_a_staged_table(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    return web("POST", "/v1/namespaces/sales/tables/new", creation(catalog, properties))


def by_commit_in_another_case(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    """Iceberg's parsers fold the case of an action."""
    return web("POST", ORDERS, commit({"action": "Set-Properties", "updates": properties}))


def by_creation_in_another_case(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    body = creation(catalog, properties)
    kinds = [{**each, "type": each["type"].upper()} for each in body["requirements"]]
    updates = [{**each, "action": each["action"].upper()} for each in body["updates"]]
    return web("POST", "/v1/namespaces/sales/tables/new", {"requirements": kinds, "updates": updates})


def by_registration(web: Web, catalog: ScriptedCatalog, properties: dict[str, str]) -> Any:
    staged = catalog.stage_table(("sales", "new"), SCHEMA).metadata
    # Whatever the server checks in requests, anybody who can write a file can put this into it.
    data = orjson.dumps({**orjson.loads(staged.to_bytes()), "properties": properties})
    location = f"{staged.fields['location']}/metadata/{staged.fields['table-uuid']}.metadata.json"
    catalog.files.write(location, data)
    return web("POST", "/v1/namespaces/sales/register", {"name": "new", "metadata-location": location})


WAYS = [
    by_commit,
    by_commit_in_another_case,
    by_staging,
    by_creation,
    by_creation_in_another_case,
    by_commit_of_a_staged_table,
    by_registration,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", CHANGED)
def test_a_change_needs_the_admin_scope(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], way: Way, key: str
) -> None:
    refused = way(as_caller("writer"), catalog, {key: CHANGED[key]})
    status, kind, message = error_of(refused)
    assert (status, kind) == (403, "ForbiddenException")
    assert "admin[sales]" in message
    assert key in message
    assert properties_of(catalog) == {}
    assert not catalog.table_exists(("sales", "new"))
    assert way(as_caller("admin"), catalog, {key: CHANGED[key]}).status_code == 200


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", UNCHANGED)
def test_a_value_that_changes_nothing_passes(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], way: Way, key: str
) -> None:
    assert way(as_caller("writer"), catalog, {key: UNCHANGED[key], "a": "b"}).status_code == 200


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in JUNK.items() for value in values])
@pytest.mark.parametrize("caller", SCOPES)
def test_junk_is_refused_from_every_caller(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], way: Way, key: str, value: str, caller: str
) -> None:
    status, kind, message = error_of(way(as_caller(caller), catalog, {key: value}))
    assert (status, kind) == (400, "BadRequestException")
    assert key in message
    assert not catalog.table_exists(("sales", "new"))
    assert properties_of(catalog) == {}


@pytest.mark.parametrize("key", CHANGED)
def test_values_that_are_there_may_be_sent_again_and_not_removed(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], key: str
) -> None:
    """Spark sends all properties again with CREATE OR REPLACE."""
    assert as_caller("admin")("POST", ORDERS, commit(setting(**{key: CHANGED[key]}))).status_code == 200
    web = as_caller("writer")
    assert web("POST", ORDERS, commit(setting(**{key: CHANGED[key]}, a="b"))).status_code == 200
    assert properties_of(catalog) == {key: CHANGED[key], "a": "b"}
    removal = commit({"action": "remove-properties", "removals": [key, "a"]})
    assert web("POST", ORDERS, removal).status_code == 403
    assert properties_of(catalog) == {key: CHANGED[key], "a": "b"}
    assert as_caller("admin")("POST", ORDERS, removal).status_code == 200
    assert properties_of(catalog) == {}


def test_a_writer_may_say_which_appends_are_rebased(catalog: ScriptedCatalog, as_caller: Callable[[str], Web]) -> None:
    web = as_caller("writer")
    assert web("POST", ORDERS, commit(setting(**{"iceberg-hms.rebase-appends": "all"}))).status_code == 200
    body = {"updates": {"iceberg-hms.rebase-appends": "none"}}
    assert web("POST", "/v1/namespaces/sales/properties", body).status_code == 200
    body["updates"]["iceberg-hms.rebase-appends"] = "junk"
    assert error_of(web("POST", "/v1/namespaces/sales/properties", body))[0] == 400
    made = {"namespace": ["dev"], "properties": body["updates"]}
    assert error_of(as_caller("admin")("POST", "/v1/namespaces", made))[0] == 400


@pytest.mark.parametrize("key", ["location", "hive.metastore.database.owner", "hive.metastore.database.owner-type"])
@pytest.mark.parametrize("verb", ["updates", "removals"])
def test_a_namespace_s_owner_and_location_need_the_admin_scope(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], key: str, verb: str
) -> None:
    body = {verb: {key: "file:/warehouse/sales"} if verb == "updates" else [key]}
    status, _, message = error_of(as_caller("writer")("POST", "/v1/namespaces/sales/properties", body))
    assert (status, key in message) == (403, True)
    assert catalog.load_namespace_properties("sales").get(key) != "changed"


@pytest.mark.parametrize(("key", "value"), [(key, values[0]) for key, values in JUNK.items()])
def test_a_table_that_carries_junk_still_loads_and_commits(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], key: str, value: str
) -> None:
    with pytest.MonkeyPatch.context() as another_writer:
        another_writer.setattr(table_properties, "check", lambda _properties: None)
        catalog.commit(TABLE, [], [setting(**{key: value})])
    web = as_caller("writer")
    assert web("GET", ORDERS).json()["metadata"]["properties"][key] == value
    assert web("POST", ORDERS, commit(setting(**{key: value}, a="b"))).status_code == 200
    assert properties_of(catalog) == {key: value, "a": "b"}


def test_a_removal_in_another_case_needs_the_admin_scope(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web]
) -> None:
    catalog.commit(TABLE, [], [setting(**CHANGED)])
    removal = commit({"action": "REMOVE-PROPERTIES", "removals": [*CHANGED]})
    assert error_of(as_caller("writer")("POST", ORDERS, removal))[0] == 403
    assert properties_of(catalog) == CHANGED


def test_a_removal_of_what_a_table_lacks_removes_nothing_that_is_set_meanwhile() -> None:
    for field in ("removals", "removed"):
        sent = [{"action": "remove-properties", field: ["iceberg-hms.exclusive", "a"]}]
        [kept] = protected.without_unchanged(sent, {})
        assert kept["removals"] == ["a"]
        assert protected.without_unchanged(sent, {"iceberg-hms.exclusive": "false"}) == sent


@pytest.mark.parametrize("key", CHANGED)
def test_old_names_of_fields_need_the_admin_scope_too(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], key: str
) -> None:
    """Clients before Iceberg 1.0 say "updated" and "removed"."""
    web, admin = as_caller("writer"), as_caller("admin")
    body = commit({"action": "set-properties", "updated": {key: CHANGED[key]}})
    assert error_of(web("POST", ORDERS, body))[0] == 403
    assert properties_of(catalog) == {}
    assert admin("POST", ORDERS, body).status_code == 200
    removal = commit({"action": "remove-properties", "removed": [key]})
    assert error_of(web("POST", ORDERS, removal))[0] == 403
    assert properties_of(catalog) == {key: CHANGED[key]}
    unchanged = commit({"action": "set-properties", "updated": {key: CHANGED[key], "a": "b"}})
    assert web("POST", ORDERS, unchanged).status_code == 200
    assert admin("POST", ORDERS, removal).status_code == 200
    assert properties_of(catalog) == {"a": "b"}


def append_and_set(key: str, value: str) -> dict[str, Any]:
    snapshot = {"snapshot-id": 7, "sequence-number": 1, "timestamp-ms": SYSTEM_CLOCK.now_ms(), "schema-id": 0}
    snapshot |= {"manifest-list": SNAPSHOT_LIST, "summary": {"operation": "append"}}
    return commit({"action": "add-snapshot", "snapshot": snapshot}, setting(**{key: value}))


def renamed(catalog: ScriptedCatalog) -> None:
    catalog.rename_table(TABLE, ("sales", "elsewhere"))


def changed_back(catalog: ScriptedCatalog) -> None:
    catalog.commit(TABLE, [], [setting(**{"iceberg-hms.lock": "hms"})])


def unreadable(catalog: ScriptedCatalog) -> None:
    catalog.errors["load"] = MissingFile(SNAPSHOT_LIST)


@pytest.mark.parametrize("meanwhile", [renamed, changed_back, unreadable])
def test_a_commit_that_landed_is_not_refused_when_it_is_sent_again(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], meanwhile: Callable[[ScriptedCatalog], None]
) -> None:
    """A 4xx would make its client delete files that the table names."""
    catalog.commit(TABLE, [], [setting(**{"iceberg-hms.lock": "zookeeper"})])
    catalog.files.write(SNAPSHOT_LIST, encode_list(2, 7, None, 1, None, [])[0])
    web = as_caller("writer")
    body = append_and_set("iceberg-hms.lock", "zookeeper")
    body["requirements"].append({"type": "assert-table-uuid", "uuid": catalog.load(TABLE).metadata.uuid})
    assert web("POST", ORDERS, body).status_code == 200
    meanwhile(catalog)
    response = web("POST", ORDERS, body)
    assert response.status_code == 200 or error_of(response)[:2] == (500, "CommitStateUnknownException")


@pytest.mark.parametrize("key", CHANGED)
def test_a_registration_over_a_table_does_not_drop_what_only_an_admin_may_change(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], key: str
) -> None:
    location = catalog.load_table(("sales", "orders")).metadata_location
    catalog.commit(("sales", "orders"), [], [setting(**{key: CHANGED[key]})])
    body = {"name": "orders", "metadata-location": location, "overwrite": True}
    status, kind, message = error_of(as_caller("writer")("POST", "/v1/namespaces/sales/register", body))
    assert (status, kind) == (403, "ForbiddenException")
    assert key in message
    assert properties_of(catalog)[key] == CHANGED[key]
    kept = catalog.load_table(("sales", "orders")).metadata_location
    same = {**body, "metadata-location": kept}
    assert as_caller("writer")("POST", "/v1/namespaces/sales/register", same).status_code == 200
    assert as_caller("admin")("POST", "/v1/namespaces/sales/register", body).status_code == 200
    assert key not in properties_of(catalog)
