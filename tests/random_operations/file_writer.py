"""Writes data files, delete files and deletion vectors, as an engine does, and their records."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from tests.random_operations.independent_reader import (
    CONTENT_OFFSET,
    CONTENT_SIZE,
    EQUALITY_IDS,
    FILE_FORMAT,
    FILE_SIZE,
    PARTITION,
    REFERENCED,
    Entry,
    TableState,
)
from tests.random_operations.independent_rows import LAST_UPDATED_COLUMN, PATH_COLUMN, POSITION_COLUMN, ROW_ID_COLUMN
from tests.random_operations.places import Place
from tests.random_operations.shapes import ID, Shape, Values
from tests.random_operations.specification_values import comparable, encode, stored, transformed

_ARROW: Final = {
    "long": pa.int64(),
    "int": pa.int32(),
    "date": pa.date32(),
    "string": pa.string(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us"),
    "uuid": pa.uuid(),
}
_MAGIC: Final = b"PFA1"
_VECTOR_MAGIC: Final = bytes((0xD1, 0xD3, 0x39, 0x64))
#: Of whose transforms a footer proves the result, for files of one partition.
_PROVED: Final = ("identity", "day", "truncate", "void", "month")
#: Types of which a footer does not prove that there is one value alone: NaN is in no statistics.
_UNPROVED: Final = ("double",)
#: A partition: spec and values (`Entry.partition`).
Partition = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class WrittenFile:
    """A data file. location: as it is named. ids: of its rows, in order. given: what callers give the operation: its
    location or its record."""

    location: str
    ids: tuple[int, ...]
    partition: Partition
    given: str | DataFile


class FileWriter:
    """Writes files for one table. folder: where, a location. choose: decides how they are given and named."""

    def __init__(self, place: Place, folder: str, shape: Shape, choose: random.Random) -> None:
        self._place, self._folder, self._shape, self._choose = place, folder, shape, choose
        self._count = 0

    def respelled(self, location: str) -> str:
        """Another spelling of a location, if the shape has several."""
        return self._choose.choice(self._place.spellings) + self._place.name_of(location)

    def data_files(
        self, state: TableState, rows: Sequence[Values], lineage: Mapping[int, tuple[int, int]] | None = None
    ) -> list[WrittenFile]:
        """Files for rows, one for each partition of the table's default spec. lineage: id -> row id and last updated
        sequence number, of rows that are moved."""
        spec, types, spec_id = state.spec(), state.types, state.metadata["default-spec-id"]
        groups: dict[tuple[Any, ...], tuple[dict[int, Any], list[Values]]] = {}
        for row in rows:
            values = {
                each["field-id"]: transformed(each["transform"], types[each["source-id"]], row.get(each["source-id"]))
                for each in spec
            }
            key = tuple((id_, comparable(values[id_])) for id_ in sorted(values) if values[id_] is not None)
            groups.setdefault(key, (values, []))[1].append(row)
        return [
            self._data_file(state, members, values, (spec_id, key), lineage)
            for key, (values, members) in groups.items()
        ]

    def _data_file(
        self,
        state: TableState,
        rows: Sequence[Values],
        values: Mapping[int, Any],
        partition: Partition,
        lineage: Mapping[int, tuple[int, int]] | None,
    ) -> WrittenFile:
        fields, columns = [], []
        for each in state.schema():
            metadata = {"PARQUET:field_id": str(each["id"])} if self._shape.has_field_ids else None
            fields.append(pa.field(each["name"], _ARROW[each["type"]], not each["required"], metadata))
            columns.append(_array(each["type"], [row.get(each["id"], each.get("initial-default")) for row in rows]))
        if lineage is not None:
            for at, (name, id_) in enumerate(
                (("_row_id", ROW_ID_COLUMN), ("_last_updated_sequence_number", LAST_UPDATED_COLUMN))
            ):
                fields.append(pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id_)}))
                columns.append(pa.array([lineage[row[ID]][at] for row in rows], pa.int64()))
        location, size = self._write(pa.Table.from_arrays(columns, schema=pa.schema(fields)))
        ids = tuple(row[ID] for row in rows)
        if lineage is None and (not self._shape.has_field_ids or self._may_be_described(state)):
            return WrittenFile(location, ids, partition, location)
        record = DataFile(
            location,
            "PARQUET",
            len(rows),
            size,
            names_of(state, partition[0], values),
            spec_id=partition[0],
            **_metrics(state, rows),
        )
        return WrittenFile(location, ids, partition, record)

    def _may_be_described(self, state: TableState) -> bool:
        """Whether its footer says enough, and the dice say that it is to."""
        proved = all(
            each["transform"].partition("[")[0] in _PROVED and state.types[each["source-id"]] not in _UNPROVED
            for each in state.spec()
        )
        return proved and self._choose.random() < 0.5

    def position_deletes(self, state: TableState, like: Entry, positions: Mapping[str, Sequence[int]]) -> DataFile:
        """A position delete file. like: an entry of the partition. positions: data file -> positions."""
        pairs = sorted((path, at) for path, found in positions.items() for at in found)
        schema = pa.schema(
            [
                _metadata_column("file_path", pa.string(), PATH_COLUMN),
                _metadata_column("pos", pa.int64(), POSITION_COLUMN),
            ]
        )
        table = pa.Table.from_pylist([{"file_path": path, "pos": at} for path, at in pairs], schema=schema)
        location, size = self._write(table)
        only = next(iter(positions)) if len(positions) == 1 else None
        bounds: dict[str, Any] = {}
        if only is not None and self._choose.random() < 0.5:
            # Writers that do not fill in the field leave equal bounds of the path column instead.
            bounds = {"lower_bounds": {PATH_COLUMN: only.encode()}, "upper_bounds": {PATH_COLUMN: only.encode()}}
        return DataFile(
            location,
            "PARQUET",
            len(pairs),
            size,
            names_of(state, like.spec_id, like.file[PARTITION]),
            content=FileContent.POSITION_DELETES,
            spec_id=like.spec_id,
            referenced_data_file=None if bounds else only,
            **bounds,
        )

    def equality_deletes(
        self, state: TableState, rows: Sequence[Values], columns: Sequence[int], spec_id: int, values: Mapping[int, Any]
    ) -> DataFile:
        """An equality delete file. rows: those that are deleted. columns: by which. values: of the partition."""
        types = state.types
        schema = pa.schema(
            [pa.field(f"c{id_}", _ARROW[types[id_]], metadata={"PARQUET:field_id": str(id_)}) for id_ in columns]
        )
        arrays = [_array(types[id_], [row.get(id_) for row in rows]) for id_ in columns]
        location, size = self._write(pa.Table.from_arrays(arrays, schema=schema))
        return DataFile(
            location,
            "PARQUET",
            len(rows),
            size,
            names_of(state, spec_id, values),
            content=FileContent.EQUALITY_DELETES,
            equality_ids=tuple(columns),
            spec_id=spec_id,
        )

    def vectors(self, state: TableState, positions: Sequence[tuple[Entry, Sequence[int]]]) -> list[DataFile]:
        """Deletion vectors of data files, in one Puffin file."""
        body, blobs, records = bytearray(_MAGIC), [], []
        location = self._location("puffin")
        for data, found in positions:
            blob = _vector(found)
            start = len(body)
            properties = {"referenced-data-file": data.path, "cardinality": str(len(found))}
            blobs.append(
                {
                    "type": "deletion-vector-v1",
                    "fields": [POSITION_COLUMN],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": start,
                    "length": len(blob),
                    "properties": properties,
                }
            )
            body += blob
            records.append((data, len(found), start, len(blob)))
        footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
        body += _MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + _MAGIC
        self._place.write(location, bytes(body))
        return [
            DataFile(
                location,
                "PUFFIN",
                count,
                len(body),
                names_of(state, data.spec_id, data.file[PARTITION]),
                content=FileContent.POSITION_DELETES,
                spec_id=data.spec_id,
                referenced_data_file=data.path,
                content_offset=start,
                content_size_in_bytes=length,
            )
            for data, count, start, length in records
        ]

    def _location(self, suffix: str) -> str:
        self._count += 1
        return self.respelled(f"{self._folder}/{self._count:05}.{suffix}")

    def _write(self, table: pa.Table) -> tuple[str, int]:
        location, data = self._location("parquet"), pa.BufferOutputStream()
        # PyIceberg cannot filter UUIDs that are an extension type of Arrow.
        pq.write_table(table, data, store_schema=False)
        written = data.getvalue().to_pybytes()
        self._place.write(location, written)
        return location, len(written)


def names_of(state: TableState, spec_id: int, values: Mapping[int, Any]) -> dict[str, Any]:
    """Partition values by the names of their fields."""
    return {each["name"]: values.get(each["field-id"]) for each in state.spec(spec_id)}


def record_of(state: TableState, delete: Entry) -> DataFile:
    """The record of a live delete file, as a caller has it from the table's manifests."""
    file = delete.file
    return DataFile(
        delete.path,
        file[FILE_FORMAT],
        delete.record_count,
        file[FILE_SIZE],
        names_of(state, delete.spec_id, file[PARTITION]),
        content=delete.content,
        equality_ids=file.get(EQUALITY_IDS),
        spec_id=delete.spec_id,
        referenced_data_file=file.get(REFERENCED),
        content_offset=file.get(CONTENT_OFFSET),
        content_size_in_bytes=file.get(CONTENT_SIZE),
    )


