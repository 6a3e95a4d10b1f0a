"""Values that callers give, in Python's own classes: which are missing, and what scalars of NumPy, pandas and pyarrow
hold.

    plain_value(numpy.int32(5)) == 5
    plain_value(numpy.datetime64("2021-04-01")) == datetime.date(2021, 4, 1)
    plain_value(pandas.NA) is None

A value of these libraries exists only in a program that loaded them, so this module never loads one.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from iceberg_hms.errors import InvalidInput

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - moments without zone count from this
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
#: Classes whose values need no look inside; a float may be NaN.
_AS_THEY_ARE: Final = frozenset(
    {bool, int, float, str, bytes, datetime.date, datetime.time, datetime.datetime, uuid.UUID}
)
_NANOS_PER_SECOND: Final = 10**9
_MILLIS_PER_DAY: Final = 86_400_000
#: Seconds of a unit of NumPy's or Arrow's, or how many of the unit a second has.
_SECONDS: Final[Mapping[str, int]] = {"h": 3_600, "m": 60, "s": 1}
_PER_SECOND: Final[Mapping[str, int]] = {
    unit: 1_000**power for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), start=1)
}
#: A text with more digits of a second than six.
_BEYOND_MICROS: Final = re.compile(r"(?P<start>[^+]*:\d\d[.,]\d{6})(?P<digits>\d+)(?P<end>.*)")
#: Nanoseconds of a microsecond, in digits.
_NANOS_DIGITS: Final = 3
#: What pyarrow.types calls the types, besides numbers and decimals, whose values Python has a class for.
_ARROW_TESTS: Final = (
    *("is_boolean", "is_integer", "is_floating", "is_decimal", "is_date32", "is_fixed_size_binary"),
    *("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view"),
)
_ARROW_EXTENSIONS: Final = frozenset({"arrow.uuid", "arrow.bool8"})
_NEXT: Final = "give a bool, number, text, bytes, date, time, datetime or UUID of Python's own classes"


@dataclass(frozen=True, slots=True)
class NanoTimestamp:
    """A moment between two microseconds, for which Python's datetime has no room.

    moment: the microsecond before it. nanos: 1 to 999, counted from there.
    """

    moment: datetime.datetime
    nanos: int

    def isoformat(self, sep: str = "T") -> str:
        """`2021-04-01T10:00:00.000000500+00:00`."""
        text = self.moment.isoformat(sep, "microseconds")
        end = len(_EPOCH.isoformat(sep, "microseconds"))
        return f"{text[:end]}{self.nanos:03d}{text[end:]}"


def plain_value(given: Any) -> Any:
    """A caller's value as one of Python's classes, or as a NanoTimestamp; None if it is missing; each NaN as a float.

    Missing are None, pandas' NA and NaT, NumPy's NaT and masked elements, and null scalars of pyarrow. All else is
    taken exactly: a value of a subclass as one of Python's class, NumPy's datetime64 of days, months or years as a
    date, of smaller units as a datetime. Raises InvalidInput for what no class of Python holds exactly, and for objects
    that are no single value of a column, such as arrays and spans of time.
    """
    if given is None or type(given) in _AS_THEY_ARE:
        return given
    try:
        return _converted(given)
    except (ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{_shown(given)} cannot be taken exactly: {error}", next_step=_NEXT) from error


def timestamp_of_text(text: str) -> datetime.datetime | NanoTimestamp:
    """The moment of an ISO 8601 text. Raises ValueError for other texts, and for digits beyond nanoseconds."""
    start, digits, end = _split(text)
    if len(digits) > _NANOS_DIGITS:
        raise ValueError("it has digits beyond nanoseconds")
    moment = datetime.datetime.fromisoformat(start + end)
    return _with_nanos(moment, int(digits[:_NANOS_DIGITS].ljust(_NANOS_DIGITS, "0")))


def time_of_text(text: str) -> datetime.time:
    """The time of an ISO 8601 text. Raises ValueError for other texts, and for digits beyond microseconds."""
    start, digits, end = _split(text)
    if digits.strip("0"):
        raise ValueError("it has digits beyond microseconds")
    return datetime.time.fromisoformat(start + end)


def _split(text: str) -> tuple[str, str, str]:
    """The digits beyond microseconds, between what is before and behind them: Python's classes drop such digits."""
    match = _BEYOND_MICROS.fullmatch(text)
    return (text, "", "") if match is None else (match["start"], match["digits"], match["end"])


