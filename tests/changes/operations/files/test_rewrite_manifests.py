"""The same files in fewer manifests, on whatever the branch has become."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.files import rewrite_manifests
from iceberg_hms.changes.operations.files.rewrite_manifests import RewriteManifests
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.operations.files.test_append import NOW, append, committed, data_file
from tests.changes.operations.manifests.test_manifest_merge import live
from tests.changes.tables import BY_LEVEL, UUID, table


def rewrite(snapshot_id: int = 200, **changes: Any) -> RewriteManifests:
    return RewriteManifests(NewSnapshot(snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW), **changes)


def rewritten(base: TableMetadata, change: RewriteManifests, manifests: MemoryManifests) -> TableMetadata:
    change.check(base)
    return apply(base, change.stage(base, manifests).updates, now_ms=NOW)


def partitioned(manifests: MemoryManifests, *levels: str, version: int = 2) -> TableMetadata:
    base = table(version, spec=BY_LEVEL)
    for number, level in enumerate(levels):
        base = committed(base, append([data_file(f"f{number}", level)], 100 + number), manifests)
    return base


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_files_keep_their_numbers_in_one_manifest_sorted_by_partition(version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = partitioned(manifests, "warn", "error", "warn", "info", version=version)
    new = rewritten(base, rewrite(), manifests)
    assert live(new, manifests) == live(base, manifests)
    head = new.current_snapshot
    assert head is not None
    (manifest,) = manifests.list(head)
    levels = [each.data_file.partition["level"] for each in manifests.entries([manifest])]
    assert levels == ["error", "info", "warn", "warn"]
    assert {name: head.summary[name] for name in ("operation", "entries-processed", "total-data-files")} == {
        "operation": "replace",
        "entries-processed": "4",
        "total-data-files": "4",
    }
    counts = [head.summary[f"manifests-{name}"] for name in ("created", "kept", "replaced")]
    assert counts == ["1", "0", "4"]


def test_what_was_appended_meanwhile_stays_and_nothing_is_read_again() -> None:
    store = MemoryManifestStore()
    manifests = store.open()
    base = partitioned(manifests, "warn", "error")
    change = rewrite()
    change.look_ahead(base, manifests)
    moved = committed(base, append([data_file("late", "info")], 150), manifests)
    written = set(store.manifests)
    new = rewritten(moved, change, manifests)
    assert set(store.manifests) == written
    assert live(new, manifests) == live(moved, manifests)
    assert len(manifests.list(new.current_snapshot)) == 2  # type: ignore[arg-type]


def test_it_is_planned_anew_if_a_manifest_is_gone() -> None:
    manifests = MemoryManifestStore().open()
    base = partitioned(manifests, "warn", "error", "info")
    late = rewrite(201)
    late.look_ahead(base, manifests)
    moved = rewritten(base, rewrite(200), manifests)
    moved = committed(moved, append([data_file("late", "info")], 202), manifests)
    new = rewritten(moved, late, manifests)
    assert live(new, manifests) == live(moved, manifests)
    assert len(manifests.list(new.current_snapshot)) == 1  # type: ignore[arg-type]


def test_a_table_whose_manifests_are_as_they_should_be_needs_none() -> None:
    manifests = MemoryManifestStore().open()
    one = rewrite()
    one.look_ahead(partitioned(manifests, "warn"), manifests)
    two = rewrite()
    two.look_ahead(partitioned(manifests, "warn", "info"), manifests)
    assert (one.is_idle, two.is_idle, rewrite().is_idle) == (True, False, False)


def test_large_tables_are_rewritten_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_manifests, "ENTRIES_MAX", 3)
    manifests = MemoryManifestStore().open()
    base = partitioned(manifests, *["a", "b", "c"] * 3)
    new = rewritten(base, rewrite(), manifests)
    assert live(new, manifests) == live(base, manifests)
    parts = [
        {each.data_file.partition["level"] for each in manifests.entries([manifest])}
        for manifest in manifests.list(new.current_snapshot)  # type: ignore[arg-type]
    ]
    assert parts == [{"a"}, {"b"}, {"c"}]


def test_one_spec_alone_is_rewritten_and_an_unknown_one_is_refused() -> None:
    manifests = MemoryManifestStore().open()
    base = partitioned(manifests, "warn", "error")
    spec = {"spec-id": 1, "fields": []}
    base = apply(
        base, [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}], now_ms=NOW
    )
    for number in (110, 111):
        base = committed(base, append([data_file(f"f{number}", spec_id=1)], number, spec_id=1), manifests)
    new = rewritten(base, rewrite(spec_id=1), manifests)
    assert [each.partition_spec_id for each in manifests.list(new.current_snapshot)] == [1, 0, 0]  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no partition spec 7, it has 0, 1"):
        rewrite(spec_id=7).check(base)
