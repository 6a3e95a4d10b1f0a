"""Reads the rows of a snapshot: which deletes apply to which data files, and what the files have, by the specification
(Scan Planning, Column Projection, Delete Formats, Row Lineage)."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyroaring import BitMap

from tests.random_operations.independent_reader import (
    CONTENT_OFFSET,
    CONTENT_SIZE,
    EQUALITY_DELETES,
    EQUALITY_IDS,
    FILE_PATH,
    PARTITION,
    POSITION_DELETES,
    REFERENCED,
    Entry,
    FileKey,
    FileOf,
    SnapshotState,
    TableState,
    require,
)
from tests.random_operations.specification_values import comparable, stored

#: Reserved field ids.
PATH_COLUMN, POSITION_COLUMN = 2147483546, 2147483545
ROW_ID_COLUMN, LAST_UPDATED_COLUMN = 2147483540, 2147483539
_VECTOR_MAGIC: Final = bytes((0xD1, 0xD3, 0x39, 0x64))


@dataclass(frozen=True)
class Row:
    """A live row. values: by field id. row_id, last_updated: its lineage, None where the table has none. position: in
    the data file `path`."""

    values: Mapping[int, Any]
    path: str
    position: int
    row_id: int | None
    last_updated: int


@dataclass(frozen=True)
class Columns:
    """What a Parquet file has. count: of its rows. by_id: field id -> values."""

    count: int
    by_id: Mapping[int, Sequence[Any]]


class RowReader:
    """Reads rows, and the deleted positions of data files. Keeps what it read of a file, as `IndependentReader`."""

    def __init__(self, file_of: FileOf) -> None:
        self._file_of = file_of
        self._columns: dict[tuple[FileKey, str | None], Columns] = {}

    def rows(self, state: TableState, snapshot: SnapshotState, schema: Sequence[Mapping[str, Any]]) -> list[Row]:
        """All rows of a snapshot, by the fields of a schema."""
        deletes = snapshot.deletes
        has_lineage = snapshot.raw.get("first-row-id") is not None
        read: list[Row] = []
        for entry in snapshot.data:
            gone = self.deleted_positions(state, entry, deletes)
            columns = self.columns(entry.path, state.name_mapping)
            projected = {each["id"]: self._projected(state, entry, each, columns) for each in schema}
            row_ids = columns.by_id.get(ROW_ID_COLUMN)
            updated = columns.by_id.get(LAST_UPDATED_COLUMN)
            for at in range(columns.count):
                if at in gone:
                    continue
                row_id = None if row_ids is None else row_ids[at]
                if row_id is None and has_lineage and entry.first_row_id is not None:
                    row_id = entry.first_row_id + at
                number = None if updated is None else updated[at]
                values = {id_: column[at] for id_, column in projected.items()}
                read.append(Row(values, entry.path, at, row_id, entry.sequence_number if number is None else number))
        return read

    def deleted_positions(self, state: TableState, data: Entry, deletes: Sequence[Entry]) -> set[int]:
        """The positions of a data file's rows that delete files of the same snapshot delete."""
        gone = self.positions_by_position(data, deletes)
        for each in deletes:
            if each.content == EQUALITY_DELETES and equality_applies(state, each, data):
                gone |= self.equal_positions(state, data, each)
        return gone

    def positions_by_position(self, data: Entry, deletes: Sequence[Entry]) -> set[int]:
        """The positions that a deletion vector deletes, or position delete files where there is none."""
        applying = [each for each in deletes if position_applies(each, data)]
        vectors = [each for each in applying if each.is_vector]
        require(len(vectors) < 2, f"{data.path} has {len(vectors)} deletion vectors")
        return set[int]().union(*(self.positions(each, data.path) for each in vectors or applying))

    def positions(self, delete: Entry, path: str) -> set[int]:
        """The positions of one data file in a position delete file or deletion vector."""
        if delete.is_vector:
            return set(_vector_positions(delete, self._file_of(delete.path)[0]))
        columns = self.columns(delete.path, None)
        pairs = zip(columns.by_id[PATH_COLUMN], columns.by_id[POSITION_COLUMN], strict=True)
        return {position for of, position in pairs if of == path}

    def equal_positions(self, state: TableState, data: Entry, delete: Entry) -> set[int]:
        """The positions of a data file's rows that equal a row of an equality delete file."""
        ids: list[int] = list(delete.file[EQUALITY_IDS])
        fields = {each["id"]: each for schema in state.metadata["schemas"] for each in schema["fields"]}
        of_deletes = self.columns(delete.path, None)
        gone = {tuple(comparable(of_deletes.by_id[id_][at]) for id_ in ids) for at in range(of_deletes.count)}
        columns = self.columns(data.path, state.name_mapping)
        values = [self._projected(state, data, fields[id_], columns) for id_ in ids]
        return {at for at in range(columns.count) if tuple(comparable(column[at]) for column in values) in gone}

    def columns(self, location: str, name_mapping: str | None) -> Columns:
        """What a Parquet file has; columns without field ids by a name mapping."""
        path, file_key = self._file_of(location)
        key = (file_key, name_mapping)
        if key not in self._columns:
            table = pq.read_table(path, partitioning=None)
            by_id = {}
            for each in table.schema:
                written = (each.metadata or {}).get(b"PARQUET:field_id")
                id_ = _mapped(each.name, name_mapping) if written is None else int(written)
                if id_ is not None:
                    by_id[id_] = [stored(value) for value in table.column(each.name).to_pylist()]
            self._columns[key] = Columns(table.num_rows, by_id)
        return self._columns[key]

    def _projected(self, state: TableState, entry: Entry, field: Mapping[str, Any], columns: Columns) -> Sequence[Any]:
        """A column of a data file. Spec: Column Projection."""
        if field["id"] in columns.by_id:
            return columns.by_id[field["id"]]
        for each in state.spec(entry.spec_id):
            if each["source-id"] == field["id"] and each["transform"] == "identity":
                return [entry.file[PARTITION].get(each["field-id"])] * columns.count
        return [field.get("initial-default")] * columns.count


