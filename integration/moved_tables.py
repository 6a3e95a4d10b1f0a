"""Whether a metastore's filters find the tables whose pointer moved: its database decides what a pattern means."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import iceberg_hms
from iceberg_hms.clock import SystemClock
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.pointer_locations import PointerLocations
from iceberg_hms.metastore.tables.table_names import TableNames
from integration.faults import SCHEMA
from integration.interop import small_parquet

_TABLES = 25


class _QuickFilters(SystemClock):
    """By it the metastore takes no time for a filter and a hundred seconds for rows: four readings are one search."""

    def __init__(self) -> None:
        self.readings = 0

    def monotonic(self) -> float:
        self.readings += 1
        return 100.0 * (self.readings // 4)


class _CountedPool(ClientPool):
    """asked: how often each call was made."""

    def __init__(self, uri: str) -> None:
        super().__init__([uri])
        self.asked = Counter[str]()

    def ask(self, method: str, /, **arguments: Any) -> Any:
        self.asked[method] += 1
        return super().ask(method, **arguments)


def check_filters(server: Any, namespace: str, folder: Path) -> None:
    """Raises AssertionError unless filters alone tell that no table of an empty namespace moved, and which one did."""
    pool = _CountedPool(server.uri)
    try:
        with iceberg_hms.connect(server.uri, f"file:{folder}/warehouse") as catalog:
            tables = [catalog.create_table(f"{namespace}.t{each}", SCHEMA) for each in range(_TABLES)]
            before = {each.name().name: each.metadata_location for each in tables}
            locations = PointerLocations(TableNames(pool), _QuickFilters())
            assert locations.read(namespace, None, {}, 0) == before
            for turn in (1, 2, 3, 4):
                pool.asked.clear()
                assert locations.read(namespace, None, before, turn) == before
                assert pool.asked == {"get_table_names_by_filter": 11 if turn % 4 else 17}
            moved = tables[7].append([f"file:{small_parquet(folder / 'moved.parquet', [1])}"])
            pool.asked.clear()
            now = {**before, "t7": moved.metadata_location}
            assert locations.read(namespace, None, before, 5) == now
            assert pool.asked == {"get_table_names_by_filter": 11, "get_table_objects_by_name_req": 1}
    finally:
        pool.close()
