from __future__ import annotations

import pytest

from iceberg_hms.errors import MetastoreUnavailable
from tests.rest.fakes import ScriptedCatalog, Web, error_of


def test_creating_a_namespace_returns_the_metastores_properties_too(web: Web) -> None:
    response = web("POST", "/v1/namespaces", {"namespace": ["nyc"], "properties": {"a": "b"}})
    assert response.status_code == 200
    assert response.json() == {"namespace": ["nyc"], "properties": {"a": "b", "location": "file:/warehouse/nyc.db"}}


def test_creating_a_namespace_twice_is_409(web: Web) -> None:
    web("POST", "/v1/namespaces", {"namespace": ["nyc"]})
    response = web("POST", "/v1/namespaces", {"namespace": ["nyc"]})
    assert error_of(response) == (409, "AlreadyExistsException", "Namespace already exists: nyc")


@pytest.mark.parametrize(
    "body", [{}, {"namespace": []}, {"namespace": ["a", "b"]}, {"namespace": "a"}, {"namespace": [1]}]
)
def test_a_namespace_must_have_exactly_one_level(web: Web, catalog: ScriptedCatalog, body: object) -> None:
    assert error_of(web("POST", "/v1/namespaces", body))[:2] == (400, "BadRequestException")
    assert catalog.calls == []


def test_malformed_json_is_400(web: Web) -> None:
    assert error_of(web("POST", "/v1/namespaces", content=b'{"namespace": ["a"]'))[:2] == (400, "BadRequestException")
    assert error_of(web("POST", "/v1/namespaces"))[:2] == (400, "BadRequestException")


def test_namespaces_are_listed_by_page(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.drop_namespace("default")
    for name in ("c", "a", "b"):
        catalog.create_namespace(name)
    assert web("GET", "/v1/namespaces").json() == {"namespaces": [["a"], ["b"], ["c"]], "next-page-token": None}
    first = web("GET", "/v1/namespaces?pageToken=&pageSize=2").json()
    assert first["namespaces"] == [["a"], ["b"]]
    second = web("GET", f"/v1/namespaces?pageSize=2&pageToken={first['next-page-token']}").json()
    assert second == {"namespaces": [["c"]], "next-page-token": None}


def test_there_are_no_namespaces_below_a_namespace(web: Web) -> None:
    assert web("GET", "/v1/namespaces?parent=default").json()["namespaces"] == []
    assert web("GET", "/v1/namespaces?parent=").json()["namespaces"] == [["default"]]


@pytest.mark.parametrize(("parent", "name"), [("none", "none"), ("a%1Fb", "a.b")])
def test_listing_below_a_missing_namespace_is_404(web: Web, parent: str, name: str) -> None:
    expected = (404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")
    assert error_of(web("GET", f"/v1/namespaces?parent={parent}")) == expected


@pytest.mark.parametrize("path", ["none", "default%1Fmore"])
def test_a_missing_namespace_is_404(web: Web, path: str) -> None:
    name = path.replace("%1F", ".")
    for method, suffix, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/properties", {"updates": {}})):
        response = web(method, f"/v1/namespaces/{path}{suffix}", body)
        assert error_of(response) == (404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")
    assert web("HEAD", f"/v1/namespaces/{path}").status_code == 404


def test_a_namespace_is_described_and_known(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.create_namespace("nyc", {"location": "file:/nyc"})
    assert web("GET", "/v1/namespaces/nyc").json() == {"namespace": ["nyc"], "properties": {"location": "file:/nyc"}}
    response = web("HEAD", "/v1/namespaces/nyc")
    assert (response.status_code, response.content) == (204, b"")


def test_properties_are_set_and_removed(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.create_namespace("nyc", {"a": "1", "b": "2", "location": "file:/nyc"})
    body = {"updates": {"c": "3"}, "removals": ["a", "x", "a"]}
    response = web("POST", "/v1/namespaces/nyc/properties", body)
    assert response.json() == {"updated": ["c"], "removed": ["a"], "missing": ["x"]}
    assert catalog.load_namespace_properties("nyc") == {"b": "2", "c": "3", "location": "file:/nyc"}


def test_setting_and_removing_one_property_is_422(web: Web, catalog: ScriptedCatalog) -> None:
    body = {"updates": {"a": "3"}, "removals": ["a"]}
    assert error_of(web("POST", "/v1/namespaces/default/properties", body))[:2] == (422, "UnprocessableEntityException")
    assert catalog.calls == []


def test_an_empty_namespace_is_dropped_and_a_full_one_is_not(web: Web, table: str, catalog: ScriptedCatalog) -> None:
    response = web("DELETE", "/v1/namespaces/logging")
    assert error_of(response) == (409, "NamespaceNotEmptyException", "Namespace logging is not empty")
    assert web("DELETE", table).status_code == 204
    assert web("DELETE", "/v1/namespaces/logging").status_code == 204
    assert catalog.list_namespaces() == ["default"]


def test_an_outage_is_503_and_never_404(web: Web, catalog: ScriptedCatalog) -> None:
    for method in ("list_namespaces", "namespace_exists", "load_namespace_properties"):
        catalog.errors[method] = MetastoreUnavailable("nobody answers")
    assert error_of(web("GET", "/v1/namespaces"))[:2] == (503, "ServiceUnavailableException")
    assert error_of(web("GET", "/v1/namespaces/default"))[:2] == (503, "ServiceUnavailableException")
    assert web("HEAD", "/v1/namespaces/default").status_code == 503
