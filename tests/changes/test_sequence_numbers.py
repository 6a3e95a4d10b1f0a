"""Stale numbers: a commit to another ref took the numbers that a client assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.sequence_numbers import renumber
from iceberg_hms.coordinator.staging.invariants import check_transition
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors import requests
from simulation.actors.requests import for_update_table
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


def staged(base: TableMetadata, sent: list[dict[str, Any]], writer: Writer) -> TableMetadata:
    """The table after a client's commit that was made on another one, with all that is checked before a swap."""
    manifests = writer.store.open()
    change = from_request(list(for_update_table(base, sent)), sent)
    new, _ = stage_one(base, change, RecordedWrites(manifests), lambda: NOW)
    manifests.flush()
    return new


def two_files(writer: Writer, version: int) -> TableMetadata:
    """main has a and b, in two manifests; audit begins there."""
    base = table(version, properties=SNAPSHOT_ISOLATION)
    for id_, name in ((1, "a"), (2, "b")):
        base = committed(base, request(base, writer.fast_append(base, id_, name)), writer.store)
    return base.replace(refs={**base.raw["refs"], "audit": branch(2)})


def of_entries(operation: str, *entries: tuple[EntryStatus, str]) -> Any:
    """A snapshot whose one manifest has these entries in place of those of a and b."""

    def sent(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
        old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
        return writer.rewrite_list(seen, 10, operation, [(status, data_file(name)) for status, name in entries], old)

    return sent


def masked(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    deletes = added("deletes", 10, content=FileContent.POSITION_DELETES)
    kept = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    return [own_snapshot(writer, seen, 10, [deletes], kept), dict(updates.set_snapshot_ref("main", 10))]


def transaction(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    first = writer.fast_append(seen, 10, "one")
    return [first[0], *writer.fast_append(apply(seen, first, now_ms=NOW), 12, "two")]


def delete_and_append(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    first = DELETE(writer, seen)
    return [first[0], *writer.fast_append(apply(seen, first, now_ms=NOW), 12, "two")]


def without_parent(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    """As REPLACE TABLE adds its snapshot."""
    unborn = seen.replace(snapshots=[], refs={}, current_snapshot_id=-1)
    return writer.fast_append(unborn, 10, "mine")


def inline(writer: Writer, seen: TableMetadata) -> list[dict[str, Any]]:
    """As old writers of version 1 do."""
    [add, move] = writer.fast_append(seen, 10, "mine")
    if seen.format_version == 1:
        raw = {key: value for key, value in add["snapshot"].items() if key != "manifest-list"}
        listed = writer.store.lists[add["snapshot"]["manifest-list"]]
        add["snapshot"] = {**raw, "manifests": [each.manifest_path for each in listed]}
    return [add, move]


ADD, KEEP, REMOVE = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
DELETE = of_entries("delete", (REMOVE, "a"), (KEEP, "b"))
#: What a client sends -> the files that are live then on the branch that it moves, or main.
SENT: dict[str, tuple[Any, list[str]]] = {
    "an append": (lambda w, t: w.fast_append(t, 10, "mine"), ["a", "b", "mine"]),
    "an append with inline manifests": (inline, ["a", "b", "mine"]),
    "an append that merges": (of_entries("append", (ADD, "mine"), (KEEP, "a"), (KEEP, "b")), ["a", "b", "mine"]),
    "a staged append": (lambda w, t: w.fast_append(t, 10, "mine")[:1], ["a", "b"]),
    "an append to another branch": (lambda w, t: w.fast_append(t, 10, "mine", branch="audit"), ["a", "b"]),
    "a delete": (DELETE, ["b"]),
    "a delete of all": (of_entries("delete", (REMOVE, "a"), (REMOVE, "b")), []),
    "an overwrite": (of_entries("overwrite", (ADD, "mine"), (REMOVE, "a"), (KEEP, "b")), ["b", "mine"]),
    "a row delta": (masked, ["a", "b", "deletes"]),
    "a rewrite": (of_entries("replace", (ADD, "ab"), (REMOVE, "a"), (REMOVE, "b")), ["ab"]),
    "a rewrite of manifests": (of_entries("replace", (KEEP, "a"), (KEEP, "b")), ["a", "b"]),
    "a replace of the table": (without_parent, ["mine"]),
    "two appends": (transaction, ["a", "b", "one", "two"]),
    "two appends, one of which merges": (lambda w, t: merging_transaction(w, t), ["a", "b", "one", "two"]),
    "a delete and an append": (delete_and_append, ["b", "two"]),
}
UPGRADES = ((1, 2), (2, 3), (1, 3))


#: Version 1 has no delete files.
CASES = [(what, *step) for what in SENT for step in UPGRADES if what != "a row delta" or step[0] > 1]


@pytest.mark.parametrize(("what", "before", "after"), CASES)
def test_a_commit_for_an_older_format_version_lands_in_the_newer(
    writer: Writer, what: str, before: int, after: int
) -> None:
    make, live = SENT[what]
    seen = two_files(writer, before)
    sent = make(writer, seen)
    now = apply(seen, [requests.upgrade_format_version(after)], now_ms=NOW)
    new = staged(now, sent, writer)
    assert writer.live(new.current_snapshot) == live
    added_ids = new.raw_snapshots_by_id.keys() - now.raw_snapshots_by_id.keys()
    assert added_ids == {each["snapshot"]["snapshot-id"] for each in sent if each["action"] == "add-snapshot"}
    for each in filter(None, map(new.snapshot_by_id, added_ids)):
        assert each.written_for == after
        entries = [entry for entry in writer.manifests.entries(writer.manifests.list(each)) if entry.is_live]
        assert None not in [entry.sequence_number for entry in entries]
        if after > 2:
            data = [entry.data_file.first_row_id for entry in entries if entry.data_file.content == FileContent.DATA]
            assert None not in data
            assert len(set(data)) == len(data)
        if before == 1:
            assert {entry.sequence_number for entry in entries} <= {0}, "as all that was written for version 1"


def test_a_snapshot_without_an_operation_is_a_conflict_in_a_newer_version(writer: Writer) -> None:
    """Format version 1 does not ask for one."""
    seen = two_files(writer, 1)
    [add, move] = writer.fast_append(seen, 10, "mine")
    sent = [{**add, "snapshot": {**add["snapshot"], "summary": {"added-data-files": "1"}}}, move]
    now = apply(seen, [requests.upgrade_format_version(2)], now_ms=NOW)
    with pytest.raises(RequirementFailed, match="has no operation, and the table was upgraded since"):
        staged(now, sent, writer)


@VERSIONS
def test_a_snapshot_without_numbers_whose_client_saw_a_newer_version_is_malformed(writer: Writer, version: int) -> None:
    seen = two_files(writer, version)
    [add, move] = writer.fast_append(seen, 10, "mine")
    lacking = "sequence-number" if version == 2 else "first-row-id"
    raw = {key: value for key, value in add["snapshot"].items() if key != lacking}
    with pytest.raises(InvalidInput, match=lacking):
        staged(seen, [{**add, "snapshot": raw}, move], writer)


def test_a_list_that_cannot_be_numbered_is_a_conflict(writer: Writer) -> None:
    """Old lists of version 1 do not say how many rows a manifest has."""
    seen = two_files(writer, 1)
    sent = writer.fast_append(seen, 10, "mine")
    location = sent[0]["snapshot"]["manifest-list"]
    writer.store.lists[location] = tuple(replace(each, added_rows_count=None) for each in writer.store.lists[location])
    now = apply(seen, [requests.upgrade_format_version(3)], now_ms=NOW)
    with pytest.raises(RequirementFailed, match="has no row counts"):
        staged(now, sent, writer)


def with_numbers(writer: Writer, update: dict[str, Any], of: int, **numbers: int | None) -> None:
    """Give other numbers to the manifests of a snapshot in the list of an `add-snapshot`."""
    location = update["snapshot"]["manifest-list"]
    writer.store.lists[location] = tuple(
        replace(each, **numbers) if each.added_snapshot_id == of else each  # type: ignore[arg-type]
        for each in writer.store.lists[location]
    )


@VERSIONS
def test_a_later_snapshot_has_the_manifests_of_an_earlier_one_with_its_numbers(writer: Writer, version: int) -> None:
    """Java names them as the list of a refused attempt had them, when it tries a transaction again."""
    seen = two_files(writer, version)
    sent = transaction(writer, seen)
    with_numbers(writer, sent[1], 10, sequence_number=2, first_row_id=0 if version > 2 else None)
    new = staged(seen, sent, writer)
    first, second = (writer.manifests.list(each) for each in map(new.snapshot_by_id, (10, 12)) if each is not None)
    assert first == second[1:]
    assert [each.sequence_number for each in second] == [4, 3, 2, 1]
    if version > 2:
        assert [each.first_row_id for each in second] == [30, 20, 10, 0]
        assert new.next_row_id == 40


def test_manifests_keep_the_row_ids_that_the_parent_gave_them(writer: Writer) -> None:
    """Java tries again with manifests as its first attempt found them: before their rows had ids."""
    seen = apply(two_files(writer, 2), [requests.upgrade_format_version(3)], now_ms=NOW)
    now = committed(seen, request(seen, writer.fast_append(seen, 5, "other")), writer.store)
    sent = writer.fast_append(now, 10, "mine")
    for id_, first_row_id in ((10, 30), (2, 40), (1, 50)):
        with_numbers(writer, sent[0], id_, first_row_id=first_row_id)
    sent[0]["snapshot"]["added-rows"] = 30
    new = staged(now, sent, writer)
    before, after = (writer.manifests.list(each) for each in (now.current_snapshot, new.current_snapshot) if each)
    assert after[1:] == before
    assert (after[0].first_row_id, new.next_row_id) == (30, 40)


@VERSIONS
def test_files_that_were_merged_for_a_refused_attempt_are_a_conflict(writer: Writer, version: int) -> None:
    seen = two_files(writer, version)
    sent = merging_transaction(writer, seen)
    assert staged(seen, sent, writer).snapshot_by_id(12) is not None
    [own] = [each for each in writer.store.lists[sent[1]["snapshot"]["manifest-list"]] if each.added_snapshot_id == 12]
    entries = writer.store.manifests[own.manifest_path]
    writer.store.manifests[own.manifest_path] = tuple(
        replace(each, sequence_number=2) if each.status == EntryStatus.EXISTING else each for each in entries
    )
    with pytest.raises(RequirementFailed, match="snapshot 12 lists a file of snapshot 10 with the sequence number of"):
        staged(seen, sent, writer)


def test_an_upgrade_in_the_same_commit_changes_what_the_snapshots_after_it_need(writer: Writer) -> None:
    seen = two_files(writer, 1)
    upgraded = apply(seen, [requests.upgrade_format_version(2)], now_ms=NOW)
    sent = [dict(requests.upgrade_format_version(2)), *transaction(writer, upgraded)]
    with_numbers(writer, sent[2], 10, sequence_number=7)
    new = staged(seen, sent, writer)
    assert [each.sequence_number for each in writer.manifests.list(new.current_snapshot)] == [2, 1, 0, 0]  # type: ignore[arg-type]
    late = apply(seen, [requests.upgrade_format_version(3)], now_ms=NOW)
    with pytest.raises(RequirementFailed, match="Cannot downgrade v3 table to v2"):
        staged(late, sent, writer)
