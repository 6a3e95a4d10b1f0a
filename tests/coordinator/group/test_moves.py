"""Who has a folder is asked before a group has its lock, never under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.group.commit_group import GroupResult
from iceberg_hms.coordinator.group.moves import Moves
from iceberg_hms.coordinator.locations.folder_overlaps import SEARCH_SECONDS
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, InvalidInput, MetastoreUnavailable
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer
from tests.coordinator.harness import NAME, Harness, append


def move(location: str, *requirements: dict[str, Any]) -> Any:
    return from_request(requirements, [{"action": "set-location", "location": location}])


class Watched(MemoryTablePointer):
    """Notes each search: the folder, how long it may take, and whether somebody had the table's lock."""

    def __init__(self, harness: Harness, seconds: float = 0.0) -> None:
        super().__init__()
        self.metastore = harness.pointer.metastore
        self.harness = harness
        self.seconds = seconds
        self.searches: list[tuple[str, float, bool]] = []

    def find_by_folder(self, namespace: str, folder: str, *, timeout_seconds: float) -> list[Pointer]:
        self.searches.append((folder, timeout_seconds, bool(self.harness.lock.queues.entries(NAME))))
        self.harness.runtime.skipped += self.seconds
        if self.seconds > timeout_seconds:
            raise MetastoreUnavailable("too many tables to search them in time")
        return super().find_by_folder(namespace, folder, timeout_seconds=timeout_seconds)


def watched(harness: Harness, seconds: float = 0.0) -> Watched:
    pointer = Watched(harness, seconds)
    harness.pointer = pointer
    harness.replace_ports(pointer=pointer)
    return pointer


def outcomes(harness: Harness, commits: Sequence[PendingCommit], last: GroupResult | None = None) -> list[type]:
    harness.group(*commits, last=last)
    return [type(commit.outcome) for commit in commits]


@pytest.mark.parametrize("contested", [False, True])
def test_all_folders_of_a_group_are_looked_up_before_its_lock_and_once(harness: Harness, contested: bool) -> None:
    pointer = watched(harness)
    commits = harness.members(
        append("file:/a", snapshot_id=1), move("file:/wh/db/u/"), move("file:/wh/db/v"), move("file:/wh/db/v")
    )
    assert outcomes(harness, commits, GroupResult(contested=contested)) == [Committed] * 4
    # Once for who must not be there, and once more, with views and Hive's tables, for whether the table owns it.
    assert [(folder, held) for folder, _, held in pointer.searches] == [
        ("file:/wh/db/u", False),
        ("file:/wh/db/u", False),
        ("file:/wh/db/v", False),
        ("file:/wh/db/v", False),
    ]
    assert harness.metadata().location == "file:/wh/db/v"


def test_a_table_that_moved_meanwhile_is_staged_again_without_another_search(harness: Harness) -> None:
    pointer = watched(harness)
    acquire = harness.lock.acquire

    def overtaken(*arguments: Any, **keywords: Any) -> Any:
        held = acquire(*arguments, **keywords)
        harness.foreign_commit(by="another")
        return held

    harness.lock.acquire = overtaken  # type: ignore[method-assign]
    commits = harness.members(move("file:/wh/db/u"))
    assert outcomes(harness, commits) == [Committed]
    assert len(pointer.searches) == 2
    assert (harness.metadata().location, harness.metadata().properties["by"]) == ("file:/wh/db/u", "another")


def test_a_table_may_move_away_and_back_in_one_group(harness: Harness) -> None:
    commits = harness.members(append("file:/a", snapshot_id=1), move("file:/wh/db/u"), move("file:/wh/db/t"))
    assert outcomes(harness, commits) == [Committed] * 3
    assert harness.metadata().location == "file:/wh/db/t"


def test_slow_searches_of_one_group_have_one_limit_together(harness: Harness) -> None:
    pointer = watched(harness, seconds=0.6 * SEARCH_SECONDS)
    commits = harness.members(move("file:/wh/db/u"), move("file:/wh/db/v"), move("file:/wh/db/w"))
    assert outcomes(harness, commits) == [Committed, Failed, Failed]
    given = [seconds for _, seconds, _ in pointer.searches]
    assert given[0] == pytest.approx(SEARCH_SECONDS, abs=1)
    assert given[1] == pytest.approx(0.4 * SEARCH_SECONDS, abs=1)
    assert given[2] == 0
    assert harness.metadata().location == "file:/wh/db/u"


