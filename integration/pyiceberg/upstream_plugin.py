"""A plugin of pytest that gives PyIceberg's own tests our catalog in the place of theirs.

It is loaded in a process of its own, which `test_upstream_catalog_tests.py` starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

#: The environment variables that say where the metastore is, and where to write what came of the tests.
URI, WAREHOUSE, OUTCOMES = "UPSTREAM_URI", "UPSTREAM_WAREHOUSE", "UPSTREAM_OUTCOMES"

#: The fixtures of PyIceberg's whose catalog becomes ours: name -> scope.
CATALOGS: Final[dict[str, Any]] = {
    "catalog": "function",
    "catalog_with_warehouse": "function",
    "rest_catalog": "function",
    "session_catalog": "session",
}

#: What PyIceberg's tests ask about a catalog before they use it.
CAPABILITIES: Final = {
    "does_support_purge_table": True,
    "does_support_atomic_concurrent_updates": True,
    "does_support_schema_evolution": True,
    # A metastore has one level of databases, and Hive's names.
    "does_support_nested_namespaces": False,
    "does_support_slash_in_identifier": False,
    "does_support_dot_in_identifier": False,
}

#: Fixtures for engines: tests that use one are not run.
ENGINES: Final = frozenset({"spark", "ray_session"})

#: The table that PyIceberg's own set-up makes by Spark for the tests of branches and tags.
MADE_BY_SPARK: Final = ("default", "test_table_snapshot_operations")

_outcomes: dict[str, tuple[str, str]] = {}


def _ours(scope: str) -> Iterator[Catalog]:
    properties = {
        "py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog",
        "uri": os.environ[URI],
        "warehouse": os.environ[WAREHOUSE],
    }
    with load_catalog("test_catalog", **properties) as catalog:
        if scope == "session":
            _provision(catalog)
        yield catalog
        if scope == "function":
            _empty(catalog)


def _provision(catalog: Catalog) -> None:
    rows = [pa.table({"number": pa.array([number], pa.int32())}) for number in (1, 2, 3, 4)]
    table = catalog.create_table(MADE_BY_SPARK, rows[0].schema)
    for each in rows:
        table.append(each)


def _empty(catalog: Catalog) -> None:
    """For the next test. What the session's catalog has is in `default`."""
    for namespace in catalog.list_namespaces():
        if namespace == ("default",):
            continue
        for table in catalog.list_tables(namespace):
            catalog.drop_table(table)
        for view in catalog.list_views(namespace):
            catalog.drop_view(view)
        catalog.drop_namespace(namespace)


def _replace(module: ModuleType) -> None:
    for name, scope in CATALOGS.items():
        if hasattr(module, name):
            setattr(module, name, _fixture(name, scope))
    for name, answer in CAPABILITIES.items():
        if hasattr(module, name):
            setattr(module, name, partial(_answered, answer))


def _fixture(name: str, scope: Any) -> Any:
    @pytest.fixture(name=name, scope=scope)
    def ours() -> Iterator[Catalog]:
        yield from _ours(scope)

    return ours


def _answered(answer: bool, _catalog: Catalog) -> bool:
    return answer


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object, plugin_name: str) -> None:
    if isinstance(plugin, ModuleType) and plugin_name.endswith("conftest.py"):
        _replace(plugin)


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module):
        _replace(collector.obj)


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    left_out = [item for item in items if ENGINES & set(item.fixturenames)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.nodeid.removeprefix("tests/")] = (report.outcome, report.longreprtext)


def pytest_sessionfinish() -> None:
    Path(os.environ[OUTCOMES]).write_text(json.dumps(_outcomes), encoding="utf-8")
