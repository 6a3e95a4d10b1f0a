"""Days, times and timestamps as text, and back."""

from __future__ import annotations

import datetime
import re
from typing import Any

from tests.file_matrix.shapes import NANOS_PER_DAY


def literal(type_: str, value: Any) -> Any:
    """As PyIceberg and Java take a literal of a type."""
    match type_.partition("(")[0]:
        case "date":
            return datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + value).isoformat()
        case "time":
            return _clock(value, 6)
        case "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns" as kind:
            return instant(value, 9 if kind.endswith("_ns") else 6) + ("+00:00" if "tz" in kind else "")
        case _:
            return value


def instant(nanos: int, digits: int) -> str:
    days, rest = divmod(nanos, NANOS_PER_DAY)
    day = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + days).isoformat()
    return f"{day}T{_clock(rest, digits)}"


def _clock(nanos: int, digits: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{rest:09}"[: 9 + digits]


def days_of(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - datetime.date(1970, 1, 1).toordinal()


_MOMENT = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|\+00:00)?")


def nanos_of(text: str) -> int:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"no moment: {text}")
    day, hour, minute, second, rest = found.groups()
    seconds = int(hour) * 3_600 + int(minute) * 60 + int(second or 0)
    return (days_of(day) if day else 0) * NANOS_PER_DAY + seconds * 10**9 + int((rest or "").ljust(9, "0"))
