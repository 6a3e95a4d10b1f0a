"""Tables of 100,000 data files in 100 partitions with many delete files, as metadata alone; there are no data files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog

DAYS: Final = 100
#: How many delete files there are for each data file: a deletion vector; position deletes of the partition, which are
#: of two neighbours by the bounds of their paths; equality deletes, which are of one by the bounds of a column.
KINDS: Final[Mapping[str, float]] = {"vectors": 1, "positions": 1, "equality": 0.2}
_VECTORS_VERSION: Final = 3
#: Bytes, such that a manifest has about 1,800 data files, or 1,900 to 3,400 delete files.
_MANIFEST_BYTES: Final = 92_000
_DAY, _ID = 1, 2
_IDS_EACH: Final = 1_000
_SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": _DAY, "name": "day", "type": "int", "required": False},
        {"id": _ID, "name": "id", "type": "long", "required": False},
    ],
}


def make(folder: Path, kind: str, files: int = 100_000) -> str:
    """A table whose delete files are of one of KINDS, in a folder. Returns the location of its metadata. files: how
    many data files, at least one a day."""
    catalog = memory_catalog(files=RoutedFiles(fsync=False), warehouse=f"file:{folder}")  # type: ignore[arg-type]
    catalog.create_namespace("deleted")
    properties = {
        "format-version": str(_VECTORS_VERSION if kind == "vectors" else 2),
        "commit.manifest-merge.enabled": "false",
        "commit.manifest.target-size-bytes": str(_MANIFEST_BYTES),
    }
    table = catalog.create_table("deleted.rows", _SCHEMA, partition_spec=["day"], properties=properties)
    rows = _Rows(table.location(), max(1, files // DAYS))
    table.append(list(rows.data()))
    table.refresh().row_delta(deletes=list(rows.deletes(kind)))
    return table.refresh().metadata_location


class _Rows:
    """The files of a table. each: data files of a day."""

    def __init__(self, location: str, each: int) -> None:
        self._location = location
        self._each = each

    def data(self) -> Iterator[DataFile]:
        counts: Mapping[int, int] = dict.fromkeys((_DAY, _ID), _IDS_EACH)
        for day in range(DAYS):
            for number in range(self._each):
                low = (day * self._each + number) * _IDS_EACH
                yield DataFile(
                    self._path(day, number),
                    "PARQUET",
                    _IDS_EACH,
                    10_000_000,
                    {"day": day},
                    column_sizes=counts,
                    value_counts=counts,
                    null_value_counts=dict.fromkeys(counts, 0),
                    lower_bounds={_DAY: struct.pack("<i", day), _ID: struct.pack("<q", low)},
                    upper_bounds={_DAY: struct.pack("<i", day), _ID: struct.pack("<q", low + _IDS_EACH - 1)},
                    split_offsets=[4],
                )

    def deletes(self, kind: str) -> Iterator[DataFile]:
        count = max(1, int(KINDS[kind] * self._each))
        make_one = {"vectors": self._vector, "positions": self._positions, "equality": self._equality}[kind]
        for day in range(DAYS):
            for number in range(count):
                yield make_one(day, number * self._each // count)

    def _path(self, day: int, number: int, end: str = ".parquet") -> str:
        return f"{self._location}/data/day={day}/{number:05d}-4f0c9b1e-6c1e-4b57-9d6a-0f{day:04d}{number:06d}{end}"

    def _vector(self, day: int, number: int) -> DataFile:
        return DataFile(
            self._path(day, number // 10, ".puffin"),
            "PUFFIN",
            10,
            4_000,
            {"day": day},
            FileContent.POSITION_DELETES,
            referenced_data_file=self._path(day, number),
            content_offset=4 + 40 * (number % 10),
            content_size_in_bytes=40,
        )

    def _positions(self, day: int, number: int) -> DataFile:
        return DataFile(
            self._path(day, number, "-deletes.parquet"),
            "PARQUET",
            10,
            4_000,
            {"day": day},
            FileContent.POSITION_DELETES,
            lower_bounds={PATH_COLUMN: self._path(day, number).encode()},
            upper_bounds={PATH_COLUMN: self._path(day, number + 1).encode()},
        )

    def _equality(self, day: int, number: int) -> DataFile:
        low = (day * self._each + number) * _IDS_EACH
        return DataFile(
            self._path(day, number, "-deletes.parquet"),
            "PARQUET",
            10,
            4_000,
            {"day": day},
            FileContent.EQUALITY_DELETES,
            value_counts={_ID: 10},
            null_value_counts={_ID: 0},
            lower_bounds={_ID: struct.pack("<q", low + 3)},
            upper_bounds={_ID: struct.pack("<q", low + 900)},
            equality_ids=[_ID],
        )
