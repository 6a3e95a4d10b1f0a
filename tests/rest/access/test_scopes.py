from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.rest.access.scopes import SCOPES_MAX, Caller, Level, Scope, bounded, checked_name, parse_scopes

NAMES = st.text("ab*", min_size=1, max_size=6)


@given(pattern=NAMES, name=st.text("ab", max_size=8))
def test_a_pattern_matches_as_a_regular_expression_would(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern.replace("*", ".*"), name) is not None
    assert Scope(Level.READ, pattern).covers(Level.READ, name) == expected


def test_a_pattern_of_many_stars_is_quick_on_a_long_name() -> None:
    assert not Scope(Level.READ, "*a" * 60 + "b").covers(Level.READ, "a" * 60_000)


def test_each_level_includes_the_lower_ones() -> None:
    held = {level: [Scope(level, "sales").covers(asked, "sales") for asked in Level] for level in Level}
    assert held == {
        Level.READ: [True, False, False],
        Level.WRITE: [True, True, False],
        Level.ADMIN: [True, True, True],
    }


def test_a_caller_may_what_one_of_its_scopes_permits() -> None:
    caller = Caller("etl", parse_scopes("write[sales] read[*]"))
    assert caller.may(Level.WRITE, "sales")
    assert caller.may(Level.READ, "hr")
    assert not caller.may(Level.WRITE, "hr")
    assert not Caller("etl", ()).may(Level.READ, "sales")


def test_tables_of_a_namespace_are_the_namespace() -> None:
    assert Scope(Level.READ, "Sales.*") == Scope(Level.READ, "sales")
    assert str(Scope(Level.WRITE, "sales.*")) == "write[sales]"


@pytest.mark.parametrize(
    ("pattern", "warehouse", "namespace", "covered"),
    [
        ("a", "default", "a", True),
        ("a", "sales", "a", False),
        ("*", "default", "a", True),
        ("*", "sales", "a", False),
        ("default/a", "default", "a", True),
        ("default/a", "sales", "a", False),
        ("sales/a", "sales", "a", True),
        ("sales/a", "default", "a", False),
        ("sales/a", "default", "sales/a", False),
        ("Sales/A*", "sales", "ab", True),
        ("s*/a", "sales", "a", True),
        ("s*/a", "default", "a", False),
        ("*/a", "default", "a", True),
        ("*/*", "sales", "anything", True),
        ("sales/*", "sales2", "a", False),
    ],
)
def test_a_pattern_without_a_warehouse_is_for_the_default_one(
    pattern: str, warehouse: str, namespace: str, covered: bool
) -> None:
    assert Scope(Level.READ, pattern).covers(Level.READ, namespace, warehouse) is covered


def test_a_scope_enters_the_warehouses_of_its_pattern() -> None:
    caller = Caller("etl", parse_scopes("write[sales/a] read[b]"))
    assert [caller.may_enter(name) for name in ("default", "sales", "lab")] == [True, True, False]
    assert Caller("etl", ()).may_enter("default")
    assert [f"{scope}" for scope in parse_scopes("write[sales/a default/b */*]")] == [
        "write[sales/a]",
        "write[b]",
        "write[*/*]",
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".",
        ".*",
        "/",
        "/a",
        "a/",
        "a/b/c",
        "default/a/b",
        "default/default/a",
        "a./b",
        "a" * 64 + "/b",
        "a.b",
        "a b",
        "a?",
        "[a]",
        "ä",
        "a\n",
        "a" * 129,
    ],
)
def test_a_pattern_that_can_match_no_namespace_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="pattern of namespaces"):
        Scope(Level.READ, pattern)


@pytest.mark.parametrize("text", ["", " ", "read", "read[]", "[a]", "read[a] x", "READ[a]", "read[a]]", "read[[a]]"])
def test_scopes_are_read_whole_or_not_at_all(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a"):
        parse_scopes(text)


def test_equal_scopes_count_once_and_too_many_are_refused() -> None:
    assert len(parse_scopes("read[a a] read[a]")) == 1
    with pytest.raises(InvalidInput, match="more than"):
        bounded(tuple(Scope(Level.READ, f"n{number}") for number in range(SCOPES_MAX + 1)))


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a\n", "ä", 'a"', "a" * 129])
def test_a_name_that_a_log_could_misread_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        checked_name(name)
