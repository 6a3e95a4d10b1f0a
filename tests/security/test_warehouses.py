"""Several warehouses behind one server: what a caller may in one says nothing of another."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.rest.access.audit import LOGGER
from iceberg_hms.rest.access.tokens import TokenFile
from iceberg_hms.rest.app import App, create_app
from iceberg_hms.rest.configuration import ENDPOINTS, advertised
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.security.callers import web_of, write_tokens

SCOPES = {
    "default-admin": "admin[*]",
    "sales-admin": "admin[sales/*]",
    "sales-reader": "read[sales/orders]",
    "mixed": "admin[*] read[sales/orders]",
    "everyone": "admin[*/*]",
}
CREATE = {"name": "made", "schema": SCHEMA}
COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


class Server:
    """A server with the warehouses `default` and `sales`, which have the same names for different tables. settings: of
    `sales`, besides its own."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.default = ScriptedCatalog(warehouse="file:/warehouse")
        self.sales = ScriptedCatalog(warehouse="file:/sales", **{"rest.purge": "refuse", **settings})
        for catalog in (self.default, self.sales):
            catalog.create_namespace("orders")
            catalog.create_table(("orders", "open"), SCHEMA)
        tokens = write_tokens(folder / "tokens", SCOPES)
        access = TokenFile(folder / "tokens", SYSTEM_CLOCK)
        self.app: App = create_app(
            self.default, access=access, warehouses={"sales": (self.sales, self.sales.rest_settings)}
        )
        self.as_: Callable[[str], Web] = lambda name: Web(self.app, web_of(tokens[name]))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def uuid_of(web: Web, path: str) -> str:
    found: str = web("GET", path).json()["metadata"]["table-uuid"]
    return found


def test_the_configuration_gives_the_prefix_of_the_warehouse_that_is_asked_for(server: Server) -> None:
    web = server.as_("everyone")
    assert web("GET", "/v1/config").json()["overrides"] == {}
    assert web("GET", "/v1/config?warehouse=").json()["overrides"] == {}
    assert web("GET", "/v1/config?warehouse=sales").json()["overrides"] == {"prefix": "sales"}
    assert web("GET", "/v1/config?warehouse=default").json()["overrides"] == {"prefix": "default"}
    # As clients of a server that had one warehouse may ask.
    assert web("GET", "/v1/config?warehouse=file:/warehouse/").json()["overrides"] == {}


@pytest.mark.parametrize("name", ["lab", "Sales", "sales/", "file:/sales", "%00", "x" * 10_000])
def test_an_unknown_warehouse_is_404_of_its_own_type(server: Server, name: str) -> None:
    status, type_, message = error_of(server.as_("everyone")("GET", f"/v1/config?warehouse={name}"))
    assert (status, type_) == (404, "NoSuchWarehouseException")
    assert len(message) < 300


def test_both_warehouses_are_served_each_with_its_own_tables(server: Server) -> None:
    web = server.as_("everyone")
    table = "/namespaces/orders/tables/open"
    plain, default, sales = (uuid_of(web, f"/v1{prefix}{table}") for prefix in ("", "/default", "/sales"))
    assert plain == default != sales
    assert web("POST", f"/v1/sales{table}", COMMIT).status_code == 200
    assert "a" in server.sales.load("orders.open").metadata.properties
    assert "a" not in server.default.load("orders.open").metadata.properties


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=advertised)
def test_each_endpoint_exists_with_the_prefix_and_asks_for_a_scope_of_that_warehouse(
    server: Server, endpoint: Any
) -> None:
    method, path = advertised(endpoint).replace("{prefix}", "sales").split(" ")
    path = re.sub(r"\{\w+\}", "orders", path)
    body: dict[str, Any] = {
        "name": "x",
        "schema": SCHEMA,
        "namespace": ["orders"],
        "metadata-location": "file:/sales/x",
        "report-type": "scan-report",
        "source": {"namespace": ["orders"], "name": "open"},
        "destination": {"namespace": ["orders"], "name": "shut"},
    }
    response = server.as_("default-admin")(method, path, body if method == "POST" else None)
    assert response.status_code == 403, "a scope for the default warehouse opened another one"
    assert "No such route" not in response.text
    assert len(server.sales.calls) == len(server.default.calls)
    plain = path.replace("/sales", "")
    assert server.as_("sales-admin")(method, plain, body if method == "POST" else None).status_code in (403, 200)
    if path == "/v1/sales/namespaces" and method == "GET":
        assert server.as_("sales-admin")(method, plain).json()["namespaces"] == []


def test_a_scope_that_is_missing_names_the_warehouse(server: Server) -> None:
    web = server.as_("sales-reader")
    assert web("GET", "/v1/sales/namespaces/orders/tables/open").status_code == 200
    _, _, message = error_of(web("POST", "/v1/sales/namespaces/orders/tables", CREATE))
    assert "write[sales/orders]" in message
    assert error_of(web("GET", "/v1/namespaces/orders/tables/open"))[0] == 403
    assert web("GET", "/v1/config?warehouse=sales").status_code == 200
    assert error_of(server.as_("default-admin")("GET", "/v1/config?warehouse=sales"))[0] == 403


