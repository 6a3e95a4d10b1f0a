"""Values of filters as values of a column's type (`format.schema.values`), by the rules of Java's Literals."""

from __future__ import annotations

import datetime
import math
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import PrimitiveType, Type

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - columns without zone count from this
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_RANGES: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_NANOS: Final = re.compile(r"(.*\d{2}:\d{2}:\d{2}\.\d{6})(\d{1,3})(.*)")
#: Digits of a decimal literal, far more than a decimal's 38.
_DIGITS_MAX: Final = 100


class OutOfRange(Enum):
    """A number that no value of the column's type reaches."""

    ABOVE = "above every value"
    BELOW = "below every value"


def to_type(value: Any, of: Type, column: str) -> Any:
    """A value of a filter as the column stores values. OutOfRange for a number that the type does not reach.

    value: a bool, int, float, Decimal, str, bytes, date, time, datetime or UUID; ISO texts stand for dates, times,
    timestamps and UUIDs, hexadecimal ones for bytes. Raises InvalidInput that names the column, if the value is not one
    of its type.
    """
    kind = values.kind_of(of)
    convert = _CONVERSIONS.get(kind)
    if convert is None:
        raise InvalidInput(f"column {column} has type {of}, whose values have no order; filter it by is null")
    try:
        return convert(value, of)
    except (TypeError, ValueError, OverflowError, InvalidOperation, struct.error, InvalidInput) as error:
        what = error.message if isinstance(error, InvalidInput) else str(error)
        raise InvalidInput(f"{value!r} is no value for column {column} of type {of}: {what}") from error


def _boolean(value: Any, _of: Type) -> bool:
    if not isinstance(value, bool):
        raise TypeError("it is true or false")
    return value


def _whole(value: Any, of: Type) -> int | OutOfRange:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("it takes whole numbers")
    low, high = _RANGES[values.kind_of(of)]
    if value > high:
        return OutOfRange.ABOVE
    return OutOfRange.BELOW if value < low else value


def _floating(value: Any, of: Type) -> float | OutOfRange:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError("it takes numbers")
    number = float(value)
    if math.isnan(number):
        raise ValueError("NaN equals nothing; use is nan")
    if values.kind_of(of) == "double" or math.isinf(number):
        return number
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return OutOfRange.ABOVE if number > 0 else OutOfRange.BELOW
    return rounded


def _decimal(value: Any, of: Type) -> Decimal | OutOfRange:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise TypeError("it takes whole numbers and decimals")
    if isinstance(value, str) and len(value) > _DIGITS_MAX:
        raise ValueError(f"it has more than {_DIGITS_MAX} characters")
    number = Decimal(value)
    precision, scale = (of.precision, of.scale) if isinstance(of, PrimitiveType) else (0, 0)
    digits = values.unscaled(number, scale)
    if abs(digits) >= 10**precision:
        return OutOfRange.ABOVE if digits > 0 else OutOfRange.BELOW
    return values.from_unscaled(digits, scale)


def _string(value: Any, _of: Type) -> str:
    if not isinstance(value, str):
        raise TypeError("it takes texts")
    return value


def _uuid(value: Any, _of: Type) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(_string(value, _of))


def _binary(value: Any, _of: Type) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it takes bytes")
    return bytes(value)


def _date(value: Any, _of: Type) -> int:
    if isinstance(value, datetime.datetime):
        raise TypeError("it takes dates without a time")
    date = value if isinstance(value, datetime.date) else datetime.date.fromisoformat(_string(value, _of))
    return (date - _EPOCH.date()).days


def _time(value: Any, _of: Type) -> int:
    found = value if isinstance(value, datetime.time) else datetime.time.fromisoformat(_string(value, _of))
    if found.tzinfo is not None:
        raise ValueError("it takes times without a zone")
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _timestamp(value: Any, of: Type) -> int:
    kind = values.kind_of(of)
    has_zone, in_nanos = kind.startswith("timestamptz"), kind.endswith("_ns")
    nanos = 0
    if isinstance(value, str) and (match := _NANOS.fullmatch(value)):
        if not in_nanos and match[2].strip("0"):
            raise ValueError("it has no nanoseconds")
        nanos = int(match[2].ljust(3, "0"))
        value = match[1] + match[3]
    if isinstance(value, str):
        is_date = _DATE.fullmatch(value)
        value = datetime.date.fromisoformat(value) if is_date else datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time(), datetime.UTC if has_zone else None)
    if not isinstance(value, datetime.datetime):
        raise TypeError("it takes timestamps")
    if (value.tzinfo is None) == has_zone:
        raise ValueError(f"it takes timestamps {'with' if has_zone else 'without'} a zone")
    micros = (value - (_EPOCH_UTC if has_zone else _EPOCH)) // _MICROSECOND
    return micros * 1000 + nanos if in_nanos else micros


_CONVERSIONS: Final[dict[str, Callable[[Any, Type], Any]]] = {
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "string": _string,
    "uuid": _uuid,
    "fixed": _binary,
    "binary": _binary,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
}
