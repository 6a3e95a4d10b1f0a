"""The partitions of a decoded manifest: far fewer than its files. What depends on them is decided once for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.planning import layout

Codes = np.ndarray[Any, np.dtype[np.int64]]
#: The most combinations of values that are counted one by one.
_COUNTED_MAX: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class PartitionGroups:
    """Rows by the values of some partition fields.

    codes: for each row the position of its values in `values`. values: by field name, as `format.schema.values` has
    them, None for null; without the fields that the manifest does not have.
    """

    codes: Codes
    values: list[Mapping[str, Any]]

    @classmethod
    def of(cls, batch: pa.RecordBatch, fields: Iterable[PartitionField]) -> PartitionGroups:
        """The groups of a batch by these fields of its partition spec."""
        names: list[str] = []
        columns: list[list[Any]] = []
        codes = np.zeros(batch.num_rows, np.int64)
        for field in fields:
            column = layout.column(batch, layout.partition(field.field_id))
            if column is None:
                continue
            of_column, distinct = _encoded(column)
            combinations = len(distinct) * (len(columns[0]) if columns else 1)
            present, codes = _renumbered(codes * len(distinct) + of_column, combinations)
            before, now = np.divmod(present, len(distinct))
            columns = [[each[at] for at in before] for each in columns]
            columns.append([distinct[at] for at in now])
            names.append(field.name)
        if not names:
            return cls(codes, [{}])
        return cls(codes, [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)])


def _renumbered(codes: Codes, limit: int) -> tuple[Codes, Codes]:
    """The codes that there are, in order, and for each row the position of its code in them. limit: above all codes."""
    if limit > _COUNTED_MAX:
        present, positions = np.unique(codes, return_inverse=True)
        return present, positions
    # Several times as fast as sorting.
    present = np.flatnonzero(np.bincount(codes, minlength=limit))
    positions = np.zeros(limit, np.int64)
    positions[present] = np.arange(len(present))
    return present, positions[codes]


def _encoded(column: pa.Array) -> tuple[Codes, list[Any]]:
    """Each row's position in the distinct values, and those; the last one is null."""
    floating = pa.types.is_floating(column.type)
    # By their bits: NaN is one partition, and -0.0 is another one than 0.0.
    bits = column.view(pa.int64() if column.type == pa.float64() else pa.int32()) if floating else column
    encoded = pc.dictionary_encode(bits)
    distinct = encoded.dictionary.view(column.type) if floating else encoded.dictionary
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [*map(_value_of(column.type), distinct.to_pylist()), None]


def _value_of(of: pa.DataType) -> Any:
    if pa.types.is_fixed_size_binary(of) and of.byte_width == 16:
        return lambda data: uuid.UUID(bytes=data)
    return lambda value: value