def test_names_in_a_body_are_names_of_the_warehouse_of_the_path(server: Server) -> None:
    web = server.as_("mixed")
    rename = {
        "source": {"namespace": ["orders"], "name": "open"},
        "destination": {"namespace": ["orders"], "name": "shut"},
    }
    status, _, message = error_of(web("POST", "/v1/sales/tables/rename", rename))
    assert (status, "write[sales/orders]" in message) == (403, True)
    assert web("POST", "/v1/tables/rename", rename).status_code == 204
    server.sales.create_namespace("hidden")
    assert web("GET", "/v1/sales/namespaces").json()["namespaces"] == [["orders"]]


def test_the_folders_of_one_warehouse_are_not_those_of_another(server: Server) -> None:
    web = server.as_("everyone")
    for prefix, own, other in (("", "file:/warehouse", "file:/sales"), ("/sales", "file:/sales", "file:/warehouse")):
        tables = f"/v1{prefix}/namespaces/orders/tables"
        assert web("POST", tables, {**CREATE, "location": f"{other}/orders.db/made"}).status_code == 403
        assert web("POST", tables, {**CREATE, "location": f"{own}/orders.db/made"}).status_code == 200
    theirs = server.sales.load("orders.open").metadata_location
    register = {"name": "stolen", "metadata-location": theirs}
    assert web("POST", "/v1/namespaces/orders/register", register).status_code == 403


def test_settings_of_a_warehouse_hold_there_alone(server: Server) -> None:
    web = server.as_("everyone")
    drop = "/namespaces/orders/tables/open?purgeRequested=true"
    assert web("DELETE", f"/v1/sales{drop}").status_code == 403
    assert web("DELETE", f"/v1{drop}").status_code == 204


@pytest.mark.parametrize("prefix", ["lab", "Sales", "sales%2F", "%73ales", "*", "x" * 10_000])
def test_no_request_to_an_unknown_warehouse_says_that_a_table_is_missing(server: Server, prefix: str) -> None:
    web, table = server.as_("everyone"), f"/v1/{prefix}/namespaces/orders/tables/open"
    for method in ("GET", "HEAD", "DELETE"):
        response = web(method, table)
        assert response.status_code == 404
        # Java takes another name for a missing table, after which Spark asks Hive.
        expected = (404, "NotFoundException", f"Warehouse does not exist: {prefix[:128]}")
        assert method == "HEAD" or error_of(response) == expected
    # A client deletes its files after a 4xx, and an earlier send may have landed while there was such a warehouse.
    assert error_of(web("POST", table, COMMIT))[:2] == (500, "CommitStateUnknownException")
    assert web("GET", f"/v1/{prefix}/config").status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(tuple(advertised(each).split(" ")) for each in ENDPOINTS),
        ("PATCH", "/v1/{prefix}/namespaces"),
        ("GET", "/v1/{prefix}/nowhere"),
        ("GET", "/v1/{prefix}"),
        ("GET", "/v1/config?warehouse={prefix}"),
    ],
)
def test_no_answer_tells_who_may_not_enter_a_warehouse_whether_it_exists(
    server: Server, method: str, path: str
) -> None:
    """403 for one that there is, and 404 for one that there is not, let its name be guessed."""
    path = path.replace("{namespace}", "orders").replace("{table}", "open").replace("{view}", "open")
    body = COMMIT if method == "POST" else None
    for web in (server.as_("default-admin"), Web(server.app)):
        answers = []
        for warehouse in ("sales", "there-is-none"):
            response = web(method, path.replace("{prefix}", warehouse), body)
            ignored = ("x-request-id", "content-length")
            headers = {name: value for name, value in response.headers.items() if name not in ignored}
            answers.append((response.status_code, response.text.replace(warehouse, "W"), headers))
        assert answers[0] == answers[1]


def test_a_warehouse_whose_metastore_is_down_leaves_the_others_alone(tmp_path: Path) -> None:
    server = Server(tmp_path, **{"rest.commit-wait-ms": 10})
    web = server.as_("everyone")
    server.sales.errors["load"] = MetastoreUnavailable("down")
    assert web("GET", "/v1/sales/namespaces/orders/tables/open").status_code == 503
    assert web("GET", "/v1/namespaces/orders/tables/open").status_code == 200


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    with caplog.at_level(logging.INFO, LOGGER):
        yield lambda: [json.loads(record.getMessage()) for record in caplog.records if record.name == LOGGER]


def test_the_audit_trail_and_the_metrics_name_the_warehouse(
    server: Server, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    table = "/namespaces/orders/tables/open"
    server.as_("everyone")("POST", f"/v1/sales{table}", COMMIT)
    server.as_("everyone")("POST", f"/v1{table}", COMMIT)
    server.as_("default-admin")("POST", f"/v1/sales{table}", COMMIT)
    Web(server.app)("POST", f"/v1/sales{table}", COMMIT)
    assert [(line.get("warehouse"), line["status"]) for line in lines()] == [
        ("sales", 200),
        (None, 200),
        ("sales", 403),
        ("sales", 401),
    ]
    text = Web(server.app)("GET", "/metrics").text
    assert 'rest_commits_total{outcome="committed"} 1' in text
    assert 'rest_commits_total{outcome="committed",warehouse="sales"} 1' in text
    assert 'status="401",warehouse="sales"} 1' in text
