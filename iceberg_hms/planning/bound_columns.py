"""Columns of bounds as columns of values that Arrow compares: what `expressions.bounds.bound_value` is for one bound.

Numbers are the bytes themselves, read in place. Null is a bound that is missing or cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.expressions.binding import BoundPredicate
from iceberg_hms.expressions.bounds import bound_decoder
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.transforms import Hour, Transform
from iceberg_hms.format.schema.types import FLOATING, PrimitiveType, Type
from iceberg_hms.planning import layout

_MICROS: Final = 86_400_000_000
_DATE: Final = PrimitiveType("date")

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "date": pa.int32(),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), pa.int64()),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "fixed": pa.binary(),
}
#: Bounds from before a promotion: their type, and by what their numbers are multiplied (`format.schema.values`).
_PROMOTED: Final[Mapping[str, tuple[pa.DataType, int]]] = {
    "long": (pa.int32(), 1),
    "double": (pa.float32(), 1),
    "timestamp": (pa.int32(), _MICROS),
    "timestamp_ns": (pa.int32(), _MICROS * 1000),
}
#: Kernels want numbers at multiples of their width, up to this.
_ALIGNED: Final = 8
_DIGITS_MAX: Final = 76
_LARGEST: Final = 10**_DIGITS_MAX - 1


def comparable_type(of: Type) -> pa.DataType | None:
    """The Arrow type in which values of a type are compared as Python compares those of `format.schema.values`; None:
    there is none, or readers disagree about their order."""
    kind = values.kind_of(of)
    if kind == "decimal" and isinstance(of, PrimitiveType):
        # Bounds have any number of digits.
        return pa.decimal256(_DIGITS_MAX, of.scale)
    return _TYPES.get(kind)


def decoded_bounds(batch: pa.RecordBatch, predicate: BoundPredicate) -> tuple[pa.Array | None, pa.Array | None]:
    """The lower and the upper bounds of what a predicate compares, in the `comparable_type` of its type; None: no file
    has one. If it compares what a transform makes, that keeps the order of values.

    Where one of two floats is NaN or cannot be read, both are null: its writer took NaN for a number, so that the other
    one proves nothing. Likewise where a transform has another order (`Transform.apply_in_order`). Raises ValueError or
    an error of Arrow for bounds that it cannot hold."""
    of = predicate.source or predicate.type
    stored = [
        layout.column(batch, layout.statistic(name, predicate.field_id))
        for name in (layout.LOWER_BOUND, layout.UPPER_BOUND)
    ]
    low, high = (None if each is None else _decoded(each, of) for each in stored)
    if predicate.transform is not None:
        low, high = (None if each is None else _transformed(each, predicate.transform, of) for each in (low, high))
    elif values.kind_of(of) not in FLOATING:
        return low, high
    worthless = None
    for before, after in zip(stored, (low, high), strict=True):
        if before is not None and after is not None and before.null_count != after.null_count:
            lost = pc.and_(before.is_valid(), after.is_null())
            worthless = lost if worthless is None else pc.or_(worthless, lost)
    if worthless is None:
        return low, high
    return _without(low, worthless), _without(high, worthless)


def _transformed(column: pa.Array, transform: Transform, of: Type) -> pa.Array:
    result = comparable_type(transform.result_type(of))
    kind = values.kind_of(of)
    if kind.startswith("timestamp"):
        per_day = _MICROS * (1000 if kind.endswith("_ns") else 1)
        if isinstance(transform, Hour):
            return _floor_divided(column, per_day // 24).cast(result)
        # There are far fewer days than times.
        column, of = _floor_divided(column, per_day), _DATE
    encoded = column.dictionary_encode()
    found = [transform.apply_in_order(each, of) for each in encoded.dictionary.to_pylist()]
    return pa.array(found, result).take(encoded.indices)


def _floor_divided(column: pa.Array, divisor: int) -> pa.Array:
    """Arrow's own division rounds towards zero."""
    quotient = pc.divide(column, pa.scalar(divisor, column.type))
    is_above = pc.greater(pc.multiply(quotient, pa.scalar(divisor, column.type)), column)
    return pc.subtract(quotient, is_above.cast(column.type))