def _vector(positions: Sequence[int]) -> bytes:
    """Puffin spec: the blob type deletion-vector-v1; all positions are below 2**32."""
    bitmap = BitMap(positions).serialize()
    body = _VECTOR_MAGIC + struct.pack("<qI", 1, 0) + bitmap
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def _array(type_: str, values: Sequence[Any]) -> Any:
    if type_ == "uuid":
        raw = pa.array([None if each is None else each.bytes for each in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), raw)
    return pa.array(values, _ARROW[type_], from_pandas=False)


def _metadata_column(name: str, type_: Any, id_: int) -> Any:
    return pa.field(name, type_, nullable=False, metadata={"PARQUET:field_id": str(id_)})


def _metrics(state: TableState, rows: Sequence[Values]) -> dict[str, Any]:
    """Counts and bounds, as engines write them."""
    counts, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for each in state.schema():
        id_, type_ = each["id"], each["type"]
        values = [row.get(id_, stored(each.get("initial-default"))) for row in rows]
        some = [value for value in values if value is not None and value == value]
        counts[id_], nulls[id_] = len(values), values.count(None)
        if type_ == "double":
            nans[id_] = len(values) - nulls[id_] - len(some)
        if some:
            lower[id_], upper[id_] = encode(type_, min(some)), encode(type_, max(some))
    return {
        "value_counts": counts,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
