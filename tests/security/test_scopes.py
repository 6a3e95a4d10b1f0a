"""A caller does what its scopes permit, and nothing else: every endpoint with every level of scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from iceberg_hms.rest.access.scopes import Level
from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS
from iceberg_hms.rest.plan_tokens import PlannedScan, PlanTokens
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.security.callers import callers
from tests.security.shapes import view_version

SALES = "/v1/namespaces/sales"
ORDERS = f"{SALES}/tables/orders"
OPEN_ORDERS = f"{SALES}/views/open_orders"
KEY = b"k" * 32
VERSION = {**view_version(1), "timestamp-ms": 1_000}

#: Endpoint -> the level that it needs in `sales`, and a request that succeeds with it. None: every caller may.
CASES: dict[str, tuple[Level | None, str, Any]] = {
    "GET /v1/config": (None, "/v1/config", None),
    "GET /v1/namespaces": (None, "/v1/namespaces", None),
    "POST /v1/namespaces": (Level.ADMIN, "/v1/namespaces", {"namespace": ["sales2"]}),
    "GET /v1/namespaces/{namespace}": (Level.READ, SALES, None),
    "HEAD /v1/namespaces/{namespace}": (Level.READ, SALES, None),
    "DELETE /v1/namespaces/{namespace}": (Level.ADMIN, "/v1/namespaces/sales_empty", None),
    "POST /v1/namespaces/{namespace}/properties": (Level.WRITE, f"{SALES}/properties", {"updates": {"a": "b"}}),
    "GET /v1/namespaces/{namespace}/tables": (Level.READ, f"{SALES}/tables", None),
    "POST /v1/namespaces/{namespace}/tables": (Level.WRITE, f"{SALES}/tables", {"name": "made", "schema": SCHEMA}),
    "GET /v1/namespaces/{namespace}/tables/{table}": (Level.READ, ORDERS, None),
    "POST /v1/namespaces/{namespace}/tables/{table}": (
        Level.WRITE,
        ORDERS,
        {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]},
    ),
    "DELETE /v1/namespaces/{namespace}/tables/{table}": (Level.WRITE, ORDERS, None),
    "HEAD /v1/namespaces/{namespace}/tables/{table}": (Level.READ, ORDERS, None),
    "POST /v1/namespaces/{namespace}/tables/{table}/metrics": (
        Level.READ,
        f"{ORDERS}/metrics",
        {"report-type": "another"},
    ),
    "POST /v1/namespaces/{namespace}/tables/{table}/plan": (Level.READ, f"{ORDERS}/plan", {}),
    "GET /v1/namespaces/{namespace}/tables/{table}/plan/{plan-id}": (Level.READ, f"{ORDERS}/plan/@plan", None),
    "DELETE /v1/namespaces/{namespace}/tables/{table}/plan/{plan-id}": (Level.READ, f"{ORDERS}/plan/@plan", None),
    "POST /v1/namespaces/{namespace}/tables/{table}/tasks": (Level.READ, f"{ORDERS}/tasks", {"plan-task": "@task"}),
    "POST /v1/namespaces/{namespace}/register": (
        Level.WRITE,
        f"{SALES}/register",
        {"name": "copied", "metadata-location": "file:/warehouse/copied"},
    ),
    "POST /v1/tables/rename": (
        Level.WRITE,
        "/v1/tables/rename",
        {
            "source": {"namespace": ["sales"], "name": "orders"},
            "destination": {"namespace": ["sales"], "name": "renamed"},
        },
    ),
    "GET /v1/namespaces/{namespace}/views": (Level.READ, f"{SALES}/views", None),
    "POST /v1/namespaces/{namespace}/views": (
        Level.WRITE,
        f"{SALES}/views",
        {"name": "made", "schema": SCHEMA, "view-version": VERSION},
    ),
    "GET /v1/namespaces/{namespace}/views/{view}": (Level.READ, OPEN_ORDERS, None),
    "POST /v1/namespaces/{namespace}/views/{view}": (
        Level.WRITE,
        OPEN_ORDERS,
        {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]},
    ),
    "DELETE /v1/namespaces/{namespace}/views/{view}": (Level.WRITE, OPEN_ORDERS, None),
    "HEAD /v1/namespaces/{namespace}/views/{view}": (Level.READ, OPEN_ORDERS, None),
    "POST /v1/namespaces/{namespace}/register-view": (
        Level.WRITE,
        f"{SALES}/register-view",
        {"name": "copied", "metadata-location": "file:/warehouse/copied-view"},
    ),
    "POST /v1/views/rename": (
        Level.WRITE,
        "/v1/views/rename",
        {
            "source": {"namespace": ["sales"], "name": "open_orders"},
            "destination": {"namespace": ["sales"], "name": "renamed"},
        },
    ),
}
SCOPES = {
    "nothing": "admin[elsewhere]",
    "reader": "read[sales*]",
    "writer": "write[sales*] read[*]",
    "admin": "admin[sales*] read[*]",
}
HELD = {"nothing": None, "reader": Level.READ, "writer": Level.WRITE, "admin": Level.ADMIN}


@pytest.fixture
def catalog() -> ScriptedCatalog:
    found = ScriptedCatalog()
    for namespace in ("sales", "sales_empty", "hr"):
        found.create_namespace(namespace)
    table = found.create_table(("sales", "orders"), SCHEMA)
    found.create_table(("hr", "salaries"), SCHEMA)
    view = found.views.create(("sales", "open_orders"), SCHEMA, VERSION)
    found.views.create(("hr", "high_salaries"), SCHEMA, VERSION)
    copied = view.metadata.raw | {"location": "file:/warehouse/sales.db/copied-view"}
    found.files.write("file:/warehouse/copied-view", orjson.dumps(copied))
    moved = table.metadata.replace(location="file:/warehouse/sales.db/copied")
    found.files.write("file:/warehouse/copied", moved.to_bytes())
    found.calls.clear()
    return found


def test_every_endpoint_is_in_the_table() -> None:
    assert {f"{endpoint.method} {endpoint.template}" for endpoint in (CONFIG, *ENDPOINTS)} == CASES.keys()


@pytest.mark.parametrize("caller", SCOPES)
@pytest.mark.parametrize("endpoint", CASES)
def test_a_caller_passes_with_the_level_and_without_it_reaches_nothing(
    catalog: ScriptedCatalog, tmp_path: Path, endpoint: str, caller: str
) -> None:
    level, path, body = CASES[endpoint]
    method = endpoint.partition(" ")[0]
    (tmp_path / "key").write_bytes(KEY)
    settings = RestSettings(rest_signing_key_file=str(tmp_path / "key"))
    scan = PlannedScan(str(catalog.pointer(("sales", "orders")).parameters["uuid"]), None, 0)
    if body == {"plan-task": "@task"}:
        body = {"plan-task": PlanTokens(KEY).task(scan)}
    path = path.replace("@plan", PlanTokens(KEY).plan_id(scan))
    response = callers(catalog, tmp_path, SCOPES, settings)(caller)(method, path, body)
    held = HELD[caller]
    if level is None or (held is not None and held >= level):
        assert response.status_code < 300, response.text
        return
    assert response.status_code == 403
    assert catalog.calls == []
    if method != "HEAD":
        status, kind, message = error_of(response)
        assert (status, kind) == (403, "ForbiddenException")
        assert f"{level}[sales" in message
        assert caller in message


@pytest.mark.parametrize("endpoint", CASES)
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer unknown"}], ids=["no token", "unknown token"])
def test_strangers_reach_nothing(
    catalog: ScriptedCatalog, tmp_path: Path, endpoint: str, header: dict[str, str]
) -> None:
    web = callers(catalog, tmp_path, SCOPES)("admin")
    method, path = endpoint.partition(" ")[0], CASES[endpoint][1]
    response = web(method, path, CASES[endpoint][2], headers={"Authorization": "", **header})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert catalog.calls == []


def test_a_body_of_a_caller_without_the_scope_is_not_read(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    web = callers(catalog, tmp_path, SCOPES)("reader")
    assert web("POST", ORDERS, content=b"no JSON").status_code == 403


@pytest.mark.parametrize(("source", "destination"), [("hr", "sales"), ("sales", "hr")])
@pytest.mark.parametrize("kind", ["tables", "views"])
def test_a_rename_needs_both_names(
    catalog: ScriptedCatalog, tmp_path: Path, kind: str, source: str, destination: str
) -> None:
    names = {"tables": ("orders", "salaries"), "views": ("open_orders", "high_salaries")}[kind]
    body = {
        "source": {"namespace": [source], "name": names[source == "hr"]},
        "destination": {"namespace": [destination], "name": "moved"},
    }
    web = callers(catalog, tmp_path, SCOPES)("writer")
    status, _, message = error_of(web("POST", f"/v1/{kind}/rename", body))
    assert (status, "write[hr]" in message) == (403, True)
    assert catalog.calls == []


@pytest.mark.parametrize("kind", ["register", "register-view"])
def test_a_file_of_any_table_or_view_is_registered_only_by_who_may_read_all(
    catalog: ScriptedCatalog, tmp_path: Path, kind: str
) -> None:
    web = callers(catalog, tmp_path, {"writer": "write[sales]"})("writer")
    body = {"name": "copied", "metadata-location": "file:/warehouse/copied"}
    status, _, message = error_of(web("POST", f"{SALES}/{kind}", body))
    assert (status, "read[*]" in message) == (403, True)
    assert catalog.calls == []


def test_a_commit_that_creates_its_table_needs_the_right_to_create(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    body = {"requirements": [{"type": "assert-create"}], "updates": []}
    web = callers(catalog, tmp_path, SCOPES)("reader")
    assert web("POST", f"{SALES}/tables/new", body).status_code == 403
    assert catalog.calls == []


def test_listing_shows_what_the_caller_may_read(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    as_caller = callers(catalog, tmp_path, {**SCOPES, "hr": "read[hr]", "none": "read[x]"})
    shown = {name: as_caller(name)("GET", "/v1/namespaces").json()["namespaces"] for name in ("reader", "hr", "none")}
    assert shown == {"reader": [["sales"], ["sales_empty"]], "hr": [["hr"]], "none": []}
    for parent in ("sales", "missing"):
        assert as_caller("hr")("GET", f"/v1/namespaces?parent={parent}").status_code == 403


@pytest.mark.parametrize("namespace", ["hr", "HR", "hr%20", "%00hr", "h%C5%95", "*", "%2A", "sales%2Fhr", "hr%1Fsales"])
def test_no_spelling_of_a_name_slips_past_its_pattern(catalog: ScriptedCatalog, tmp_path: Path, namespace: str) -> None:
    web = callers(catalog, tmp_path, {"writer": "write[sales]"})("writer")
    paths = ("", "/tables/salaries", "/views/high_salaries")
    for method, path in [("GET", path) for path in paths] + [("DELETE", path) for path in paths]:
        assert web(method, f"/v1/namespaces/{namespace}{path}").status_code == 403
    assert catalog.calls == []


def test_upper_case_means_the_same_namespace(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    web = callers(catalog, tmp_path, {"reader": "read[SALES]"})("reader")
    assert web("GET", "/v1/namespaces/SaLeS/tables/Orders").status_code == 200


def test_a_metadata_table_of_spark_is_still_404(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    """Spark asks for `sales.orders.files` so, for a view first, and goes on only after NoSuchView and NoSuchTable."""
    web = callers(catalog, tmp_path, SCOPES)("reader")
    assert error_of(web("GET", f"{SALES}%1Forders/views/files"))[:2] == (404, "NoSuchViewException")
    assert error_of(web("GET", f"{SALES}%1Forders/tables/files"))[:2] == (404, "NoSuchTableException")


def test_a_wrong_route_is_not_told_to_strangers(catalog: ScriptedCatalog, tmp_path: Path) -> None:
    web: Web = callers(catalog, tmp_path, SCOPES)("reader")
    assert web("GET", "/v1/nothing").status_code == 404
    assert web("GET", "/v1/nothing", headers={"Authorization": "Bearer x"}).status_code == 401
