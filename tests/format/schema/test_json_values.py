"""Default values in their JSON form."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.json_values import default_json
from iceberg_hms.format.schema.types import parse_type
from tests.format.missing_values import MISSING

AT = datetime.datetime(2021, 4, 1, 12, 30, 5, 250)  # noqa: DTZ001 - of a column without zone
EAST = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", True, True),
        ("int", 34, 34),
        ("long", 1 << 62, 1 << 62),
        ("float", 1, 1.0),
        ("double", 1.5, 1.5),
        ("decimal(9, 2)", Decimal("14.2"), "14.20"),
        ("decimal(9, 2)", 14, "14.00"),
        ("decimal(9, 2)", "-0.05", "-0.05"),
        ("date", datetime.date(2017, 11, 16), "2017-11-16"),
        ("date", "2017-11-16", "2017-11-16"),
        ("time", datetime.time(22, 31, 8, 123456), "22:31:08.123456"),
        ("time", "22:31:08", "22:31:08"),
        ("timestamp", AT, "2021-04-01T12:30:05.000250"),
        ("timestamp", "2021-04-01T12:30:05", "2021-04-01T12:30:05"),
        ("timestamptz", AT.replace(tzinfo=EAST), "2021-04-01T10:30:05.000250+00:00"),
        ("timestamptz", "2021-04-01T12:30:05+02:00", "2021-04-01T10:30:05+00:00"),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789", "2017-11-16T22:31:08.123456789"),
        ("timestamp_ns", AT, "2021-04-01T12:30:05.000250"),
        ("timestamptz_ns", "2017-11-16T22:31:08.123456789Z", "2017-11-16T22:31:08.123456789+00:00"),
        ("string", "iceberg", "iceberg"),
        ("uuid", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("fixed[2]", b"\x00\xff", "00ff"),
        ("binary", "00FF", "00ff"),
        ("variant", None, None),
    ],
)
def test_values_get_the_form_of_the_spec(kind: str, value: Any, expected: Any) -> None:
    assert default_json(parse_type(kind), value) == expected
    assert default_json(parse_type(kind), expected) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", 1 << 31),
        ("int", "1"),
        ("long", -(1 << 63) - 1),
        ("long", 1.0),
        ("float", 1e300),
        ("double", float("nan")),
        ("double", "1.5"),
        ("decimal(4, 2)", 100),
        ("decimal(4, 2)", "1.234"),
        ("decimal(4, 2)", 1.5),
        ("decimal(4, 2)", "x"),
        ("date", AT),
        ("date", "2021-04-31"),
        ("date", 18718),
        ("time", "25:00"),
        ("time", datetime.time(1, tzinfo=datetime.UTC)),
        ("timestamp", "2021-04-01T12:30:05+02:00"),
        ("timestamp", AT.replace(tzinfo=datetime.UTC)),
        ("timestamptz", AT),
        ("timestamp_ns", "2021-13-01T00:00:00"),
        ("timestamp_ns", "2021-04-01T00:00:00.1234567890"),
        ("timestamptz_ns", "2021-04-01T00:00:00"),
        ("string", 1),
        ("string", "\ud800"),
        ("uuid", "x"),
        ("uuid", 1),
        ("fixed[2]", b"\x00"),
        ("binary", "0"),
        ("binary", 7),
        ("variant", {}),
        ("unknown", 1),
        ("geometry", "POINT (30 10)"),
        ({"type": "struct", "fields": []}, {}),
    ],
)
def test_what_the_type_does_not_have_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(InvalidInput):
        default_json(parse_type(kind), value)


TYPES = (
    *("boolean", "int", "long", "float", "double", "decimal(9, 2)", "string", "uuid", "binary", "fixed[2]", "date"),
    *("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
)


@pytest.mark.parametrize("kind", TYPES)
def test_a_missing_value_is_no_default(kind: str) -> None:
    for missing in MISSING.values():
        with pytest.raises(InvalidInput, match=r"no default|not a value|no JSON form"):
            default_json(parse_type(kind), missing)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", np.bool_(True), True),
        ("int", np.int16(34), 34),
        ("int", np.int64(1 << 31), None),
        ("int", pd.Timedelta(5), None),
        ("int", np.timedelta64(5), None),
        ("long", pa.scalar(34), 34),
        ("long", np.float32(1), None),
        ("float", np.float32(0.1), 0.10000000149011612),
        ("double", np.float32(0.1), 0.10000000149011612),
        ("double", np.longdouble("0.1"), None),
        ("decimal(9, 2)", pa.scalar(Decimal("14.2")), "14.20"),
        ("string", np.str_("iceberg"), "iceberg"),
        ("string", pd.Timestamp("2021-04-01T00:00:00.000000500"), None),
        ("binary", bytearray(b"\xff"), "ff"),
        ("fixed[2]", memoryview(b"\x00\xff"), "00ff"),
        ("date", np.datetime64("2017-11-16"), "2017-11-16"),
        ("date", pd.Timestamp("2017-11-16"), None),
        ("date", np.datetime64("2017-11-16", "ns"), None),
        ("time", pa.scalar(5_000, pa.time64("ns")), "00:00:00.000005"),
        ("time", pa.scalar(5, pa.time64("ns")), None),
        ("time", "22:31:08.1234567", None),
        ("timestamp", pd.Timestamp("2017-11-16T22:31:08"), "2017-11-16T22:31:08"),
        ("timestamp", np.datetime64("2017-11-16T22:31:08", "ns"), "2017-11-16T22:31:08"),
        ("timestamp", pd.Timestamp("2017-11-16T22:31:08.123456789"), None),
        ("timestamp", "2017-11-16T22:31:08.123456789", None),
        ("timestamp", np.datetime64("2017-11-16"), None),
        ("timestamptz", pd.Timestamp("2017-11-16T22:31:08+02:00"), "2017-11-16T20:31:08+00:00"),
        ("timestamptz", pd.Timestamp("2017-11-16T22:31:08"), None),
        ("timestamp_ns", pd.Timestamp("2017-11-16T22:31:08.123456789"), "2017-11-16T22:31:08.123456789"),
        ("timestamp_ns", np.datetime64("2017-11-16T22:31:08.000000001"), "2017-11-16T22:31:08.000000001"),
        ("timestamptz_ns", pa.scalar(1, pa.timestamp("ns", "UTC")), "1970-01-01T00:00:00.000000001+00:00"),
        (
            "timestamptz_ns",
            pd.Timestamp("2017-11-16T22:31:08.123456789+02:00"),
            "2017-11-16T20:31:08.123456789+00:00",
        ),
        ("uuid", pa.scalar(uuid.UUID(int=1).bytes, pa.uuid()), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_default_of_another_library_is_taken_exactly_or_refused(kind: str, value: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(InvalidInput):
            default_json(parse_type(kind), value)
        return
    found = default_json(parse_type(kind), value)
    assert (found, type(found)) == (expected, type(expected))
