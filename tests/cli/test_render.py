"""The parts of `inspect` as tables."""

from __future__ import annotations

import pytest

from iceberg_hms.cli import render
from iceberg_hms.cli.inspect import Part


def test_every_part_has_its_tables() -> None:
    assert set(render.BLOCKS) == {part.value for part in Part}


def test_long_values_are_cut_with_a_word_on_where_the_rest_is() -> None:
    exact = "x" * render.LONGEST_VALUE
    assert render.shorten(exact) == exact
    cut = render.shorten(exact + "x")
    assert cut.endswith(f"({render.LONGEST_VALUE + 1} characters; --json shows all)")
    assert len(cut) <= render.LONGEST_VALUE + 10


@pytest.mark.parametrize(
    ("path", "location", "shown"),
    [
        ("file:/t/data/a", "file:/t", "data/a"),
        ("file:/t/data/a", "file:/t/", "data/a"),
        ("file:/t2/a", "file:/t", "file:/t2/a"),
        ("s3://b/a", "file:/t", "s3://b/a"),
    ],
)
def test_a_path_is_shown_relative_to_the_table_only_if_it_is_in_it(path: str, location: str, shown: str) -> None:
    assert render.relative(path, location) == shown


def partition(**values: object) -> dict[str, object]:
    return {"field": "f", "lower": None, "upper": None, "contains_null": False, "contains_nan": None} | values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (partition(), "f: no values"),
        (partition(contains_null=True), "f: no values and null"),
        (partition(lower="a", upper="a"), "f: a"),
        (partition(lower="a", upper="b", contains_nan=True), "f: a .. b and NaN"),
    ],
)
def test_a_partition_range_is_one_line(values: dict[str, object], text: str) -> None:
    assert render.partition_text(values) == text
