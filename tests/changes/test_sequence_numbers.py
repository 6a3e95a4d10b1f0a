"""Stale numbers: a commit to another ref took the numbers that a client assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.sequence_numbers import renumber
from iceberg_hms.coordinator.staging.invariants import check_transition
from iceberg_hms.errors import MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors import requests
from tests.changes.tables import SNAPSHOT_ISOLATION, branch, snapshot, table
from tests.changes.writers import NOW, Writer, committed, data_file, request

VERSIONS = pytest.mark.parametrize("version", [2, 3])
NO_MANIFESTS: Any = object()


@pytest.fixture
def writer() -> Writer:
    return Writer(MemoryManifestStore())


def grown(writer: Writer, version: int) -> TableMetadata:
    """main has a; audit begins there."""
    base = table(version, properties=SNAPSHOT_ISOLATION)
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    return base.replace(refs={**base.raw["refs"], "audit": branch(1)})


@VERSIONS
def test_a_commit_to_another_branch_makes_numbers_stale_and_no_commit_fails(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    sent = request(seen, writer.fast_append(seen, 10, "mine", branch="audit"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    found = new.snapshot_by_id(10)
    assert found is not None
    assert (found.parent_snapshot_id, found.sequence_number) == (1, now.last_sequence_number + 1)
    assert writer.live(found) == ["a", "mine"]
    assert found.summary == sent.commit.updates[0]["snapshot"]["summary"]  # type: ignore[attr-defined]
    if version > 2:
        assert (found.first_row_id, new.next_row_id) == (20, 30)
        assert sorted(each.first_row_id or 0 for each in writer.manifests.list(found)) == [0, 20]


@VERSIONS
def test_a_staged_snapshot_of_no_ref_gets_its_numbers_too(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    [added] = [each for each in writer.fast_append(seen, 10, "wap") if each["action"] == "add-snapshot"]
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    new = committed(now, request(seen, [added]), writer.store)
    check_transition(now, new)
    assert new.snapshot_by_id(10) is not None


@VERSIONS
def test_snapshots_of_one_commit_get_consecutive_numbers(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    first = writer.fast_append(seen, 10, "one")
    between = apply(seen, first, now_ms=NOW)
    second = writer.fast_append(between, 12, "two")
    sent = request(seen, [first[0], second[0], *second[1:]])
    now = seen
    other = writer.fast_append(seen, 11, "other", branch="audit")
    now = committed(now, request(now, other), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    snapshots = [new.snapshot_by_id(id_) for id_ in (11, 10, 12)]
    assert [each.sequence_number for each in snapshots if each] == [2, 3, 4]
    assert writer.live(new.snapshot_by_id(12)) == ["a", "one", "two"]
    numbers = {each.added_snapshot_id: each.sequence_number for each in writer.manifests.list(snapshots[2])}  # type: ignore[arg-type]
    assert numbers == {1: 1, 10: 3, 12: 4}
    if version > 2:
        firsts = sorted(each.first_row_id or 0 for each in writer.manifests.list(snapshots[2]))  # type: ignore[arg-type]
        assert firsts == [0, 20, 30]
        assert new.next_row_id == 40


def merging_transaction(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    """10 appends one; 12 appends two and merges 10's manifest with its own, as Java does within a transaction."""
    first = writer.fast_append(seen, 10, "one")
    between = apply(seen, first, now_ms=NOW)
    of_first = [each for each in writer.manifests.list(Snapshot(first[0]["snapshot"])) if each.added_snapshot_id == 10]
    entries = [(EntryStatus.EXISTING, data_file("one")), (EntryStatus.ADDED, data_file("two"))]
    return [first[0], *writer.rewrite_list(between, 12, "append", entries, of_first)]


@VERSIONS
def test_a_commit_fails_if_a_later_snapshot_merged_files_of_a_renumbered_one(writer: Writer, version: int) -> None:
    """Their entries have explicit numbers, which another snapshot has by now."""
    seen = grown(writer, version)
    sent = merging_transaction(writer, seen)
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    manifests = writer.store.open()
    with pytest.raises(RequirementFailed, match="snapshot 12 has existing files in a manifest of its own") as caught:
        renumber(now, sent, manifests)
    assert (caught.value.name, caught.value.found) == ("assert-ref-snapshot-id", 1)
    assert manifests.flush() == (), "the list of the first is not written"
    new = committed(seen, request(seen, sent), writer.store)
    assert writer.live(new.current_snapshot) == ["a", "one", "two"], "on the table that its client saw it lands"


