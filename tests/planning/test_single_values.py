"""Partition values in JSON: what Java's SingleValueParser reads."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import Type, parse_type
from iceberg_hms.planning.single_values import value_json

ID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


@pytest.mark.parametrize(
    ("of", "value", "text"),
    [
        ("boolean", True, "true"),
        ("int", -7, "-7"),
        ("long", 2**62, "4611686018427387904"),
        # Java wants a number with a point, or an exponent.
        ("float", 3.0, "3.0"),
        ("double", 1e22, "1e+22"),
        ("double", math.inf, "1e999"),
        ("double", -math.inf, "-1e999"),
        ("string", 'a "b"\n', '"a \\"b\\"\\n"'),
        ("date", 18_718, '"2021-04-01"'),
        ("date", 2_932_897, '"+10000-01-01"'),
        ("date", -719_529, '"-0001-12-31"'),
        ("time", 81_068_123_456, '"22:31:08.123456"'),
        ("timestamp", 1_196_676_930_123_456, '"2007-12-03T10:15:30.123456"'),
        ("timestamptz", 0, '"1970-01-01T00:00:00.000000+00:00"'),
        ("timestamp", -1, '"1969-12-31T23:59:59.999999"'),
        ("timestamp_ns", 1, '"1970-01-01T00:00:00.000000001"'),
        ("timestamptz_ns", 1, '"1970-01-01T00:00:00.000000001+00:00"'),
        ("decimal(9, 2)", Decimal("14.20"), '"14.20"'),
        ("decimal(38, 2)", Decimal("1E+2"), '"1E+2"'),
        ("decimal(9, 9)", Decimal("0.000000001"), '"0.000000001"'),
        ("uuid", uuid.UUID(ID), f'"{ID}"'),
        ("uuid", uuid.UUID(ID).bytes, f'"{ID}"'),
        ("binary", b"\x00\xab", '"00AB"'),
        ("fixed[2]", b"xy", '"7879"'),
    ],
)
def test_each_type_has_the_form_of_the_spec(of: str, value: Any, text: str) -> None:
    assert value_json(parse_type(of), value) == text
    if "999" not in text[-4:]:
        orjson.loads(text)


@pytest.mark.parametrize("of", [parse_type("int"), parse_type("string"), types.UNKNOWN])
def test_nothing_is_null(of: Type) -> None:
    assert value_json(of, None) == "null"


def test_what_a_dropped_column_left_is_null() -> None:
    """Java's client reads nothing else there: it knows no type."""
    assert value_json(types.UNKNOWN, 7) == "null"


def test_nan_has_no_form() -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        value_json(parse_type("double"), math.nan)
