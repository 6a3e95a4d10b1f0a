"""A plan as an Arrow table for people and engines: a row for each file to read.

path, format                the data file
partition                   a struct of the fields of all partition specs, in the types of their values; null where
                            the file's spec does not have the field
spec_id                     the file's spec
rows, size                  as its manifest says; size in bytes
sequence_number             its data sequence number; 0 in format version 1
first_row_id                of its first row, in format version 3
delete_files                what to apply to it: path, content (`position-deletes`, also for deletion vectors, or
                            `equality-deletes`), format, rows, size, sequence_number, equality_ids, content_offset,
                            content_size (where a deletion vector is in its file)
residual                    what is left of the filter for its rows, as text; `true`: nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.metadata.partition_text import transform_of
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.transforms import Void
from iceberg_hms.format.schema.types import PrimitiveType, Type
from iceberg_hms.planning import layout
from iceberg_hms.planning.planner import DELETES, RESIDUAL, PlannedFiles

_DELETE_FILE: Final = pa.struct(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("content", pa.string(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("sequence_number", pa.int64()),
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size", pa.int64()),
    ]
)
_DELETE_FILES: Final = pa.list_(pa.field("item", _DELETE_FILE, nullable=False))
_ARROW_TYPES: Final = {
    types.BOOLEAN: pa.bool_(),
    types.INT: pa.int32(),
    types.LONG: pa.int64(),
    types.FLOAT: pa.float32(),
    types.DOUBLE: pa.float64(),
    types.DATE: pa.date32(),
    types.TIME: pa.time64("us"),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    types.TIMESTAMP_NS: pa.timestamp("ns"),
    types.TIMESTAMPTZ_NS: pa.timestamp("ns", "UTC"),
    types.STRING: pa.string(),
    types.UUID: pa.uuid(),
    types.BINARY: pa.binary(),
}
#: Of values whose type nobody knows: of a transform of a later release, say.
_UNKNOWN: Final = pa.string()


class PlanTable:
    """Makes batches of a plan's rows, all of one schema. metadata: of the table that is planned."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._fields = _partition_fields(metadata)
        partition = pa.struct([pa.field(name, of) for name, _, of in self._fields])
        self.schema = pa.schema(
            [
                pa.field("path", pa.string(), nullable=False),
                pa.field("format", pa.string(), nullable=False),
                pa.field("partition", partition, nullable=False),
                pa.field("spec_id", pa.int32(), nullable=False),
                pa.field("rows", pa.int64(), nullable=False),
                pa.field("size", pa.int64(), nullable=False),
                pa.field("sequence_number", pa.int64(), nullable=False),
                pa.field("first_row_id", pa.int64()),
                pa.field("delete_files", _DELETE_FILES, nullable=False),
                pa.field("residual", pa.string(), nullable=False),
            ]
        )

    def batch(
        self, planned: PlannedFiles, delete_files: Sequence[ManifestEntry], residuals: Sequence[Expression]
    ) -> pa.RecordBatch:
        """The rows of planned files. delete_files, residuals: those of the planner."""
        columns, count = planned.columns, planned.columns.num_rows
        return pa.RecordBatch.from_arrays(
            [
                columns.column(layout.FILE_PATH),
                columns.column(layout.FILE_FORMAT),
                self._partitions(columns),
                pa.repeat(pa.scalar(planned.spec_id, pa.int32()), count),
                columns.column(layout.RECORD_COUNT),
                columns.column(layout.FILE_SIZE),
                _or_nulls(columns, layout.SEQUENCE_NUMBER).fill_null(0),
                _or_nulls(columns, layout.FIRST_ROW_ID),
                _deletes(columns.column(DELETES), delete_files),
                _taken(columns.column(RESIDUAL), lambda at: str(residuals[at]), pa.string()),
            ],
            schema=self.schema,
        )

    def _partitions(self, columns: pa.RecordBatch) -> pa.StructArray:
        count = columns.num_rows
        if not self._fields:
            return pa.Array.from_buffers(pa.struct([]), count, [None])
        values = []
        for _, field_id, of in self._fields:
            stored = layout.column(columns, layout.partition(field_id))
            values.append(pa.nulls(count, of) if stored is None else partition_array(stored, of))
        return pa.StructArray.from_arrays(values, fields=list(self.schema.field("partition").type))


def partition_array(stored: pa.Array, of: pa.DataType) -> pa.Array:
    """A column of partition values, as `planning.layout` has them, in the type of the values. Older manifests may have
    narrower numbers, or dates where there are timestamps now. Raises ArrowInvalid for values that the type does not
    hold."""
    if of == pa.uuid():
        return pa.ExtensionArray.from_storage(of, stored.cast(of.storage_type))
    if pa.types.is_timestamp(of) and stored.type == pa.int32():
        return stored.cast(pa.date32()).cast(of)
    if of == _UNKNOWN and stored.type != _UNKNOWN:
        return pa.array([None if each is None else str(each) for each in stored.to_pylist()], of)
    return stored.cast(of)


def _partition_fields(metadata: TableMetadata) -> list[tuple[str, int, pa.DataType]]:
    """Each partition field's name, id and type, by id. A field has its latest name, and its id besides if another one
    has that, too."""
    by_id: dict[int, PartitionField] = {}
    for _, spec in sorted(metadata.specs_by_id.items()):
        for field in spec.fields:
            known = by_id.get(field.field_id)
            # A field that version 1 cannot remove from a spec stays there as a void one.
            if known is None or not isinstance(field.transform, Void):
                by_id[field.field_id] = field
    found: dict[str, tuple[str, int, pa.DataType]] = {}
    for field_id, field in sorted(by_id.items()):
        name = f"{field.name}_{field_id}" if field.name in found else field.name
        found[name] = (name, field_id, _arrow_type(transform_of(metadata, field)[1]))
    return list(found.values())


def _arrow_type(of: Type | None) -> pa.DataType:
    if not isinstance(of, PrimitiveType):
        return _UNKNOWN
    if of.kind == "decimal":
        return pa.decimal128(of.precision, of.scale)
    if of.kind == "fixed":
        return pa.binary()
    return _ARROW_TYPES.get(of, _UNKNOWN)


def _or_nulls(columns: pa.RecordBatch, name: str) -> pa.Array:
    found = layout.column(columns, name)
    return pa.nulls(columns.num_rows, pa.int64()) if found is None else found


def _deletes(positions: pa.ListArray, delete_files: Sequence[ManifestEntry]) -> pa.ListArray:
    described = _taken(positions.flatten(), lambda at: _described(delete_files[at]), _DELETE_FILE)
    return pa.ListArray.from_arrays(layout.offsets_of(positions), described, type=_DELETE_FILES)


def _described(entry: ManifestEntry) -> Mapping[str, Any]:
    file = entry.data_file
    return {
        "path": file.file_path,
        "content": layout.CONTENTS[file.content],
        "format": file.file_format,
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        "sequence_number": entry.sequence_number,
        "equality_ids": file.equality_ids,
        "content_offset": file.content_offset,
        "content_size": file.content_size_in_bytes,
    }


def _taken(positions: pa.Array, make: Callable[[int], Any], of: pa.DataType) -> pa.Array:
    """What `make` makes of each position; of the same one once."""
    distinct = positions.unique()
    made = pa.array([make(each) for each in distinct.to_pylist()], of)
    return made.take(pc.index_in(positions, value_set=distinct))
