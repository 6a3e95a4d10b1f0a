"""Filters as text."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col, parse
from iceberg_hms.expressions.expression import Operator, Predicate
from iceberg_hms.format.schema.plain_values import NanoTimestamp
from iceberg_hms.format.schema.transforms import Bucket, Day, Truncate

ID, LEVEL = col("id"), col("level")
seen = col("event_time")
APRIL = datetime.datetime(2021, 4, 1)  # noqa: DTZ001 - columns without a zone have such values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", ID == 1),
        ("1 < id", ID > 1),
        ("5 >= id", ID <= 5),
        ("id <> -1 AND level == 'it''s'", (ID != -1) & (LEVEL == "it's")),
        ("id = 1 or id = 2 and id = 3", (ID == 1) | ((ID == 2) & (ID == 3))),
        ("(id = 1 or id = 2) and id = 3", ((ID == 1) | (ID == 2)) & (ID == 3)),
        ("not id = 1", ID != 1),
        ("not (id = 1 or level is null)", (ID != 1) & LEVEL.is_not_null()),
        ("id not in (1, 2)", ID.not_in([1, 2])),
        ("bucket(4, id) = 1", Predicate(Operator.EQ, "id", (1,), Bucket(4))),
        ("1 < Truncate(10, id)", Predicate(Operator.GT, "id", (1,), Truncate(10))),
        ("truncate(2, `a b`) not like 'x%'", Predicate(Operator.NOT_STARTS_WITH, "a b", ("x",), Truncate(2))),
        ("days(t) is null", Predicate(Operator.IS_NULL, "t", (), Day())),
        ("day(t) in (1, 2)", Predicate(Operator.IN, "t", (1, 2), Day())),
        ("day = 1 and bucket in (2)", (col("day") == 1) & col("bucket").is_in([2])),
        ("id IN (1)", ID.is_in([1])),
        ("id between 1 and 3 and level = 'a'", (ID >= 1) & (ID <= 3) & (LEVEL == "a")),
        ("id not between 1 and 3", (ID < 1) | (ID > 3)),
        ("level like 'ERR%'", LEVEL.starts_with("ERR")),
        ("level not like 'ERR%'", ~LEVEL.starts_with("ERR")),
        ("level like 'ERR'", LEVEL == "ERR"),
        ("event_time >= timestamp '2021-04-01 00:00:00'", seen >= APRIL),
        ("event_time < timestamp '2021-04-01'", seen < APRIL.date()),
        (
            "event_time < timestamptz '2021-04-01T10:00:00Z'",
            seen < APRIL.replace(hour=10, tzinfo=datetime.UTC),
        ),
        (
            "event_time < timestamp '2021-04-01 00:00:00.123456789'",
            seen < NanoTimestamp(datetime.datetime(2021, 4, 1, 0, 0, 0, 123456), 789),  # noqa: DTZ001
        ),
        ("opens = time '10:00:00'", col("opens") == datetime.time(10)),
        ("key = uuid '00000000-0000-0000-0000-000000000001'", col("key") == uuid.UUID(int=1)),
        ("day = date '2021-04-01'", col("day") == datetime.date(2021, 4, 1)),
        ("day = '2021-04-01'", col("day") == "2021-04-01"),
        ("date = '2021-04-01'", col("date") == "2021-04-01"),
        ("price = 1.50", col("price") == Decimal("1.50")),
        ("ratio < 1e-3", col("ratio") < 0.001),
        ("key = X'00ff'", col("key") == b"\x00\xff"),
        ("flag = true", col("flag") == True),  # noqa: E712
        ("true = flag", col("flag") == True),  # noqa: E712
        ("true", ALWAYS_TRUE),
        ("not true or false", ALWAYS_FALSE),
        ("`a b`.c is not nan", ~col("a b.c").is_nan()),
        ('"or" is nan', col("or").is_nan()),
        ("location.`lat``s` > 0", col("location.lat`s") > 0),
        ("and_more = 1", col("and_more") == 1),
    ],
)
def test_a_text_means_its_filter(text: str, expected: Expression) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a value at character 1 of the filter, found the end"),
        ("id", "expected a comparison at character 3"),
        ("id = ", "expected a value at character"),
        ("bucket(id) = 1", "expected the number of bucket at character 8 of the filter, found 'id'"),
        ("bucket(-4, id) = 1", "expected the number of bucket at character 8"),
        ("bucket(4 id) = 1", "expected , at character 10"),
        ("bucket(0, id) = 1", "its parameter must be > 0"),
        ("day(4, t) = 1", "expected a column at character 5"),
        ("day(t = 1", r"expected \) at character 7"),
        ("sin(x) = 1", "expected a comparison at character 4"),
        ("id = 1 id", "expected and, or, or the end at character 8"),
        ("id = null", "nothing equals null, at character 6"),
        ("id not 1", "expected in, between or like at character 8"),
        ("(id = 1", r"expected \) at character 8"),
        ("id in ()", "expected a value at character 8"),
        ("id is 1", "expected nan at character 7"),
        ("level like '%a'", "a pattern with one % at its end at character 12"),
        ("level like 'a_b%'", "a pattern with one % at its end"),
        ("level like 1", "expected a text after like"),
        ("day = date '2021-13-01'", "'2021-13-01' is no date, at character 7 of the filter: month must be in 1..12"),
        ("key = uuid 'x'", "'x' is no uuid, at character 7 of the filter"),
        ("at like date '2021-04-01'", "expected a text after like"),
        ("id = 'open", "cannot read the filter at character 6"),
        ("id = 1; drop", "cannot read the filter at character 7"),
        ("id = 1x", "cannot read the filter at character 6"),
        ("and = 1", "expected a value at character 1"),
        ("id = " + "9" * 200, "more than 100 characters"),
        ("(" * 300 + "id = 1" + ")" * 300, "nested more than 200 deep"),
        ("not " * 300 + "id = 1", "nested more than 200 deep"),
        ("id = 1" + " " * 100_000, "at most 100000 characters"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse(text)


@given(st.text("id=<>'\"`.()and or notin is null 12,Xx-e%_", max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse(text)
