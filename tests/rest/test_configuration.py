from __future__ import annotations

import re

import pytest

from iceberg_hms.rest.configuration import ENDPOINTS, advertised
from tests.rest.fakes import Web


def test_the_configuration_advertises_every_endpoint(web: Web) -> None:
    body = web("GET", "/v1/config").json()
    assert body["defaults"] == {}
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
        "POST /v1/{prefix}/namespaces/{namespace}/register",
        "POST /v1/{prefix}/tables/rename",
    }
    # Idempotency keys are not kept for every mutation, so none are promised.
    assert "idempotency-key-lifetime" not in body


def test_the_warehouse_parameter_is_ignored(web: Web) -> None:
    assert web("GET", "/v1/config?warehouse=rck").status_code == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=advertised)
def test_each_advertised_endpoint_has_a_handler(web: Web, endpoint: object) -> None:
    method, path = advertised(endpoint).replace("/{prefix}", "").split(" ")  # type: ignore[arg-type]
    response = web(method, re.sub(r"\{\w+\}", "default", path))
    assert response.status_code != 405
    assert "No such route" not in response.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/namespaces/default/views"),
        ("POST", "/v1/transactions/commit"),
        ("POST", "/v1/namespaces/default/tables/t/plan"),
        ("GET", "/v1/namespaces/default/tables/t/credentials"),
        ("POST", "/v1/oauth/tokens"),
    ],
)
def test_endpoints_that_are_not_advertised_are_404(web: Web, method: str, path: str) -> None:
    assert web(method, path).status_code == 404
