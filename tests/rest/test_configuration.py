from __future__ import annotations

import re
from pathlib import Path

import pytest

from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.configuration import ENDPOINTS, advertised
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.rest.spec_endpoints import ENDPOINTS_OF_THE_SPEC

#: What the server tells clients unless it logs their reports.
NO_REPORTS = {"rest-metrics-reporting-enabled": "false"}


def test_the_configuration_advertises_every_endpoint(web: Web) -> None:
    body = web("GET", "/v1/config").json()
    assert body["defaults"] == NO_REPORTS
    assert body["overrides"] == {}
    assert set(body["endpoints"]) == {
        "GET /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces",
        "GET /v1/{prefix}/namespaces/{namespace}",
        "HEAD /v1/{prefix}/namespaces/{namespace}",
        "DELETE /v1/{prefix}/namespaces/{namespace}",
        "POST /v1/{prefix}/namespaces/{namespace}/properties",
        "GET /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/tables",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
        "POST /v1/{prefix}/namespaces/{namespace}/register",
        "POST /v1/{prefix}/tables/rename",
        "GET /v1/{prefix}/namespaces/{namespace}/views",
        "POST /v1/{prefix}/namespaces/{namespace}/views",
        "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "POST /v1/{prefix}/namespaces/{namespace}/register-view",
        "POST /v1/{prefix}/views/rename",
    }
    # Idempotency keys are not kept for every mutation, so none are promised.
    assert "idempotency-key-lifetime" not in body


DOCUMENT = Path(__file__).parents[2] / "docs" / "rest.md"
_ROW = re.compile(r"\| `([A-Z]+ /v1/[^`]+)` \| (yes|no) \| (.*?) ?\|")


def test_each_endpoint_of_the_spec_is_served_and_advertised_or_absent_for_a_reason(web: Web) -> None:
    rows = {row[1]: row for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if (row := _ROW.fullmatch(line))}
    assert set(rows) == ENDPOINTS_OF_THE_SPEC
    advertised_ones = set(web("GET", "/v1/config").json()["endpoints"])
    # The configuration is known to all who read it.
    assert {name for name, row in rows.items() if row[2] == "yes"} == advertised_ones | {"GET /v1/config"}
    assert [name for name, row in rows.items() if row[2] == "no" and len(row[3]) < 10] == []


@pytest.mark.parametrize("endpoint", sorted(ENDPOINTS_OF_THE_SPEC))
def test_what_is_not_advertised_is_no_route_or_another_method(web: Web, endpoint: str) -> None:
    served = {advertised(each) for each in ENDPOINTS} | {"GET /v1/config"}
    method, template = endpoint.split(" ")
    path = re.sub(r"\{[\w-]+\}", "default", template)
    for each in (path, path.replace("/default", "", 1) if "{prefix}" in template else path):
        response = web(method, each)
        if endpoint in served:
            assert response.status_code != 405
            assert "No such route" not in response.text
        else:
            assert response.status_code in (404, 405)
            if method != "HEAD" and response.status_code == 404:
                # No type that says that a table is missing, after which Spark asks Hive.
                assert error_of(response)[1] == "NotFoundException"


def test_a_method_that_a_path_does_not_have_is_405_with_those_that_it_has(web: Web) -> None:
    for method in ("PUT", "PATCH", "OPTIONS", "BREW"):
        response = web(method, "/v1/namespaces/default/tables/t")
        assert (response.status_code, response.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")
    assert web("HEAD", "/v1/config").status_code == 405
    assert web("HEAD", "/v1/config").headers["allow"] == "GET"


def test_fields_that_nobody_knows_are_ignored_in_requests_and_kept_in_schemas(web: Web) -> None:
    body = {"name": "t", "schema": {**SCHEMA, "x-more": 1}, "x-unknown": {"deep": []}, "stage-create": None}
    assert web("POST", "/v1/namespaces/default/tables", body).status_code == 200
    update = {"action": "set-properties", "updates": {"a": "b"}, "x-unknown": 1}
    commit = {"requirements": [], "updates": [update], "x-unknown": None}
    path = "/v1/namespaces/default/tables/t"
    assert web("POST", path, commit).status_code == 200
    for unknown in ({"updates": [{"action": "x"}]}, {"requirements": [{"type": "x"}], "updates": []}):
        assert error_of(web("POST", path, unknown))[:2] == (400, "BadRequestException")


def test_the_warehouse_parameter_is_ignored(web: Web) -> None:
    assert web("GET", "/v1/config?warehouse=rck").status_code == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=advertised)
def test_each_advertised_endpoint_has_a_handler(web: Web, endpoint: object) -> None:
    method, path = advertised(endpoint).replace("/{prefix}", "").split(" ")  # type: ignore[arg-type]
    response = web(method, re.sub(r"\{[\w-]+\}", "default", path))
    assert response.status_code != 405
    assert "No such route" not in response.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/namespaces/default/functions"),
        ("POST", "/v1/transactions/commit"),
        ("POST", "/v1/namespaces/default/tables/t/sign"),
        ("GET", "/v1/namespaces/default/tables/t/credentials"),
        ("POST", "/v1/oauth/tokens"),
    ],
)
def test_endpoints_that_are_not_advertised_are_404(web: Web, method: str, path: str) -> None:
    assert web(method, path).status_code == 404


def web_with(**settings: str) -> Web:
    catalog = ScriptedCatalog(**settings)
    catalog.create_table(("default", "t"), SCHEMA)
    return Web(create_app(catalog, settings=catalog.rest_settings))


