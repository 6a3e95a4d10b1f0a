from __future__ import annotations

from typing import Any

import orjson
import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.configuration import ENDPOINTS
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of

VIEWS = "/v1/namespaces/logging/views"
VIEW = f"{VIEWS}/errors"
MISSING = f"{VIEWS}/missing"


def version(sql: str = "select * from events", id_: int = 1) -> dict[str, Any]:
    return {
        "version-id": id_,
        "timestamp-ms": 1_000,
        "schema-id": 0,
        "summary": {"engine-name": "test"},
        "default-namespace": ["logging"],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }


def body(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "view-version": version(), "properties": {}, **more}


def replacement(sql: str, *, uuid: str | None = None) -> dict[str, Any]:
    """As Java's RESTViewOperations sends it."""
    return {
        "requirements": [] if uuid is None else [{"type": "assert-view-uuid", "uuid": uuid}],
        "updates": [
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "add-view-version", "view-version": version(sql, 2)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    }


@pytest.fixture
def view(web: Web, catalog: ScriptedCatalog) -> dict[str, Any]:
    """What creating logging.errors answers. There is a table logging.events too."""
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    created = web("POST", VIEWS, body("errors", properties={"comment": "of all services"}))
    assert created.status_code == 200, created.text
    return created.json()  # type: ignore[no-any-return]


def current_sql(loaded: dict[str, Any]) -> str:
    metadata = loaded["metadata"]
    (current,) = (each for each in metadata["versions"] if each["version-id"] == metadata["current-version-id"])
    return str(current["representations"][0]["sql"])


def test_creating_a_view_returns_what_loading_it_does(web: Web, view: dict[str, Any]) -> None:
    assert view == web("GET", VIEW).json()
    assert view.keys() == {"metadata-location", "metadata", "config"}
    assert view["metadata"]["properties"] == {"comment": "of all services"}
    assert current_sql(view) == "select * from events"


def test_a_new_view_lies_in_its_namespace(view: dict[str, Any]) -> None:
    assert view["metadata"]["location"].startswith("file:///warehouse/logging.db/errors")


def test_views_and_tables_are_listed_apart(web: Web, view: dict[str, Any]) -> None:
    web("POST", VIEWS, body("Warnings"))
    listed = web("GET", VIEWS).json()
    assert listed == {
        "identifiers": [{"namespace": ["logging"], "name": name} for name in ("errors", "warnings")],
        "next-page-token": None,
    }
    tables = web("GET", "/v1/namespaces/logging/tables").json()
    assert tables["identifiers"] == [{"namespace": ["logging"], "name": "events"}]


def test_a_list_comes_in_pages(web: Web, view: dict[str, Any]) -> None:
    web("POST", VIEWS, body("warnings"))
    first = web("GET", f"{VIEWS}?pageToken=&pageSize=1").json()
    rest = web("GET", f"{VIEWS}?pageSize=1&pageToken={first['next-page-token']}").json()
    assert [each["name"] for page in (first, rest) for each in page["identifiers"]] == ["errors", "warnings"]
    assert rest["next-page-token"] is None


def test_a_view_is_there_or_not(web: Web, view: dict[str, Any]) -> None:
    assert (web("HEAD", VIEW).status_code, web("HEAD", MISSING).status_code) == (204, 404)
    assert web("HEAD", f"{VIEWS}/events").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        MISSING,
        f"{VIEWS}/events",
        f"{VIEWS}/hive_view",
        "/v1/namespaces/nowhere/views/v",
        "/v1/namespaces/a%1Fb/views/v",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_is_no_iceberg_view_is_a_missing_view(
    web: Web, view: dict[str, Any], catalog: ScriptedCatalog, method: str, path: str
) -> None:
    """Spark then looks for a table, and for what Hive has: any other type would end its query."""
    catalog.metastore.add_hive_table(TableName("logging", "hive_view"))
    assert error_of(web(method, path))[:2] == (404, "NoSuchViewException")
    assert error_of(web("POST", path, replacement("select 1")))[:2] == (404, "NoSuchViewException")
    assert catalog.table_exists(("logging", "events"))


def test_creating_and_listing_in_a_missing_namespace_name_the_namespace(web: Web) -> None:
    for method, path, sent in (
        ("POST", "/v1/namespaces/nowhere/views", body("v")),
        ("GET", "/v1/namespaces/nowhere/views", None),
        ("POST", "/v1/namespaces/nowhere/register-view", {"name": "v", "metadata-location": "file:/warehouse/x"}),
    ):
        expected = (404, "NoSuchNamespaceException", "Namespace does not exist: nowhere")
        assert error_of(web(method, path, sent)) == expected, path


def test_a_replacement_becomes_the_current_version(web: Web, view: dict[str, Any]) -> None:
    uuid = view["metadata"]["view-uuid"]
    replaced = web("POST", VIEW, replacement("select 2", uuid=uuid))
    assert replaced.status_code == 200
    assert replaced.json() == web("GET", VIEW).json()
    assert current_sql(replaced.json()) == "select 2"
    assert replaced.json()["metadata-location"] != view["metadata-location"]


def test_a_commit_to_another_view_under_this_name_is_a_conflict(web: Web, view: dict[str, Any]) -> None:
    sent = replacement("select 2", uuid="00000000-0000-4000-8000-000000000001")
    status, kind, message = error_of(web("POST", VIEW, sent))
    assert (status, kind) == (409, "CommitFailedException")
    assert message.startswith("Requirement failed: view UUID does not match")
    assert web("GET", VIEW).json() == view


@pytest.mark.parametrize(
    "sent",
    [
        {"requirements": [{"type": "assert-table-uuid", "uuid": "x"}], "updates": []},
        {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {}}]},
        {"requirements": [], "updates": [{"action": "add-view-version"}]},
        {"identifier": {"namespace": ["logging"], "name": "other"}, "requirements": [], "updates": []},
        {"requirements": {}, "updates": []},
        {"requirements": [], "updates": ["set-location"]},
    ],
    ids=orjson.dumps,
)
def test_a_commit_that_means_nothing_changes_nothing(web: Web, view: dict[str, Any], sent: dict[str, Any]) -> None:
    assert error_of(web("POST", VIEW, sent))[:2] == (400, "BadRequestException")
    assert web("GET", VIEW).json() == view