def equality_applies(state: TableState, delete: Entry, data: Entry) -> bool:
    """Whether an equality delete file must be applied to a data file."""
    in_reach = delete.partition == data.partition or state.is_unpartitioned(delete.spec_id)
    return in_reach and data.sequence_number < delete.sequence_number


def position_applies(delete: Entry, data: Entry) -> bool:
    """Whether a position delete file or deletion vector may have positions of a data file."""
    return (
        delete.content == POSITION_DELETES
        and delete.file.get(REFERENCED) in (None, data.file[FILE_PATH])
        and delete.partition == data.partition
        and data.sequence_number <= delete.sequence_number
    )


def _vector_positions(vector: Entry, path: Path) -> Iterator[int]:
    """Puffin spec: the blob type deletion-vector-v1."""
    start, size = vector.file[CONTENT_OFFSET], vector.file[CONTENT_SIZE]
    blob = path.read_bytes()[start : start + size]
    length = int.from_bytes(blob[:4], "big")
    body = blob[4 : 4 + length]
    require(len(blob) == length + 8 and body[:4] == _VECTOR_MAGIC, f"{vector.path} has no deletion vector at {start}")
    require(zlib.crc32(body) == int.from_bytes(blob[-4:], "big"), f"the checksum of {vector.path} at {start} is wrong")
    (bitmaps,) = struct.unpack_from("<q", body, 4)
    at = 12
    for _ in range(bitmaps):
        (key,) = struct.unpack_from("<I", body, at)
        bitmap = BitMap.deserialize(body[at + 4 :])
        at += 4 + len(bitmap.serialize())
        yield from ((key << 32) + position for position in bitmap)


def _mapped(name: str, name_mapping: str | None) -> int | None:
    for each in json.loads(name_mapping or "[]"):
        if name in each["names"]:
            found: int | None = each.get("field-id")
            return found
    return None
