"""Stock clients that lose a conflict, on a real server: it commits their retries first, and waits for no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

import iceberg_hms
from iceberg_hms.coordinator.scheduling.retry_priority import MISSES_MAX
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.rest_clients import TOKEN

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
#: Longer than a busy machine takes from a refusal to the next commit.
WAIT_MS = 4_000
WRITERS = 8
APPENDS = 3


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    settings: dict[str, Any] = {
        "commit.retry-priority.max-wait-ms": WAIT_MS,
        "commit.retry-priority.max-share-percent": 90,
    }
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, **settings) as catalog:
        yield catalog


@pytest.fixture
def server(catalog: Any) -> Iterator[RestServer]:
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        yield server


def load(server: RestServer, table: str) -> Any:
    """The table, by a PyIceberg client of its own."""
    return RestCatalog("stock", uri=server.uri, token=TOKEN).load_table(table)


def test_the_server_stops_waiting_for_a_client_that_never_returns(
    catalog: Any, server: RestServer, namespace: str, tmp_path: Path
) -> None:
    """DuckDB, for one, never sends a refused commit again."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={"commit.retry.num-retries": "0"})
    held_back: list[Mapping[str, Any]] = []
    catalog.subscribe(lambda event: held_back.append(event) if event["event"] == "retry-priority-wait" else None)

    def commit(number: int) -> int:
        """Another client's commit. Returns how often the server held it back."""
        before = len(held_back)
        catalog.commit(table, [], [{"action": "set-properties", "updates": {"number": str(number)}}])
        return len(held_back) - before

    counts = []
    for number in range(MISSES_MAX + 2):
        leaver = load(server, table)
        path = interop.small_parquet(tmp_path / f"{number}.parquet", [number])
        catalog.load_table(table).append([f"file:{path}"])
        with pytest.raises(CommitFailedException):
            leaver.append(pa.table({"id": [number], "name": ["late"]}, SCHEMA))
        counts.append(commit(number))
    assert counts[0] == 1
    assert counts[MISSES_MAX:] == [0, 0]


def test_all_appends_of_stock_clients_land_without_rebase(
    catalog: Any, server: RestServer, metastore: Any, namespace: str
) -> None:
    """At PyIceberg's defaults: four retries."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={"iceberg-hms.rebase-appends": "none"})
    clients = [load(server, table) for _ in range(WRITERS)]
    start = Barrier(WRITERS)

    def write(writer: int) -> None:
        start.wait(60)
        for number in range(APPENDS):
            clients[writer].append(pa.table({"id": [writer * APPENDS + number], "name": ["row"]}, SCHEMA))

    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write, writer) for writer in range(WRITERS)]:
            done.result()
    rows = interop.pyiceberg_catalog(metastore).load_table(table).scan().to_arrow()["id"].to_pylist()
    assert sorted(rows) == list(range(WRITERS * APPENDS))
