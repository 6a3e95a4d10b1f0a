"""Partition transforms: the spec's examples, Java's text, and agreement with PyIceberg on any value."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms as theirs
from pyiceberg import types as their_types

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.transforms import Bucket, UnknownTransform, hash_value, murmur3, parse_transform
from iceberg_hms.format.schema.types import parse_type

#: 2017-11-16T22:31:08
SECONDS = 1_510_871_468


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        ("int", 34, 2_017_239_379),
        ("long", 34, 2_017_239_379),
        ("decimal(9, 2)", Decimal("14.20"), -500_754_589),
        ("date", 17_486, -653_330_422),
        ("time", 81_068_000_000, -662_762_989),
        ("timestamp", SECONDS * 10**6, -2_047_944_441),
        ("timestamp", SECONDS * 10**6 + 1, -1_207_196_810),
        ("timestamptz", SECONDS * 10**6, -2_047_944_441),
        ("timestamp_ns", SECONDS * 10**9, -2_047_944_441),
        ("timestamp_ns", SECONDS * 10**9 + 1_001, -1_207_196_810),
        ("timestamptz_ns", SECONDS * 10**9 + 1_001, -1_207_196_810),
        ("string", "iceberg", 1_210_000_089),
        ("uuid", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1_488_055_340),
        ("fixed[4]", b"\x00\x01\x02\x03", -188_683_207),
        ("binary", b"\x00\x01\x02\x03", -188_683_207),
    ],
)
def test_hashes_are_those_of_appendix_b(kind: str, value: Any, hashed: int) -> None:
    assert hash_value(value, parse_type(kind)) == hashed & 0xFFFF_FFFF
    assert Bucket(100).apply(value, parse_type(kind)) == (hashed & 0x7FFF_FFFF) % 100


@given(st.binary(max_size=40))
def test_murmur3_agrees_with_another_implementation(data: bytes) -> None:
    assert murmur3(data) == mmh3.hash(data, signed=False)


@pytest.mark.parametrize(
    ("text", "kind", "value", "result"),
    [
        ("truncate[10]", "int", 1, 0),
        ("truncate[10]", "int", -1, -10),
        ("truncate[10]", "long", -10, -10),
        ("truncate[50]", "decimal(9, 2)", Decimal("10.65"), Decimal("10.50")),
        ("truncate[10]", "decimal(9, 2)", Decimal("-0.05"), Decimal("-0.10")),
        ("truncate[3]", "string", "iceberg", "ice"),
        ("truncate[2]", "string", "a\U0001f600b", "a\U0001f600"),
        ("truncate[3]", "binary", b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
        ("year", "date", 17_486, 47),
        ("year", "date", -1, -1),
        ("month", "date", 17_486, 574),
        ("month", "date", -1, -1),
        ("day", "timestamp", SECONDS * 10**6, 17_486),
        ("day", "timestamp", -1, -1),
        ("day", "timestamp_ns", SECONDS * 10**9, 17_486),
        ("hour", "timestamptz", SECONDS * 10**6, 419_686),
        ("hour", "timestamp", -1, -1),
        ("hour", "timestamptz_ns", -1, -1),
        ("identity", "string", "x", "x"),
        ("void", "string", "x", None),
    ],
)
def test_examples(text: str, kind: str, value: Any, result: Any) -> None:
    transform, source = parse_transform(text), parse_type(kind)
    assert transform.apply(value, source) == result
    assert transform.apply(None, source) is None


@pytest.mark.parametrize(
    ("text", "kind", "result"),
    [
        ("identity", "timestamp", "timestamp"),
        ("bucket[16]", "string", "int"),
        ("truncate[4]", "decimal(9, 2)", "decimal(9, 2)"),
        ("year", "date", "int"),
        ("month", "timestamp_ns", "int"),
        ("day", "timestamptz", "date"),
        ("hour", "timestamp", "int"),
        ("void", "double", "double"),
        ("zorder[3]", "int", "string"),
    ],
)
def test_result_types(text: str, kind: str, result: str) -> None:
    assert parse_transform(text).result_type(parse_type(kind)) == parse_type(result)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bucket[4]", "boolean"),
        ("bucket[4]", "double"),
        ("truncate[4]", "date"),
        ("truncate[4]", "uuid"),
        ("hour", "date"),
        ("year", "string"),
        ("day", "long"),
        ("identity", "geometry"),
        ("identity", "variant"),
    ],
)
def test_sources_that_the_spec_does_not_allow_are_refused(text: str, kind: str) -> None:
    transform = parse_transform(text)
    assert not transform.can_transform(parse_type(kind))
    with pytest.raises(InvalidInput, match="Invalid source type"):
        transform.result_type(parse_type(kind))
    with pytest.raises(InvalidInput, match="Invalid source type"):
        transform.apply(1, parse_type(kind))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("bucket[4]", "int", "x"),
        ("bucket[4]", "string", 1),
        ("bucket[4]", "uuid", "no uuid"),
        ("truncate[4]", "int", "x"),
        ("truncate[4]", "string", 1),
        ("year", "date", "2021"),
    ],
)
def test_values_of_another_type_are_refused(text: str, kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be applied"):
        parse_transform(text).apply(value, parse_type(kind))


@pytest.mark.parametrize(
    "text", ["identity", "bucket[16]", "truncate[4]", "year", "month", "day", "hour", "void", "zorder", "bucket[x]", ""]
)
def test_any_text_survives(text: str) -> None:
    assert str(parse_transform(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"), [("DAY", "day"), ("Bucket[16]", "bucket[16]"), ("Identity", "identity")]
)
def test_letter_case_is_ignored_as_in_java(text: str, canonical: str) -> None:
    assert parse_transform(text) == parse_transform(canonical)


@pytest.mark.parametrize("text", ["bucket[0]", "bucket[-4]", "truncate[0]"])
def test_parameters_must_be_positive(text: str) -> None:
    with pytest.raises(InvalidInput, match="must be > 0"):
        parse_transform(text)


def test_an_unknown_transform_is_not_applied() -> None:
    transform = parse_transform("zorder[3]")
    assert transform == UnknownTransform("zorder[3]")
    assert transform.can_transform(parse_type("int"))
    with pytest.raises(InvalidInput, match="unknown transform: zorder"):
        transform.apply(1, parse_type("int"))


@pytest.mark.parametrize(
    ("text", "kind", "value", "human"),
    [
        ("year", "date", 51, "2021"),
        ("year", "date", -1, "1969"),
        ("month", "date", 615, "2021-04"),
        ("month", "date", -1, "1969-12"),
        ("day", "date", 18_718, "2021-04-01"),
        ("hour", "timestamp", 449_242, "2021-04-01-10"),
        ("hour", "timestamp", -1, "1969-12-31-23"),
        ("identity", "date", 18_718, "2021-04-01"),
        ("bucket[16]", "string", 3, "3"),
        ("truncate[3]", "string", "ice", "ice"),
        *((text, "timestamp", None, "null") for text in ("year", "month", "day", "hour", "identity", "void")),
    ],
)
def test_text_for_people_is_javas(text: str, kind: str, value: Any, human: str) -> None:
    transform = parse_transform(text)
    assert transform.human(value, transform.result_type(parse_type(kind))) == human


TIMES = st.integers(-(10**15), 10**16)
PAIRS: list[tuple[str, str, Any, Any, Any]] = [
    ("bucket[7]", "long", theirs.BucketTransform(7), their_types.LongType(), st.integers(-(2**63), 2**63 - 1)),
    ("bucket[7]", "string", theirs.BucketTransform(7), their_types.StringType(), st.text()),
    ("truncate[7]", "long", theirs.TruncateTransform(7), their_types.LongType(), st.integers(-(2**62), 2**62)),
    ("truncate[7]", "string", theirs.TruncateTransform(7), their_types.StringType(), st.text()),
    ("year", "timestamp", theirs.YearTransform(), their_types.TimestampType(), TIMES),
    ("month", "timestamp", theirs.MonthTransform(), their_types.TimestampType(), TIMES),
    ("day", "timestamp", theirs.DayTransform(), their_types.TimestampType(), TIMES),
    ("hour", "timestamp", theirs.HourTransform(), their_types.TimestampType(), TIMES),
]


@pytest.mark.parametrize(("text", "kind", "their", "their_type", "drawn"), PAIRS)
def test_agrees_with_pyiceberg(
    text: str, kind: str, their: Any, their_type: Any, drawn: st.SearchStrategy[Any]
) -> None:
    ours, source = parse_transform(text), parse_type(kind)
    apply: Callable[[Any], Any] = their.transform(their_type)

    @given(drawn)
    def agrees(value: Any) -> None:
        assert ours.apply(value, source) == apply(value)

    agrees()
