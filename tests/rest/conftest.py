"""A catalog in memory behind the application."""

from __future__ import annotations

import pytest

from iceberg_hms.rest.app import create_app
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web


@pytest.fixture
def catalog() -> ScriptedCatalog:
    return ScriptedCatalog()


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    """The application over `catalog`, without a token."""
    return Web(create_app(catalog, token=None, settings=catalog.rest_settings))


@pytest.fixture
def table(catalog: ScriptedCatalog) -> str:
    """The path of an empty table logging.events."""
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    return "/v1/namespaces/logging/tables/events"
