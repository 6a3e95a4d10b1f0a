from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    CommitStateUnknown,
    CorruptFile,
    HiveTableKept,
    LockNotAcquired,
    MetastoreUnavailable,
    NoSuchNamespace,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.rest.app import create_app
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, creation_of, error_of

EVENTS = TableName("logging", "events")


def test_creating_a_table_returns_what_loading_it_does(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.create_namespace("nyc")
    body = {"name": "flights", "schema": SCHEMA, "properties": {"owner": "us"}}
    created = web("POST", "/v1/namespaces/nyc/tables", body)
    assert created.status_code == 200
    assert created.json()["metadata"]["properties"]["owner"] == "us"
    loaded = web("GET", "/v1/namespaces/nyc/tables/flights")
    assert loaded.json() == created.json()
    assert loaded.headers["etag"] == created.headers["etag"]
    assert loaded.json()["config"] == {}


def test_spec_order_and_location_of_a_new_table_are_honoured(web: Web, catalog: ScriptedCatalog) -> None:
    spec = {"spec-id": 0, "fields": [{"name": "level", "transform": "identity", "source-id": 1, "field-id": 1000}]}
    order = {
        "order-id": 1,
        "fields": [{"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}],
    }
    body = {
        "name": "t",
        "schema": SCHEMA,
        "partition-spec": spec,
        "write-order": order,
        "location": "file:/warehouse/else",
    }
    metadata = web("POST", "/v1/namespaces/default/tables", body).json()["metadata"]
    assert metadata["location"] == "file:/warehouse/else"
    assert metadata["partition-specs"][0]["fields"][0]["name"] == "level"
    assert metadata["sort-orders"][-1]["fields"][0]["source-id"] == 2


BAD_COLUMNS = [
    ({"type": "int", "write-default": "x"}, "Invalid write-default of column c: 'x'"),
    ({"type": "date", "write-default": "2021-02-30"}, "Invalid write-default of column c"),
    ({"type": "int", "name": "_file"}, "Cannot call a column _file"),
]


@pytest.mark.parametrize(("column", "why"), BAD_COLUMNS)
@pytest.mark.parametrize("door", ["create", "stage", "transaction", "add-schema"])
def test_a_schema_that_readers_could_not_load_comes_through_no_door(
    web: Web, catalog: ScriptedCatalog, table: str, door: str, column: dict[str, Any], why: str
) -> None:
    before = catalog.load_table("logging.events").metadata_location
    bad = {"id": 3, "name": "c", "required": False, **column}
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], bad]}
    body: dict[str, Any] = {"name": "t", "schema": schema}
    path, add = "/v1/namespaces/logging/tables", {"action": "add-schema", "schema": schema}
    sent = {
        "create": (path, body),
        "stage": (path, {**body, "stage-create": True}),
        "transaction": (f"{path}/t", creation_of("file:/warehouse/t", str(UUID(int=1)), schema=schema)),
        "add-schema": (table, {"requirements": [], "updates": [add]}),
    }
    response = web("POST", *sent[door])
    assert error_of(response)[0] == 400
    assert why in error_of(response)[2]
    assert not catalog.table_exists("logging.t")
    assert catalog.load_table("logging.events").metadata_location == before


def test_a_default_that_a_client_writes_as_null_is_none(web: Web, catalog: ScriptedCatalog) -> None:
    columns = [{**each, "initial-default": None, "write-default": None} for each in SCHEMA["fields"]]
    created = web("POST", "/v1/namespaces/default/tables", {"name": "t", "schema": {**SCHEMA, "fields": columns}})
    assert created.json()["metadata"]["schemas"][0]["fields"] == SCHEMA["fields"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("schema", "struct"),
        ("partition-spec", []),
        ("write-order", []),
        ("location", 1),
        ("properties", {"a": 1}),
        ("stage-create", "yes"),
    ],
)
def test_a_wrong_field_of_a_new_table_is_named(web: Web, catalog: ScriptedCatalog, field: str, value: object) -> None:
    response = web("POST", "/v1/namespaces/default/tables", {"name": "t", "schema": SCHEMA, field: value})
    status, kind, message = error_of(response)
    assert (status, kind) == (400, "BadRequestException")
    assert message.startswith(f"Field {field} must")
    assert catalog.calls == []


