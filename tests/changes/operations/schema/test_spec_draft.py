"""The steps of an update of a partition spec, one by one and against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from iceberg_hms.changes.operations.schema.spec_draft import SpecDraft
from iceberg_hms.changes.operations.schema.update_spec import to_transform
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.changes.operations.columns import wide_table

Field = tuple[int, str, str]
LEVEL: Field = (2, "identity", "level")
DAY: Field = (3, "month", "day_month")


def spec_of(fields: Sequence[Field], spec_id: int = 0, first: int = 1000) -> dict[str, Any]:
    made = [
        {"source-id": source, "field-id": first + at, "transform": transform, "name": name}
        for at, (source, transform, name) in enumerate(fields)
    ]
    return {"spec-id": spec_id, "fields": made}


def partitioned(*fields: Field, version: int = 2, older: Sequence[dict[str, Any]] = ()) -> TableMetadata:
    default = spec_of(fields, spec_id=len(older))
    ids = [field["field-id"] for spec in (*older, default) for field in spec["fields"]]
    spec = {"partition_spec": default["fields"]} if version == 1 else {}
    return wide_table(
        version,
        partition_specs=[*older, default],
        default_spec_id=len(older),
        last_partition_id=max(ids, default=999),
        **spec,
    )


def add(draft: SpecDraft, source: Any, transform: str, name: str | None = None) -> None:
    draft.add_field(source, to_transform(transform), name)


def made(draft: SpecDraft) -> list[tuple[Any, ...]]:
    return [(raw.get("field-id"), raw["source-id"], raw["transform"], raw["name"]) for raw in draft.finish()["fields"]]


@pytest.mark.parametrize(
    ("source", "transform", "name"),
    [
        ("level", "identity", "level"),
        ("id", "bucket(16)", "id_bucket_16"),
        ("level", "truncate[4]", "level_trunc_4"),
        ("day", "years", "day_year"),
        ("day", "month", "day_month"),
        ("place.lat", "identity", "place.lat"),
        (("a.b",), "bucket[4]", "a.b_bucket_4"),
    ],
)
def test_new_fields_get_the_names_of_java(source: Any, transform: str, name: str) -> None:
    draft = SpecDraft(partitioned())
    add(draft, source, transform)
    assert made(draft)[0][3] == name


def test_a_removed_field_is_gone_in_version_two_and_void_in_version_one() -> None:
    draft = SpecDraft(partitioned(LEVEL, DAY))
    draft.remove_field("level")
    assert made(draft) == [(1001, 3, "month", "day_month")]
    draft = SpecDraft(partitioned(LEVEL, DAY, version=1))
    draft.remove_transform("level", to_transform("identity"))
    add(draft, "id", "bucket[4]")
    assert made(draft) == [
        (1000, 2, "void", "level"),
        (1001, 3, "month", "day_month"),
        (None, 1, "bucket[4]", "id_bucket_4"),
    ]


def test_a_field_that_was_removed_and_added_comes_back() -> None:
    draft = SpecDraft(partitioned(LEVEL))
    draft.remove_field("level")
    add(draft, "level", "identity")
    assert made(draft) == [(1000, 2, "identity", "level")]
    draft.remove_field("level")
    add(draft, "level", "identity", "lvl")
    assert made(draft) == [(1000, 2, "identity", "lvl")]


def test_a_renamed_field_keeps_its_id() -> None:
    draft = SpecDraft(partitioned(LEVEL))
    draft.rename_field("level", "lvl")
    assert made(draft) == [(1000, 2, "identity", "lvl")]


def test_void_and_removed_fields_leave_their_names() -> None:
    draft = SpecDraft(partitioned((2, "void", "level")))
    add(draft, "level", "identity")
    assert made(draft) == [(1000, 2, "void", "level_1000"), (None, 2, "identity", "level")]
    draft = SpecDraft(partitioned((3, "month", "when"), version=1))
    draft.remove_field("when")
    add(draft, "day", "day", "when")
    assert made(draft) == [(1000, 3, "void", "when_1000"), (None, 3, "day", "when")]
    draft = SpecDraft(partitioned((2, "void", "free"), DAY))
    draft.rename_field("day_month", "free")
    assert made(draft) == [(1000, 2, "void", "free_1000"), (1001, 3, "month", "free")]


def test_an_equal_field_of_an_older_spec_gives_its_name() -> None:
    older = spec_of([(3, "month", "by_month")])
    draft = SpecDraft(partitioned(LEVEL, older=[older]))
    add(draft, "day", "month")
    assert made(draft)[1] == (None, 3, "month", "by_month")


def test_case_is_ignored_on_demand() -> None:
    draft = SpecDraft(partitioned(), case_sensitive=False)
    add(draft, "LEVEL", "identity")
    assert made(draft)[0][3] == "level"


Steps = Callable[[SpecDraft], Any]
REFUSED: list[tuple[Steps, str]] = [
    (lambda d: add(d, "none", "identity"), "Cannot find source column of a partition field: none"),
    (lambda d: add(d, "level", "day"), "Cannot partition by day of column level: Invalid source type string"),
    (lambda d: add(d, "place", "identity"), "Cannot partition by non-primitive source field"),
    (lambda d: add(d, "points.x", "identity"), "Invalid partition field parent"),
    (lambda d: add(d, "level", "identity"), r"duplicate partition field identity\(level\), conflicts with 1000"),
    (lambda d: (add(d, "id", "bucket[4]"), add(d, "id", "bucket[4]", "b")), "already added: 0: id_bucket_4"),
    (lambda d: (add(d, "id", "bucket[4]", "b"), add(d, "price", "bucket[4]", "b")), "duplicate partition field: b"),
    (lambda d: (add(d, "price", "identity", "b"), add(d, "id", "identity", "b")), "duplicate partition field: b"),
    (lambda d: add(d, "id", "bucket[4]", "level"), "duplicate partition field name: level"),
    (lambda d: (add(d, "day", "day"), add(d, "day", "year")), "redundant partition field: day_day conflicts"),
    (lambda d: d.remove_field("none"), r"field to remove: none \(the spec has: level, day_month\)"),
    (lambda d: d.remove_transform("id", to_transform("identity")), r"field to remove: identity\(id\)"),
    (lambda d: (add(d, "id", "identity"), d.remove_field("id")), "Cannot delete newly added field: id"),
    (
        lambda d: (add(d, "id", "identity"), d.remove_transform("id", to_transform("identity"))),
        "Cannot delete newly added field: id",
    ),
    (lambda d: (d.rename_field("level", "l"), d.remove_field("level")), "Cannot rename and delete .*: level"),
    (lambda d: (d.remove_field("level"), d.rename_field("level", "l")), "Cannot delete and rename .*: level"),
    (lambda d: d.rename_field("none", "l"), "field to rename: none"),
    (lambda d: (add(d, "id", "identity"), d.rename_field("id", "l")), "Cannot rename newly added"),
]


@pytest.mark.parametrize(("steps", "why"), REFUSED)
def test_what_is_refused_names_the_field(steps: Steps, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        steps(SpecDraft(partitioned(LEVEL, DAY)))


def test_a_spec_with_an_unknown_transform_is_left_alone() -> None:
    with pytest.raises(InvalidInput, match="Cannot update partition spec with unknown transform: 1000: z: zorder"):
        SpecDraft(partitioned((1, "zorder", "z")))
