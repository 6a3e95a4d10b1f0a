"""Values of other libraries in Python's own classes."""

from __future__ import annotations

import datetime
import enum
import math
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.plain_values import NanoTimestamp, plain_value, time_of_text, timestamp_of_text
from tests.format.missing_values import NANS, NULLS

UTC = datetime.UTC
DAY = datetime.date(2021, 4, 1)
AT = datetime.datetime(2021, 4, 1, 10, 0, 0, 250)  # noqa: DTZ001 - of a column without zone
START = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - as AT
MICROSECOND = datetime.timedelta(microseconds=1)
EAST = datetime.timezone(datetime.timedelta(hours=2))
DECIMALS = (pa.decimal32(9, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(9, 2))
UNITS = ("s", "ms", "us", "ns")
BERLIN = "Europe/Berlin"
TEXT = "2021-04-01T10:00:00.000250"
KEY = uuid.UUID(int=7)


class Level(enum.IntEnum):
    HIGH = 3


class Name(enum.StrEnum):
    FIRST = "first"


class Price(Decimal):
    pass


def extension(of: Any, storage: pa.Array) -> Any:
    return pa.ExtensionArray.from_storage(of, storage)[0]


@pytest.mark.parametrize("value", [None, *NULLS.values()], ids=["None", *NULLS])
def test_what_is_missing_is_none(value: Any) -> None:
    assert plain_value(value) is None


@pytest.mark.parametrize("value", NANS.values(), ids=NANS)
def test_each_nan_is_a_float(value: Any) -> None:
    found = plain_value(value)
    assert type(found) is float
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, value) for value in (True, 5, 1.5, "a", b"a", DAY, AT, AT.time(), KEY, Decimal("1.50"))),
        (Level.HIGH, 3),
        (Name.FIRST, "first"),
        (Price("1.50"), Decimal("1.50")),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (np.bool_(True), True),
        *((of(5), 5) for of in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.1), 0.0999755859375),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(0.1), 0.1),
        (np.longdouble(0.5), 0.5),
        (np.float32(np.inf), math.inf),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        (np.array(5), 5),
        (np.ma.array([1, 2], mask=[False, True])[0], 1),
        (np.datetime64("2021"), datetime.date(2021, 1, 1)),
        (np.datetime64("2021-04"), DAY),
        (np.datetime64("1969-12", "M"), datetime.date(1969, 12, 1)),
        (np.datetime64("2021-04-01", "W"), DAY),
        (np.datetime64("2021-04-01"), DAY),
        *((np.datetime64("2021-04-01T10", unit), AT.replace(microsecond=0)) for unit in ("h", "m", *UNITS)),
        *((np.datetime64(TEXT, unit), AT) for unit in ("us", "ns")),
        (np.datetime64(25_000_000, "ps"), START.replace(microsecond=25)),
        (np.datetime64(3, "25s"), START.replace(minute=1, second=15)),
        (np.datetime64(f"{TEXT}500"), NanoTimestamp(AT, 500)),
        (np.datetime64(-1, "ns"), NanoTimestamp(START - MICROSECOND, 999)),
        (pd.Timestamp(TEXT), AT),
        (pd.Timestamp(TEXT).as_unit("ns"), AT),
        (pd.Timestamp(f"{TEXT}500"), NanoTimestamp(AT, 500)),
        (pd.Timestamp(f"{TEXT}001+02:00"), NanoTimestamp(AT.replace(tzinfo=EAST), 1)),
        (pd.Timestamp(f"{TEXT}Z").tz_convert(BERLIN), AT.replace(tzinfo=UTC)),
        (pd.Categorical(["a"])[0], "a"),
        (pd.array([1], dtype="Int64")[0], 1),
        (pa.scalar(True), True),
        *((pa.scalar(5, of), 5) for of in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())),
        *((pa.scalar(1.5, of), 1.5) for of in (pa.float16(), pa.float32(), pa.float64())),
        *((pa.scalar(Decimal("1.50"), of), Decimal("1.50")) for of in (DECIMALS)),
        *((pa.scalar("a", of), "a") for of in (pa.string(), pa.large_string(), pa.string_view())),
        *((pa.scalar(b"ab", of), b"ab") for of in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))),
        (pa.scalar(DAY), DAY),
        (pa.scalar(DAY, pa.date64()), DAY),
        (pa.scalar(5, pa.time32("s")), datetime.time(0, 0, 5)),
        (pa.scalar(5, pa.time64("us")), datetime.time(0, 0, 0, 5)),
        (pa.scalar(5_000, pa.time64("ns")), datetime.time(0, 0, 0, 5)),
        *((pa.scalar(AT.replace(microsecond=0), pa.timestamp(unit)), AT.replace(microsecond=0)) for unit in UNITS),
        (pa.scalar(5, pa.timestamp("us", "Europe/Berlin")), START.replace(microsecond=5, tzinfo=UTC)),
        (pa.scalar(5, pa.timestamp("ns")), NanoTimestamp(START, 5)),
        (pa.array(["a"]).dictionary_encode()[0], "a"),
        (pa.scalar(KEY.bytes, pa.uuid()), KEY),
        (extension(pa.bool8(), pa.array([1], pa.int8())), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_scalar_is_taken_exactly(value: Any, expected: Any) -> None:
    found = plain_value(value)
    assert found == expected
    assert type(found) is type(expected)


def test_the_second_of_two_equal_times_of_a_zone_is_taken() -> None:
    found = plain_value(pd.Timestamp("2021-10-31T01:30Z").tz_convert(BERLIN))
    assert found.astimezone(UTC) == datetime.datetime(2021, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        np.longdouble("0.1"),
        np.complex64(1),
        np.datetime64(1, "ps"),
        np.datetime64(10**6, "Y"),
        np.datetime64(-(10**6), "D"),
        np.timedelta64(5, "D"),
        np.timedelta64(5),
        np.array([5]),
        np.array([(1, 2.0)], dtype="i4,f8")[0],
        datetime.timedelta(days=5),
        pd.Timedelta(5),
        pd.Period("2021-04"),
        pd.Interval(1, 2),
        pd.Series([5]),
        pa.scalar(5, pa.duration("s")),
        pa.scalar((1, 2, 3), pa.month_day_nano_interval()),
        pa.scalar(5, pa.time64("ns")),
        pa.scalar(5, pa.date64()),
        pa.scalar([5]),
        pa.scalar({"a": 5}),
        pa.scalar("{}", pa.json_()),
        Fraction(1, 2),
        [5],
        {"a": 5},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_python_has_no_class_for_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=type(value).__name__):
        plain_value(value)


def test_no_library_is_loaded_for_it() -> None:
    program = (
        "import decimal, sys; from iceberg_hms.format.schema.plain_values import plain_value; "
        "plain_value(decimal.Decimal(1)); sys.exit(bool({'numpy', 'pandas', 'pyarrow'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, AT),
        (f"{TEXT}000", AT),
        (f"{TEXT}5", NanoTimestamp(AT, 500)),
        (f"{TEXT.replace('.', ',')}5", NanoTimestamp(AT, 500)),
        (f"{TEXT}789Z", NanoTimestamp(AT.replace(tzinfo=UTC), 789)),
        (f"{TEXT}7890", None),
        (f"{TEXT}x", None),
    ],
)
def test_a_text_keeps_its_nanoseconds(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(ValueError, match=r"digits beyond nanoseconds|Invalid isoformat"):
            timestamp_of_text(text)
        return
    assert timestamp_of_text(text) == expected
    assert timestamp_of_text(expected.isoformat()) == expected


def test_a_time_with_more_digits_than_it_keeps_is_refused() -> None:
    assert time_of_text("10:00:00.123456000") == datetime.time(10, 0, 0, 123456)
    with pytest.raises(ValueError, match="digits beyond microseconds"):
        time_of_text("10:00:00.1234567")