def test_a_staged_table_is_not_created(web: Web, catalog: ScriptedCatalog) -> None:
    body = {"name": "t", "schema": SCHEMA, "stage-create": True}
    staged = web("POST", "/v1/namespaces/default/tables", body)
    assert staged.status_code == 200
    assert "metadata-location" not in staged.json()
    assert staged.json()["metadata"]["location"] == "file:///warehouse/default.db/t"
    assert catalog.list_tables("default") == []
    assert catalog.files.locations() == ()
    assert catalog.files.folders() == ("/warehouse/default.db/t/metadata",)


def test_a_hive_table_takes_a_name_too(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    catalog.metastore.add_hive_table(TableName("logging", "raw"))
    for name in ("events", "raw"):
        for stage in (False, True):
            body = {"name": name, "schema": SCHEMA, "stage-create": stage}
            response = web("POST", "/v1/namespaces/logging/tables", body)
            assert error_of(response) == (409, "AlreadyExistsException", f"Table already exists: logging.{name}")


def test_the_loser_of_a_creation_learns_that_the_table_exists(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.metastore.before_moves.append(lambda: catalog.metastore.add_hive_table(TableName("default", "t")))
    response = web("POST", "/v1/namespaces/default/tables", {"name": "t", "schema": SCHEMA})
    assert error_of(response) == (409, "AlreadyExistsException", "Table already exists: default.t")


@pytest.mark.parametrize("namespace", ["none", "a%1Fb"])
def test_creating_and_listing_in_a_missing_namespace_name_the_namespace(web: Web, namespace: str) -> None:
    expected = (404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace.replace('%1F', '.')}")
    path = f"/v1/namespaces/{namespace}"
    assert error_of(web("POST", f"{path}/tables", {"name": "t", "schema": SCHEMA})) == expected
    assert error_of(web("GET", f"{path}/tables")) == expected
    assert error_of(web("POST", f"{path}/register", {"name": "t", "metadata-location": "file:/x"})) == expected


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("logging/tables/none", "logging.none"),
        ("none/tables/events", "none.events"),
        ("logging%1Fevents/tables/files", "logging.events.files"),
        ("logging%1Fevents/tables/branch_x", "logging.events.branch_x"),
        ("logging/tables/ev%2Fents", "logging.ev/ents"),
    ],
)
def test_anything_but_an_iceberg_table_is_no_such_table(web: Web, table: str, path: str, name: str) -> None:
    for method in ("GET", "DELETE"):
        response = web(method, f"/v1/namespaces/{path}")
        assert error_of(response) == (404, "NoSuchTableException", f"Table does not exist: {name}")
    response = web("HEAD", f"/v1/namespaces/{path}")
    assert (response.status_code, response.content) == (404, b"")


