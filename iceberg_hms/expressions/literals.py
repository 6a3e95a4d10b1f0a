"""Values of filters as values of a column's type (`format.schema.values`).

Numbers keep their mathematical value beside whole numbers and decimals, which is more than Java's Literals do: those
refuse digits that a column does not have. Floats are rounded, as in Java.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.plain_values import NanoTimestamp, plain_value, time_of_text, timestamp_of_text
from iceberg_hms.format.schema.types import PrimitiveType, Type

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - columns without zone count from this
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_RANGES: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
#: The binary form, and the largest finite value.
_FLOATS: Final = {
    "float": (struct.Struct("<f"), struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]),
    "double": (struct.Struct("<d"), sys.float_info.max),
}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
#: Digits of a decimal literal, far more than a decimal's 38.
_DIGITS_MAX: Final = 100

Number = TypeVar("Number", int, Decimal)


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a number lies that is no value of the column's type.

    below, above: the greatest value below it, and the least one above it, as the column stores values; None: there is
    none, since the type does not reach the number.
    """

    below: Any
    above: Any


class ProtocolText(str):
    """A text in the JSON of the REST protocol, in which bytes are hexadecimal texts (spec: JSON single-value
    serialization). PyIceberg writes numbers as texts, too, and times with a zone without it, in UTC."""

    __slots__ = ()


class ProtocolNumber(int):
    """A whole number in the JSON of the REST protocol, in which Java's clients count days and microseconds from 1970,
    and PyIceberg the microseconds of a time."""

    __slots__ = ()


def to_type(value: Any, of: Type, column: str) -> Any:
    """A value of a filter as the column stores values; a Gap for a number that lies between two of them, or beyond all.

    value: what `plain_value` takes; ISO texts stand for dates, times, timestamps and UUIDs. A float beside a whole
    number or a decimal is the number that Python shows: 0.1 is one tenth.
    Raises InvalidInput that names the column, if the value is not one of its type.
    """
    kind = values.kind_of(of)
    convert = _CONVERSIONS.get(kind)
    if convert is None:
        raise InvalidInput(f"column {column} has type {of}, whose values have no order; filter it by is null")
    try:
        plain = value if isinstance(value, ProtocolText | ProtocolNumber) else plain_value(value)
        return convert(plain, of)
    except (TypeError, ValueError, OverflowError, InvalidOperation, InvalidInput) as error:
        what, next_step = (error.message, error.next_step) if isinstance(error, InvalidInput) else (str(error), None)
        raise InvalidInput(
            f"{value!r} is no value for column {column} of type {of}: {what}", next_step=next_step
        ) from error


def _boolean(value: Any, _of: Type) -> bool:
    if isinstance(value, ProtocolText) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("it is true or false")
    return value


def _number(value: Any) -> Any:
    """A number of the protocol that is written as a text; anything else as it is."""
    return Decimal(_short(value)) if isinstance(value, ProtocolText) else value


def _short(text: str) -> str:
    if len(text) > _DIGITS_MAX:
        raise ValueError(f"it has more than {_DIGITS_MAX} characters")
    return text


def _whole(value: Any, of: Type) -> int | Gap:
    value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError("it takes numbers")
    return _located(value, *_RANGES[values.kind_of(of)], 0, int)


def _floating(value: Any, of: Type) -> float | Gap:
    value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError("it takes numbers")
    form, largest = _FLOATS[values.kind_of(of)]
    try:
        number: float = form.unpack(form.pack(float(value)))[0]
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise ValueError("NaN equals nothing; use is nan")
    if math.isinf(number) and number != value:
        return Gap(largest, math.inf) if number > 0 else Gap(-math.inf, -largest)
    return number


def _decimal(value: Any, of: Type) -> Decimal | Gap:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError("it takes numbers")
    if isinstance(value, str):
        value = _short(value)
    precision, scale = (of.precision, of.scale) if isinstance(of, PrimitiveType) else (0, 0)
    highest = 10**precision - 1
    return _located(value, -highest, highest, scale, lambda digits: values.from_unscaled(digits, scale))


def _located(
    value: int | float | Decimal | str, low: int, high: int, scale: int, stored: Callable[[int], Number]
) -> Number | Gap:
    """Where a number lies among those with `scale` digits after the point. low, high: the lowest and the highest of
    them, without the point. stored: makes a value of one without the point."""
    number = Decimal(float.__repr__(value) if isinstance(value, float) else value)
    if number.is_nan():
        raise ValueError("NaN equals nothing")
    if number > values.from_unscaled(high, scale):
        return Gap(stored(high), None)
    if number < values.from_unscaled(low, scale):
        return Gap(None, stored(low))
    sign, digits, exponent = number.as_tuple()
    # Not Decimal arithmetic, which rounds to 28 digits. Only infinity has an exponent that is no number.
    shifted = Decimal((sign, digits, int(exponent) + scale))
    below, above = (int(shifted.to_integral_value(rounding)) for rounding in (ROUND_FLOOR, ROUND_CEILING))
    return stored(below) if below == above else Gap(stored(below), stored(above))


def _string(value: Any, _of: Type) -> str:
    if not isinstance(value, str):
        raise TypeError("it takes texts")
    return value


def _uuid(value: Any, _of: Type) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(_string(value, _of))


def _binary(value: Any, _of: Type) -> bytes:
    if isinstance(value, ProtocolText):
        return bytes.fromhex(value)
    if isinstance(value, str):
        raise InvalidInput("a text is no bytes", next_step=r"write bytes as X'0aff', or give b'\x0a\xff' in Python")
    if not isinstance(value, bytes):
        raise TypeError("it takes bytes")
    return value


def _date(value: Any, of: Type) -> int | Gap:
    if isinstance(value, ProtocolNumber):
        return _located(value, *_RANGES["int"], 0, int)
    if isinstance(value, datetime.datetime):
        raise TypeError("it takes dates without a time")
    date = value if isinstance(value, datetime.date) else datetime.date.fromisoformat(_string(value, of))
    return (date - _EPOCH.date()).days


def _time(value: Any, _of: Type) -> int | Gap:
    if isinstance(value, ProtocolNumber):
        return _located(value, *_RANGES["long"], 0, int)
    found = value if isinstance(value, datetime.time) else time_of_text(_string(value, _of))
    if found.tzinfo is not None:
        raise ValueError("it takes times without a zone")
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _timestamp(value: Any, of: Type) -> int | Gap:
    kind = values.kind_of(of)
    has_zone, in_nanos = kind.startswith("timestamptz"), kind.endswith("_ns")
    if isinstance(value, ProtocolNumber):
        # Microseconds in Java, whatever the column's unit.
        return _located(value * 1000 if in_nanos else value, *_RANGES["long"], 0, int)
    nanos, is_of_protocol = 0, isinstance(value, ProtocolText)
    if isinstance(value, str):
        is_date = _DATE.fullmatch(value)
        value = datetime.date.fromisoformat(value) if is_date else timestamp_of_text(value)
    if isinstance(value, NanoTimestamp):
        if not in_nanos:
            raise ValueError("it takes no nanoseconds")
        value, nanos = value.moment, value.nanos
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time(), datetime.UTC if has_zone else None)
    if not isinstance(value, datetime.datetime):
        raise TypeError("it takes timestamps")
    if has_zone and is_of_protocol and value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    if (value.tzinfo is None) == has_zone:
        raise ValueError(f"it takes timestamps {'with' if has_zone else 'without'} a zone")
    micros: int = (value - (_EPOCH_UTC if has_zone else _EPOCH)) // _MICROSECOND
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
