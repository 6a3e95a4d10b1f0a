"""Filters never miss a file, for any number of keys, and almost never match another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.format.locations import file_key
from iceberg_hms.storage.file_filters import candidates, file_filter, size_of

NAMES = st.integers(0, 40).map(lambda number: f"file:/d/{number}.parquet")


@given(st.lists(st.lists(NAMES)), st.sets(NAMES))
def test_exactly_the_manifests_with_one_of_the_files_match(manifests: list[list[str]], wanted: set[str]) -> None:
    filters = [file_filter(each) for each in manifests]
    found = candidates(filters, {file_key(each) for each in wanted})
    assert found == [at for at, each in enumerate(manifests) if wanted.intersection(each)]


@pytest.mark.parametrize("asked", [1, 8, 9, 200])
def test_files_are_found_for_any_number_of_keys(asked: int) -> None:
    filters = [file_filter([f"file:/d/{manifest}-{at}.parquet" for at in range(50)]) for manifest in range(20)]
    others = [f"file:///none/{at}" for at in range(asked - 1)]
    for manifest in (0, 7, 19):
        assert candidates(filters, [*others, f"file:///d/{manifest}-49.parquet"]) == [manifest]
    assert candidates(filters, [*others, "file:///none/x"]) == []


def test_all_spellings_of_one_file_are_equal() -> None:
    filters = [file_filter(["file:/d/a"]), file_filter(["/d//a"]), file_filter(["s3a://d/a"])]
    assert candidates(filters, [file_key("file:///d/a")]) == [0, 1]
    assert candidates(filters, [file_key("s3n://d/a")]) == [2]


def test_a_filter_takes_eight_bytes_for_each_file() -> None:
    one, two = (size_of("file:/w/m0.avro", file_filter(["file:/d/a"] * count)) for count in (1, 2))
    assert two - one == 8
    assert one > 400
