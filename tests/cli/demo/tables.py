"""The demo's tables on a catalog in memory, with snapshots made by real appends."""

from __future__ import annotations

from typing import Any

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog

EVENTS: Any = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "level", "required": False, "type": "string"},
        {"id": 2, "name": "event_time", "required": False, "type": "timestamptz"},
    ],
}


def data_file(path: str, partition: dict[str, Any], rows: int) -> DataFile:
    return DataFile(
        content=0,
        file_path=path,
        file_format="PARQUET",
        partition=partition,
        record_count=rows,
        file_size_in_bytes=1000,
        value_counts={1: rows},
        null_value_counts={1: 0},
        lower_bounds={1: b"ERROR"},
        upper_bounds={1: b"WARN"},
    )


def catalog() -> Catalog:
    """`logging.events` and `nyc.flights` with two snapshots each."""
    made = memory_catalog()
    for name, table in (("logging", "events"), ("nyc", "flights")):
        made.create_namespace(name)
        events = made.create_table(f"{name}.{table}", EVENTS, partition_spec=["day(event_time)"])
        location = events.metadata.location
        events.append(
            [data_file(f"{location}/data/{day}.parquet", {"event_time_day": day}, 2) for day in (18718, 18719)]
        )
        events.append([data_file(f"{location}/data/again.parquet", {"event_time_day": 18718}, 1)])
    return made


def departures(made: Catalog, commits: int) -> None:
    """`nyc.departures`, with so many snapshots."""
    table = made.create_table("nyc.departures", EVENTS)
    for number in range(commits):
        table.append([data_file(f"{table.metadata.location}/data/{number}.parquet", {}, 1)])
