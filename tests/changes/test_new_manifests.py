"""What new snapshots add, checked before the swap that would publish it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes import new_manifests
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors import requests
from tests.changes.tables import snapshot, table
from tests.changes.writers import NOW, Writer, committed, data_file, request


@pytest.fixture
def writer() -> Writer:
    return Writer(MemoryManifestStore())


def merged(writer: Writer, base: TableMetadata, seen: TableMetadata, lowest: int = 0) -> dict[str, Any]:
    """The JSON of a snapshot on `base` whose one manifest, written for the version of `seen`, lists a and b again.

    lowest: the manifest's lowest number, as the list says: 0 if Java wrote it."""
    old = writer.manifests.list(seen.current_snapshot)  # type: ignore[arg-type]
    entries = [(EntryStatus.ADDED, data_file("mine")), *((EntryStatus.EXISTING, data_file(name)) for name in "ab")]
    sent = writer.rewrite_list(seen, 10, "append", entries, old)[0]["snapshot"]
    [own] = writer.store.lists[sent["manifest-list"]]
    number = base.next_sequence_number
    writer.store.lists[sent["manifest-list"]] = (replace(own, sequence_number=number, min_sequence_number=lowest),)
    return {**sent, "sequence-number": number}


def grown(writer: Writer) -> TableMetadata:
    base = table(1)
    for id_, name in ((1, "a"), (2, "b")):
        base = committed(base, request(base, writer.fast_append(base, id_, name)), writer.store)
    return base


@pytest.mark.parametrize("lowest", [0, 1], ids=["as Java", "as PyIceberg"])
def test_older_files_in_a_manifest_of_version_1_need_a_list_of_version_1(writer: Writer, lowest: int) -> None:
    seen = grown(writer)
    upgraded = apply(seen, [requests.upgrade_format_version(2)], now_ms=NOW)
    new_manifests.check(upgraded, [merged(writer, upgraded, upgraded, lowest)], writer.store.open())
    sent = merged(writer, upgraded, seen, lowest)
    with pytest.raises(
        RequirementFailed, match=r"lists older files without sequence numbers, in .*-m0\.avro"
    ) as caught:
        new_manifests.check(upgraded, [sent], writer.store.open())
    assert caught.value.name == new_manifests.FILES_ARE_NUMBERED
    location = sent["manifest-list"]
    [own] = writer.store.lists[location]
    for changed in (replace(own, sequence_number=0), replace(own, existing_files_count=0)):
        writer.store.lists[location] = (changed,)
        new_manifests.check(upgraded, [sent], writer.store.open())
    writer.store.lists[location] = (own,)
    new_manifests.check(seen, [sent], writer.store.open())


def manifest(name: str, first_row_id: int | None, rows: int = 10, *, older: int = 0, deletes: bool = False) -> Any:
    content = ManifestContent.DELETES if deletes else ManifestContent.DATA
    counts = {"added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
    rows_ = {"added_rows_count": rows, "existing_rows_count": older, "deleted_rows_count": 0}
    return ManifestFile(f"file:/{name}.avro", 100, 0, 7, content, 1, 1, **counts, **rows_, first_row_id=first_row_id)


#: The manifests of a snapshot with the rows 100 to 129 -> whether they are right.
ROW_IDS: dict[str, tuple[list[ManifestFile], bool]] = {
    "each its own": ([manifest("a", 100), manifest("b", 110, 20)], True),
    "in another order": ([manifest("b", 110, 20), manifest("a", 100)], True),
    "some are left": ([manifest("a", 105)], True),
    "older rows, too": ([manifest("a", 100, older=20)], True),
    "delete files have none": ([manifest("a", 100), manifest("d", None, deletes=True)], True),
    "none": ([manifest("a", None)], False),
    "the same": ([manifest("a", 100), manifest("b", 100)], False),
    "overlapping": ([manifest("a", 100), manifest("b", 109)], False),
    "overlapping in older rows": ([manifest("a", 100, older=1), manifest("b", 110)], False),
    "of an earlier snapshot": ([manifest("a", 99)], False),
    "not reserved": ([manifest("a", 100), manifest("b", 121)], False),
}


@pytest.mark.parametrize("what", ROW_IDS)
@pytest.mark.parametrize("version", [2, 3])
def test_a_snapshot_gives_each_row_an_id_of_its_own(writer: Writer, version: int, what: str) -> None:
    files, right = ROW_IDS[what]
    raw = snapshot(7, first_row_id=100, added_rows=30)
    writer.store.lists[raw["manifest-list"]] = tuple(files)
    if right or version == 2:
        new_manifests.check(table(version), [raw], writer.store.open())
        return
    with pytest.raises(RequirementFailed, match="ids that it has not reserved, or that it gives to other") as caught:
        new_manifests.check(table(version), [raw], writer.store.open())
    assert caught.value.name == new_manifests.ROW_IDS_ARE_OWN