def test_clients_get_the_properties_of_the_settings() -> None:
    web = web_with(**{"rest.client-defaults": "clients=4,io=x", "rest.client-overrides": "s3.endpoint=http://s3"})
    body = web("GET", "/v1/config").json()
    assert body["defaults"] == {**NO_REPORTS, "clients": "4", "io": "x"}
    assert body["overrides"] == {"s3.endpoint": "http://s3"}


def test_the_server_says_that_it_plans_scans_only_where_it_prefers_to() -> None:
    """Java and PyIceberg plan by themselves unless this property says otherwise, whatever endpoints there are."""
    mode = {"scan-planning-mode": "server"}
    for preference, expected in (("off", {}), ("offered", {}), ("preferred", mode)):
        web = web_with(**{"rest.scan-planning": preference})
        body = web("GET", "/v1/config").json()
        # What a client sets itself wins over a default.
        assert (body["defaults"], body["overrides"]) == ({**NO_REPORTS, **expected}, {})
        assert web("GET", "/v1/namespaces/default/tables/t").json()["config"] == {}
        plans = [each for each in body["endpoints"] if "/plan" in each or "/tasks" in each]
        assert len(plans) == (0 if preference == "off" else 4)
    web = web_with(**{"rest.scan-planning": "preferred", "rest.client-defaults": "scan-planning-mode=client"})
    assert web("GET", "/v1/config").json()["defaults"] == {**NO_REPORTS, "scan-planning-mode": "client"}


def test_clients_are_asked_for_reports_that_the_server_logs_or_the_operator_wants() -> None:
    for settings in (
        {"rest.log-metrics-reports": "true"},
        {"rest.client-defaults": "rest-metrics-reporting-enabled=true"},
    ):
        assert web_with(**settings)("GET", "/v1/config").json()["defaults"] == {
            "rest-metrics-reporting-enabled": "true"
        }


def test_each_warehouse_has_its_own_properties() -> None:
    default = ScriptedCatalog(**{"rest.client-defaults": "of=default"})
    sales = ScriptedCatalog(**{"rest.client-defaults": "of=sales", "rest.table-config": "io=sales"})
    for catalog in (default, sales):
        catalog.create_table(("default", "t"), SCHEMA)
    web = Web(create_app(default, settings=default.rest_settings, warehouses={"sales": (sales, sales.rest_settings)}))
    assert web("GET", "/v1/config").json()["defaults"] == {**NO_REPORTS, "of": "default"}
    assert web("GET", "/v1/config?warehouse=sales").json()["defaults"] == {**NO_REPORTS, "of": "sales"}
    assert web("GET", "/v1/namespaces/default/tables/t").json()["config"] == {}
    assert web("GET", "/v1/sales/namespaces/default/tables/t").json()["config"] == {"io": "sales"}


def test_another_separator_is_advertised_and_both_are_understood() -> None:
    web = web_with(**{"rest.namespace-separator": "%2E"})
    assert web("GET", "/v1/config").json()["overrides"] == {"namespace-separator": "%2E"}
    for parts in ("default.t", "default%2Et", "default%1Ft"):
        # As Spark asks for `default.t.files`, which it reads itself after this very type.
        expected = (404, "NoSuchTableException", "Table does not exist: default.t.files")
        assert error_of(web("GET", f"/v1/namespaces/{parts}/tables/files")) == expected
        assert error_of(web("GET", f"/v1/namespaces/{parts}"))[:2] == (404, "NoSuchNamespaceException")
        assert error_of(web("GET", f"/v1/namespaces?parent={parts}"))[:2] == (404, "NoSuchNamespaceException")
    assert web("GET", "/v1/namespaces/default/tables/t").status_code == 200


def test_the_config_of_tables_comes_with_each_and_is_part_of_its_tag() -> None:
    config = {"s3.endpoint": "http://s3", "s3.path-style-access": "true"}
    web = web_with(**{"rest.table-config": ",".join(f"{name}={value}" for name, value in config.items())})
    tables = "/v1/namespaces/default/tables"
    loaded = web("GET", f"{tables}/t")
    made = web("POST", tables, {"name": "made", "schema": SCHEMA})
    staged = web("POST", tables, {"name": "staged", "schema": SCHEMA, "stage-create": True})
    assert web("DELETE", f"{tables}/made").status_code == 204
    register = {"name": "again", "metadata-location": made.json()["metadata-location"], "overwrite": False}
    registered = web("POST", "/v1/namespaces/default/register", register)
    answers = (loaded, web("GET", f"{tables}/t?snapshots=refs"), made, staged, registered)
    assert [answer.json()["config"] for answer in answers] == [config] * len(answers)
    tag = loaded.headers["etag"]
    assert web("GET", f"{tables}/t", headers={"If-None-Match": tag}).status_code == 304
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    committed = web("POST", f"{tables}/t", update)
    assert "config" not in committed.json()
    assert web("GET", f"{tables}/t", headers={"If-None-Match": committed.headers["etag"]}).status_code == 304


def test_a_changed_config_is_another_version_for_clients_that_cache() -> None:
    catalog = ScriptedCatalog()
    catalog.create_table(("default", "t"), SCHEMA)
    other = RestSettings(rest_table_config="a=b")
    tags = {
        Web(create_app(catalog, settings=settings))("GET", "/v1/namespaces/default/tables/t").headers["etag"]
        for settings in (catalog.rest_settings, other)
    }
    assert len(tags) == 2