@VERSIONS
def test_a_list_without_counts_is_not_trusted_to_have_no_merged_files(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    first = writer.fast_append(seen, 10, "one")
    second = writer.fast_append(apply(seen, first, now_ms=NOW), 12, "two")
    location = second[0]["snapshot"]["manifest-list"]
    [own, *others] = writer.store.lists[location]
    assert own.added_snapshot_id == 12
    writer.store.lists[location] = (replace(own, existing_files_count=None), *others)
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    with pytest.raises(RequirementFailed, match="snapshot 12 has existing files"):
        renumber(now, [first[0], *second], writer.store.open())


@VERSIONS
def test_files_of_the_table_that_the_first_snapshot_merged_have_their_numbers(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    entries = [(EntryStatus.EXISTING, data_file("a")), (EntryStatus.ADDED, data_file("mine"))]
    sent = request(seen, writer.rewrite_list(seen, 10, "append", entries, old))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    assert writer.live(new.current_snapshot) == ["a", "mine"]


def own_snapshot(
    writer: Writer, base: TableMetadata, snapshot_id: int, entries: Any, kept: Sequence[ManifestFile] = ()
) -> dict[str, Any]:
    """The update that adds a snapshot to main whose own manifests have `entries`; data and deletes apart."""
    own = writer.manifests.write(base, base.schema, base.specs[0], snapshot_id, entries)
    raw: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": base.current_snapshot_id,
        "sequence-number": base.next_sequence_number,
        "timestamp-ms": NOW,
        "summary": {"operation": "overwrite"},
        "schema-id": 0,
    }
    if base.format_version > 2:
        rows = sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in own if not each.content)
        raw.update({"first-row-id": base.next_row_id, "added-rows": rows})
    raw["manifest-list"] = writer.manifests.stage_list(base, Snapshot(raw), [*own, *kept])
    writer.manifests.flush()
    return dict(updates.add_snapshot(raw))


def added(name: str, snapshot_id: int, number: int | None = None, content: int = FileContent.DATA) -> ManifestEntry:
    """number: the data sequence number, if the writer states it explicitly."""
    return ManifestEntry(EntryStatus.ADDED, data_file(name, content=content), snapshot_id, number)


def row_delta_and_rewrite(writer: Writer, seen: TableMetadata, *said: int) -> list[dict[str, Any]]:
    """10 adds d1 and an equality delete e1, which holds for older files; 12 rewrites d1 to d2, which keeps its data
    sequence number, so that e1 does not hold for d2 either (Java: RewriteFiles.dataSequenceNumber).

    said: the data sequence numbers that d2, and other files before it, say."""
    first = own_snapshot(writer, seen, 10, [added("d1", 10), added("e1", 10, content=FileContent.EQUALITY_DELETES)])
    between = apply(seen, [first, updates.set_snapshot_ref("main", 10)], now_ms=NOW)
    kept = [each for each in writer.manifests.list(Snapshot(first["snapshot"])) if each.content]
    names = [*(f"old{number}" for number in said[:-1]), "d2"]
    rewritten = [added(name, 12, number) for name, number in zip(names, said, strict=True)]
    second = own_snapshot(writer, between, 12, rewritten, kept)
    return [first, second, dict(updates.set_snapshot_ref("main", 12))]


def number_of(writer: Writer, table: TableMetadata, name: str) -> int:
    entries = writer.manifests.entries(writer.manifests.list(table.current_snapshot))  # type: ignore[arg-type]
    [found] = [entry.sequence_number for entry in entries if entry.data_file.file_path.endswith(f"/{name}.parquet")]
    assert found is not None
    return found


@VERSIONS
@pytest.mark.parametrize("said", [[2], [1, 2]])
def test_a_renumbered_delete_never_applies_to_rows_with_explicit_numbers(
    writer: Writer, version: int, said: list[int]
) -> None:
    """A data file with a number below that of an equality delete loses the rows that it names. The list says the lowest
    number of a manifest alone, so a manifest with a lower one is looked into."""
    seen = grown(writer, version)
    sent = row_delta_and_rewrite(writer, seen, *said)
    landed = committed(seen, request(seen, sent), writer.store)
    assert (number_of(writer, landed, "e1"), number_of(writer, landed, "d2")) == (2, 2)
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    manifests = writer.store.open()
    with pytest.raises(
        RequirementFailed, match="snapshot 12 has files with explicit sequence numbers in a manifest of its own"
    ) as caught:
        renumber(now, sent, manifests)
    assert (caught.value.name, caught.value.found) == ("assert-ref-snapshot-id", min(said))
    assert manifests.flush() == ()


