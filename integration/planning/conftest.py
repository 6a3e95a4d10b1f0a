"""One Spark session with two catalogs on one server: one plans by itself, for the other one the server plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from integration.planning.both_ways import BothWays
from integration.planning.in_turns import InTurns
from integration.rest_clients import TOKEN


def _served(catalog: Any, **settings: Any) -> RestServer:
    return RestServer(
        catalog, "127.0.0.1", 0, token=TOKEN, settings=RestSettings(rest_planning_max_files=3, **settings)
    )


@pytest.fixture(scope="session")
def catalog(metastore: Any) -> Iterator[Any]:
    """The library on the shared metastore."""
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made


@pytest.fixture(scope="session")
def both_ways(spark: Any, catalog: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    """The server plans every table, also those that Java had better plan itself."""
    with (
        _served(catalog, rest_scan_planning="off") as own,
        _served(catalog, rest_table_config="scan-planning-mode=server") as server,
        InTurns([own.uri]) as to_own,
        InTurns([server.uri]) as proxy,
    ):
        made = BothWays(spark, catalog, to_own, proxy, tmp_path_factory.mktemp("planning"))
        yield made
        made.close()


@pytest.fixture(scope="session")
def offered(spark: Any, catalog: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    """The server plans for clients that ask it to, as by default."""
    with _served(catalog) as server, InTurns([server.uri]) as to_own, InTurns([server.uri]) as proxy:
        made = BothWays(spark, catalog, to_own, proxy, tmp_path_factory.mktemp("offered"))
        yield made
        made.close()
