"""Values of filters as values of columns."""

from __future__ import annotations

import datetime
import math
import sys
import uuid
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.literals import Gap, ProtocolText, to_type
from iceberg_hms.format.schema.types import StructType, parse_type
from tests.format.missing_values import MISSING

UTC = datetime.UTC
FLOAT_MAX = 3.4028234663852886e38
DOUBLE_MAX = sys.float_info.max
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, "boolean", True),
        (7, "int", 7),
        (2**31, "int", Gap(INT_MAX, None)),
        (-(2**31) - 1, "int", Gap(None, -(2**31))),
        (2**31, "long", 2**31),
        (2**63, "long", Gap(LONG_MAX, None)),
        (math.inf, "long", Gap(LONG_MAX, None)),
        (Decimal("-Infinity"), "long", Gap(None, -(2**63))),
        (1.0, "int", 1),
        (Decimal("1.00"), "long", 1),
        (1.5, "int", Gap(1, 2)),
        (Decimal("-1.5"), "long", Gap(-2, -1)),
        (Decimal("1e-999999999"), "int", Gap(0, 1)),
        (Decimal("1e999999999"), "int", Gap(INT_MAX, None)),
        (0.1, "float", 0.10000000149011612),
        (1e300, "float", Gap(FLOAT_MAX, math.inf)),
        (-1e300, "float", Gap(-math.inf, -FLOAT_MAX)),
        (10**400, "double", Gap(DOUBLE_MAX, math.inf)),
        (Decimal("-1e400"), "double", Gap(-math.inf, -DOUBLE_MAX)),
        (math.inf, "float", math.inf),
        (Decimal("0.5"), "double", 0.5),
        (1, "double", 1.0),
        (1, "decimal(4,2)", Decimal("1.00")),
        ("1.5", "decimal(4,2)", Decimal("1.50")),
        (Decimal("1.005"), "decimal(4,2)", Gap(Decimal("1.00"), Decimal("1.01"))),
        ("-1.555", "decimal(4,2)", Gap(Decimal("-1.56"), Decimal("-1.55"))),
        (1.1, "decimal(4,2)", Decimal("1.10")),
        (1.005, "decimal(4,2)", Gap(Decimal("1.00"), Decimal("1.01"))),
        (Decimal("0E+999999999"), "decimal(4,2)", Decimal("0.00")),
        (100, "decimal(4,2)", Gap(Decimal("99.99"), None)),
        (Decimal("99.995"), "decimal(4,2)", Gap(Decimal("99.99"), None)),
        (-math.inf, "decimal(4,2)", Gap(None, Decimal("-99.99"))),
        (Decimal("9" * 38 + ".5"), "decimal(38,0)", Gap(Decimal("9" * 38), None)),
        (Decimal("8" * 38 + ".5"), "decimal(38,0)", Gap(Decimal("8" * 38), Decimal("8" * 37 + "9"))),
        ("ERROR", "string", "ERROR"),
        ("00000000-0000-0000-0000-000000000001", "uuid", uuid.UUID(int=1)),
        (b"\x01", "binary", b"\x01"),
        (ProtocolText("01ff"), "fixed[2]", b"\x01\xff"),
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
        ("1", "int", "it takes numbers"),
        (True, "int", "it takes numbers"),
        (math.nan, "long", "NaN equals nothing"),
        (1, "boolean", "true or false"),
        ("x", "double", "it takes numbers"),
        (float("nan"), "double", "use is nan"),
        ("NaN", "decimal(4,2)", "NaN equals nothing"),
        (b"1", "decimal(4,2)", "it takes numbers"),
        ("9" * 200, "decimal(38,0)", "more than 100 characters"),
        (1, "string", "it takes texts"),
        ("no", "uuid", "badly formed"),
        ("cafe", "binary", "a text is no bytes.*write bytes as X'0aff'"),
        (ProtocolText("xyz"), "binary", "hexadecimal"),
        (1, "binary", "it takes bytes"),
        ("2021-04-31", "date", "day is out of range|must be in range"),
        (18718, "date", "it takes texts"),
        (datetime.datetime(2021, 4, 1, tzinfo=UTC), "date", "without a time"),
        ("2021-04-01T00:00:00", "timestamptz", "with a zone"),
        ("2021-04-01T00:00:00Z", "timestamp", "without a zone"),
        ("1970-01-01T00:00:00.000001001", "timestamp", "no nanoseconds"),
        (7, "timestamp", "it takes timestamps"),
        (datetime.time(1, tzinfo=UTC), "time", "without a zone"),
        ("10:00:00.1234567", "time", "digits beyond microseconds"),
        ("2021-04-01T00:00:00.0000000001", "timestamp_ns", "digits beyond nanoseconds"),
        ("2021-04-01T00:00:00,0000001", "timestamp", "no nanoseconds"),
        (b"", "variant", "no order"),
    ],
)
def test_another_value_is_refused_with_the_column_s_name(value: Any, kind: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=rf"column c .*({says})"):
        to_type(value, parse_type(kind), "c")


