"""What the tests of migrations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.migration.hive_tables import unpack_flights


@pytest.fixture(scope="session")
def flights_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All flights as a CSV file, for `hive_tables.write_flights`."""
    return unpack_flights(tmp_path_factory.mktemp("flights"))
