"""Stock PyIceberg adds a manifest with each append; the server merges them in snapshots of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from iceberg_hms.rest.server import RestServer
from integration.faults import LIMIT, until
from integration.rest_clients import ALL, TOKEN
from integration.rest_clients import catalog as catalog
from integration.rest_clients import server as server

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
WRITERS, APPENDS, LEAST = 3, 12, 5


def test_appends_of_pyiceberg_leave_few_manifests_and_lose_no_row(
    catalog: Any, server: RestServer, namespace: str
) -> None:
    from pyiceberg.catalog import load_catalog

    name = f"{namespace}.t"
    catalog.create_table(name, SCHEMA, properties={**ALL, "commit.manifest.min-count-to-merge": str(LEAST)})

    def manifests() -> int:
        return len(catalog.manifests().list(catalog.load_table(name).current_snapshot()))

    def writer(number: int) -> Any:
        def write() -> None:
            table = load_catalog(str(number), type="rest", uri=server.uri, token=TOKEN).load_table(name)
            for at in range(APPENDS):
                table.append(pa.table({"id": [at], "name": [f"{number}-{at}"]}, schema=SCHEMA))

        return write

    with ThreadPoolExecutor(WRITERS) as pool:
        for each in [pool.submit(writer(number)) for number in range(WRITERS)]:
            each.result(LIMIT)
    # A merge under way ends after the last append.
    until(lambda: manifests() <= LEAST + 9, "the server merges")
    rows = load_catalog("reader", type="rest", uri=server.uri, token=TOKEN).load_table(name).scan().to_arrow()
    assert sorted(rows["name"].to_pylist()) == sorted(f"{w}-{at}" for w in range(WRITERS) for at in range(APPENDS))
    table = catalog.load_table(name)
    operations = [snapshot.operation for snapshot in table.snapshots()]
    assert operations.count("append") == WRITERS * APPENDS
    assert operations.count("replace") >= 3
    assert table.current_snapshot().summary["total-data-files"] == str(WRITERS * APPENDS)
