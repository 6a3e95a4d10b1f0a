"""Partition values in the JSON single-value form (spec: Appendix D), as the REST protocol's plans have them."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any, Final

import orjson

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import Type

#: Units after the seconds of these types.
_DIGITS: Final = {"time": 6, "timestamp": 6, "timestamptz": 6, "timestamp_ns": 9, "timestamptz_ns": 9}


def value_json(of: Type, value: Any) -> str:
    """The JSON text of a stored value (`format.schema.values`; a UUID may be its 16 bytes); None is `null`, and so is
    what a field of type unknown has: the column of such a field was dropped, and clients read nothing else for it.

    Infinities are numbers that are too large, which all readers take for infinities. Raises InvalidInput for NaN, for
    which JSON has no number: a text or null instead would give rows another value."""
    kind = values.kind_of(of)
    if value is None or kind == "unknown":
        return "null"
    match kind:
        case "boolean":
            return "true" if value else "false"
        case "int" | "long":
            return str(int(value))
        case "float" | "double":
            return _number(float(value))
        case "string":
            return orjson.dumps(value).decode()
        case "decimal":
            return f'"{_decimal(value)}"'
        case "uuid":
            return f'"{value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)}"'
        case "date":
            return f'"{values.iso_date(value)}"'
        case "time":
            return f'"{_clock(value, 6)}"'
        case "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            return f'"{_timestamp(kind, value)}"'
        case "fixed" | "binary":
            return f'"{value.hex().upper()}"'
    raise InvalidInput(f"a partition value of type {of} has no form in JSON", next_step="let the client plan the scan")


def _number(value: float) -> str:
    if math.isnan(value):
        raise InvalidInput(
            "a file's partition value is NaN, which the REST protocol's plans cannot carry",
            next_step="plan this scan in the client: scan-planning-mode=client",
        )
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    return str(value) if isinstance(exponent, int) and exponent > 0 else format(value, "f")


def _clock(units: int, digits: int) -> str:
    seconds, fraction = divmod(units, 10**digits)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"


def _timestamp(kind: str, units: int) -> str:
    digits = _DIGITS[kind]
    days, within = divmod(units, 86_400 * 10**digits)
    zone = "+00:00" if kind.startswith("timestamptz") else ""
    return f"{values.iso_date(days)}T{_clock(within, digits)}{zone}"