def test_a_view_that_breaks_the_rules_of_views_is_an_illegal_argument(web: Web, view: dict[str, Any]) -> None:
    """By which Java's client raises IllegalArgumentException, as its own builder of views does."""
    unknown = {"action": "set-current-view-version", "view-version-id": 7}
    refused = error_of(web("POST", VIEW, {"requirements": [], "updates": [unknown]}))
    assert refused[:2] == (400, "IllegalArgumentException")
    twice = [{"type": "sql", "sql": text, "dialect": "spark"} for text in ("select 1", "select 2")]
    refused = error_of(web("POST", VIEWS, body("w") | {"view-version": {**version(), "representations": twice}}))
    assert refused[:2] == (400, "IllegalArgumentException")
    assert web("GET", VIEW).json() == view


def test_a_commit_is_bounded_as_a_tables_is(web: Web, view: dict[str, Any]) -> None:
    many = [{"action": "set-properties", "updates": {"a": "b"}}] * 3
    catalog = ScriptedCatalog(**{"commit.max-updates": 2})
    catalog.create_namespace("logging")
    bounded = _web(catalog)
    bounded("POST", VIEWS, body("errors"))
    assert error_of(bounded("POST", VIEW, {"requirements": [], "updates": many}))[0] == 400
    assert web("POST", VIEW, {"requirements": [], "updates": many}).status_code == 200


def test_a_dropped_view_is_gone_and_its_name_free(web: Web, view: dict[str, Any]) -> None:
    assert web("DELETE", VIEW).status_code == 204
    assert error_of(web("GET", VIEW)) == (404, "NoSuchViewException", "View does not exist: logging.errors")
    assert web("POST", VIEWS, body("errors")).status_code == 200


def rename(source: str, destination: str, namespace: str = "logging") -> dict[str, Any]:
    return {
        "source": {"namespace": ["logging"], "name": source},
        "destination": {"namespace": [namespace], "name": destination},
    }