NANOS: Final = 18_718 * 86_400 * 10**9
#: Values of other libraries -> column type -> the stored value; types that are not named take none of them.
FOREIGN: Final[list[tuple[list[Any], dict[str, Any]]]] = [
    ([np.bool_(True), pa.scalar(True)], {"boolean": True}),
    (
        [np.int8(7), np.uint64(7), pa.scalar(7), pa.scalar(7, pa.uint8()), pd.array([7], dtype="Int64")[0]],
        {"int": 7, "long": 7, "float": 7.0, "double": 7.0, "decimal(9, 2)": Decimal("7.00")},
    ),
    (
        [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.longdouble(0.5), pa.scalar(0.5, pa.float32())],
        {"int": Gap(0, 1), "long": Gap(0, 1), "float": 0.5, "double": 0.5, "decimal(9, 2)": Decimal("0.50")},
    ),
    (
        [np.float32(0.1), pa.scalar(0.1, pa.float32())],
        {
            "int": Gap(0, 1),
            "long": Gap(0, 1),
            "float": 0.10000000149011612,
            "double": 0.10000000149011612,
            "decimal(9, 2)": Gap(Decimal("0.10"), Decimal("0.11")),
        },
    ),
    (
        [pa.scalar(Decimal("1.50")), pa.scalar(Decimal("1.50"), pa.decimal256(9, 2))],
        {"int": Gap(1, 2), "long": Gap(1, 2), "float": 1.5, "double": 1.5, "decimal(9, 2)": Decimal("1.50")},
    ),
    ([np.str_("text"), pa.scalar("text"), pd.Categorical(["text"])[0]], {"string": "text"}),
    ([np.bytes_(b"ab"), pa.scalar(b"ab"), bytearray(b"ab"), memoryview(b"ab")], {"binary": b"ab", "fixed[2]": b"ab"}),
    ([pa.scalar(uuid.UUID(int=7).bytes, pa.uuid())], {"uuid": uuid.UUID(int=7)}),
    ([pa.scalar(7, pa.time64("us")), pa.scalar(7_000, pa.time64("ns"))], {"time": 7}),
    (
        [np.datetime64("2021-04"), np.datetime64("2021-04-01"), pa.scalar(datetime.date(2021, 4, 1), pa.date64())],
        {
            "date": 18_718,
            **{
                f"timestamp{zone}{unit}": NANOS // (1 if unit else 1_000) for zone in ("", "tz") for unit in ("", "_ns")
            },
        },
    ),
    (
        [
            *(np.datetime64("2021-04-01T01", unit) for unit in ("h", "m", "s", "ms", "us", "ns")),
            *(pd.Timestamp("2021-04-01T01").as_unit(unit) for unit in ("s", "ms", "us", "ns")),
            pa.scalar(NANOS + 3_600 * 10**9, pa.timestamp("ns")),
        ],
        {"timestamp": NANOS // 1_000 + 3_600 * 10**6, "timestamp_ns": NANOS + 3_600 * 10**9},
    ),
    (
        [
            pd.Timestamp("2021-04-01T03+02:00"),
            pd.Timestamp("2021-04-01T03", tz="Europe/Berlin"),
            pa.scalar(NANOS + 3_600 * 10**9, pa.timestamp("ns", "Europe/Berlin")),
        ],
        {"timestamptz": NANOS // 1_000 + 3_600 * 10**6, "timestamptz_ns": NANOS + 3_600 * 10**9},
    ),
    (
        [
            np.datetime64(NANOS + 500, "ns"),
            pd.Timestamp("2021-04-01T00:00:00.000000500"),
            pa.scalar(NANOS + 500, pa.timestamp("ns")),
        ],
        {"timestamp_ns": NANOS + 500},
    ),
    (
        [pd.Timestamp("2021-04-01T02:00:00.000000500+02:00"), pa.scalar(NANOS + 500, pa.timestamp("ns", "UTC"))],
        {"timestamptz_ns": NANOS + 500},
    ),
    (
        [
            *(np.timedelta64(7, unit) for unit in ("D", "us")),
            *(pd.Timedelta(7), pd.Period("2021-04"), pd.Interval(1, 2), np.complex64(7), np.array([7])),
            *(pa.scalar(7, pa.duration("us")), pa.scalar([7]), np.longdouble("0.1"), np.datetime64(7, "ps")),
        ],
        {},
    ),
]
TYPES: Final = (
    *("boolean", "int", "long", "float", "double", "decimal(9, 2)", "string", "uuid", "binary", "fixed[2]", "date"),
    *("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
)


@pytest.mark.parametrize("kind", TYPES)
def test_a_value_of_another_library_is_taken_exactly_or_refused(kind: str) -> None:
    of = parse_type(kind)
    for given, expected in FOREIGN:
        for value in given:
            if kind in expected:
                found = to_type(value, of, "c")
                assert (found, type(found)) == (expected[kind], type(expected[kind])), repr(value)
            else:
                with pytest.raises(InvalidInput, match="column c of type"):
                    to_type(value, of, "c")


@pytest.mark.parametrize("kind", TYPES)
def test_a_missing_value_is_one_of_no_type(kind: str) -> None:
    for missing in (None, *MISSING.values()):
        with pytest.raises(InvalidInput, match="column c of type"):
            to_type(missing, parse_type(kind), "c")


def test_a_struct_has_no_values_to_compare() -> None:
    with pytest.raises(InvalidInput, match="no order"):
        to_type(1, StructType(()), "c")
