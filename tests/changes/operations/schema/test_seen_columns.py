"""Columns by their names, and whether they are what the caller saw."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.schema.seen_columns import SEEN_COLUMN, SeenColumn, find_column, shown_path
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.schema.schema import Schema
from tests.changes.operations.columns import COLUMNS, column, list_of, struct

SCHEMA = Schema.parse(struct(*COLUMNS))


@pytest.mark.parametrize(
    ("path", "field_id"),
    [
        ("level", 2),
        (("level",), 2),
        (["place", "lat"], 6),
        ("place.lat", 6),
        ("points.x", 10),
        (("points", "x"), 10),
        (("points", "element", "x"), 10),
        (("scores", "v"), 16),
        (("scores", "key", "k"), 14),
        ("a.b", 19),
        (("a.b",), 19),
        (("a", "b"), None),
        ("none", None),
        (("level", "x"), None),
    ],
)
def test_a_path_finds_its_column(path: Any, field_id: int | None) -> None:
    found = find_column(SCHEMA, path)
    assert (None if found is None else found.id) == field_id


@pytest.mark.parametrize("path", [(), (1,), ("place", None)])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidInput, match="named by text"):
        find_column(SCHEMA, path)


def seen(path: Any, **options: Any) -> SeenColumn:
    field = find_column(SCHEMA, path)
    assert field is not None
    return SeenColumn(path, field, **options)


def now(**changes: dict[str, Any] | None) -> Schema:
    fields = {field["name"]: field for field in COLUMNS} | changes
    return Schema.parse(struct(*(field for field in fields.values() if field is not None)))


@pytest.mark.parametrize(
    ("path", "schema", "what"),
    [
        ("level", now(level=None), "column level was dropped"),
        ("level", now(level=column(30, "level", "string")), r"dropped, and another column .* \(field id 30\)"),
        ("level", now(level=column(2, "lvl", "string")), "column level was renamed to lvl"),
        ("level", now(level=column(2, "day"), day=column(3, "level")), "column level was renamed to day"),
        (
            ("place", "lat"),
            now(place=column(5, "spot", struct(column(6, "lat", "float")))),
            "column place.lat was renamed to spot.lat",
        ),
        ("tags.element", now(tags=column(17, "tags", list_of(18, "long"))), "tags.element was int and is long now"),
    ],
)
def test_a_column_that_is_no_longer_the_same_is_named(path: Any, schema: Schema, what: str) -> None:
    with pytest.raises(RequirementFailed, match=what) as refused:
        seen(path).check(schema)
    assert refused.value.name == SEEN_COLUMN


def test_what_is_nested_counts_only_for_the_whole() -> None:
    grown = now(place=column(5, "place", struct(column(6, "lat", "double"), column(30, "alt"))))
    seen("place").check(grown)
    with pytest.raises(RequirementFailed, match=r"column place has new fields: place\.alt"):
        seen("place", whole=True).check(grown)
    smaller = now(place=column(5, "place", struct(column(6, "lat", "double"))))
    seen("place", whole=True).check(smaller)


def test_a_type_may_change_where_any_will_do() -> None:
    seen("tags.element", any_type=True).check(now(tags=column(17, "tags", list_of(18, "long"))))


def test_a_column_of_an_earlier_step_is_known_by_name_alone() -> None:
    mine = SeenColumn("level", column_of_id(40), last_id=19)
    mine.check(SCHEMA)
    with pytest.raises(RequirementFailed, match="level was dropped"):
        mine.check(now(level=None))
    with pytest.raises(RequirementFailed, match="level was dropped"):
        SeenColumn("level", column_of_id(40), last_id=40).check(SCHEMA)


def column_of_id(field_id: int) -> Any:
    return Schema.parse(struct(column(field_id, "level", "string"))).fields[0]


def test_paths_are_shown_as_text() -> None:
    assert (shown_path("a.b"), shown_path(("a", "b"))) == ("a.b", "a.b")
