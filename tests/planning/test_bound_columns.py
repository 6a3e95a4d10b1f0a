"""Columns of bounds, decoded: each value is that of `bound_value`."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.expressions.binding import BoundPredicate
from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema.transforms import Transform, parse_transform
from iceberg_hms.format.schema.types import parse_type
from iceberg_hms.planning.bound_columns import decoded_bounds

DAY = 86_400_000_000


def compared(kind: str, transform: Transform | None = None) -> BoundPredicate:
    """What is compared with values of a column, as `decoded_bounds` needs it."""
    of = parse_type(kind)
    result = of if transform is None else transform.result_type(of)
    source = None if transform is None else of
    return BoundPredicate(Operator.EQ, 1, result, ("c",), transform=transform, source=source)


def decoded(kind: str, low: list[bytes | None], high: list[bytes | None] | None = None) -> tuple[Any, Any]:
    columns = {"lower_bound.1": pa.array(low, pa.binary())}
    if high is not None:
        columns["upper_bound.1"] = pa.array(high, pa.binary())
    found = decoded_bounds(pa.RecordBatch.from_pydict(columns), compared(kind))
    return tuple(None if each is None else each.to_pylist() for each in found)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("int", [struct.pack("<i", each) for each in (-5, 0, 2**31 - 1)]),
        ("long", [struct.pack("<q", each) for each in (-5, 0, 2**63 - 1)]),
        ("date", [struct.pack("<i", -5)]),
        ("time", [struct.pack("<q", 5)]),
        ("timestamptz", [struct.pack("<q", -5)]),
        ("float", [struct.pack("<f", 1.5), struct.pack("<f", -math.inf)]),
        ("double", [struct.pack("<d", 0.1), struct.pack("<d", -0.0)]),
        ("string", [b"a", b"", "\U0001f600".encode()]),
        ("binary", [b"\xff", b""]),
        ("fixed[2]", [b"\xff\x00"]),
        ("boolean", [b"\x00", b"\x01"]),
        ("decimal(9,2)", [b"\x01", b"\xff", b"\x00\x80", b"\x80", b"\xff\x7f", b"\x00\x00\x00\x07"]),
        ("decimal(38,0)", [b"\x4b" + b"\x00" * 15, b"\xb5" + b"\x00" * 15, b"\x01\x00" * 10, b"\xfe" * 31]),
    ],
)
@pytest.mark.parametrize("more", [[], [None], [b"123"], [b""]])
def test_bounds_have_the_values_that_each_has_alone(
    kind: str, bounds: list[bytes | None], more: list[bytes | None]
) -> None:
    low, high = decoded(kind, bounds + more)
    assert high is None
    assert low == [bound_value(parse_type(kind), each) for each in bounds + more]


@pytest.mark.parametrize(
    ("kind", "new", "old", "value"),
    [
        ("long", struct.pack("<q", 2**40), struct.pack("<i", -7), -7),
        ("double", struct.pack("<d", 0.1), struct.pack("<f", 1.5), 1.5),
        ("timestamp", struct.pack("<q", 3), struct.pack("<i", -2), -2 * DAY),
        ("timestamp_ns", struct.pack("<q", 3), struct.pack("<i", 2), 2 * DAY * 1000),
    ],
)
def test_bounds_from_before_a_promotion_lie_beside_those_from_after_it(
    kind: str, new: bytes, old: bytes, value: Any
) -> None:
    low, _ = decoded(kind, [old, new, None, old])
    assert low == [value, struct.unpack("<d" if kind == "double" else "<q", new)[0], None, value]
    assert decoded(kind, [old])[0] == [value]


def test_timestamps_with_a_zone_were_never_dates() -> None:
    assert decoded("timestamptz", [struct.pack("<i", 1), struct.pack("<q", 1)])[0] == [None, 1]


def test_a_date_that_is_no_timestamp_of_64_bits_is_an_error_of_arrow() -> None:
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        decoded("timestamp", [struct.pack("<i", 2**31 - 1)])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_nan_makes_the_other_bound_worthless(kind: str) -> None:
    form = {"float": "<f", "double": "<d"}[kind]
    nan, one = struct.pack(form, math.nan), struct.pack(form, 1.0)
    assert decoded(kind, [nan, one, one, None], [one, nan, one, one]) == (
        [None, None, 1.0, None],
        [None, None, 1.0, 1.0],
    )


def test_a_float_of_a_wrong_length_makes_the_other_bound_worthless() -> None:
    one = struct.pack("<f", 1.0)
    assert decoded("float", [b"123", one], [one, one]) == ([None, 1.0], [None, 1.0])
    low, high = decoded("long", [b"123"], [struct.pack("<q", 1)])
    assert (low, high) == ([None], [1]), "not so with whole numbers"


def test_a_text_that_was_cut_within_a_character_is_no_bound() -> None:
    assert decoded("string", [b"ok", "\U0001f600".encode()[:2], None])[0] == ["ok", None, None]


def test_a_decimal_with_more_digits_than_any_stays_beyond_all() -> None:
    low, _ = decoded("decimal(38,2)", [b"\x7f" * 40, b"\x81" + b"\x00" * 39, b"\x64"])
    assert low == [Decimal("9" * 74 + ".99"), Decimal("-" + "9" * 74 + ".99"), Decimal("1.00")]


def test_numbers_are_read_wherever_they_lie_in_their_buffer() -> None:
    whole = pa.array([b"x", *(struct.pack("<q", each) for each in range(4))], pa.binary())
    batch = pa.RecordBatch.from_pydict({"lower_bound.1": whole}).slice(2, 2)
    low, _ = decoded_bounds(batch, compared("long"))
    assert low is not None
    assert low.to_pylist() == [1, 2]
    assert low.buffers()[1].address % 8 == 0


def test_no_files_have_no_bounds() -> None:
    assert decoded("long", []) == ([], None)
    assert decoded("decimal(9,2)", [None]) == ([None], None)


@pytest.mark.parametrize(
    ("kind", "transform", "stored", "expected"),
    [
        ("timestamp", "hour", [struct.pack("<q", each) for each in (-1, 0, DAY // 24)], [-1, 0, 1]),
        ("timestamptz", "day", [struct.pack("<q", each) for each in (-DAY, -1, 0, DAY)], [-1, -1, 0, 1]),
        ("timestamp", "month", [struct.pack("<q", each) for each in (-1, 0, 31 * DAY)], [-1, 0, 1]),
        ("timestamp_ns", "year", [struct.pack("<q", each * 1000) for each in (-1, 0, 366 * DAY)], [-1, 0, 1]),
        ("timestamp", "day", [struct.pack("<i", -3)], [-3]),
        ("date", "month", [struct.pack("<i", each) for each in (-1, 31)], [-1, 1]),
        ("int", "truncate[10]", [struct.pack("<i", each) for each in (-1, 19)], [-10, 10]),
        ("int", "truncate[10]", [struct.pack("<i", each) for each in (-(2**31), 19)], [None, 10]),
        ("string", "truncate[1]", [b"ab", "\U0001f600b".encode(), b"\xff"], ["a", "\U0001f600", None]),
        ("decimal(9,2)", "truncate[50]", [b"\x33", b"\xff"], [Decimal("0.50"), Decimal("-0.50")]),
    ],
)
def test_bounds_of_what_a_transform_makes(kind: str, transform: str, stored: list[bytes], expected: list[Any]) -> None:
    batch = pa.RecordBatch.from_pydict({"upper_bound.1": pa.array([*stored, None], pa.binary())})
    low, high = decoded_bounds(batch, compared(kind, parse_transform(transform)))
    assert low is None
    assert high is not None
    assert high.to_pylist() == [*expected, None]
