"""Values, their binary form, partition transforms and hashes, by the table specification alone.

A value is the stored one: date -> days and timestamp -> microseconds from 1970, uuid -> uuid.UUID, else what Python
has. This module shares no code with the package that is tested.
"""

from __future__ import annotations

import struct
import uuid
from datetime import date, datetime, timedelta
from typing import Any, Final

import mmh3

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
_MICROSECOND: Final = timedelta(microseconds=1)
#: Primitive type -> its form of fixed width (spec, appendix D).
_PACKED: Final = {"int": "<i", "date": "<i", "long": "<q", "timestamp": "<q", "float": "<f", "double": "<d"}
#: The type with which a bound was written, by the column's type and the bound's length (spec: Schema Evolution).
_PROMOTED: Final = {("long", 4): "int", ("double", 4): "float"}
_INTEGERS: Final = ("int", "long", "date", "timestamp")


def stored(value: Any, type_: str | None = None) -> Any:
    """A value as pyarrow, fastavro or PyIceberg gives it, as the stored one. type_: of the specification; without it
    16 bytes stay bytes."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if type_ == "uuid" and isinstance(value, bytes | str):
        return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
    return value


def comparable(value: Any) -> Any:
    """What is equal for equal values: NaN is one value, and -0.0 is another than 0.0 (spec: Scan Planning, note 3)."""
    if isinstance(value, float):
        return ("float", "NaN" if value != value else struct.pack(">d", value))
    return value


def encode(type_: str, value: Any) -> bytes:
    """The binary form of a single value."""
    if type_ in _PACKED:
        return struct.pack(_PACKED[type_], value)
    return bytes(value.bytes if type_ == "uuid" else value.encode())


def decode(type_: str, data: bytes) -> Any:
    """The value of a bound."""
    written = _PROMOTED.get((type_, len(data)), type_)
    if written in _PACKED:
        return struct.unpack(_PACKED[written], data)[0]
    return uuid.UUID(bytes=data) if type_ == "uuid" else data.decode()


def transformed(transform: str, type_: str, value: Any) -> Any:
    """What a partition transform makes of a value (spec: Partition Transforms)."""
    name, _, parameter = transform.rstrip("]").partition("[")
    if value is None or name == "void":
        return None
    match name:
        case "identity":
            return value
        case "bucket":
            return (_hash(type_, value) & 0x7FFF_FFFF) % int(parameter)
        case "truncate":
            return value[: int(parameter)] if isinstance(value, str) else value - value % int(parameter)
        case "day":
            return value if type_ == "date" else value // 86_400_000_000
        case "month" | "year":
            days = value if type_ == "date" else value // 86_400_000_000
            of = _EPOCH.date() + timedelta(days=days)
            return of.year - 1970 if name == "year" else (of.year - 1970) * 12 + of.month - 1
        case _:
            raise ValueError(f"no transform of these tests: {transform}")


def transformed_type(transform: str, type_: str) -> str:
    """The type of a transform's results."""
    name = transform.partition("[")[0]
    if name in ("identity", "truncate", "void"):
        return type_
    return "date" if name == "day" else "int"


def _hash(type_: str, value: Any) -> int:
    """Spec, appendix B."""
    return mmh3.hash(struct.pack("<q", value) if type_ in _INTEGERS else encode(type_, value))
