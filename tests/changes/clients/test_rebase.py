"""Snapshots of stock clients on parents that they have not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.blind_append import REBASE_APPENDS, RebasePolicy
from iceberg_hms.coordinator.staging.invariants import check_transition
from iceberg_hms.errors import CommitStateUnknown, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent
from iceberg_hms.format.manifests.manifest_list import ManifestContent
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors import requests
from tests.changes.tables import SNAPSHOT_ISOLATION, branch, table
from tests.changes.writers import Writer, committed, data_file, request

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.fixture
def store() -> MemoryManifestStore:
    return MemoryManifestStore()


@pytest.fixture
def writer(store: MemoryManifestStore) -> Writer:
    return Writer(store)


def grown(writer: Writer, version: int = 2, **properties: str) -> TableMetadata:
    """A table whose main has the files a and b, in two manifests."""
    base = table(version, properties={**SNAPSHOT_ISOLATION, **properties})
    for snapshot_id, name in ((1, "a"), (2, "b")):
        base = committed(base, request(base, writer.fast_append(base, snapshot_id, name)), writer.store)
    return base


@VERSIONS
def test_an_append_that_was_overtaken_is_committed_after_the_other(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    sent = request(seen, writer.fast_append(seen, 10, "mine"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    head = new.current_snapshot
    assert head is not None
    assert (head.snapshot_id, head.parent_snapshot_id) == (10, 11)
    assert writer.live(head) == ["a", "b", "mine", "other"]
    assert head.summary["total-data-files"] == "4"
    assert head.summary["total-records"] == "40"
    assert head.summary["added-records"] == "10"
    assert (head.summary["manifests-created"], head.summary["manifests-kept"]) == ("1", "3")
    if version > 1:
        assert head.sequence_number == now.last_sequence_number + 1
        [own] = [each for each in writer.manifests.list(head) if each.added_snapshot_id == 10]
        assert (own.sequence_number, own.min_sequence_number) == (head.sequence_number, head.sequence_number)
    if version > 2:
        assert (head.first_row_id, head.added_rows, new.next_row_id) == (30, 10, 40)
        firsts = sorted(each.first_row_id or 0 for each in writer.manifests.list(head))
        assert firsts == [0, 10, 20, 30], "row ids are never given out twice"


@VERSIONS
def test_two_first_appends_to_an_empty_table_are_both_committed(writer: Writer, version: int) -> None:
    empty = table(version, properties=SNAPSHOT_ISOLATION)
    first, second = (request(empty, writer.fast_append(empty, id_, str(id_))) for id_ in (10, 11))
    new = committed(committed(empty, first, writer.store), second, writer.store)
    assert writer.live(new.current_snapshot) == ["10", "11"]
    assert new.current_snapshot is not None
    assert new.current_snapshot.parent_snapshot_id == 10


def test_an_append_to_a_branch_is_rebased_on_that_branch_and_keeps_its_retention(writer: Writer) -> None:
    seen = grown(writer)
    refs = {**seen.raw["refs"], "audit": branch(1, **{"max-ref-age-ms": 5_000})}
    seen = seen.replace(refs=refs)
    sent = request(seen, writer.fast_append(seen, 10, "mine", branch="audit"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    now = committed(now, request(now, writer.fast_append(now, 12, "main")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    ref = new.refs["audit"]
    assert (ref.snapshot_id, ref.max_ref_age_ms) == (10, 5_000)
    assert writer.live(new.snapshot_by_id(10)) == ["a", "mine", "other"]
    assert new.refs["main"].snapshot_id == 12


def test_rows_deleted_in_between_stay_deleted(writer: Writer) -> None:
    seen = grown(writer)
    sent = request(seen, writer.fast_append(seen, 10, "mine"))
    manifests = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    delete = writer.rewrite_list(
        seen, 11, "delete", [(EntryStatus.DELETED, data_file("b"))], manifests[:1], {"deleted-data-files": "1"}
    )
    now = committed(seen, request(seen, delete), writer.store)
    new = committed(now, sent, writer.store)
    assert writer.live(new.current_snapshot) == ["a", "mine"]


@VERSIONS
def test_a_merge_of_manifests_takes_effect(writer: Writer, version: int) -> None:
    """MergeAppend: its own manifest replaces the head's two."""
    seen = grown(writer, version)
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    entries = [
        (EntryStatus.ADDED, data_file("mine")),
        *((EntryStatus.EXISTING, data_file(name)) for name in ("a", "b")),
    ]
    sent = request(seen, writer.rewrite_list(seen, 10, "append", entries, old, {"added-data-files": "1"}))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    assert writer.live(new.current_snapshot) == ["a", "b", "mine", "other"]
    assert len(writer.manifests.list(new.current_snapshot)) == 2  # type: ignore[arg-type]
    if version > 1:
        [own] = [each for each in writer.manifests.list(new.current_snapshot) if each.existing_files_count]  # type: ignore[arg-type]
        assert (own.sequence_number, own.min_sequence_number) == (4, 1), "it holds older files"


