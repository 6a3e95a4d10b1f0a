"""Fields of JSON objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read

REQUIRED: list[tuple[Callable[..., Any], Any, Any]] = [
    (read.require_str, "a", 1),
    (read.require_bool, False, 0),
    (read.require_int, -(2**31), 2**31),
    (read.require_int, 0, True),
    (read.require_int, 7, 7.0),
    (read.require_long, 2**63 - 1, 2**63),
    (read.require_long, 0, False),
    (read.require_list, [], {}),
    (read.require_int_list, [1], [1, "2"]),
    (read.require_long_list, [2**40], [None]),
    (read.require_str_map, {"a": "b"}, {"a": 1}),
    (read.require_str_map, {}, []),
]


@pytest.mark.parametrize(("function", "good", "bad"), REQUIRED)
def test_a_field_of_the_right_type_is_returned_and_any_other_is_named(
    function: Callable[..., Any], good: Any, bad: Any
) -> None:
    assert function({"field": good}, "field", "thing") == good
    with pytest.raises(InvalidInput, match="thing: field"):
        function({"field": bad}, "field", "thing")
    with pytest.raises(InvalidInput, match=r"thing: (required field is missing: field|field must be an object)"):
        function({}, "field", "thing")


@pytest.mark.parametrize("function", [read.optional_str, read.optional_int, read.optional_long])
def test_an_optional_field_may_be_absent_or_null_but_not_of_another_type(function: Callable[..., Any]) -> None:
    assert function({}, "field", "thing") is None
    assert function({"field": None}, "field", "thing") is None
    with pytest.raises(InvalidInput, match="thing: field"):
        function({"field": []}, "field", "thing")


def test_an_absent_list_is_empty() -> None:
    assert read.optional_list({"field": None}, "field", "thing") == []
    with pytest.raises(InvalidInput, match="thing: field must be a list"):
        read.optional_list({"field": {}}, "field", "thing")


def test_only_an_object_is_an_object() -> None:
    assert read.require_object({}, "thing") == {}
    with pytest.raises(InvalidInput, match="thing must be a JSON object, but is None"):
        read.require_object(None, "thing")


def test_a_long_value_is_cut_in_messages() -> None:
    with pytest.raises(InvalidInput) as caught:
        read.require_int({"field": "x" * 10_000}, "field", "thing")
    assert len(str(caught.value)) < 200