def _converted(given: Any) -> Any:
    if isinstance(given, _classes("numpy", "generic", "ndarray")):
        return _from_numpy(given, sys.modules["numpy"])
    if isinstance(given, _classes("pyarrow", "Scalar")):
        return _from_arrow(given, sys.modules["pyarrow"])
    if given is getattr(sys.modules.get("pandas"), "NA", None):
        return None
    match given:
        case Decimal():
            # A signaling NaN raises in every comparison.
            return math.nan if given.is_nan() else Decimal(given)
        case int():
            return int(given)
        case float():
            return float(given)
        case str():
            # A StrEnum's text is another one in its own class.
            return str.__str__(given)
        case bytes() | bytearray() | memoryview():
            return bytes(given)
        case uuid.UUID():
            return uuid.UUID(int=given.int)
        case datetime.datetime():
            return _datetime(given)
        case datetime.date():
            return datetime.date(given.year, given.month, given.day)
        case datetime.time() | NanoTimestamp():
            return given
    raise _refusal(given)


def _classes(module: str, *names: str) -> tuple[type, ...]:
    """Classes of a module, if the program has loaded it."""
    loaded = sys.modules.get(module)
    return tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))


def _datetime(given: datetime.datetime) -> datetime.datetime | NanoTimestamp | None:
    """Of a subclass, such as pandas' Timestamp. pandas' NaT is one and, unlike every moment, differs from itself."""
    if given != given:
        return None
    moment = datetime.datetime.combine(given.date(), given.timetz())
    return _with_nanos(moment, getattr(given, "nanosecond", 0))


def _with_nanos(moment: datetime.datetime, nanos: int) -> datetime.datetime | NanoTimestamp:
    return NanoTimestamp(moment, nanos) if nanos else moment


def _moment(count: int, unit: str, start: datetime.datetime = _EPOCH) -> datetime.datetime | NanoTimestamp:
    """The moment of a number of units from 1970."""
    micros, nanos = divmod(_nanoseconds(count, unit), 1_000)
    return _with_nanos(start + datetime.timedelta(microseconds=micros), nanos)


def _nanoseconds(count: int, unit: str) -> int:
    if unit in _SECONDS:
        return count * _SECONDS[unit] * _NANOS_PER_SECOND
    nanos, rest = divmod(count * _NANOS_PER_SECOND, _PER_SECOND[unit])
    if rest:
        raise ValueError("it has digits beyond nanoseconds")
    return nanos


def _from_numpy(given: Any, numpy: Any) -> Any:
    if isinstance(given, numpy.ndarray):
        # A masked element is an array without dimensions, too.
        if given.ndim:
            raise _refusal(given)
        return None if numpy.ma.getmaskarray(given).item() else plain_value(numpy.asarray(given)[()])
    match given:
        case numpy.datetime64() | numpy.timedelta64() if numpy.isnat(given):
            return None
        case numpy.datetime64():
            return _numpy_moment(int(given.astype(numpy.int64)), *numpy.datetime_data(given.dtype))
        case numpy.timedelta64():
            # NumPy counts spans of time among the integers.
            raise _refusal(given)
        case numpy.bool_():
            return bool(given)
        case numpy.integer():
            return int(given)
        case numpy.floating():
            number = float(given)
            if number != given and not math.isnan(number):
                raise ValueError("a double has fewer digits")
            return number
        case numpy.str_():
            return str.__str__(given)
        case numpy.bytes_():
            return bytes(given)
    raise _refusal(given)


def _numpy_moment(count: int, unit: str, step: int) -> Any:
    count *= step
    match unit:
        case "Y" | "M":
            years, months = divmod(count, 12) if unit == "M" else (count, 0)
            return datetime.date(_EPOCH.year + years, 1 + months, 1)
        case "W" | "D":
            return _EPOCH.date() + datetime.timedelta(days=7 * count if unit == "W" else count)
    return _moment(count, unit)


def _from_arrow(given: Any, arrow: Any) -> Any:
    if not given.is_valid:
        return None
    of, types = given.type, arrow.types
    if types.is_timestamp(of):
        return _moment(given.value, of.unit, _EPOCH if of.tz is None else _EPOCH_UTC)
    if types.is_date64(of):
        days, rest = divmod(given.value, _MILLIS_PER_DAY)
        if rest:
            raise ValueError("it is a date with a time")
        return _EPOCH.date() + datetime.timedelta(days=days)
    if types.is_time(of):
        micros, nanos = divmod(_nanoseconds(given.value, of.unit), 1_000)
        if nanos:
            raise ValueError("it has digits beyond microseconds")
        return (_EPOCH + datetime.timedelta(microseconds=micros)).time()
    if types.is_dictionary(of):
        return plain_value(given.value)
    if any(getattr(types, test)(of) for test in _ARROW_TESTS) or (
        isinstance(of, arrow.BaseExtensionType) and of.extension_name in _ARROW_EXTENSIONS
    ):
        return plain_value(given.as_py())
    raise _refusal(given)


def _refusal(given: object) -> InvalidInput:
    return InvalidInput(f"{_shown(given)} is no single value of a column", next_step=_NEXT)


def _shown(given: object) -> str:
    """By its class: what a caller takes for a value may be large."""
    return f"an object of class {type(given).__module__}.{type(given).__qualname__}"
