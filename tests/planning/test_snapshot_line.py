"""The snapshots between two of a table."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.planning.snapshot_line import required_snapshot, snapshots_after
from iceberg_hms.testing.memory_catalog import memory_catalog


def test_the_line_between_two_snapshots() -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("sales")
        table = catalog.create_table("sales.orders", {"type": "struct", "fields": []})
        ids = []
        for at in range(3):
            table.append([DataFile(f"{table.location()}/data/{at}.parquet", "PARQUET", 1, 10)])
            ids.append(table.metadata.current_snapshot_id)
        first, second, third = (each for each in ids if each is not None)

        def line(start: int | None, end: int) -> list[int]:
            return [each.snapshot_id for each in snapshots_after(table.metadata, start, end)]

        assert line(None, third) == [first, second, third]
        assert line(first, third) == [second, third]
        assert line(third, third) == []
        assert required_snapshot(table.metadata, second).snapshot_id == second
        with pytest.raises(InvalidInput, match=f"snapshot {third} is no ancestor of {first}"):
            line(third, first)
        with pytest.raises(InvalidInput, match="the table has no snapshot 7"):
            line(first, 7)

        table.expire_snapshots(snapshot_ids=[second])
        assert line(second, third) == [third]
        with pytest.raises(InvalidInput, match=f"from snapshot {first} to {third} is not known any more"):
            line(first, third)
