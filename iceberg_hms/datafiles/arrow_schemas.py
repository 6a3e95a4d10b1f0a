"""Converts pyarrow schemas to Iceberg schemas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, StructType, Type

_DOC_KEYS = (b"doc", b"PARQUET:field_doc", b"comment")


def from_arrow(schema: pa.Schema) -> Schema:
    """The Iceberg schema, with fresh field ids. Raises InvalidInput with the name of a column whose type Iceberg
    lacks."""
    next_id = itertools.count(1)
    return assign_fresh_ids(Schema.of([_from_arrow(field, field.name, lambda: next(next_id)) for field in schema]))


def type_from_arrow(arrow: pa.DataType, path: str) -> Type:
    """The Iceberg type of a pyarrow type, with provisional field ids. path: of the column, for messages. Raises
    InvalidInput if Iceberg lacks the type."""
    next_id = itertools.count(1)
    return _type(arrow, path, lambda: next(next_id))


def _from_arrow(field: pa.Field, path: str, next_id: Callable[[], int]) -> NestedField:
    metadata = field.metadata or {}
    doc = next((metadata[key].decode("utf-8", "replace") for key in _DOC_KEYS if key in metadata), None)
    field_id = next_id()
    return NestedField(field_id, field.name, _type(field.type, path, next_id), required=not field.nullable, doc=doc)


def _type(arrow: pa.DataType, path: str, next_id: Callable[[], int]) -> Type:
    if pa.types.is_struct(arrow):
        return StructType(tuple(_from_arrow(field, f"{path}.{field.name}", next_id) for field in arrow))
    if is_list(arrow):
        element = arrow.value_field
        element_id = next_id()
        return ListType(element_id, not element.nullable, _type(element.type, f"{path}.element", next_id))
    if pa.types.is_map(arrow):
        key_id, value_id = next_id(), next_id()
        return MapType(
            key_id,
            _type(arrow.key_type, f"{path}.key", next_id),
            value_id,
            not arrow.item_field.nullable,
            _type(arrow.item_type, f"{path}.value", next_id),
        )
    if pa.types.is_dictionary(arrow):
        return _type(arrow.value_type, path, next_id)
    found = primitive_of(arrow)
    if found is None:
        raise InvalidInput(f"Column {path}: Iceberg has no type for pyarrow's {arrow}", next_step=_advice(arrow))
    return found


def is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def primitive_of(arrow: pa.DataType) -> types.PrimitiveType | None:
    """The Iceberg type of a pyarrow type without fields, or None if there is none."""
    if isinstance(arrow, pa.UuidType):
        return types.UUID
    if pa.types.is_decimal(arrow):
        fits = arrow.precision <= types.MAX_DECIMAL_PRECISION and 0 <= arrow.scale <= arrow.precision
        return types.decimal_type(arrow.precision, arrow.scale) if fits else None
    if pa.types.is_fixed_size_binary(arrow):
        return types.fixed_type(arrow.byte_width)
    if pa.types.is_timestamp(arrow):
        if arrow.unit == "ns":
            return types.TIMESTAMP_NS if arrow.tz is None else types.TIMESTAMPTZ_NS
        return types.TIMESTAMP if arrow.tz is None else types.TIMESTAMPTZ
    if pa.types.is_time(arrow):
        return types.TIME if arrow.unit != "ns" else None
    return next((found for is_it, found in _PRIMITIVES if is_it(arrow)), None)


_PRIMITIVES: Sequence[tuple[Callable[[pa.DataType], bool], types.PrimitiveType]] = (
    (pa.types.is_boolean, types.BOOLEAN),
    (lambda arrow: arrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), types.INT),
    (lambda arrow: arrow in (pa.int64(), pa.uint32()), types.LONG),
    (pa.types.is_float32, types.FLOAT),
    (pa.types.is_float64, types.DOUBLE),
    (pa.types.is_date32, types.DATE),
    (lambda arrow: arrow in (pa.string(), pa.large_string(), pa.string_view()), types.STRING),
    (lambda arrow: arrow in (pa.binary(), pa.large_binary(), pa.binary_view()), types.BINARY),
    (pa.types.is_null, types.UNKNOWN),
)


def _advice(arrow: pa.DataType) -> str:
    if pa.types.is_uint64(arrow):
        return "cast it to decimal128(20, 0), or to int64 if its values fit"
    if pa.types.is_float16(arrow):
        return "cast it to float32"
    if pa.types.is_date64(arrow):
        return "cast it to date32"
    if pa.types.is_time(arrow):
        return "cast it to time64('us')"
    if pa.types.is_decimal(arrow):
        return (
            f"Iceberg's decimals have at most {types.MAX_DECIMAL_PRECISION} digits and a scale from 0 to the precision"
        )
    return "cast the column, or leave it out"
