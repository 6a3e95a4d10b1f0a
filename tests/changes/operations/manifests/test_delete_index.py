"""Which delete files apply to a data file."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN, DeleteIndex, referenced_data_file
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from tests.changes.operations.stored_tables import (
    data_file,
    deletion_vector,
    equality_deletes,
    long_bound,
    name_of,
    position_deletes,
)
from tests.changes.tables import BY_LEVEL, UNPARTITIONED, table

BASE = table(3, spec=BY_LEVEL, partition_specs=[BY_LEVEL, {**UNPARTITIONED, "spec-id": 1}])


def applying(*deletes: DataFile, to: DataFile, at: int = 5, number: int = 5) -> list[str]:
    """The names of delete files of sequence number `number` that apply to a data file of number `at`."""
    entries = [ManifestEntry(EntryStatus.ADDED, each, 1, number, number) for each in deletes]
    return [name_of(each.data_file) for each in DeleteIndex(entries, BASE).applying_to(to, at)]


def test_position_deletes_apply_to_files_of_their_partition_that_are_as_old() -> None:
    deletes, to = position_deletes("p", "info"), data_file("a", "info")
    assert [applying(deletes, to=to, at=at) for at in (4, 5, 6)] == [["p"], ["p"], []]
    assert applying(deletes, to=data_file("a", "warn")) == []


def test_equality_deletes_apply_only_to_older_files() -> None:
    deletes, to = equality_deletes("e", "info"), data_file("a", "info")
    assert [applying(deletes, to=to, at=at) for at in (4, 5, 6)] == [["e"], [], []]
    assert applying(deletes, to=data_file("a", "warn"), at=4) == []


def test_equality_deletes_without_a_partition_apply_everywhere() -> None:
    deletes = equality_deletes("e", spec_id=1)
    assert applying(deletes, to=data_file("a", "warn"), at=4) == ["e"]
    assert applying(position_deletes("p", spec_id=1), to=data_file("a", "warn")) == []


@pytest.mark.parametrize(
    "deletes",
    [
        deletion_vector("a", "info"),
        position_deletes("p", "info", referenced_data_file="file:/data/a.parquet"),
        position_deletes(
            "p",
            "info",
            lower_bounds={PATH_COLUMN: b"file:///data/a.parquet"},
            upper_bounds={PATH_COLUMN: b"file:///data/a.parquet"},
        ),
    ],
    ids=["deletion vector", "field", "bounds"],
)
def test_deletes_of_one_data_file_apply_to_that_alone(deletes: DataFile) -> None:
    assert len(applying(deletes, to=data_file("a", "info"))) == 1
    assert applying(deletes, to=data_file("b", "info")) == []


OF_A = "file:/data/a.parquet"
PATH = {PATH_COLUMN: OF_A.encode()}
#: Each kind of delete file that may apply beside a deletion vector of the data file a, and whether it does.
BESIDE = {
    "position deletes of the partition": (position_deletes("o", "info"), False),
    "position deletes between bounds": (
        position_deletes(
            "o", "info", lower_bounds={PATH_COLUMN: b"file:/data/"}, upper_bounds={PATH_COLUMN: b"file:/data/z"}
        ),
        False,
    ),
    "position deletes that reference it": (position_deletes("o", "info", referenced_data_file=OF_A), False),
    "position deletes with its path as bounds": (
        position_deletes("o", "info", lower_bounds=PATH, upper_bounds=PATH),
        False,
    ),
    "position deletes in ORC": (replace(position_deletes("o", "info"), file_format="ORC"), False),
    "equality deletes of the partition": (equality_deletes("o", "info"), True),
    "equality deletes of the table": (equality_deletes("o", spec_id=1), True),
}
#: Beside a vector of number 5: older, as old, newer.
NUMBERS = [4, 5, 6]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("vector_first", [True, False])
def test_no_position_deletes_apply_beside_a_deletion_vector(kind: str, number: int, vector_first: bool) -> None:
    other, applies = BESIDE[kind]
    found = [(deletion_vector("a", "info"), 5), (other, number)]
    entries = [ManifestEntry(EntryStatus.ADDED, file, 1, at, at) for file, at in found]
    index = DeleteIndex(entries if vector_first else reversed(entries), BASE)
    names = [name_of(each.data_file) for each in index.applying_to(data_file("a", "info"), 3)]
    assert ("o" in names) is applies
    assert len(names) == 1 + applies
    # Of another file of the partition nothing is superseded.
    beside = [name_of(each.data_file) for each in index.applying_to(data_file("b", "info"), 3)]
    alone = [name_of(each.data_file) for each in DeleteIndex(entries[1:], BASE).applying_to(data_file("b", "info"), 3)]
    assert beside == alone


@pytest.mark.parametrize("kind", BESIDE)
def test_a_deletion_vector_of_an_older_file_of_the_path_supersedes_nothing(kind: str) -> None:
    """The file was added again after the vector."""
    other, _ = BESIDE[kind]
    found = [(deletion_vector("a", "info"), 5), (other, 8)]
    entries = [ManifestEntry(EntryStatus.ADDED, file, 1, at, at) for file, at in found]
    assert [name_of(each.data_file) for each in DeleteIndex(entries, BASE).applying_to(data_file("a", "info"), 6)] == [
        "o"
    ]


def test_deletes_of_several_data_files_reference_none() -> None:
    several = position_deletes("p", lower_bounds={PATH_COLUMN: b"/a"}, upper_bounds={PATH_COLUMN: b"/b"})
    assert referenced_data_file(several) is None
    assert referenced_data_file(equality_deletes("e", referenced_data_file="file:/data/a.parquet")) is None


@pytest.mark.parametrize(
    ("lowest", "highest", "is_named"),
    [
        ("a", "b.parquet", True),
        ("b.parquet", "c", True),
        ("b.parqueu", "c", False),
        ("a", "b", False),
        (None, "a", True),
        ("c", None, True),
        (None, None, True),
    ],
)
def test_bounds_of_paths_rule_out_data_files(lowest: str | None, highest: str | None, is_named: bool) -> None:
    lower, upper = (
        None if name is None else {PATH_COLUMN: f"file:/data/{name}".encode()} for name in (lowest, highest)
    )
    deletes = position_deletes("p", "info", lower_bounds=lower, upper_bounds=upper)
    assert bool(applying(deletes, to=data_file("b", "info"))) == is_named


def of_ids(low: int, high: int, nulls: int = 0, values: int = 10) -> dict[str, Any]:
    return {
        "lower_bounds": {1: long_bound(low)},
        "upper_bounds": {1: long_bound(high)},
        "value_counts": {1: values},
        "null_value_counts": {1: nulls},
        "nan_value_counts": {1: 0},
    }


ALL_NULL: dict[str, Any] = {"value_counts": {1: 10}, "null_value_counts": {1: 10}}


@pytest.mark.parametrize(
    ("deleted", "rows", "may_equal"),
    [
        (of_ids(1, 5), of_ids(5, 9), True),
        (of_ids(1, 5), of_ids(6, 9), False),
        (of_ids(6, 9), of_ids(1, 5), False),
        (of_ids(1, 5, nulls=1), of_ids(6, 9, nulls=1), True),
        (of_ids(1, 5, nulls=1), of_ids(6, 9), False),
        (ALL_NULL, of_ids(6, 9), False),
        (of_ids(1, 5), ALL_NULL, False),
        (ALL_NULL, ALL_NULL, True),
        ({}, of_ids(1, 5), True),
        (of_ids(1, 5), {}, True),
        (of_ids(1, 5) | {"lower_bounds": {1: b"abc"}}, of_ids(6, 9), True),
    ],
)
def test_bounds_and_null_counts_rule_out_data_files(
    deleted: dict[str, Any], rows: dict[str, Any], *, may_equal: bool
) -> None:
    found = applying(equality_deletes("e", "info", **deleted), to=data_file("a", "info", **rows), at=4)
    assert bool(found) is may_equal


def test_a_column_that_the_table_lacks_rules_out_nothing() -> None:
    deletes = equality_deletes("e", "info", equality_ids=(99,), **of_ids(1, 5))
    assert applying(deletes, to=data_file("a", "info", **of_ids(6, 9)), at=4) == ["e"]


def test_the_bounds_of_uuids_rule_out_no_data_file() -> None:
    """Java orders them as signed numbers: what begins with f comes before what begins with 0."""
    fields = [{"id": 1, "name": "key", "required": False, "type": "uuid"}]
    base = table(3, schemas=[{"type": "struct", "schema-id": 0, "fields": fields}])

    def of_keys(lower: str, upper: str) -> dict[str, Any]:
        bounds = {"lower_bounds": {1: UUID(lower * 32).bytes}, "upper_bounds": {1: UUID(upper * 32).bytes}}
        return bounds | {"value_counts": {1: 10}, "null_value_counts": {1: 0}, "nan_value_counts": {1: 0}}

    entry = ManifestEntry(EntryStatus.ADDED, equality_deletes("e", **of_keys("f", "0")), 1, 5, 5)
    assert list(DeleteIndex([entry], base).applying_to(data_file("a", **of_keys("0", "0")), 4)) == [entry]


EQUALITY_IDS = st.sampled_from([(1,), (1, 2), (2, 1), (99,), (2,)])
PATHS = [f"file:/data/{name}.parquet" for name in "abcd"]
#: What a file says of its ids: nothing, bounds that may be damaged, that all are null or some.
METRICS = st.one_of(
    st.just({}),
    st.just(ALL_NULL),
    st.builds(of_ids, st.integers(0, 9), st.integers(0, 9), nulls=st.sampled_from([0, 0, 1])),
    st.builds(lambda low: of_ids(low, 9) | {"lower_bounds": {1: b"abc"}}, st.integers(0, 9)),
)
DELETES = st.one_of(
    st.builds(lambda metrics, ids: equality_deletes("e", "info", equality_ids=ids, **metrics), METRICS, EQUALITY_IDS),
    st.builds(lambda metrics: equality_deletes("e", spec_id=1, **metrics), METRICS),
    st.builds(
        lambda lower, upper: position_deletes(
            "p", "info", lower_bounds={PATH_COLUMN: lower.encode()}, upper_bounds={PATH_COLUMN: upper.encode()}
        ),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
    ),
    st.just(position_deletes("p", "info")),
)


@given(st.lists(st.tuples(DELETES, st.integers(3, 6)), max_size=12), st.sampled_from("abcd"), METRICS)
def test_many_delete_files_apply_as_each_does_alone(
    deletes: list[tuple[DataFile, int]], name: str, metrics: dict[str, Any]
) -> None:
    entries = [ManifestEntry(EntryStatus.ADDED, each, 1, number, number) for each, number in deletes]
    to = data_file(name, "info", **metrics)
    alone = [entry for entry in entries if list(DeleteIndex([entry], BASE).applying_to(to, 4))]
    found = list(DeleteIndex(entries, BASE).applying_to(to, 4))
    assert sorted(map(id, found)) == sorted(map(id, alone))


@pytest.mark.parametrize(("kind", "can_be_nan"), [("double", True), ("float", True), ("long", False)])
def test_nan_equals_nan(kind: str, *, can_be_nan: bool) -> None:
    fields = [{"id": 1, "name": "key", "required": False, "type": kind}]
    base = table(3, schemas=[{"type": "struct", "schema-id": 0, "fields": fields}])
    form = {"double": "<d", "float": "<f", "long": "<q"}[kind]

    def of_keys(value: int, nans: int | None) -> dict[str, Any]:
        bounds = {name: {1: struct.pack(form, value)} for name in ("lower_bounds", "upper_bounds")}
        counts = {} if nans is None else {1: nans}
        return {**bounds, "value_counts": {1: 10}, "null_value_counts": {1: 0}, "nan_value_counts": counts}

    for deleted, rows in product((0, 1, None), repeat=2):
        entry = ManifestEntry(EntryStatus.ADDED, equality_deletes("e", **of_keys(1, deleted)), 1, 5, 5)
        found = list(DeleteIndex([entry], base).applying_to(data_file("a", **of_keys(2, rows)), 4))
        assert bool(found) is (can_be_nan and deleted != 0 and rows != 0)


def test_an_index_of_nothing_is_false() -> None:
    assert not DeleteIndex([], BASE)
    assert DeleteIndex([ManifestEntry(EntryStatus.ADDED, equality_deletes("e", spec_id=1), 1, 1, 1)], BASE)
