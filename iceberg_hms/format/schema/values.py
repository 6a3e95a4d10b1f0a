"""Single values: their binary form (spec appendix D), and their text for people.

A value in Python is the stored one, not a calendar's:

    boolean -> bool                int, long -> int           float, double -> float
    date -> int, days from 1970    time -> int, microseconds  timestamp, timestamptz -> int, microseconds from 1970
    timestamp_ns, timestamptz_ns -> int, nanoseconds from 1970
    decimal -> decimal.Decimal     string -> str              uuid -> uuid.UUID
    fixed, binary, geometry, geography, variant -> bytes
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.types import PrimitiveType, Type

_MICROS_PER_DAY = 86_400_000_000
#: The last year of four digits.
_YEAR_MAX = 9_999
#: Far more than a decimal's 38: what a huge exponent would cost is what matters.
_MAX_DIGITS = 1_000

_STRUCTS = {
    "boolean": struct.Struct("<?"),
    "int": struct.Struct("<i"),
    "long": struct.Struct("<q"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
    "date": struct.Struct("<i"),
    "time": struct.Struct("<q"),
    "timestamp": struct.Struct("<q"),
    "timestamptz": struct.Struct("<q"),
    "timestamp_ns": struct.Struct("<q"),
    "timestamptz_ns": struct.Struct("<q"),
}
#: The Python classes of values. `struct` takes others as well, a text for a boolean among them.
_CLASSES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_STRUCTS, (int,)),
    "boolean": (bool,),
    **dict.fromkeys(("float", "double"), (int, float)),
}
# Promoting a column does not rewrite its bounds: their length shows the type that they were written with.
_PROMOTED: dict[str, tuple[struct.Struct, Callable[[Any], Any]]] = {
    "long": (_STRUCTS["int"], int),
    "double": (_STRUCTS["float"], float),
    "timestamp": (_STRUCTS["date"], lambda days: days * _MICROS_PER_DAY),
    "timestamp_ns": (_STRUCTS["date"], lambda days: days * _MICROS_PER_DAY * 1000),
}


def kind_of(of: Type) -> str:
    """The type's name without parameters: `decimal(9, 2)` is `decimal`. Nested types are `struct`, `list`, `map`."""
    return of.kind if isinstance(of, PrimitiveType) else type(of).__name__.removesuffix("Type").lower()


def unscaled(value: Decimal, scale: int) -> int:
    """The unscaled integer of a decimal: 14.20 with scale 2 is 1420. Raises InvalidInput if digits would be lost."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"Not a finite decimal: {value}")
    # Not Decimal arithmetic: that rounds to 28 digits, and Iceberg's decimals have up to 38.
    number: int = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    if len(digits) + abs(shift) > _MAX_DIGITS:
        raise InvalidInput(f"Not a decimal of at most {_MAX_DIGITS} digits: exponent {exponent}, scale {scale}")
    if shift < 0 and number % 10**-shift:
        raise InvalidInput(f"{value} does not fit a decimal with {scale} digits after the point")
    number = number * int(10**shift) if shift >= 0 else number // int(10**-shift)
    return -number if sign else number


def from_unscaled(number: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer; 1420 with scale 2 is 14.20."""
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((1 if number < 0 else 0, digits, -scale))


def minimal_bytes(number: int) -> bytes:
    """Two's complement, big-endian, in the fewest bytes that hold the number (one for zero)."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def to_bytes(of: Type, value: Any) -> bytes:
    """A value's binary form, as bounds store it (spec appendix D). Raises InvalidInput for a value of another type, for
    None, and for types without such a form (struct, list, map, unknown)."""
    name = kind_of(of)
    try:
        if name in _STRUCTS:
            return _STRUCTS[name].pack(_checked(name, value))
        if name == "string":
            return str.encode(value, "utf-8")
        if name == "uuid":
            return bytes(value.bytes)
        if name == "decimal":
            return minimal_bytes(unscaled(value, _scale(of)))
        if name in ("fixed", "binary", "geometry", "geography", "variant"):
            return bytes(b"" + value)
    except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{value!r} is not a value of type {of}: {error}") from error
    raise InvalidInput(f"Type {of} has no single-value form")


def _checked(kind: str, value: Any) -> Any:
    if not isinstance(value, _CLASSES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise TypeError(f"it is of class {type(value).__name__}")
    return value


def from_bytes(of: Type, data: bytes) -> Any:
    """The inverse of `to_bytes`. Also accepts bounds from before a column's promotion: four bytes for a long are an
    int, for a timestamp a date (spec: schema evolution). Raises InvalidInput for bytes that do not fit the type."""
    name = kind_of(of)
    try:
        if name in _STRUCTS:
            if name in _PROMOTED and len(data) == 4:
                before, promote = _PROMOTED[name]
                return promote(before.unpack(data)[0])
            return _STRUCTS[name].unpack(data)[0]
        if name == "string":
            return data.decode("utf-8")
        if name == "uuid":
            return uuid.UUID(bytes=data)
        if name == "decimal":
            return from_unscaled(int.from_bytes(data, "big", signed=True), _scale(of))
        if name in ("fixed", "binary", "geometry", "geography", "variant"):
            return bytes(data)
    except (struct.error, TypeError, ValueError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{data!r} is not the binary form of type {of}: {error}") from error
    raise InvalidInput(f"Type {of} has no single-value form")


def _scale(of: Type) -> int:
    return of.scale if isinstance(of, PrimitiveType) else 0


def human(of: Type, value: Any) -> str:
    """A value as Java prints it in partition paths, and for people; None is `null`."""
    if value is None:
        return "null"
    match kind_of(of):
        case "boolean":
            return "true" if value else "false"
        case "date":
            return date_text(value)
        case "time":
            return _time_text(value)
        case "timestamp":
            return _timestamp_text(value, 6)
        case "timestamptz":
            return _timestamp_text(value, 6) + "+00:00"
        case "timestamp_ns":
            return _timestamp_text(value, 9)
        case "timestamptz_ns":
            return _timestamp_text(value, 9) + "+00:00"
        case "fixed" | "binary" | "geometry" | "geography" | "variant":
            return base64.b64encode(value).decode("ascii")
        case _:
            return str(value)


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number from 1970-01-01, in the proleptic Gregorian calendar, for any year.

    `datetime.date` ends at the years 1 and 9999; the type does not. This is Howard Hinnant's `civil_from_days`.
    """
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def date_text(days: int) -> str:
    """`2021-04-01` for 18718; years before 0 and after 9999 as Java's TransformUtil.humanDay writes them."""
    return "{:04d}-{:02d}-{:02d}".format(*civil(days))


def iso_date(days: int) -> str:
    """As ISO 8601 has it, and all who parse it: a year that is longer than usual has a sign."""
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > _YEAR_MAX else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _time_text(micros: int) -> str:
    """As Java's LocalTime: without seconds where they are 0, and with groups of three digits behind them."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or fraction:
        text += f":{seconds % 60:02d}"
    if fraction:
        text += f".{fraction:06d}" if fraction % 1_000 else f".{fraction // 1_000:03d}"
    return text


def _timestamp_text(units: int, digits: int) -> str:
    """As Java's DateTimeFormatter.ISO_LOCAL_DATE_TIME."""
    days, within = divmod(units, 86_400 * 10**digits)
    seconds, fraction = divmod(within, 10**digits)
    text = f"{iso_date(days)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}".rstrip("0") if fraction else text