def test_a_view_is_renamed(web: Web, view: dict[str, Any]) -> None:
    assert web("POST", "/v1/views/rename", rename("errors", "failures")).status_code == 204
    assert web("HEAD", VIEW).status_code == 404
    assert web("GET", f"{VIEWS}/failures").json() == view


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (rename("missing", "x"), (404, "NoSuchViewException", "View does not exist: logging.missing")),
        (rename("errors", "x", "nowhere"), (404, "NoSuchNamespaceException", "Namespace does not exist: nowhere")),
        (
            rename("errors", "events"),
            (
                409,
                "AlreadyExistsException",
                "Cannot rename logging.errors to logging.events. Table already exists",
            ),
        ),
    ],
)
def test_a_view_cannot_be_renamed(
    web: Web, view: dict[str, Any], sent: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    assert error_of(web("POST", "/v1/views/rename", sent)) == expected
    assert web("GET", VIEW).json() == view


def test_a_table_and_a_view_never_share_a_name(web: Web, view: dict[str, Any], catalog: ScriptedCatalog) -> None:
    taken_by_view = "View with same name already exists: logging.errors"
    tables = "/v1/namespaces/logging/tables"
    location = web("GET", f"{tables}/events").json()["metadata-location"]
    assert error_of(web("POST", tables, {"name": "errors", "schema": SCHEMA})) == (
        409,
        "AlreadyExistsException",
        taken_by_view,
    )
    registered = web(
        "POST", "/v1/namespaces/logging/register", {"name": "errors", "metadata-location": location, "overwrite": True}
    )
    assert error_of(registered) == (409, "AlreadyExistsException", taken_by_view)
    renamed = web("POST", "/v1/tables/rename", rename("events", "errors"))
    assert error_of(renamed)[:2] == (409, "AlreadyExistsException")
    assert error_of(web("POST", VIEWS, body("events"))) == (
        409,
        "AlreadyExistsException",
        "Table with same name already exists: logging.events",
    )
    assert error_of(web("GET", f"{tables}/errors"))[:2] == (404, "NoSuchTableException")
    assert web("GET", VIEW).json() == view


def test_a_view_is_registered_from_its_file(web: Web, view: dict[str, Any]) -> None:
    web("DELETE", VIEW)
    sent = {"name": "again", "metadata-location": view["metadata-location"]}
    registered = web("POST", "/v1/namespaces/logging/register-view", sent)
    assert (registered.status_code, registered.json()) == (200, view)
    assert web("GET", f"{VIEWS}/again").json() == view
    taken = error_of(web("POST", "/v1/namespaces/logging/register-view", sent))
    assert taken == (409, "AlreadyExistsException", "View already exists: logging.again")


def test_a_missing_file_and_one_that_is_no_views_are_not_registered(
    web: Web, view: dict[str, Any], catalog: ScriptedCatalog
) -> None:
    path = "/v1/namespaces/logging/register-view"
    gone = web("POST", path, {"name": "x", "metadata-location": "file:/warehouse/gone"})
    assert error_of(gone) == (404, "NotFoundException", "Failed to open input stream for file: file:/warehouse/gone")
    table = web("GET", "/v1/namespaces/logging/tables/events").json()["metadata-location"]
    status, kind, message = error_of(web("POST", path, {"name": "x", "metadata-location": table}))
    assert (status, kind) == (400, "BadRequestException")
    assert "uuid" not in message
    assert web("HEAD", f"{VIEWS}/x").status_code == 404


def test_a_view_whose_file_is_gone_is_no_missing_view(web: Web, view: dict[str, Any], catalog: ScriptedCatalog) -> None:
    location = view["metadata-location"]
    catalog.files.delete(location)
    message = f"Failed to open input stream for file: {location}"
    assert error_of(web("GET", VIEW)) == (404, "NotFoundException", message)


def test_a_namespace_with_a_view_is_not_dropped(web: Web, view: dict[str, Any]) -> None:
    web("DELETE", "/v1/namespaces/logging/tables/events")
    assert error_of(web("DELETE", "/v1/namespaces/logging"))[:2] == (409, "NamespaceNotEmptyException")


def test_all_view_endpoints_are_there_or_none(web: Web) -> None:
    """Clients that see one of them advertised count on the others."""
    assert sum("view" in endpoint.template for endpoint in ENDPOINTS) == 8


def _web(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, token=None, settings=catalog.rest_settings))
