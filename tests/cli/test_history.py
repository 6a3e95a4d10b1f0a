"""`iceberg-hms history`."""

from __future__ import annotations

import pytest

from iceberg_hms.cli.history import changes
from tests.cli.fakes import MemoryCatalog, answer, run
from tests.inspect import samples


def test_history_prints_the_oldest_snapshot_first() -> None:
    rows = answer("history", "logging.events")
    assert [row["snapshot_id"] for row in rows] == [7, 11, 22, 33, 22]
    assert rows[3] == {
        "made_current_at_ms": 1_617_280_000_003,
        "snapshot_id": samples.ROLLED_BACK,
        "parent_id": samples.SECOND,
        "is_current_ancestor": False,
        "operation": "append",
        "summary": {"operation": "append", "added-records": "9", "total-records": "not a number"},
    }


def test_the_limit_keeps_the_newest() -> None:
    assert [row["snapshot_id"] for row in answer("history", "logging.events", "-n", "2")] == [33, 22]
    assert len(answer("history", "logging.events", "--limit", "0")) == 5
    assert len(answer("history", "logging.events", "--limit", "99")) == 5


def test_the_table_marks_what_is_current_and_what_was_rolled_back() -> None:
    lines = run("history", "logging.events").stdout.splitlines()
    assert lines[0].strip() == "logging.events: history"
    rows = [line for line in lines if "2021-04-01" in line]
    assert "(expired)" in rows[0]
    assert "+3 rows, +2 files" in rows[1]
    assert "rolled back" in rows[3]
    assert rows[4].rstrip().endswith("current")
    assert "2021-04-01 12:26:40.004 UTC" in rows[4]


def test_an_empty_table_has_an_empty_history() -> None:
    empty = MemoryCatalog({samples.NAME: samples.metadata(**samples.EMPTY)})
    assert answer("history", "logging.events", catalog=empty) == []
    assert run("history", "logging.events", catalog=empty).exit_code == 0


def test_a_table_that_is_not_there_is_an_error() -> None:
    result = run("history", "logging.nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: Table does not exist: logging.nothing" in result.stderr


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        ({}, ""),
        ({"added-records": "3", "deleted-records": "1", "added-data-files": "1"}, "+3 -1 rows, +1 files"),
        ({"added-records": "0", "removed-delete-files": "2"}, "-2 delete files"),
    ],
)
def test_changes_are_counts_with_signs(summary: dict[str, str], text: str) -> None:
    assert changes(summary) == text
