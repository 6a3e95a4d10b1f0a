"""All endpoints, in one table, and GET /v1/config, which advertises them (REST spec: CatalogConfig)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from iceberg_hms.rest import commits, namespaces, tables
from iceberg_hms.rest.answers import json_response
from iceberg_hms.rest.dispatch import Call, Endpoint

CONFIG_TEMPLATE: Final = "/v1/config"

_NAMESPACES: Final = "/v1/namespaces"
_NAMESPACE: Final = _NAMESPACES + "/{namespace}"
_TABLES: Final = _NAMESPACE + "/tables"
_TABLE: Final = _TABLES + "/{table}"

#: What a client may count on: complete, or not in this list.
ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", _NAMESPACES, namespaces.list_namespaces),
    Endpoint("POST", _NAMESPACES, namespaces.create_namespace, moves=True),
    Endpoint("GET", _NAMESPACE, namespaces.load_namespace),
    Endpoint("HEAD", _NAMESPACE, namespaces.namespace_exists),
    Endpoint("DELETE", _NAMESPACE, namespaces.drop_namespace, moves=True),
    Endpoint("POST", _NAMESPACE + "/properties", namespaces.update_namespace, moves=True),
    Endpoint("GET", _TABLES, tables.list_tables),
    Endpoint("POST", _TABLES, tables.create_table, moves=True),
    Endpoint("GET", _TABLE, tables.load_table),
    Endpoint("POST", _TABLE, commits.commit_table, moves=True, commit=True, light=True),
    Endpoint("DELETE", _TABLE, tables.drop_table, moves=True),
    Endpoint("HEAD", _TABLE, tables.table_exists),
    Endpoint("POST", _TABLE + "/metrics", tables.report_metrics),
    Endpoint("POST", _NAMESPACE + "/register", tables.register_table, moves=True),
    Endpoint("POST", "/v1/tables/rename", tables.rename_table, moves=True),
)


def advertised(endpoint: Endpoint) -> str:
    """An endpoint as the protocol spells it. The prefix is part of the spelling even where the server has none."""
    return f"{endpoint.method} {endpoint.template.replace('/v1/', '/v1/{prefix}/', 1)}"


def get_config(call: Call) -> Response:  # noqa: ARG001 - a handler takes the call
    """GET config. A server has one warehouse, so the query parameter `warehouse` chooses nothing. Clients keep their
    own settings: nothing is preset or overridden."""
    return json_response(
        {"defaults": {}, "overrides": {}, "endpoints": [advertised(endpoint) for endpoint in ENDPOINTS]}
    )


CONFIG: Final = Endpoint("GET", CONFIG_TEMPLATE, get_config)