def test_what_a_search_found_is_raised_each_time(harness: Harness) -> None:
    moves = Moves(harness.ports, TableName("db", "another"))
    moves.look_up(harness.members(move("file:/wh/db/t/data"), move("file:/wh/db/free")), "file:/wh/db/another")
    before = harness.metadata().replace(location="file:/wh/db/another")
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"lies in that of the table db\.t"):
            moves.check(before, before.replace(location="file:/wh/db/t/data"))
        moves.check(before, before.replace(location="file:/wh/db/free"))


def test_a_folder_that_nobody_looked_up_is_a_conflict_and_no_search(harness: Harness) -> None:
    pointer = watched(harness)
    moves = Moves(harness.ports, NAME)
    moves.look_up(harness.members(move("file:/wh/db/t"), append("file:/a")), "file:/wh/db/t")
    before = harness.metadata().replace(location="file:/wh/db/moved")
    with pytest.raises(CommitConflict):
        moves.check(before, before.replace(location="file:/wh/db/t"))
    with pytest.raises(CommitConflict):
        moves.check(before, before.replace(properties={"write.data.path": "file:/wh/db/x"}))
    assert pointer.searches == []


@pytest.mark.parametrize("contested", [False, True])
def test_a_path_in_the_folder_of_another_table_is_refused_before_the_lock(harness: Harness, contested: bool) -> None:
    """That table could not be purged any more. In the table's own folder a path needs no search."""
    file = "file:/wh/far/u/metadata/00000-x.metadata.json"
    harness.pointer.rows[TableName("far", "u")] = MemoryRow(
        {"table_type": "ICEBERG", "metadata_location": file}, location="file:/wh/far/u"
    )
    pointer = watched(harness)
    pointer.metastore.databases["far"] = {}

    def write_to(path: str) -> Any:
        return from_request([], [{"action": "set-properties", "updates": {"write.data.path": path}}])

    commits = harness.members(write_to("file:/wh/far/u/x"), write_to("file:/wh/far/u2"), write_to("file:/wh/db/t/x"))
    assert outcomes(harness, commits, GroupResult(contested=contested)) == [Failed, Committed, Committed]
    assert not any(held for _, _, held in pointer.searches)
    assert harness.metadata().properties["write.data.path"] == "file:/wh/db/t/x"
    own = [folder for folder, _, _ in pointer.searches if folder == "file:/wh/db/t/x"]
    assert bool(own) == contested, "the table's own folder is known once it is loaded"


def test_a_table_owns_the_folder_that_it_moves_to_if_that_is_empty(harness: Harness) -> None:
    assert (
        outcomes(harness, harness.members(move("file:/wh/db/u"), append("file:/a", snapshot_id=1))) == [Committed] * 2
    )
    assert harness.pointer.load(NAME).owns_folder
    assert outcomes(harness, harness.members(append("file:/b", snapshot_id=2))) == [Committed]
    assert harness.pointer.load(NAME).owns_folder
    harness.files.write("file:/wh/db/full/somebodys.parquet", b"rows")
    assert outcomes(harness, harness.members(move("file:/wh/db/full"))) == [Committed]
    assert not harness.pointer.load(NAME).owns_folder


def test_a_table_moves_into_no_folder_of_a_hive_table_or_around_one(harness: Harness) -> None:
    harness.pointer.folders["db"] = ["file:/wh/db"]
    harness.pointer.add_hive_table(TableName("db", "h"), "file:/wh/db/h")
    assert outcomes(harness, harness.members(move("file:/wh/db/h/inner"))) == [Failed]
    assert outcomes(harness, harness.members(move("file:/wh"))) == [Failed]
    assert harness.metadata().location == "file:/wh/db/t"


def test_a_table_owns_no_folder_for_whose_search_there_was_no_time(harness: Harness) -> None:
    watched(harness, seconds=0.6 * SEARCH_SECONDS)
    assert outcomes(harness, harness.members(move("file:/wh/db/u"))) == [Committed]
    assert not harness.pointer.load(NAME).owns_folder
