"""A catalog in memory, and its files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def catalog(files: MemoryFiles) -> Iterator[Catalog]:
    with memory_catalog(files=files) as made:
        made.create_namespace("logging")
        yield made
