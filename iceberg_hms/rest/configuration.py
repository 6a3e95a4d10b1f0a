"""All endpoints, in one table, and GET /v1/config, which advertises them (REST spec: CatalogConfig)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from iceberg_hms.errors import NoSuchWarehouse
from iceberg_hms.rest import commits, metrics_reports, namespaces, scan_planning, tables, vended_credentials, views
from iceberg_hms.rest.access.authorization import Action
from iceberg_hms.rest.dispatch import Endpoint, RestRequest
from iceberg_hms.rest.responses import json_response
from iceberg_hms.rest.settings import PLANNING_MODE, RestSettings, ScanPlanning, VendedCredentials
from iceberg_hms.rest.warehouses import is_warehouse_name

CONFIG_TEMPLATE: Final = "/v1/config"
#: The separator of namespaces' parts that clients use unless the server advertises another one.
DEFAULT_SEPARATOR: Final = "%1F"
#: Java's property: whether its clients report their scans and commits. A client that reports sleeps until its report is
#: sent, 10 ms at least (Tasks.waitFor), so the server asks for reports only if it keeps them.
_METRICS_REPORTING_ENABLED: Final = "rest-metrics-reporting-enabled"

_NAMESPACES: Final = "/v1/namespaces"
_NAMESPACE: Final = _NAMESPACES + "/{namespace}"
_TABLES: Final = _NAMESPACE + "/tables"
_TABLE: Final = _TABLES + "/{table}"
TABLE_IN_NO_NAMESPACE: Final = _NAMESPACES + "//tables/{table}"
_PLANS: Final = _TABLE + "/plan"
_PLAN: Final = _PLANS + "/{plan-id}"
_VIEWS: Final = _NAMESPACE + "/views"
_VIEW: Final = _VIEWS + "/{view}"

#: What a warehouse serves and advertises, unless its settings say otherwise: each endpoint is complete.
ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", _NAMESPACES, namespaces.list_namespaces, Action.LIST_NAMESPACES),
    Endpoint("POST", _NAMESPACES, namespaces.create_namespace, Action.CREATE_NAMESPACE, takes_locks=True),
    Endpoint("GET", _NAMESPACE, namespaces.load_namespace, Action.LOAD_NAMESPACE),
    Endpoint("HEAD", _NAMESPACE, namespaces.namespace_exists, Action.LOAD_NAMESPACE),
    Endpoint("DELETE", _NAMESPACE, namespaces.drop_namespace, Action.DROP_NAMESPACE, takes_locks=True),
    Endpoint(
        "POST", _NAMESPACE + "/properties", namespaces.update_namespace, Action.UPDATE_NAMESPACE, takes_locks=True
    ),
    Endpoint("GET", _TABLES, tables.list_tables, Action.LIST_TABLES),
    Endpoint("POST", _TABLES, tables.create_table, Action.CREATE_TABLE, takes_locks=True),
    Endpoint("GET", _TABLE, tables.load_table, Action.LOAD_TABLE, is_held=True),
    Endpoint(
        "POST",
        _TABLE,
        commits.commit_table,
        Action.COMMIT,
        takes_locks=True,
        commit=True,
        never_blocks=True,
        refuses_itself=True,
    ),
    Endpoint("DELETE", _TABLE, tables.drop_table, Action.DROP_TABLE, takes_locks=True, refuses_itself=True),
    Endpoint("HEAD", _TABLE, tables.table_exists, Action.LOAD_TABLE, is_held=True),
    Endpoint("POST", _PLANS, scan_planning.plan_table_scan, Action.LOAD_TABLE, is_held=True, plans=True),
    Endpoint("GET", _PLAN, scan_planning.fetch_planning_result, Action.LOAD_TABLE, is_held=True, plans=True),
    Endpoint("DELETE", _PLAN, scan_planning.cancel_planning, Action.LOAD_TABLE, is_held=True, plans=True),
    Endpoint("POST", _TABLE + "/tasks", scan_planning.fetch_scan_tasks, Action.LOAD_TABLE, is_held=True, plans=True),
    Endpoint("POST", _TABLE + "/metrics", metrics_reports.report_metrics, Action.REPORT_METRICS),
    Endpoint("POST", _NAMESPACE + "/register", tables.register_table, Action.REGISTER_TABLE, takes_locks=True),
    Endpoint("POST", "/v1/tables/rename", tables.rename_table, Action.RENAME_TABLE, takes_locks=True),
    Endpoint("GET", _VIEWS, views.list_views, Action.LIST_VIEWS),
    Endpoint("POST", _VIEWS, views.create_view, Action.CREATE_VIEW, takes_locks=True),
    Endpoint("GET", _VIEW, views.load_view, Action.LOAD_VIEW),
    Endpoint("POST", _VIEW, views.commit_view, Action.COMMIT_VIEW, takes_locks=True, commit=True),
    Endpoint("DELETE", _VIEW, views.drop_view, Action.DROP_VIEW, takes_locks=True),
    Endpoint("HEAD", _VIEW, views.view_exists, Action.LOAD_VIEW),
    Endpoint("POST", "/v1/views/rename", views.rename_view, Action.RENAME_VIEW, takes_locks=True),
    Endpoint("POST", _NAMESPACE + "/register-view", views.register_view, Action.REGISTER_VIEW, takes_locks=True),
)


#: What a warehouse serves besides where it vends credentials.
CREDENTIALS: Final = Endpoint("GET", _TABLE + "/credentials", vended_credentials.load_credentials, Action.LOAD_TABLE)


def endpoints_of(settings: RestSettings) -> tuple[Endpoint, ...]:
    """What a warehouse with these settings serves and advertises."""
    vends = settings.rest_vended_credentials != VendedCredentials.NONE
    plans = settings.rest_scan_planning != ScanPlanning.OFF
    return (*(each for each in ENDPOINTS if plans or not each.plans), *((CREDENTIALS,) if vends else ()))


def advertised(endpoint: Endpoint) -> str:
    """An endpoint in the protocol's spelling, which includes the prefix even for a server without one."""
    return f"{endpoint.method} {endpoint.template.replace('/v1/', '/v1/{prefix}/', 1)}"


def get_config(request: RestRequest) -> Response:
    """GET config. The query parameter `warehouse` chooses a warehouse by its name; clients then put the prefix before
    the paths. A server with one warehouse ignores it, and so do requests that name the default one's location."""
    context = request.context
    settings = context.settings
    asked = request.query.get("warehouse", "")
    decided: dict[str, str] = {}
    if len(context.warehouses) > 1 and asked and asked.rstrip("/") != context.catalog.settings.warehouse.rstrip("/"):
        if asked in context.warehouses or is_warehouse_name(asked):
            # Before it is known whether there is one: else its name could be guessed.
            request.require_warehouse(asked)
        if asked not in context.warehouses:
            raise NoSuchWarehouse(asked)
        settings = context.warehouses[asked]
        decided["prefix"] = asked
    if (separator := settings.rest_namespace_separator) != DEFAULT_SEPARATOR:
        decided["namespace-separator"] = separator
    reports = {_METRICS_REPORTING_ENABLED: str(context.settings.rest_log_metrics_reports).lower()}
    planning = {PLANNING_MODE: "server"} if settings.rest_scan_planning == ScanPlanning.PREFERRED else {}
    body = {
        "defaults": {**reports, **planning, **settings.client_defaults},
        "overrides": {**settings.client_overrides, **decided},
        "endpoints": [advertised(endpoint) for endpoint in endpoints_of(settings)],
    }
    return json_response(body)


CONFIG: Final = Endpoint("GET", CONFIG_TEMPLATE, get_config, Action.GET_CONFIG)
