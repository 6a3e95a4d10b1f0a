from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from iceberg_hms.rest.browsers import BrowserCheck

CHECK = BrowserCheck("127.0.0.1, Catalog.example. ,")


def status(headers: dict[str, str], check: BrowserCheck = CHECK) -> int:
    try:
        check.check(list(headers.items()))
    except HTTPException as refusal:
        return refusal.status_code
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8181",
        "lake.localhost",
        "127.0.0.1:8181",
        "10.0.0.7",
        "[::1]:8181",
        "catalog.example:443",
        "CATALOG.example.",
    ],
)
def test_names_of_this_machine_addresses_and_configured_names_are_known(host: str) -> None:
    assert status({"host": host}) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8181", "", "xn--", "[evil]", "catalog"]
)
def test_other_names_are_refused(host: str) -> None:
    assert status({"host": host}) == 403


def test_a_client_of_http_1_0_sends_no_host() -> None:
    assert status({}) == 200


def test_one_foreign_host_among_two_is_enough() -> None:
    with pytest.raises(HTTPException):
        CHECK.check([("host", "localhost"), ("host", "evil.example")])


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8181", 200),
        ("https://catalog.example", 200),
        ("http://localhost:9999", 403),
        ("http://localhost", 403),
        ("http://10.6.6.6", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
def test_only_pages_of_this_server_and_of_configured_hosts_may_call(origin: str, expected: int) -> None:
    assert status({"host": "localhost:8181", "origin": origin}) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"content-length": "0"}, 200),
        ({"content-length": "2"}, 415),
        ({"transfer-encoding": "chunked"}, 415),
        ({"content-length": "2", "content-type": "text/plain"}, 415),
        ({"content-length": "2", "content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-length": "2", "content-type": "application/json"}, 200),
        ({"content-length": "2", "content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"content-type": "application/json"}, 200),
    ],
)
def test_a_body_says_that_it_is_json(headers: dict[str, str], expected: int) -> None:
    assert status(headers) == expected