def _without(column: pa.Array | None, worthless: pa.BooleanArray) -> pa.Array | None:
    return None if column is None else pc.if_else(worthless, pa.scalar(None, column.type), column)


def _decoded(bounds: pa.BinaryArray, of: Type) -> pa.Array:
    kind = values.kind_of(of)
    if kind in ("binary", "fixed"):
        return bounds
    if kind == "string":
        try:
            return bounds.cast(pa.string())
        except pa.ArrowInvalid:
            return _each_decoded(bounds, of)
    if kind == "boolean" or sys.byteorder != "little":
        return _each_decoded(bounds, of)
    if kind == "decimal":
        return _decimals(bounds, of)
    found = _numbers(bounds, kind)
    if kind in FLOATING:
        is_nan = pc.is_nan(found)
        if pc.any(is_nan).as_py():
            return pc.if_else(is_nan, pa.scalar(None, found.type), found)
    return found


def _each_decoded(bounds: pa.BinaryArray, of: Type) -> pa.Array:
    decode, kind = bound_decoder(of), comparable_type(of)
    encoded = bounds.dictionary_encode()
    found = [decode(each) for each in encoded.dictionary.to_pylist()]
    if kind is not None and pa.types.is_decimal(kind):
        found = [each if each is None else _within(each, kind.scale) for each in found]
    return pa.array(found, kind).take(encoded.indices)


def _within(value: Decimal, scale: int) -> Decimal:
    """A decimal, or the last that Arrow holds, which is beyond all that a filter can name, too."""
    digits = values.unscaled(value, scale)
    return values.from_unscaled(max(-_LARGEST, min(digits, _LARGEST)), scale)


def _numbers(bounds: pa.BinaryArray, kind: str) -> pa.Array:
    of = _TYPES[kind]
    lengths = pc.binary_length(bounds)
    shortest, longest = (pc.min_max(lengths)[each].as_py() for each in ("min", "max"))
    if bounds.null_count == 0 and shortest == longest == of.byte_width:
        return _reinterpreted(bounds, of)
    found = pa.nulls(len(bounds), of)
    forms: list[tuple[pa.DataType, int]] = [(of, 1)]
    if kind in _PROMOTED:
        forms.append(_PROMOTED[kind])
    for form, factor in forms:
        fits = pc.equal(lengths, form.byte_width).fill_null(False)
        part = bounds.filter(fits)
        if len(part):
            numbers = _reinterpreted(part, form).cast(of)
            if factor != 1:
                numbers = pc.multiply_checked(numbers, pa.scalar(factor, of))
            found = pc.replace_with_mask(found, fits, numbers)
    return found


def _decimals(bounds: pa.BinaryArray, of: Type) -> pa.Array:
    """Big-endian numbers of any length, made little-endian and as long as Arrow's."""
    kind: pa.DataType = comparable_type(of)
    width = kind.byte_width
    lengths = pc.binary_length(bounds)
    if (pc.max(lengths).as_py() or 0) > width:
        return _each_decoded(bounds, of)
    # A negative number begins with a byte of 80 or more.
    is_negative = pc.greater_equal(bounds, b"\x80")
    padding = pa.array([sign * (width - length) for sign in (b"\x00", b"\xff") for length in range(width + 1)])
    place = pc.add(lengths, pc.multiply(is_negative.cast(pa.int32()), pa.scalar(width + 1, pa.int32())))
    whole = pc.binary_join_element_wise(pc.binary_reverse(bounds), padding.take(place), b"")
    found = _reinterpreted(pc.fill_null(whole, bytes(width)), kind)
    return pc.if_else(bounds.is_valid(), found, pa.scalar(None, kind)) if bounds.null_count else found


def _reinterpreted(bounds: pa.BinaryArray, of: pa.DataType) -> pa.Array:
    """The numbers whose little-endian bytes are the values: none is null, and all are as long as the number."""
    _, offsets, data = bounds.buffers()
    count = len(bounds)
    if not count:
        return pa.array([], of)
    start = memoryview(offsets).cast("i")[bounds.offset]
    found = data.slice(start, count * of.byte_width)
    if found.address % min(of.byte_width, _ALIGNED):
        found = pa.py_buffer(found.to_pybytes())
    return pa.Array.from_buffers(of, count, [None, found])
