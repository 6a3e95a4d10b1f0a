from __future__ import annotations

import inspect

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.rest.ports import CatalogPort
from tests.rest.fakes import FakeCatalog

METHODS = sorted(name for name, member in vars(CatalogPort).items() if inspect.isfunction(member) and name[0] != "_")


def keywords(function: object) -> set[str]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def test_the_port_has_the_methods_that_routes_call() -> None:
    assert {"load", "commit", "create_table", "stage_table", "drop_table", "rename_table", "register_table"} <= {
        *METHODS
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [Catalog, FakeCatalog])
def test_the_catalog_and_the_fake_take_what_the_port_says(kind: type, method: str) -> None:
    wanted = inspect.signature(getattr(CatalogPort, method)).parameters
    found = inspect.signature(getattr(kind, method)).parameters
    positional = [name for name, parameter in wanted.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    assert list(found)[: len(positional)] == positional or method == "rename_table"
    assert keywords(getattr(CatalogPort, method)) <= set(found)
