"""One world for all tests of the matrix: servers, a Spark session and a JVM are started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from labs.matrix.writers import World


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, metastore: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("matrix")
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        catalog.create_namespace("matrix")
        made = World(catalog, "matrix", folder, lambda: request.getfixturevalue("spark"))
        try:
            yield made
        finally:
            made.close()
