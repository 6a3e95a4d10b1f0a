"""Files packed into groups as Java packs them. The groups below follow from TableScanUtil, BinPacking and the iterators
of splits in Iceberg 1.11, by hand; integration/test_splits_java.py asks Java itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import ALWAYS_TRUE
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.planning.splits import ScanFile, ScanTaskGroup, pack


def file(name: str, size: int, **fields: Any) -> ScanFile:
    known: dict[str, Any] = {
        "path": name,
        "format": "PARQUET",
        "rows": 100,
        "size": size,
        "spec_id": 0,
        "partition": {},
        "sequence_number": 1,
        "first_row_id": None,
        "split_offsets": None,
        "deletes": (),
        "residual": ALWAYS_TRUE,
    }
    return ScanFile(**known | fields)


def position_deletes(size: int) -> DataFile:
    return DataFile("d", "PARQUET", 1, size, content=FileContent.POSITION_DELETES)


def vector(size: int) -> DataFile:
    return DataFile("v", "PUFFIN", 1, 10_000, content=FileContent.POSITION_DELETES, content_size_in_bytes=size)


def told(groups: list[ScanTaskGroup]) -> list[list[tuple[str, int, int]]]:
    return [[(task.file.path, task.start, task.length) for task in group.tasks] for group in groups]


def packed(*files: ScanFile, split: int = 100, lookback: int = 10, cost: int = 1) -> list[list[tuple[str, int, int]]]:
    return told(list(pack(files, split, lookback, cost)))


def test_no_files_no_groups() -> None:
    assert packed() == []


def test_small_files_share_a_group_until_it_is_full() -> None:
    # 40 + 60 is the size itself; 1 more is a second group, which 40 fits as well.
    assert packed(file("a", 40), file("b", 60), file("c", 1), file("d", 40)) == [
        [("a", 0, 40), ("b", 0, 60)],
        [("c", 0, 1), ("d", 0, 40)],
    ]


def test_the_first_group_with_room_is_taken() -> None:
    assert packed(file("a", 90), file("b", 80), file("c", 20), file("d", 10)) == [
        [("a", 0, 90), ("d", 0, 10)],
        [("b", 0, 80), ("c", 0, 20)],
    ]


def test_beyond_the_lookback_the_largest_group_is_done_the_first_of_those_as_large() -> None:
    # Bins after c: 60, 70, 70; b is the first of the largest. e finds 60 and 70 only.
    assert packed(file("a", 60), file("b", 70), file("c", 70), file("d", 40), file("e", 31), lookback=2) == [
        [("b", 0, 70)],
        [("a", 0, 60), ("d", 0, 40)],
        [("c", 0, 70)],
        [("e", 0, 31)],
    ]


def test_a_group_that_is_full_still_counts_for_the_lookback() -> None:
    assert packed(file("a", 100), file("b", 100), file("c", 30), file("d", 80), lookback=1) == [
        [("a", 0, 100)],
        [("b", 0, 100)],
        [("d", 0, 80)],
        [("c", 0, 30)],
    ]


def test_the_open_cost_is_what_a_file_counts_at_least() -> None:
    assert packed(file("a", 1), file("b", 2), file("c", 3), cost=40) == [[("a", 0, 1), ("b", 0, 2)], [("c", 0, 3)]]


def test_deletes_count_with_their_size_and_their_open_cost() -> None:
    # 10 + 20 + 30 = 60 and 41; then 3 files to open of 30 each: 90.
    heavy = file("a", 10, deletes=(position_deletes(20), position_deletes(30)))
    assert packed(heavy, file("b", 41), file("c", 40)) == [[("a", 0, 10), ("c", 0, 40)], [("b", 0, 41)]]
    assert packed(heavy, file("b", 11), cost=30) == [[("a", 0, 10)], [("b", 0, 11)]]


def test_a_deletion_vector_counts_with_its_own_size_not_that_of_its_file() -> None:
    assert packed(file("a", 40, deletes=(vector(20),)), file("b", 40)) == [[("a", 0, 40), ("b", 0, 40)]]
    assert packed(file("a", 40, deletes=(vector(21),)), file("b", 40)) == [[("a", 0, 40)], [("b", 0, 40)]]


def test_each_part_of_a_file_counts_all_of_its_deletes() -> None:
    # Parts of 100 and 50, with 60 of deletes each: neither fits beside the other.
    assert packed(file("a", 150, deletes=(position_deletes(60),))) == [[("a", 0, 100)], [("a", 100, 50)]]


def test_a_large_file_is_cut_into_the_size_of_a_group() -> None:
    assert packed(file("a", 250), file("b", 50)) == [[("a", 0, 100)], [("a", 100, 100)], [("a", 200, 50), ("b", 0, 50)]]


def test_a_file_is_cut_at_its_offsets_and_neighbours_in_a_group_are_one_part() -> None:
    # Parts 4-34, 34-64, 64-94, 94-150: the first three fit together (90). What is before the first offset is in none.
    assert packed(file("a", 150, split_offsets=[4, 34, 64, 94])) == [[("a", 4, 90)], [("a", 94, 56)]]


def test_parts_that_are_no_neighbours_stay_two() -> None:
    # Bins: 60 (a, then c's last part of 40), 70 (first part of c).
    parts = packed(file("a", 150, split_offsets=[0, 60, 130]))
    assert parts == [[("a", 0, 60), ("a", 130, 20)], [("a", 60, 70)]]


def test_parts_of_two_files_stay_two() -> None:
    assert packed(file("a", 60), file("b", 100, split_offsets=[60])) == [[("a", 0, 60), ("b", 60, 40)]]


def test_a_part_that_is_larger_than_a_group_is_one_of_its_own() -> None:
    assert packed(file("a", 300, split_offsets=[0, 250]), file("b", 60)) == [
        [("a", 0, 250)],
        [("a", 250, 50)],
        [("b", 0, 60)],
    ]


@pytest.mark.parametrize("offsets", [[], [0, 150], [0, 90, 200], [4, 4], [50, 4, 90]])
def test_offsets_that_cannot_be_are_not_used(offsets: list[int]) -> None:
    assert packed(file("a", 150, split_offsets=offsets)) == [[("a", 0, 100)], [("a", 100, 50)]]


@pytest.mark.parametrize("format_", ["parquet", "ORC", "avro"])
def test_formats_that_can_be_split(format_: str) -> None:
    assert len(packed(file("a", 150, format=format_))) == 2


def test_another_format_is_one_part_whatever_its_size_and_is_not_merged() -> None:
    assert packed(file("a", 150, format="PUFFIN", split_offsets=[0, 50])) == [[("a", 0, 150)]]


def test_a_file_without_bytes_has_no_part() -> None:
    assert packed(file("a", 0), file("b", 0, split_offsets=[0])) == []


def test_what_tasks_and_groups_count() -> None:
    (group,) = pack([file("a", 60, rows=30, deletes=(position_deletes(7),)), file("b", 20)], 100, 10, 0)
    assert [task.size_bytes for task in group.tasks] == [67, 20]
    assert (group.size_bytes, group.files_count, group.estimated_rows) == (87, 3, 130)
    first, second = pack([file("a", 204, split_offsets=[4, 154])], 100, 10, 0)
    assert [each.estimated_rows for each in (first, second)] == [75, 25]


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_numbers_that_cannot_be_are_refused_at_once(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        pack([], *numbers)


SIZES = st.lists(st.integers(0, 400), max_size=30)


@given(SIZES, st.integers(1, 150), st.integers(1, 5), st.integers(0, 50))
def test_every_byte_is_in_one_group(sizes: list[int], split: int, lookback: int, cost: int) -> None:
    files = [file(str(at), size) for at, size in enumerate(sizes)]
    found = [part for group in packed(*files, split=split, lookback=lookback, cost=cost) for part in group]
    for each in files:
        at = 0
        for _, start, length in sorted(part for part in found if part[0] == each.path):
            assert start == at
            at += length
        assert at == each.size
