"""Single values: the spec's binary forms, bounds of promoted columns, and text for people."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg import types as theirs

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import PrimitiveType, Type, parse_type

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

EXAMPLES: list[tuple[str, Any, bytes]] = [
    ("boolean", False, b"\x00"),
    ("boolean", True, b"\x01"),
    ("int", -2, b"\xfe\xff\xff\xff"),
    ("long", 34, b"\x22" + bytes(7)),
    ("float", 1.5, struct.pack("<f", 1.5)),
    ("double", -0.0, bytes(7) + b"\x80"),
    ("date", 18_718, b"\x1e\x49\x00\x00"),
    ("time", 81_068_000_000, struct.pack("<q", 81_068_000_000)),
    ("timestamp", -1, b"\xff" * 8),
    ("timestamptz", 1, b"\x01" + bytes(7)),
    ("timestamp_ns", 1, b"\x01" + bytes(7)),
    ("timestamptz_ns", 1, b"\x01" + bytes(7)),
    ("string", "häl", b"h\xc3\xa4l"),
    ("string", "", b""),
    ("uuid", UUID, UUID.bytes),
    ("fixed[3]", b"\x00\x01\xff", b"\x00\x01\xff"),
    ("binary", b"", b""),
    ("decimal(9, 2)", Decimal("-14.20"), b"\xfa\x74"),
    ("decimal(9, 2)", Decimal("0.00"), b"\x00"),
    ("decimal(9, 2)", Decimal("1.28"), b"\x00\x80"),
    ("decimal(9, 2)", Decimal("-1.28"), b"\x80"),
    ("decimal(38, 0)", Decimal(10**38 - 1), (10**38 - 1).to_bytes(16, "big")),
    ("geometry", b"\x01\x02", b"\x01\x02"),
]


@pytest.mark.parametrize(("kind", "value", "data"), EXAMPLES, ids=lambda each: str(each)[:20])
def test_binary_form_of_the_spec(kind: str, value: Any, data: bytes) -> None:
    of = parse_type(kind)
    assert values.to_bytes(of, value) == data
    back = values.from_bytes(of, data)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("long", b"\xfe\xff\xff\xff", -2),
        ("double", struct.pack("<f", 1.5), 1.5),
        ("timestamp", b"\x01\x00\x00\x00", 86_400_000_000),
        ("timestamp_ns", b"\xff\xff\xff\xff", -86_400_000_000_000),
        ("boolean", b"\x07", True),
    ],
)
def test_bounds_written_before_a_promotion_are_read(kind: str, data: bytes, value: Any) -> None:
    assert values.from_bytes(parse_type(kind), data) == value


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b"\x01"),
        ("int", bytes(8)),
        ("long", bytes(5)),
        ("timestamptz", bytes(4)),
        ("boolean", b""),
        ("boolean", b"\x00\x00"),
        ("uuid", bytes(15)),
        ("string", b"\xff"),
        ("unknown", b""),
        ({"type": "list", "element-id": 1, "element": "int", "element-required": True}, b""),
    ],
)
def test_bytes_of_another_type_are_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(InvalidInput):
        values.from_bytes(parse_type(kind), data)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**31),
        ("int", 1.5),
        ("int", "1"),
        ("date", None),
        ("string", b"x"),
        ("binary", "x"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("decimal(9, 2)", 1.5),
        ("decimal(9, 2)", Decimal("1.005")),
        ("decimal(9, 2)", Decimal("NaN")),
        ("unknown", None),
    ],
)
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        values.to_bytes(parse_type(kind), value)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_survive_whatever_their_digits(number: int, scale: int) -> None:
    value = values.from_unscaled(number, scale)
    assert values.unscaled(value, scale) == number
    of = PrimitiveType(f"decimal(38, {scale})")
    data = values.to_bytes(of, value)
    assert values.from_bytes(of, data) == value
    assert data == conversions.to_bytes(theirs.DecimalType(38, scale), value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_minimal_bytes_are_minimal(number: int) -> None:
    data = values.minimal_bytes(number)
    assert int.from_bytes(data, "big", signed=True) == number
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != number


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("date", 18_718, "2021-04-01"),
        ("date", -1, "1969-12-31"),
        ("date", 2_932_897, "10000-01-01"),
        ("date", -719_529, "-001-12-31"),
        ("time", 81_060_000_000, "22:31"),
        ("time", 81_060_038_000, "22:31:00.038"),
        ("time", 81_068_000_000, "22:31:08"),
        ("time", 81_068_000_001, "22:31:08.000001"),
        ("timestamp", 1_510_871_468_000_001, "2017-11-16T22:31:08.000001"),
        ("timestamp", 1_510_871_468_038_190, "2017-11-16T22:31:08.03819"),
        ("timestamp", -1, "1969-12-31T23:59:59.999999"),
        ("timestamp", -719_529 * 86_400_000_000, "-0001-12-31T00:00:00"),
        ("timestamptz", 2_932_897 * 86_400_000_000, "+10000-01-01T00:00:00+00:00"),
        ("timestamptz", 1_510_871_468_000_000, "2017-11-16T22:31:08+00:00"),
        ("timestamp_ns", 1_510_871_468_000_000_001, "2017-11-16T22:31:08.000000001"),
        ("timestamptz_ns", 0, "1970-01-01T00:00:00+00:00"),
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("decimal(9, 2)", Decimal("-14.20"), "-14.20"),
        ("binary", b"\x00\xff", "AP8="),
        ("uuid", UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("string", "a b", "a b"),
        ("int", 7, "7"),
        ("int", None, "null"),
    ],
)
def test_text_for_people(kind: str, value: Any, text: str) -> None:
    assert values.human(parse_type(kind), value) == text


@given(st.dates())
def test_civil_agrees_with_the_calendar(date: Any) -> None:
    assert values.civil(date.toordinal() - 719_163) == (date.year, date.month, date.day)


def test_kinds_of_nested_types_have_names_too() -> None:
    nested: Type = parse_type({"type": "list", "element-id": 1, "element": "int", "element-required": True})
    assert values.kind_of(nested) == "list"
    assert values.kind_of(parse_type("decimal(9,2)")) == "decimal"
