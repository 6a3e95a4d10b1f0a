"""Default values of columns: from what callers write to the JSON single-value form (spec: Appendix D).

default_json(types.DATE, datetime.date(2021, 4, 1)) == "2021-04-01"
default_json(types.decimal_type(9, 2), "14.2") == "14.20"
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.plain_values import NanoTimestamp, plain_value, time_of_text, timestamp_of_text
from iceberg_hms.format.schema.types import PrimitiveType, Type

#: Types whose default is null, always (spec: Default values).
WITHOUT_DEFAULT: Final = frozenset({"unknown", "variant", "geometry", "geography"})

_INT_BITS: Final = {"int": 32, "long": 64}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def default_json(of: Type, value: Any) -> Any:
    """The JSON form of a column's default value; None stays None.

    value: what `plain_value` takes, or the JSON form itself, such as "2021-04-01" for a date or hexadecimal text for
    binary. A datetime for a timestamptz has a zone, one for a timestamp has none.
    Raises InvalidInput for a value that the type does not have, for a missing value other than None, for nested types,
    and for types without defaults.
    """
    if value is None:
        return None
    given, value = value, plain_value(value)
    if value is None:
        raise InvalidInput(
            f"a missing value ({type(given).__name__}) is no default", next_step="give None for no default"
        )
    if not isinstance(of, PrimitiveType) or of.kind in WITHOUT_DEFAULT:
        raise InvalidInput(f"a column of type {of} cannot have a default value")
    try:
        return _CONVERTERS[of.kind](of, value)
    except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{read.shown(str(value))} is not a value of type {of}: {error}") from error


def _refuse(of: Type, value: Any) -> InvalidInput:
    return InvalidInput(f"{read.shown(str(value))} ({type(value).__name__}) is not a value of type {of}")


def _boolean(of: PrimitiveType, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(of, value)
    return value


def _integer(of: PrimitiveType, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse(of, value)
    limit = 1 << (_INT_BITS[of.kind] - 1)
    if not -limit <= value < limit:
        raise InvalidInput(f"{value} does not fit a column of type {of}")
    return value


def _float(of: PrimitiveType, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(of, value)
    number = float(value)
    if not math.isfinite(number):
        raise InvalidInput(f"{value} has no JSON form, so it cannot be the default of a column")
    values.to_bytes(of, number)
    return number


def _decimal(of: PrimitiveType, value: Any) -> str:
    if isinstance(value, bool | float) or not isinstance(value, int | str | Decimal):
        raise _refuse(of, value)
    number = values.unscaled(Decimal(value), of.scale)
    if len(str(abs(number))) > of.precision:
        raise InvalidInput(f"{value} does not fit a column of type {of}")
    return str(values.from_unscaled(number, of.scale))


def _date(of: PrimitiveType, value: Any) -> str:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    if isinstance(value, datetime) or not isinstance(value, date):
        raise _refuse(of, value)
    return value.isoformat()


def _time(of: PrimitiveType, value: Any) -> str:
    if isinstance(value, str):
        value = time_of_text(value)
    if not isinstance(value, time) or value.tzinfo is not None:
        raise _refuse(of, value)
    return value.isoformat()


def _timestamp(of: PrimitiveType, value: Any) -> str:
    with_zone, in_nanos = of.kind.startswith("timestamptz"), of.kind.endswith("_ns")
    found = timestamp_of_text(value) if isinstance(value, str) else value
    moment = found.moment if in_nanos and isinstance(found, NanoTimestamp) else found
    if not isinstance(moment, datetime) or (moment.tzinfo is not None) != with_zone:
        raise _refuse(of, value)
    if with_zone:
        moment = moment.astimezone(UTC)
    if in_nanos:
        _check_nanoseconds(of, moment, found.nanos if isinstance(found, NanoTimestamp) else 0)
    return (replace(found, moment=moment) if isinstance(found, NanoTimestamp) else moment).isoformat()


def _check_nanoseconds(of: PrimitiveType, moment: datetime, nanos: int) -> None:
    microseconds = (moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    if not read.is_integer(microseconds * 1_000 + nanos, read.MIN_LONG, read.MAX_LONG):
        raise InvalidInput(f"{moment} does not fit a column of type {of}: it counts nanoseconds from 1970 in 64 bits")


def _string(of: PrimitiveType, value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(of, value)
    # A lone surrogate has no UTF-8 form, so no metadata file could hold it.
    values.to_bytes(of, value)
    return value


def _uuid(of: PrimitiveType, value: Any) -> str:
    # Python drops hyphens wherever they are, and Java reads another UUID where they are in other places.
    if not isinstance(value, str | uuid.UUID) or not read.is_uuid(str(value)):
        raise _refuse(of, value)
    return str(value).lower()


def _bytes(of: PrimitiveType, value: Any) -> str:
    if isinstance(value, str):
        value = base64.b16decode(value, casefold=True)
    if not isinstance(value, bytes):
        raise _refuse(of, value)
    if of.kind == "fixed" and len(value) != of.length:
        raise InvalidInput(f"{len(value)} bytes are not a value of type {of}")
    return value.hex()


_CONVERTERS: Final[dict[str, Callable[[PrimitiveType, Any], Any]]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
    "string": _string,
    "uuid": _uuid,
    "fixed": _bytes,
    "binary": _bytes,
}