@VERSIONS
def test_a_rewrite_of_older_files_in_a_renumbered_transaction_keeps_their_numbers(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    sent = row_delta_and_rewrite(writer, seen, 1)
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    new = committed(now, request(seen, sent), writer.store)
    check_transition(now, new)
    assert (number_of(writer, new, "e1"), number_of(writer, new, "d2")) == (3, 1)


@VERSIONS
@pytest.mark.parametrize(("number", "lands"), [(1, True), (3, False)])
def test_a_rewrite_on_a_renumbered_branch_keeps_older_numbers(
    writer: Writer, version: int, number: int, lands: bool
) -> None:
    seen = grown(writer, version)
    sent = [own_snapshot(writer, seen, 10, [added("d2", 10, number)]), dict(updates.set_snapshot_ref("main", 10))]
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    if lands:
        new = committed(now, request(seen, sent), writer.store)
        assert number_of(writer, new, "d2") == number
        [own] = writer.manifests.list(new.current_snapshot)  # type: ignore[arg-type]
        assert (own.sequence_number, own.min_sequence_number) == (3, number)
        return
    with pytest.raises(
        RequirementFailed, match="snapshot 10 has files with explicit sequence numbers in a manifest of its own"
    ):
        renumber(now, sent, writer.store.open())


def test_a_renumbered_snapshot_has_a_list_and_no_inline_manifests(writer: Writer) -> None:
    seen = grown(writer, 2)
    [add, *rest] = writer.fast_append(seen, 10, "mine")
    raw = {**add["snapshot"], "manifests": ["file:/m.avro"]}
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other", branch="audit")), writer.store)
    new = committed(now, request(seen, [{**add, "snapshot": raw}, *rest]), writer.store)
    found = new.snapshot_by_id(10)
    assert found is not None
    assert found.sequence_number == 3
    assert "manifests" not in found.raw


def test_row_ids_that_a_client_assigned_to_older_manifests_are_assigned_again(writer: Writer) -> None:
    base = table(2)
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    seen = apply(
        base.replace(refs={**base.raw["refs"], "audit": branch(1)}), [requests.upgrade_format_version(3)], now_ms=NOW
    )
    sent = request(seen, writer.fast_append(seen, 10, "mine", branch="audit"))
    now = committed(seen, request(seen, writer.fast_append(seen, 11, "other")), writer.store)
    assert now.next_row_id == 20
    new = committed(now, sent, writer.store)
    check_transition(now, new)
    found = new.snapshot_by_id(10)
    assert found is not None
    assert (found.first_row_id, found.added_rows, new.next_row_id) == (20, 20, 40)
    assert sorted(each.first_row_id or 0 for each in writer.manifests.list(found)) == [20, 30]


def test_fresh_numbers_need_no_read() -> None:
    sent = [updates.add_snapshot(snapshot(7)), updates.set_snapshot_ref("main", 7)]
    for version in (1, 2):
        assert list(renumber(table(version), sent, NO_MANIFESTS).updates) == sent


def test_a_snapshot_without_a_parent_may_have_any_number() -> None:
    sent = [updates.add_snapshot(snapshot(7, sequence_number=1))]
    assert list(renumber(table(last_sequence_number=9), sent, NO_MANIFESTS).updates) == sent


@VERSIONS
def test_a_snapshot_whose_parent_was_recommitted_is_refused(writer: Writer, version: int) -> None:
    seen = grown(writer, version)
    [first, second] = [writer.fast_append(seen, id_, str(id_))[0] for id_ in (10, 11)]
    empty = table(version, properties=SNAPSHOT_ISOLATION)
    theirs = committed(empty, request(empty, writer.fast_append(empty, 5, "theirs")), writer.store)
    now = committed(theirs, request(empty, writer.fast_append(empty, 1, "a")), writer.store)
    with pytest.raises(RequirementFailed, match="snapshot 1 was recommitted"):
        renumber(now, [first, second], writer.store.open())


def test_a_missing_list_leaves_nothing_staged(writer: Writer) -> None:
    seen = grown(writer, 2)
    good = writer.fast_append(seen, 10, "mine")[0]
    lost = updates.add_snapshot(snapshot(11, parent_snapshot_id=1, sequence_number=2))
    now = seen.replace(last_sequence_number=9)
    manifests = writer.store.open()
    with pytest.raises(MissingFile):
        renumber(now, [good, lost], manifests)
    assert manifests.flush() == ()
