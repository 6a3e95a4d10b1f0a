from __future__ import annotations

import pytest

from iceberg_hms.errors import (
    CorruptFile,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
    StorageRefused,
)
from iceberg_hms.migration.problems import Problems, may_pass
from iceberg_hms.migration.work import PROBLEMS_MAX, Problem


def test_all_are_counted_and_the_first_ones_named() -> None:
    problems = Problems()
    for number in range(PROBLEMS_MAX + 3):
        problems.add("month=1", f"file:/t/{number}", InvalidInput("it is red", next_step="paint it"))
    assert problems.count == PROBLEMS_MAX + 3
    assert problems.named[0] == Problem("month=1", "file:/t/0", "it is red", "paint it")
    assert [each.location for each in problems.named] == [f"file:/t/{number}" for number in range(PROBLEMS_MAX)]


def test_reasons_are_no_longer_than_people_read() -> None:
    problems = Problems()
    problems.add("", "/t", InvalidInput("x" * 1_000_000))
    assert len(problems.named[0].reason) < 2_000
    assert problems.named[0].reason.endswith("x...")


@pytest.mark.parametrize(
    ("location", "error", "passes"),
    [
        ("s3://b/x", StorageError("no answer"), True),
        ("s3://b/x", StorageRefused("no permission"), False),
        ("s3://b/x", CorruptFile("s3://b/x", "half a footer"), False),
        ("s3://b/x", MissingFile("s3://b/x"), False),
        ("s3://b/x", ResourceExhausted("no memory"), True),
        ("file:/t/x", StorageError("Permission denied"), False),
        ("file:/t/x", ResourceExhausted("too many open files"), True),
        ("no/location", InvalidInput("not absolute"), False),
    ],
)
def test_a_store_that_does_not_answer_says_nothing_of_a_file(
    location: str, error: IcebergHmsError, passes: bool
) -> None:
    assert may_pass(location, error) == passes
