"""Counts and bounds of a column of a data file, whatever its format, and their binary form in manifests.

A bound may be wider than the values, never narrower: readers skip whole files by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from iceberg_hms.format.schema import types, uuid_order, values
from iceberg_hms.format.schema.types import FLOATING, PrimitiveType, Type

_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """A column's statistics in a footer.

    size: compressed bytes; None if unknown. values: with nulls. nulls: None if unknown.
    lower, upper: whole values as `format.values` describes them, of the table's type; None: no value, or unknown.
    bounded: every value that is not null lies between lower and upper (all are null, if there are none).
    nans: how many are NaN; None if unknown.
    """

    size: int | None
    values: int
    nulls: int | None
    lower: Any = None
    upper: Any = None
    bounded: bool = False
    nans: int | None = None

    @property
    def all_null(self) -> bool:
        return self.nulls is not None and self.nulls == self.values


def float_bounds(lower: float, upper: float) -> tuple[float, float] | None:
    """The bounds of floats, of which a file says the smallest and the largest. None for NaN, which bounds nothing.
    Writers may write either zero for both, and -0.0 comes before 0.0."""
    if math.isnan(lower) or math.isnan(upper):
        return None
    return (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)


def is_floating(of: Type) -> bool:
    return isinstance(of, PrimitiveType) and of.name in FLOATING


def of_floats(found: ColumnStatistics, *, may_have_nan: bool) -> ColumnStatistics:
    """The statistics of a column of floats, whose lower and upper leave out NaN. may_have_nan: unless its writer would
    have said so. Spark takes NaN for greater than all other values, and answers max() from upper bounds alone (Java:
    AggregateEvaluator), so there is none then."""
    # Not by dataclasses.replace, which takes ten times as long, for each column of each file.
    if found.all_null or not may_have_nan:
        return ColumnStatistics(found.size, found.values, found.nulls, found.lower, found.upper, found.bounded, 0)
    return ColumnStatistics(found.size, found.values, found.nulls, found.lower)


def bounds(of: PrimitiveType, statistics: ColumnStatistics, length: int | None) -> tuple[bytes | None, bytes | None]:
    """The binary form of both bounds, truncated to `length`; None for one that the statistics do not have, that cannot
    be truncated, or that would not serve all readers (`format.schema.uuid_order`)."""
    lower, upper = statistics.lower, statistics.upper
    if of.kind == uuid_order.KIND and lower is not None and upper is not None:
        lower, upper = uuid_order.shared_bounds(lower, upper)
    return (
        None if lower is None else lower_bound(of, lower, length),
        None if upper is None else upper_bound(of, upper, length),
    )


def lower_bound(of: PrimitiveType, value: Any, length: int | None) -> bytes:
    """The binary form of a lower bound, truncated to `length`: a truncated value is smaller."""
    if length is not None and of in (types.STRING, types.BINARY):
        value = value[:length]
    return values.to_bytes(of, value)


def upper_bound(of: PrimitiveType, value: Any, length: int | None) -> bytes | None:
    """The binary form of an upper bound, truncated to `length` and then incremented; None if that is impossible."""
    if length is not None and of in (types.STRING, types.BINARY) and len(value) > length:
        value = _raised_text(value[:length]) if of == types.STRING else _raised_bytes(value[:length])
    return None if value is None else values.to_bytes(of, value)


def _raised_text(text: str) -> str | None:
    for position in range(len(text) - 1, -1, -1):
        point = ord(text[position])
        if point < _MAX_CODE_POINT:
            raised = _SURROGATES[1] + 1 if point + 1 == _SURROGATES[0] else point + 1
            return text[:position] + chr(raised)
    return None


def _raised_bytes(data: bytes) -> bytes | None:
    for position in range(len(data) - 1, -1, -1):
        if data[position] < 0xFF:
            return data[:position] + bytes([data[position] + 1])
    return None
