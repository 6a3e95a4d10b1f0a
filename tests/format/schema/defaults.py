"""Defaults of columns as a client may send them, and what becomes of each.

The verdicts of Java 1.11 are recorded; integration/test_sent_metadata.py measures them again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Sent(NamedTuple):
    """kind: the column's type. value: its default, as JSON. stored: what the table has then; REFUSED: nothing.
    java: whether Java's SchemaParser takes the value as it was sent."""

    kind: Any
    value: Any
    stored: Any
    java: bool


class _Refused:
    def __repr__(self) -> str:
        return "REFUSED"


REFUSED: Final = _Refused()

_UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
_LIST = {"type": "list", "element-id": 101, "element": "int", "element-required": False}
_MAP = {
    "type": "map",
    "key-id": 102,
    "key": "string",
    "value-id": 103,
    "value": "int",
    "value-required": False,
}
_STRUCT = {"type": "struct", "fields": [{"id": 104, "name": "q", "required": False, "type": "int"}]}


def _good(kind: Any, *values: Any) -> list[Sent]:
    """Stored as they were sent."""
    return [Sent(kind, value, value, java=True) for value in values]


def _bad(kind: Any, *values: Any) -> list[Sent]:
    """Java does not take them, either."""
    return [Sent(kind, value, REFUSED, java=False) for value in values]


#: PyIceberg 0.12 loads no table that has a default of these types, whatever its value.
NOT_OF_PYICEBERG: Final = ("timestamp_ns", "timestamptz_ns")

SENT: Final[list[Sent]] = [
    *_good("boolean", True, False),
    *_bad("boolean", "true", 1, 0, [], {}, ""),
    *_good("int", 0, -1, 2147483647, -2147483648),
    *_bad("int", 2147483648, -2147483649, 1.0, 1.5, "1", True, [], {}),
    *_good("long", 0, 9223372036854775807, -9223372036854775808),
    *_bad("long", 9223372036854775808, 1.0, "1", True),
    *_good("float", 1.5, -0.0, 0.1),
    *_bad("float", "1.5", "NaN", True, []),
    *_good("double", 1.5, 1e308),
    *_bad("double", "1.5", "NaN", "Infinity", True, {}),
    # Every reader has these values; Java's parser wants a fraction.
    Sent("float", 1, 1.0, java=False),
    Sent("double", 1, 1.0, java=False),
    # Java makes Infinity of it, which it then cannot write.
    Sent("float", 1e39, REFUSED, java=True),
    *_good("decimal(9, 2)", "14.20", "-14.20", "1234567.00"),
    *_bad("decimal(9, 2)", "14.205", "", "x", "NaN", 14.2, True, []),
    # Java's parser wants all places.
    Sent("decimal(9, 2)", "14.2", "14.20", java=False),
    Sent("decimal(9, 2)", 14, "14.00", java=False),
    # It does not look at the precision.
    Sent("decimal(9, 2)", "12345678.00", REFUSED, java=True),
    *_good("date", "2021-04-01", "1969-12-31", "0001-01-01", "9999-12-31"),
    *_bad("date", "2021-4-1", "2021-02-30", "2021-04-01T00:00:00", "10000-01-01", "", "x", 18000, True),
    # PyIceberg has no such years.
    Sent("date", "+10000-01-01", REFUSED, java=True),
    Sent("date", "-0001-01-01", REFUSED, java=True),
    *_good("time", "10:11:12", "10:11:12.123456"),
    Sent("time", "10:11", "10:11:00", java=True),
    *_bad("time", "24:00:00", "10:11:60", "10:11:12+00:00", "10:11:12Z", 36000, "x", ""),
    *_good("timestamp", "2021-04-01T10:11:12", "2021-04-01T10:11:12.123456"),
    Sent("timestamp", "2021-04-01T10:11", "2021-04-01T10:11:00", java=True),
    *_bad("timestamp", "2021-04-01T10:11:12+00:00", "2021-04-01T10:11:12Z", "2021-02-30T00:00:00", "x", 1),
    *_good("timestamptz", "2021-04-01T10:11:12+00:00", "2021-04-01T10:11:12.123456+00:00"),
    Sent("timestamptz", "2021-04-01T10:11:12Z", "2021-04-01T10:11:12+00:00", java=True),
    # The same moment, which Java's parser wants in UTC.
    Sent("timestamptz", "2021-04-01T10:11:12+02:00", "2021-04-01T08:11:12+00:00", java=False),
    *_bad("timestamptz", "2021-04-01T10:11:12", "x", 1),
    *_good("timestamp_ns", "2021-04-01T10:11:12.123456789", "2262-04-11T23:47:16.854775807"),
    *_good("timestamp_ns", "1677-09-21T00:12:43.145224192"),
    *_bad("timestamp_ns", "2262-04-11T23:47:16.854775808", "1677-01-01T00:00:00", "0001-01-01T00:00:00", "x", 1),
    *_good("timestamptz_ns", "2021-04-01T10:11:12.123456789+00:00"),
    *_bad("timestamptz_ns", "2263-01-01T00:00:00+00:00", "2021-04-01T10:11:12"),
    *_good("string", "", "x", "\U0001f600", 'a"b\n'),
    *_bad("string", 1, True, [], {}),
    *_good("uuid", _UUID),
    Sent("uuid", _UUID.upper(), _UUID, java=True),
    *_bad("uuid", _UUID.replace("-", ""), f"{{{_UUID}}}", _UUID[:-1], f"{_UUID[:-1]}g", "x", "", 1),
    # Java takes what is between the hyphens, Python drops them: two UUIDs of one text.
    Sent("uuid", f"0{_UUID[:-1]}", REFUSED, java=True),
    *_good("fixed[3]", "0a0b0c"),
    Sent("fixed[3]", "0A0B0C", "0a0b0c", java=True),
    *_bad("fixed[3]", "0a0b", "0a0b0c0d", "0a0b0", "zz0b0c", "", 1),
    *_good("binary", "0a0b", ""),
    *_bad("binary", "0", "zz", "0a 0b", "0x0a", 1, []),
    *_bad("unknown", "x", 1, {}),
    *_bad("variant", "x", {}, 1),
    *_bad("geometry", "POINT (1 2)"),
    *_bad("geography", "POINT (1 2)"),
    *_bad(_LIST, [], [1]),
    *_bad(_MAP, {}, {"keys": [], "values": []}),
    *_bad(_STRUCT, {}, {"104": 1}),
]