@VERSIONS
def test_each_of_two_merges_of_the_same_manifests_adds_its_files(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    first, second = (request(seen, merge_of_all(writer, seen, id_)) for id_ in (10, 11))
    now = committed(seen, first, writer.store)
    new = committed(now, second, writer.store)
    check_transition(now, new)
    head = new.current_snapshot
    assert head is not None
    assert writer.live(head) == ["a", "b", "file-10", "file-11"]
    listed = writer.manifests.list(head)
    assert [each.added_snapshot_id for each in listed] == [11, 10]
    assert (listed[0].added_files_count, listed[0].existing_files_count) == (1, 0)
    if version > 1:
        assert listed[0].sequence_number == listed[0].min_sequence_number == head.sequence_number == 4
    if version > 2:
        assert sorted(row_ids(writer, new).values(), key=lambda each: each or 0) == [0, 10, 20, 50]
        assert (head.first_row_id, head.added_rows, new.next_row_id) == (50, 10, 60)


def test_a_file_that_was_removed_meanwhile_does_not_come_back_with_a_merge(writer: Writer) -> None:
    seen = grown(writer)
    sent = request(seen, merge_of_all(writer, seen))
    manifests = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    delete = writer.rewrite_list(
        seen, 11, "delete", [(EntryStatus.DELETED, data_file("b"))], manifests[:1], {"deleted-data-files": "1"}
    )
    now = committed(seen, request(seen, delete), writer.store)
    assert writer.live(committed(now, sent, writer.store).current_snapshot) == ["a", "file-10"]


def test_a_merge_that_is_not_certain_to_add_files_alone_is_refused_if_what_it_replaced_is_gone(writer: Writer) -> None:
    seen = grown(writer)
    first, second = (merge_of_all(writer, seen, id_) for id_ in (10, 11))
    raw = second[0]["snapshot"]
    second[0]["snapshot"] = {**raw, "summary": {**raw["summary"], "added-data-files": "2"}}
    now = committed(seen, request(seen, first), writer.store)
    with pytest.raises(RequirementFailed, match=r"has changed: .*; not rebased, because manifests that it replaced"):
        committed(now, request(seen, second), writer.store)


def merge_of_all(writer: Writer, seen: TableMetadata, snapshot_id: int = 10) -> list[dict[str, Any]]:
    """A snapshot that appends a file and merges the head's manifests of a and b with its own."""
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    entries = [
        (EntryStatus.ADDED, data_file(f"file-{snapshot_id}")),
        *((EntryStatus.EXISTING, data_file(name)) for name in ("a", "b")),
    ]
    return writer.rewrite_list(
        seen, snapshot_id, "append", entries, old, {"added-data-files": "1", "added-records": "10"}
    )


def row_ids(writer: Writer, table: TableMetadata) -> dict[str, int | None]:
    entries = writer.manifests.entries(writer.manifests.list(table.current_snapshot))  # type: ignore[arg-type]
    return {entry.data_file.file_path: entry.data_file.first_row_id for entry in entries if entry.is_live}


def test_rows_keep_the_ids_from_the_first_commit_after_an_upgrade(writer: Writer) -> None:
    """2 to 3, then two appends at once: one gives ids to the rows that are there, the other merges their manifests and
    had seen none."""
    seen = apply(grown(writer, 2), [requests.upgrade_format_version(3)], now_ms=6_000)
    sent = request(seen, merge_of_all(writer, seen))
    alone = row_ids(writer, committed(seen, sent, writer.store))
    assert None not in alone.values()
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    before = row_ids(writer, now)
    assert None not in before.values()
    after = row_ids(writer, committed(now, sent, writer.store))
    assert before.items() <= after.items()
    assert len(set(after.values())) == len(after) == 4


def test_a_merge_on_top_of_the_upgrade_commit_is_rebased(writer: Writer) -> None:
    upgraded = apply(grown(writer, 2), [requests.upgrade_format_version(3)], now_ms=6_000)
    seen = committed(upgraded, request(upgraded, writer.fast_append(upgraded, 9, "first")), writer.store)
    sent = request(seen, merge_of_three(writer, seen))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    new = row_ids(writer, committed(now, sent, writer.store))
    assert {path: new[path] for path in row_ids(writer, now)} == row_ids(writer, now)


def merge_of_three(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    names = ("a", "b", "first")
    entries = [(EntryStatus.ADDED, data_file("mine")), *((EntryStatus.EXISTING, data_file(name)) for name in names)]
    return writer.rewrite_list(seen, 10, "append", entries, old, {"added-data-files": "1"})


@pytest.mark.parametrize("version", [2, 3])
def test_a_merge_replaces_no_manifest_that_its_client_did_not_see(writer: Writer, version: int) -> None:
    """2 was recommitted on what a writer without compare-and-swap left: under its id there is a list with another
    writer's manifest in it, which the client has not replaced."""
    first = grown(writer, version)
    sent = request(first, merge_of_all(writer, first))
    empty = table(version, properties=SNAPSHOT_ISOLATION)
    theirs = committed(empty, request(empty, writer.fast_append(empty, 5, "theirs")), writer.store)
    now = theirs
    for snapshot_id, name in ((1, "a"), (2, "b")):
        now = committed(now, request(now, writer.fast_append(now, snapshot_id, name)), writer.store)
    assert writer.live(now.current_snapshot) == ["a", "b", "theirs"]
    assert writer.live(committed(now, sent, writer.store).current_snapshot) == ["a", "b", "file-10", "theirs"]


def compaction(writer: Writer, base: TableMetadata, snapshot_id: int = 10) -> list[dict[str, Any]]:
    """a and b become ab."""
    old = writer.manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    entries = [
        (EntryStatus.ADDED, data_file("ab", 20)),
        *((EntryStatus.DELETED, data_file(name)) for name in ("a", "b")),
    ]
    counts = {"added-data-files": "1", "deleted-data-files": "2", "added-records": "20", "deleted-records": "20"}
    return writer.rewrite_list(base, snapshot_id, "replace", entries, old, counts)


@VERSIONS
def test_a_rewrite_is_committed_after_concurrent_appends(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    sent = request(seen, compaction(writer, seen))
    now = seen
    for snapshot_id in (11, 12):
        now = committed(now, request(now, writer.fast_append(now, snapshot_id, str(snapshot_id))), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    assert writer.live(new.current_snapshot) == ["11", "12", "ab"]
    assert new.current_snapshot is not None
    assert new.current_snapshot.summary["total-data-files"] == "3"
    assert new.current_snapshot.summary["total-records"] == "40"


def test_a_rewrite_is_refused_if_rows_were_deleted_in_between(writer: Writer) -> None:
    seen = grown(writer)
    sent = request(seen, compaction(writer, seen))
    deletes = replace(data_file("deletes"), content=FileContent.POSITION_DELETES)
    now = committed(
        seen,
        request(seen, writer.rewrite_list(seen, 11, "overwrite", [(EntryStatus.ADDED, deletes)], [])),
        writer.store,
    )
    kinds = [each.content for each in writer.manifests.list(now.current_snapshot)]  # type: ignore[arg-type]
    assert ManifestContent.DELETES in kinds
    with pytest.raises(RequirementFailed, match="files were deleted since"):
        committed(now, sent, writer.store)


def test_a_rewrite_is_refused_if_another_one_rewrote_the_same_files(writer: Writer) -> None:
    seen = grown(writer)
    first, second = (request(seen, compaction(writer, seen, id_)) for id_ in (10, 11))
    now = committed(seen, first, writer.store)
    with pytest.raises(RequirementFailed, match="not rebased, because files were deleted since"):
        committed(now, second, writer.store)


def test_a_rewrite_is_refused_after_a_rollback(writer: Writer) -> None:
    seen = grown(writer)
    sent = request(seen, compaction(writer, seen))
    now = apply(seen, [updates.set_snapshot_ref("main", 1)], now_ms=6_000)
    with pytest.raises(RequirementFailed, match="no longer goes back"):
        committed(now, sent, writer.store)


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_operations_that_read_rows_are_never_rebased(writer: Writer, operation: str) -> None:
    seen = grown(writer, **{REBASE_APPENDS: "all"})
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    sent = request(seen, writer.rewrite_list(seen, 10, operation, [(EntryStatus.DELETED, data_file("b"))], old[:1]))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    with pytest.raises(RequirementFailed, match=f"not rebased, because its operation is {operation}"):
        committed(now, sent, writer.store)


def test_an_append_that_deletes_files_is_not_rebased(writer: Writer) -> None:
    seen = grown(writer, **{REBASE_APPENDS: "all"})
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    sent = request(seen, writer.rewrite_list(seen, 10, "append", [(EntryStatus.DELETED, data_file("b"))], old[:1]))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    with pytest.raises(RequirementFailed, match="its operation is append, but it deletes files"):
        committed(now, sent, writer.store)


def test_an_append_whose_parent_was_removed_is_committed_whatever_it_replaced(writer: Writer) -> None:
    seen = grown(writer)
    merged = request(seen, merge_of_all(writer, seen, 12))
    plain = request(seen, writer.fast_append(seen, 10, "mine"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    now = apply(now, [requests.remove_snapshots([2])], now_ms=6_000)
    new = committed(now, plain, writer.store)
    assert writer.live(new.current_snapshot) == ["a", "b", "mine", "other"]
    new = committed(now, merged, writer.store)
    assert writer.live(new.current_snapshot) == ["a", "b", "file-12", "other"]
    assert new.current_snapshot is not None
    assert new.current_snapshot.summary["total-records"] == "40"


def test_a_moved_branch_of_an_upgraded_table_takes_appends_alone_that_are_of_the_older_version(writer: Writer) -> None:
    seen = grown(writer)
    sent = request(seen, writer.fast_append(seen, 10, "mine"))
    rewrite = request(seen, compaction(writer, seen, 12))
    now = apply(seen, [requests.upgrade_format_version(3)], now_ms=6_000)
    now = committed(now, request(now, writer.fast_append(now, 11, "other")), writer.store)
    new = committed(now, sent, writer.store)
    assert row_ids(writer, now).items() <= row_ids(writer, new).items()
    assert len(set(row_ids(writer, new).values())) == 4
    with pytest.raises(RequirementFailed, match="written for format version 2, the table has 3"):
        committed(now, rewrite, writer.store)


def test_row_ids_of_an_upgraded_table_are_assigned_once(writer: Writer) -> None:
    """a and b have no row ids yet | two clients number them, each on its own | the second is rebased"""
    seen = apply(grown(writer), [requests.upgrade_format_version(3)], now_ms=6_000)
    sent = request(seen, writer.fast_append(seen, 10, "mine"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    assert now.next_row_id == 30
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    firsts = sorted(each.first_row_id or 0 for each in writer.manifests.list(new.current_snapshot))  # type: ignore[arg-type]
    assert firsts == [0, 10, 20, 30]
    assert new.next_row_id == 40


@pytest.mark.parametrize("word", ["none", "nonsense"])
def test_a_table_may_forbid_rebasing(writer: Writer, word: str) -> None:
    seen = grown(writer, **{REBASE_APPENDS: word})
    for updates_ in (writer.fast_append(seen, 10, "mine"), compaction(writer, seen)):
        sent = request(seen, updates_)
        now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
        with pytest.raises(RequirementFailed, match=f"the table says {REBASE_APPENDS}={word}"):
            sent.check(now)


@pytest.mark.parametrize("kind", ["append", "rewrite"])
def test_the_policy_is_looked_up_only_if_the_branch_moved_and_the_table_sets_none(writer: Writer, kind: str) -> None:
    asked: list[str] = []

    def forbids() -> RebasePolicy:
        asked.append(kind)
        return RebasePolicy("none", "the namespace db says so")

    silent = grown(writer)
    speaks = grown(writer, **{REBASE_APPENDS: "all"})
    for seen, refused in ((silent, True), (speaks, False)):
        updates_ = writer.fast_append(seen, 10, "mine") if kind == "append" else compaction(writer, seen)
        sent = request(seen, updates_, forbids)
        committed(seen, sent, writer.store)
        assert asked == [], "it kept its place"
        now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
        if refused:
            with pytest.raises(RequirementFailed, match="not rebased, because the namespace db says so"):
                sent.check(now)
            assert asked == [kind]
            asked.clear()
        else:
            committed(now, sent, writer.store)
    assert asked == []


def test_commits_that_are_never_rebased_look_up_no_policy(writer: Writer) -> None:
    def asked() -> RebasePolicy:
        raise AssertionError("a delete is never rebased")

    seen = grown(writer)
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    delete = writer.rewrite_list(seen, 10, "delete", [(EntryStatus.DELETED, data_file("b"))], old[:1])
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    with pytest.raises(RequirementFailed, match="its operation is delete"):
        request(seen, delete, asked).check(now)


def expired(writer: Writer, base: TableMetadata, gone: list[int]) -> TableMetadata:
    """The table after another append, and after an expiry that left that one alone."""
    now = committed(base, request(base, writer.fast_append(base, 11, "other")), writer.store)
    return apply(now, [requests.remove_snapshots(gone)], now_ms=6_000)


@VERSIONS
@pytest.mark.parametrize("kind", ["append", "merge", "rewrite"])
def test_a_committed_and_expired_snapshot_is_neither_added_again_nor_refused(
    writer: Writer, version: int, kind: str
) -> None:
    """mine lands, its answer is lost | another append lands | all snapshots but that one expire | mine is sent again"""
    seen = grown(writer, version)
    if kind == "append":
        sent = request(seen, writer.fast_append(seen, 10, "mine"))
    elif kind == "merge":
        old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
        entries = [
            (EntryStatus.ADDED, data_file("mine")),
            *((EntryStatus.EXISTING, data_file(name)) for name in ("a", "b")),
        ]
        sent = request(seen, writer.rewrite_list(seen, 10, "append", entries, old, {"added-data-files": "1"}))
    else:
        sent = request(seen, compaction(writer, seen))
    now = expired(writer, committed(seen, sent, writer.store), [1, 2, 10])
    assert [each.snapshot_id for each in now.snapshots] == [11]
    with pytest.raises(CommitStateUnknown, match="snapshot 10 is not in the table, but its manifests are"):
        committed(now, sent, writer.store)


@VERSIONS
def test_a_rebased_and_expired_snapshot_is_not_added_again(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    sent = request(seen, writer.fast_append(seen, 10, "mine"))
    now = committed(seen, request(seen, writer.fast_append(seen, 12, "first")), writer.store)
    now = expired(writer, committed(now, sent, writer.store), [1, 2, 12, 10])
    with pytest.raises(CommitStateUnknown):
        committed(now, sent, writer.store)


@VERSIONS
def test_a_snapshot_that_landed_by_its_files_and_expired_is_not_added_again(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    first, sent = (request(seen, merge_of_all(writer, seen, id_)) for id_ in (12, 10))
    now = committed(committed(seen, first, writer.store), sent, writer.store)
    now = expired(writer, now, [1, 2, 12, 10])
    with pytest.raises(CommitStateUnknown):
        committed(now, sent, writer.store)


def inline(writer: Writer, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The updates of an append whose snapshot names its manifests itself, as old writers of version 1 make it."""
    [add] = [update for update in sent if update["action"] == "add-snapshot"]
    raw = dict(add["snapshot"])
    raw["manifests"] = [each.manifest_path for each in writer.manifests.list(Snapshot(raw))]
    del raw["manifest-list"]
    return [{**update, "snapshot": raw} if update is add else update for update in sent]


def test_a_rebased_snapshot_with_inline_manifests_gets_a_list(writer: Writer) -> None:
    seen = grown(writer, 1)
    sent = request(seen, inline(writer, writer.fast_append(seen, 10, "mine")))
    alone = committed(seen, sent, writer.store).current_snapshot
    assert alone is not None
    assert len(alone.manifests) == 3
    now = committed(seen, request(seen, writer.fast_append(seen, 12, "other")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    head = new.current_snapshot
    assert head is not None
    assert head.manifest_list is not None
    assert "manifests" not in head.raw
    assert writer.live(head) == ["a", "b", "mine", "other"]
    assert {each.added_snapshot_id for each in writer.manifests.list(head)} == {1, 2, 10, 12}
    assert head.summary["manifests-created"] == "1"
    later = expired(writer, new, [1, 2, 12, 10])
    with pytest.raises(CommitStateUnknown):
        committed(later, sent, writer.store)
