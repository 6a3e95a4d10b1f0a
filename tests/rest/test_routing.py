"""Paths and their targets."""

from __future__ import annotations

import pytest

from iceberg_hms.rest.routing import Routes

ROUTES = Routes(
    [
        ("/v1/config", "config"),
        ("/v1/namespaces", "namespaces"),
        ("/v1/namespaces/{namespace}", "namespace"),
        ("/v1/namespaces/{namespace}/tables", "tables"),
        ("/v1/namespaces/{namespace}/register", "register"),
        ("/v1/namespaces/{namespace}/tables/{table}", "table"),
        ("/v1/tables/rename", "rename"),
    ]
)


@pytest.mark.parametrize(
    ("path", "target", "parameters"),
    [
        ("/v1/config", "config", {}),
        ("/v1/namespaces/a", "namespace", {"namespace": "a"}),
        ("/v1/namespaces/a/tables", "tables", {"namespace": "a"}),
        ("/v1/namespaces/a/register", "register", {"namespace": "a"}),
        ("/v1/namespaces/tables/tables/rename", "table", {"namespace": "tables", "table": "rename"}),
        ("/v1/namespaces/a%2Fb/tables/%7Bx%7D", "table", {"namespace": "a%2Fb", "table": "%7Bx%7D"}),
        ("/v1/tables/rename", "rename", {}),
    ],
)
def test_a_path_matches_its_route_with_encoded_names(path: str, target: str, parameters: dict[str, str]) -> None:
    found = ROUTES.find(path)
    assert found is not None
    assert found == (target, parameters)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "v1/config",
        "/v1/config/",
        "/V1/config",
        "/v1/namespaces/",
        "/v1/namespaces//tables",
        "/v1/namespaces/a/x",
    ],
)
def test_other_paths_match_no_route(path: str) -> None:
    assert ROUTES.find(path) is None