def test_a_table_in_a_dropped_namespace_is_a_missing_table(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    for method in ("load", "table_exists", "drop_table"):
        catalog.errors[method] = NoSuchNamespace("logging")
    for method in ("GET", "DELETE"):
        assert error_of(web(method, table)) == (404, "NoSuchTableException", "Table does not exist: logging.events")


def test_a_hive_table_is_no_such_table_and_is_not_touched(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    catalog.metastore.add_hive_table(TableName("logging", "raw"))
    path = "/v1/namespaces/logging/tables/raw"
    for method in ("GET", "DELETE"):
        assert error_of(web(method, path))[:2] == (404, "NoSuchTableException")
    assert web("HEAD", path).status_code == 404
    listed = web("GET", "/v1/namespaces/logging/tables").json()["identifiers"]
    assert listed == [{"namespace": ["logging"], "name": "events"}]
    assert TableName("logging", "raw") in catalog.metastore.rows


def test_an_outage_is_503_and_never_404(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    # Loads wait for the metastore.
    hurried = Web(create_app(catalog, settings=replace(catalog.rest_settings, rest_commit_wait_ms=10)))
    for method in ("load", "table_exists", "drop_table", "list_tables", "rename_table"):
        catalog.errors[method] = MetastoreUnavailable("nobody answers")
    for response in (hurried("GET", table), web("DELETE", table)):
        assert error_of(response)[:2] == (503, "ServiceUnavailableException")
        assert response.headers["retry-after"] == "1"
    assert hurried("HEAD", table).status_code == 503
    assert web("GET", "/v1/namespaces/logging/tables").status_code == 503


def test_a_missing_metadata_file_is_not_a_missing_table(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    location = web("GET", table).json()["metadata-location"]
    catalog.files.delete(location)
    message = f"Failed to open input stream for file: {location}"
    assert error_of(web("GET", table)) == (404, "NotFoundException", message)


def test_a_table_whose_metadata_file_is_damaged_is_500_with_what_to_do(
    web: Web, table: str, catalog: ScriptedCatalog
) -> None:
    catalog.errors["load"] = CorruptFile("file:/cut.json", "it ends early")
    status, kind, message = error_of(web("GET", table))
    assert (status, kind) == (500, "ServiceFailureException")
    assert message.startswith("A file is damaged;")
    assert "cut" not in message
    assert "ends early" not in message
    assert "restore" in message


def test_a_table_whose_file_is_beyond_a_limit_is_not_to_be_restored(
    web: Web, table: str, catalog: ScriptedCatalog
) -> None:
    catalog.errors["load"] = Limit("storage.max-manifest-bytes", 1).exceeded("file:/big.avro", "it is large")
    status, kind, message = error_of(web("GET", table))
    assert (status, kind) == (500, "ServiceFailureException")
    assert message.startswith("A file is beyond a limit of this server;")
    assert "big" not in message
    assert "raises the limit (`storage.max-*`)" in message


def test_loading_an_unchanged_version_is_304(web: Web, table: str) -> None:
    tag = web("GET", table).headers["etag"]
    response = web("GET", table, headers={"If-None-Match": tag})
    assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", tag)
    assert web("GET", table + "?snapshots=all", headers={"If-None-Match": tag}).status_code == 304
    assert web("GET", table + "?snapshots=refs", headers={"If-None-Match": tag}).status_code == 200
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert web("POST", table, body).status_code == 200
    assert web("GET", table, headers={"If-None-Match": tag}).status_code == 200


def add_snapshot(web: Web, catalog: ScriptedCatalog, table: str, snapshot_id: int, parent: int | None) -> None:
    manifest_list = f"file:/warehouse/lists/{snapshot_id}.avro"
    catalog.files.write(manifest_list, encode_list(2, snapshot_id, parent, snapshot_id, None, [])[0])
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id,
        "timestamp-ms": web("GET", table).json()["metadata"]["last-updated-ms"],
        "manifest-list": manifest_list,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    body = {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }
    response = web("POST", table, body)
    assert response.status_code == 200, response.text


def test_snapshots_refs_returns_only_snapshots_of_refs(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    add_snapshot(web, catalog, table, 1, None)
    add_snapshot(web, catalog, table, 2, 1)
    whole = web("GET", table + "?snapshots=all").json()["metadata"]
    slim = web("GET", table + "?snapshots=refs").json()["metadata"]
    assert [snapshot["snapshot-id"] for snapshot in whole["snapshots"]] == [1, 2]
    assert [snapshot["snapshot-id"] for snapshot in slim["snapshots"]] == [2]
    assert {**slim, "snapshots": None} == {**whole, "snapshots": None}


def test_loads_of_one_version_get_the_same_response(web: Web, table: str) -> None:
    first, again = web("GET", table), web("GET", table)
    refs = [web("GET", f"{table}?snapshots=refs") for _ in range(2)]
    assert first.content == again.content
    assert first.headers["etag"] == again.headers["etag"]
    assert refs[0].content == refs[1].content
    changed = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"seen": "yes"}}]}
    committed = web("POST", table, changed).json()
    assert web("GET", table).json() == {**committed, "config": {}}


def test_other_values_of_snapshots_are_400(web: Web, table: str) -> None:
    assert web("GET", table + "?snapshots=REFS").status_code == 200
    assert error_of(web("GET", table + "?snapshots=some"))[:2] == (400, "BadRequestException")


def test_head_of_a_table(web: Web, table: str) -> None:
    response = web("HEAD", table)
    assert (response.status_code, response.content) == (204, b"")


def test_tables_are_listed_by_page(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    for name in ("a", "b", "c"):
        catalog.create_table(("logging", name), SCHEMA)
    path = "/v1/namespaces/logging/tables"
    token, names = "", []
    for _ in range(4):
        page = web("GET", f"{path}?pageToken={token}&pageSize=3").json()
        names += [identifier["name"] for identifier in page["identifiers"]]
        token = page["next-page-token"]
        if token is None:
            break
    assert names == ["a", "b", "c", "events"]
    asked = [call for call, _ in catalog.calls if call.startswith("list_tables")]
    assert asked == ["list_tables_after", "list_tables_after"]


def test_without_a_page_token_all_tables_are_listed_whatever_the_setting_says() -> None:
    catalog = ScriptedCatalog(**{"rest.max-page-size": 2})
    web = Web(create_app(catalog, settings=catalog.rest_settings))
    for name in ("a", "b", "c"):
        catalog.create_table(("default", name), SCHEMA)
    path = "/v1/namespaces/default/tables"
    assert len(web("GET", path).json()["identifiers"]) == 3
    assert len(web("GET", f"{path}?pageSize=1").json()["identifiers"]) == 3
    page = web("GET", f"{path}?pageToken=").json()
    assert [each["name"] for each in page["identifiers"]] == ["a", "b"]
    assert len(web("GET", f"{path}?pageToken={page['next-page-token']}&pageSize=500").json()["identifiers"]) == 1
    assert error_of(web("GET", f"{path.replace('default', 'else')}?pageToken={page['next-page-token']}"))[0] == 400
    assert error_of(web("GET", "/v1/namespaces/none/tables?pageToken="))[:2] == (404, "NoSuchNamespaceException")


@pytest.mark.parametrize(
    ("query", "purge"), [("", False), ("?purgeRequested=true", True), ("?purgeRequested=false", False)]
)
def test_a_table_is_dropped_with_its_files_only_on_request(
    web: Web, table: str, catalog: ScriptedCatalog, query: str, purge: bool
) -> None:
    before = catalog.files.locations()
    response = web("DELETE", table + query)
    assert (response.status_code, response.content) == (204, b"")
    assert before
    assert catalog.files.locations() == (() if purge else before)
    assert web("DELETE", table).status_code == 404


def hive_table_that_is_read(catalog: ScriptedCatalog, table: str, web: Web) -> TableName:
    """A Hive table whose file `table` reads, as after Spark's migrate."""
    name = TableName("logging", "events_backup_")
    catalog.hive_tables.add(name, "file:/warehouse/logging.db/events_backup_")
    mapping = {NAME_MAPPING: '[{"field-id": 1, "names": ["level"]}]'}
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": mapping}]}
    assert web("POST", table, update).status_code == 200
    file = DataFile("file:/warehouse/logging.db/events_backup_/1.parquet", "PARQUET", 1, 10)
    catalog.load_table("logging.events").append([file])
    return name


def test_a_hive_table_whose_files_an_iceberg_table_reads_loses_its_row_here(
    web: Web, table: str, catalog: ScriptedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    """After a 404 Spark would drop it, and the metastore delete its files."""
    name = hive_table_that_is_read(catalog, table, web)
    with caplog.at_level("INFO"):
        assert web("DELETE", f"{table}_backup_").status_code == 204
    assert name not in catalog.metastore.rows
    assert "logging.events_backup_ was dropped; its files stay, since logging.events reads them" in caplog.text
    assert web("DELETE", f"{table}_backup_").status_code == 404


def test_only_spark_s_drop_of_a_hive_table_is_carried_out_here(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    name = hive_table_that_is_read(catalog, table, web)
    assert web("DELETE", f"{table}_backup_?purgeRequested=true").status_code == 404
    assert name in catalog.metastore.rows


def test_a_server_that_is_read_only_lets_nobody_drop_it(table: str, web: Web, catalog: ScriptedCatalog) -> None:
    name = hive_table_that_is_read(catalog, table, web)
    unread = TableName("logging", "unread")
    catalog.hive_tables.add(unread, "file:/warehouse/logging.db/unread")
    read_only = Web(create_app(catalog, settings=replace(catalog.rest_settings, rest_read_only=True)))
    assert error_of(read_only("DELETE", f"{table}_backup_"))[:2] == (403, "ForbiddenException")
    assert error_of(read_only("DELETE", table.replace("events", "unread")))[:2] == (404, "NoSuchTableException")
    assert {name, unread} <= catalog.metastore.rows.keys()


def test_a_hive_table_is_kept_if_nothing_is_proved(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    name = hive_table_that_is_read(catalog, table, web)
    catalog.errors["drop_hive_table_in_use"] = HiveTableKept(name, "file:/warehouse/x", "the search took too long")
    status, kind, message = error_of(web("DELETE", f"{table}_backup_"))
    assert (status, kind) == (400, "IllegalArgumentException")
    assert message.startswith("logging.events_backup_ was not dropped, because an Iceberg table may read the files in")
    assert name in catalog.metastore.rows


def test_a_malformed_purge_parameter_drops_nothing(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    assert error_of(web("DELETE", table + "?purgeRequested=maybe"))[:2] == (400, "BadRequestException")
    assert EVENTS in catalog.metastore.rows


def rename(source: tuple[str, str], destination: tuple[str, str]) -> dict[str, object]:
    names = {"source": source, "destination": destination}
    return {key: {"namespace": [namespace], "name": name} for key, (namespace, name) in names.items()}


def test_a_table_is_renamed_also_into_another_namespace(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    before = web("GET", table).json()
    response = web("POST", "/v1/tables/rename", rename(("logging", "events"), ("default", "moved")))
    assert (response.status_code, response.content) == (204, b"")
    assert web("GET", table).status_code == 404
    assert web("GET", "/v1/namespaces/default/tables/moved").json() == before


@pytest.mark.parametrize(
    ("source", "destination", "kind", "status"),
    [
        (("logging", "none"), ("logging", "x"), "NoSuchTableException", 404),
        (("logging", "events"), ("none", "x"), "NoSuchNamespaceException", 404),
        (("logging", "events"), ("logging", "other"), "AlreadyExistsException", 409),
    ],
)
def test_an_impossible_rename_changes_nothing(
    web: Web,
    table: str,
    catalog: ScriptedCatalog,
    source: tuple[str, str],
    destination: tuple[str, str],
    kind: str,
    status: int,
) -> None:
    catalog.create_table(("logging", "other"), SCHEMA)
    assert error_of(web("POST", "/v1/tables/rename", rename(source, destination)))[:2] == (status, kind)
    assert EVENTS in catalog.metastore.rows


def test_a_drop_without_a_lock_is_409_and_an_unknown_one_500(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    catalog.errors["drop_table"] = LockNotAcquired("another holds it")
    assert error_of(web("DELETE", table))[:2] == (409, "CommitFailedException")
    catalog.errors["drop_table"] = CommitStateUnknown("no answer")
    assert error_of(web("DELETE", table))[:2] == (500, "CommitStateUnknownException")


def test_a_table_is_registered_from_its_metadata_file(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    location = web("GET", table).json()["metadata-location"]
    web("DELETE", table)
    path = "/v1/namespaces/logging/register"
    response = web("POST", path, {"name": "events", "metadata-location": location})
    assert response.status_code == 200
    assert response.json() == web("GET", table).json()
    again = {"name": "events", "metadata-location": location}
    assert error_of(web("POST", path, again))[:2] == (409, "AlreadyExistsException")
    assert web("POST", path, {**again, "overwrite": True}).status_code == 200


def test_a_missing_or_damaged_metadata_file_is_not_registered(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    path = "/v1/namespaces/logging/register"
    gone = web("POST", path, {"name": "x", "metadata-location": "file:/warehouse/gone"})
    assert error_of(gone) == (404, "NotFoundException", "Failed to open input stream for file: file:/warehouse/gone")
    catalog.files.write("file:/warehouse/cut", b'{"format-version": 2')
    status, kind, message = error_of(web("POST", path, {"name": "x", "metadata-location": "file:/warehouse/cut"}))
    assert (status, kind) == (400, "BadRequestException")
    assert message.startswith("The metadata file cannot be read, or is not table metadata")
    catalog.errors["register_table"] = CorruptFile("file:/another", "cut")
    assert web("POST", path, {"name": "x", "metadata-location": "file:/warehouse/cut"}).status_code == 500
