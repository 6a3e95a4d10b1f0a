"""A client's append as the files that it adds, in the server's own manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes.clients import appended_files
from iceberg_hms.changes.clients.appended_files import AppendedFiles
from iceberg_hms.changes.manifest_delta import ManifestDelta
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.tables import BY_LEVEL, SNAPSHOT_ISOLATION, UNPARTITIONED, table, with_main
from tests.changes.writers import Writer, committed, data_file, request

MINE = 10
ADDED = ManifestEntry(EntryStatus.ADDED, data_file("mine"), snapshot_id=MINE)
OLD = ManifestEntry(EntryStatus.EXISTING, data_file("old"), snapshot_id=7, sequence_number=1, file_sequence_number=1)


class Client:
    """Writes the list of a snapshot on a table with one snapshot, 7."""

    def __init__(self, version: int = 2, **changes: Any) -> None:
        self.base = with_main(version=version, **changes)
        self.store = MemoryManifestStore()
        self.manifests: MemoryManifests = self.store.open()

    def written(self, *entries: ManifestEntry, spec: int = 0) -> list[ManifestFile]:
        base = self.base
        return list(self.manifests.write(base, base.schema, base.specs[spec], MINE, entries))

    def snapshot(self, files: Sequence[ManifestFile], added: str | None = "1") -> Snapshot:
        summary = {"operation": "append"} if added is None else {"operation": "append", "added-data-files": added}
        raw: dict[str, Any] = {"snapshot-id": MINE, "parent-snapshot-id": 7, "timestamp-ms": 5, "summary": summary}
        if self.base.format_version > 1:
            raw["sequence-number"] = 2
        if self.base.format_version > 2:
            raw["first-row-id"] = 0
        raw["manifest-list"] = self.manifests.stage_list(self.base, Snapshot(raw), files)
        self.manifests.flush()
        return Snapshot(raw)

    def entries(self, delta: ManifestDelta | None) -> list[ManifestEntry]:
        assert delta is not None
        assert not delta.replaced
        return list(self.manifests.entries(delta.added))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", [(ADDED, OLD), (OLD, ADDED)], ids=["first", "last"])
def test_a_merged_manifest_s_new_files_get_a_manifest_without_numbers(
    version: int, order: tuple[ManifestEntry, ...]
) -> None:
    client = Client(version)
    snapshot = client.snapshot(client.written(*order))
    delta = AppendedFiles().delta(client.base, snapshot, client.manifests)
    [entry] = client.entries(delta)
    assert (entry.status, entry.data_file, entry.snapshot_id) == (EntryStatus.ADDED, data_file("mine"), MINE)
    assert (entry.sequence_number, entry.file_sequence_number) == (None, None)


def test_files_of_each_partition_spec_stay_apart_and_keep_all_that_they_have() -> None:
    client = Client(partition_specs=[UNPARTITIONED, {**BY_LEVEL, "spec-id": 1}], last_partition_id=1000)
    plain = replace(ADDED, data_file=data_file("plain", key_metadata=b"k", sort_order_id=3, split_offsets=[4]))
    parted = replace(ADDED, data_file=replace(data_file("parted", spec_id=1), partition={"level": "info"}))
    files = [*client.written(plain), *client.written(parted, spec=1)]
    entries = client.entries(AppendedFiles().delta(client.base, client.snapshot(files, "2"), client.manifests))
    assert [each.data_file for each in entries] == [plain.data_file, parted.data_file]


def test_manifests_without_new_files_are_not_even_read() -> None:
    client = Client()
    merged = client.written(OLD)
    snapshot = client.snapshot([*client.written(ADDED), *merged])
    del client.store.manifests[merged[0].manifest_path]
    assert len(client.entries(AppendedFiles().delta(client.base, snapshot, client.manifests))) == 1


def _listed(**changes: Any) -> Callable[[Client], Snapshot]:
    def make(client: Client) -> Snapshot:
        [file] = client.written(ADDED, OLD)
        return client.snapshot([replace(file, **changes)])

    return make


def _entry(**changes: Any) -> Callable[[Client], Snapshot]:
    return lambda client: client.snapshot(client.written(replace(ADDED, **changes)))


REFUSED: dict[str, Callable[[Client], Snapshot]] = {
    "deletes": lambda client: client.snapshot(client.written(ADDED, replace(OLD, status=2, snapshot_id=MINE))),
    "encrypted": _listed(key_metadata=b"key"),
    "without counts": _listed(existing_files_count=None),
    "delete manifest": _listed(content=ManifestContent.DELETES),
    "other spec": _listed(partition_spec_id=8),
    "fewer files than counted": _listed(added_files_count=2, existing_files_count=0),
    "explicit number": _entry(sequence_number=1),
    "another snapshot's": _entry(snapshot_id=8, sequence_number=1),
    "more than its summary says": lambda client: client.snapshot(client.written(ADDED, replace(ADDED))),
    "summary without count": lambda client: client.snapshot(client.written(ADDED), None),
    "nothing": lambda client: client.snapshot(client.written(OLD), "0"),
    "inline manifests": lambda client: Snapshot(
        {
            "snapshot-id": MINE,
            "timestamp-ms": 5,
            "summary": {"operation": "append", "added-data-files": "1"},
            "manifests": [each.manifest_path for each in client.written(ADDED)],
        }
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_whatever_may_be_more_than_new_files_is_left_alone(what: str) -> None:
    client = Client()
    snapshot = REFUSED[what](client)
    recorded = RecordedWrites(client.manifests)
    assert AppendedFiles().delta(client.base, snapshot, recorded) is None
    assert recorded.written == []


def test_an_explicit_row_id_is_left_alone() -> None:
    client = Client(3)
    snapshot = client.snapshot(client.written(ADDED))
    [location] = client.store.manifests
    [entry] = client.store.manifests[location]
    client.store.manifests[location] = (replace(entry, data_file=replace(entry.data_file, first_row_id=5)),)
    assert AppendedFiles().delta(client.base, snapshot, client.manifests) is None


def test_a_delete_file_in_a_data_manifest_is_left_alone() -> None:
    client = Client()
    [file] = client.written(replace(ADDED, data_file=replace(data_file("d"), content=FileContent.POSITION_DELETES)))
    snapshot = client.snapshot([replace(file, content=ManifestContent.DATA)])
    assert AppendedFiles().delta(client.base, snapshot, client.manifests) is None


def test_too_many_entries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_files, "ENTRIES_MAX", 2)
    client = Client()
    fits, larger = client.snapshot(client.written(ADDED, OLD)), client.snapshot(client.written(ADDED, OLD, OLD))
    assert AppendedFiles().delta(client.base, fits, client.manifests) is not None
    assert AppendedFiles().delta(client.base, larger, client.manifests) is None


def test_too_many_manifests_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_files, "MANIFESTS_MAX", 1)
    client = Client()
    snapshot = client.snapshot([*client.written(ADDED), *client.written(OLD)])
    assert AppendedFiles().delta(client.base, snapshot, client.manifests) is not None, "one alone is read"
    other = replace(ADDED, data_file=data_file("other"))
    snapshot = client.snapshot([*client.written(ADDED), *client.written(other)], "2")
    assert AppendedFiles().delta(client.base, snapshot, client.manifests) is None


def test_what_the_server_cannot_write_is_left_alone() -> None:
    class Refusing(RecordedWrites):
        def write(self, *_: Any) -> Sequence[ManifestFile]:
            raise InvalidInput("an unknown transform")

    client = Client()
    snapshot = client.snapshot(client.written(ADDED))
    assert AppendedFiles().delta(client.base, snapshot, Refusing(client.manifests)) is None


def test_a_manifest_that_is_missing_is_an_error() -> None:
    client = Client()
    snapshot = client.snapshot(client.written(ADDED))
    client.store.manifests.clear()
    with pytest.raises(MissingFile):
        AppendedFiles().delta(client.base, snapshot, client.manifests)


def merge(writer: Writer, seen: TableMetadata, snapshot_id: int) -> list[dict[str, Any]]:
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    entries = [(EntryStatus.ADDED, data_file(str(snapshot_id))), (EntryStatus.EXISTING, data_file("a"))]
    return writer.rewrite_list(seen, snapshot_id, "append", entries, old, {"added-data-files": "1"})


def test_replays_name_the_manifest_that_the_first_one_wrote_and_read_nothing_of_the_client_again() -> None:
    writer = Writer(MemoryManifestStore())
    seen = table(properties=SNAPSHOT_ISOLATION)
    seen = committed(seen, request(seen, writer.fast_append(seen, 1, "a")), writer.store)
    before = set(writer.store.manifests)
    sent = request(seen, merge(writer, seen, 10))
    theirs = set(writer.store.manifests) - before
    now = committed(seen, request(seen, merge(writer, seen, 11)), writer.store)
    first = sent.stage(now, writer.manifests)
    assert first.rebased
    [own] = set(first.files) & set(writer.store.manifests)
    assert own not in theirs, "a failure of the commit deletes what staging wrote"
    for location in theirs:
        del writer.store.manifests[location]
    later = committed(now, request(now, writer.fast_append(now, 12, "other")), writer.store)
    second = sent.stage(later, writer.manifests)
    assert own in second.files
    assert set(first.files) & set(second.files) == {own}, "each replay has a list of its own"
    new = committed(later, sent, writer.store)
    assert writer.live(new.current_snapshot) == ["10", "11", "a", "other"]
