"""Values of filters as values of columns."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.literals import OutOfRange, to_type
from iceberg_hms.format.schema.types import StructType, parse_type

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, "boolean", True),
        (7, "int", 7),
        (2**31, "int", OutOfRange.ABOVE),
        (-(2**31) - 1, "int", OutOfRange.BELOW),
        (2**31, "long", 2**31),
        (2**63, "long", OutOfRange.ABOVE),
        (0.1, "float", 0.10000000149011612),
        (1e300, "float", OutOfRange.ABOVE),
        (-1e300, "float", OutOfRange.BELOW),
        (Decimal("0.5"), "double", 0.5),
        (1, "double", 1.0),
        (1, "decimal(4,2)", Decimal("1.00")),
        ("1.5", "decimal(4,2)", Decimal("1.50")),
        (100, "decimal(4,2)", OutOfRange.ABOVE),
        ("ERROR", "string", "ERROR"),
        ("00000000-0000-0000-0000-000000000001", "uuid", uuid.UUID(int=1)),
        (b"\x01", "binary", b"\x01"),
        ("01ff", "fixed[2]", b"\x01\xff"),
        ("2021-04-01", "date", 18718),
        (datetime.date(1969, 12, 31), "date", -1),
        ("10:00:00.000001", "time", 36_000_000_001),
        ("2021-04-01T00:00:01", "timestamp", 18718 * 86_400_000_000 + 1_000_000),
        ("2021-04-01 00:00:01.5", "timestamp", 18718 * 86_400_000_000 + 1_500_000),
        (datetime.date(2021, 4, 1), "timestamp", 18718 * 86_400_000_000),
        (datetime.datetime(1969, 12, 31, 23, tzinfo=UTC), "timestamptz", -3_600_000_000),
        ("1970-01-01T01:00:00+01:00", "timestamptz", 0),
        ("1970-01-01T00:00:00.000001001", "timestamp_ns", 1_001),
        ("1970-01-01T00:00:00.000001001Z", "timestamptz_ns", 1_001),
        ("1970-01-01T00:00:00.000001000", "timestamp", 1),
    ],
)
def test_a_value_becomes_one_of_the_column_s_type(value: Any, kind: str, expected: Any) -> None:
    assert to_type(value, parse_type(kind), "c") == expected


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        ("1", "int", "it takes whole numbers"),
        (True, "int", "it takes whole numbers"),
        (1.5, "long", "it takes whole numbers"),
        (1, "boolean", "true or false"),
        ("x", "double", "it takes numbers"),
        (float("nan"), "double", "use is nan"),
        ("1.555", "decimal(4,2)", "2 digits after the point"),
        (1.5, "decimal(4,2)", "decimals"),
        ("9" * 200, "decimal(38,0)", "more than 100 characters"),
        (1, "string", "it takes texts"),
        ("no", "uuid", "badly formed"),
        ("xyz", "binary", "hexadecimal"),
        (1, "binary", "it takes bytes"),
        ("2021-04-31", "date", "day is out of range|must be in range"),
        (18718, "date", "it takes texts"),
        (datetime.datetime(2021, 4, 1, tzinfo=UTC), "date", "without a time"),
        ("2021-04-01T00:00:00", "timestamptz", "with a zone"),
        ("2021-04-01T00:00:00Z", "timestamp", "without a zone"),
        ("1970-01-01T00:00:00.000001001", "timestamp", "no nanoseconds"),
        (7, "timestamp", "it takes timestamps"),
        (datetime.time(1, tzinfo=UTC), "time", "without a zone"),
        (b"", "variant", "no order"),
    ],
)
def test_another_value_is_refused_with_the_column_s_name(value: Any, kind: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=rf"column c .*({says})"):
        to_type(value, parse_type(kind), "c")


def test_a_struct_has_no_values_to_compare() -> None:
    with pytest.raises(InvalidInput, match="no order"):
        to_type(1, StructType(()), "c")
