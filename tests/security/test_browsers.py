"""Pages of other sites in a browser that reaches a server without tokens: they read and change nothing."""

from __future__ import annotations

import json

import pytest

from tests.security.raw import TABLE, Raw, serving

COMMIT = json.dumps({"updates": [{"action": "set-properties", "updates": {"stolen": "yes"}}]}).encode()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.evil.example:8181"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ],
    ids=["rebinding", "origin", "sandbox", "plain text", "form"],
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    with serving() as (server, catalog), Raw(server) as browser:
        assert browser.ask("POST", TABLE, COMMIT, **headers).status in (403, 415)
        assert "stolen" not in catalog.load("logging.events").metadata.properties


def test_a_name_that_was_rebound_reads_nothing() -> None:
    with serving() as (server, catalog), Raw(server) as browser:
        before = len(catalog.calls)
        answer = browser.ask("GET", TABLE, Host="rebound.evil.example:8181")
        assert (answer.status, json.loads(answer.body)["error"]["type"]) == (403, "ForbiddenException")
        assert b"rest.allowed-hosts" in answer.body
        assert len(catalog.calls) == before


def test_a_preflight_permits_nothing() -> None:
    with serving() as (server, _), Raw(server) as browser:
        answer = browser.ask("OPTIONS", TABLE, Origin="https://evil.example", Access_Control_Request_Method="POST")
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_configured_name_is_served_and_health_is_open_to_all() -> None:
    with serving(rest_allowed_hosts="lake.example") as (server, _), Raw(server) as client:
        assert client.ask("GET", TABLE, Host="lake.example").status == 200
        assert client.ask("POST", TABLE, COMMIT, Host="lake.example", Origin="https://lake.example").status == 200
        assert client.ask("GET", "/health/live", Host="probe.example").status == 200


def test_with_a_token_the_name_does_not_matter() -> None:
    with serving("s3cret") as (server, _), Raw(server) as client:
        assert client.ask("GET", TABLE, Host="any.example", Authorization="Bearer s3cret").status == 200
        assert client.ask("GET", TABLE, Host="any.example").status == 401


@pytest.mark.parametrize(
    ("client", "headers", "body"),
    [
        (
            "Iceberg Java: Spark, Trino, Flink",
            {"Content_Type": "application/json", "Accept": "application/json"},
            COMMIT,
        ),
        ("PyIceberg", {"Content_type": "application/json", "User_Agent": "PyIceberg/0.12.0"}, COMMIT),
        ("DuckDB", {"Content_Type": "application/json"}, COMMIT),
        ("a POST without a body", {}, b""),
    ],
)
def test_stock_clients_are_served(client: str, headers: dict[str, str], body: bytes) -> None:
    with serving() as (server, _), Raw(server) as connection:
        assert connection.ask("POST", TABLE, body, **headers).status == (200 if body else 400)
