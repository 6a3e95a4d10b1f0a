"""What the tests of migrations share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from integration.migration.hive_tables import unpack_flights


@pytest.fixture(scope="session")
def flights_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All flights as a CSV file, for `hive_tables.write_flights`."""
    return unpack_flights(tmp_path_factory.mktemp("flights"))


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    """The library on the shared metastore."""
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made
