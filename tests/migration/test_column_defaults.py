"""Defaults as Spark stores them. The texts are those that Spark 4.1 wrote for ALTER TABLE ... ADD COLUMNS."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.types import INT, ListType, Type, parse_type
from iceberg_hms.migration.column_defaults import default_of, is_null

#: Those that have no text.
TYPES: dict[str, Type] = {"list<int>": ListType(1, False, INT)}
CARRIED: list[tuple[str, str, Any]] = [
    ("int", "42", 42), ("int", "-5", -5), ("int", "7Y", 7), ("int", "7S", 7), ("int", "CAST(NULL AS INT)", None),
    ("long", "CAST(7 AS BIGINT)", 7), ("long", "7L", 7), ("long", " 7 ", 7),
    ("float", "CAST('1.5' AS FLOAT)", 1.5), ("float", "1.5", 1.5), ("float", "1.5F", 1.5),
    ("double", "1.5D", 1.5), ("double", "1e-3", 0.001), ("double", "CAST(1 AS DOUBLE)", 1.0),
    ("boolean", "true", True), ("boolean", "FALSE", False),
    ("date", "DATE '2020-01-02'", "2020-01-02"), ("date", "DATE'2020-01-02'", "2020-01-02"),
    ("timestamp", "TIMESTAMP_NTZ '2020-01-02 03:04:05'", "2020-01-02T03:04:05"),
    ("string", "'a'", "a"), ("string", "''", ""), ("string", r"'it\'s \\ x'", r"it's \ x"),
    ("string", "'it''s'", "it's"),
    ("string", "'a\nb'", "a\nb"), ("binary", "X'00FF'", "00ff"), ("binary", "X''", ""),
    ("list<int>", "NULL", None), ("timestamptz", "null", None),
]  # fmt: skip
REFUSED = [
    ("int", "41 + 1"), ("int", "'7'"), ("int", "1.5"), ("int", "CAST(1.5 AS INT)"), ("int", "3000000000"), ("int", ""),
    ("double", "CAST(0.1 AS FLOAT)"), ("double", "CAST('NaN' AS DOUBLE)"), ("double", "double('NaN')"),
    ("decimal(9, 2)", "1.5"), ("decimal(9, 2)", "CAST(1.5BD AS DECIMAL(9,2))"),
    ("string", "concat('a', 'b')"), ("string", "'a' || 'b'"),
    ("string", r"'a\nb'"), ("string", '"a"'), ("date", "'2020-01-02'"), ("date", "DATE '2020-02-30'"),
    ("timestamptz", "TIMESTAMP '2020-01-02 03:04:05'"), ("timestamp", "TIMESTAMP '2020-01-02 03:04:05'"),
    ("timestamptz", "current_timestamp()"), ("list<int>", "ARRAY(1, 2)"), ("boolean", "1"), ("binary", "X'0'"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "text", "expected"), CARRIED)
def test_a_literal_becomes_a_default(of: str, text: str, expected: Any) -> None:
    found = default_of(text, TYPES.get(of) or parse_type(of), "c")
    assert found == expected
    assert type(found) is type(expected)
    assert is_null(text) is (expected is None)


@pytest.mark.parametrize(("of", "text"), REFUSED)
def test_what_is_no_literal_of_the_type_is_refused_with_the_column(of: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"Column c: CURRENT_DEFAULT .* is no literal of type") as caught:
        default_of(text, TYPES.get(of) or parse_type(of), "c")
    assert "SET DEFAULT" in caught.value.next_step
