"""What the tests of migrations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from integration.migration.hive_tables import unpack_flights
from integration.migration.small_files import SmallFiles


@pytest.fixture(scope="session")
def flights_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All flights as a CSV file, for `hive_tables.write_flights`."""
    return unpack_flights(tmp_path_factory.mktemp("flights"))


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    """The library on the shared metastore."""
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made


@pytest.fixture
def small_files(metastore: LocalMetastore, namespace: str, tmp_path: Path) -> Iterator[Callable[..., SmallFiles]]:
    """Makes `SmallFiles` in the test's database."""
    with ExitStack() as stack:

        def make(**shape: Any) -> SmallFiles:
            table = SmallFiles(metastore, namespace, tmp_path / "small", **shape)
            stack.callback(table.close)
            return table

        yield make
