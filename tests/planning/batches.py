"""Columns of manifests made of their entries, value by value, as `planning.layout` describes them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import PrimitiveType, Type
from iceberg_hms.planning import layout

_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "date": pa.int32(),
    "long": pa.int64(),
    "time": pa.int64(),
    "timestamp": pa.int64(),
    "timestamptz": pa.int64(),
    "timestamp_ns": pa.int64(),
    "timestamptz_ns": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "fixed": pa.binary(),
    "uuid": pa.binary(16),
}
_BOUNDS = (layout.LOWER_BOUND, layout.UPPER_BOUND)


def batch_of(entries: Sequence[ManifestEntry], spec: PartitionSpec, schema: Schema) -> pa.RecordBatch:
    """The columns of a manifest with these live entries. schema: that its partition tuples have their types from."""
    files = [each.data_file for each in entries]
    columns: dict[str, pa.Array] = {}

    def add(name: str, found: Sequence[Any], of: pa.DataType, *, always: bool = False) -> None:
        if always or any(each is not None for each in found):
            columns[name] = pa.array(found, of)

    for name, of in layout.TYPES.items():
        found = [getattr(each if name in layout.ENTRY_FIELDS else each.data_file, name) for each in entries]
        add(name, found, of, always=name in layout.REQUIRED)
    for field in spec.partition_type(schema).fields:
        # A field that no tuple has is absent; one that is null in all of them is not.
        if any(field.name in each.partition for each in files):
            stored = [_stored(each.partition.get(field.name)) for each in files]
            add(layout.partition(field.id), stored, arrow_type(field.type), always=True)
    for name, attribute in layout.STATISTICS.items():
        for column_id in sorted({key for each in files for key in getattr(each, attribute) or ()}):
            found = [(getattr(each, attribute) or {}).get(column_id) for each in files]
            add(layout.statistic(name, column_id), found, pa.binary() if name in _BOUNDS else pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def batch_of_files(files: Sequence[DataFile], spec: PartitionSpec, schema: Schema) -> pa.RecordBatch:
    """As `batch_of`, of files that one snapshot added."""
    return batch_of([ManifestEntry(1, each, 1, 1, 1) for each in files], spec, schema)


def arrow_type(of: Type) -> pa.DataType:
    """The type of a partition column."""
    if isinstance(of, PrimitiveType) and of.kind == "decimal":
        return pa.decimal128(of.precision, of.scale)
    return _ARROW[values.kind_of(of)]


def _stored(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value
