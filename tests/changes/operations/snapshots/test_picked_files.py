"""What a picked snapshot changed, and who changed its partitions since."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshots.picked_files import (
    PARTITIONS,
    PICKABLE,
    OverwrittenPartitions,
    PickedFiles,
    refuse_gone,
    refuse_live,
)
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.pickable import NOW, PickableTable, data_file


def overwritten():
    """Snapshot 3 replaced a, of 1, by new; 2 added b to another partition."""
    made = PickableTable()
    made.append(1, "a")
    made.append(2, "b", "warn")
    made.overwrite(3, {"new": "info"}, ("a",))
    return made


def names(files):
    return [each.file_path for each in files]


def test_the_files_of_a_snapshot_are_those_that_it_added_and_removed_itself():
    made = overwritten()
    files = PickedFiles.of(made.metadata.snapshot_by_id(3), made.manifests)
    assert (names(files.added), names(files.removed)) == (["file:/data/new.parquet"], ["file:/data/a.parquet"])
    assert (files.added_keys, files.removed_keys) == ({"file:///data/new.parquet"}, {"file:///data/a.parquet"})


def test_an_append_removes_nothing():
    made = overwritten()
    files = PickedFiles.of(made.metadata.snapshot_by_id(2), made.manifests)
    assert (names(files.added), files.removed) == (["file:/data/b.parquet"], ())


def test_a_snapshot_with_delete_files_is_refused():
    made = overwritten()
    base = made.metadata
    picked = base.snapshot_by_id(3)
    deletes = data_file("deletes")
    object.__setattr__(deletes, "content", FileContent.POSITION_DELETES)
    own = made.manifests.write(
        base, base.schema, base.spec, 3, [ManifestEntry(EntryStatus.ADDED, deletes, snapshot_id=3)]
    )
    listed = made.manifests.stage_list(base, picked, (*own, *made.manifests.list(picked)))
    changed = type(picked)({**picked.raw, "manifest-list": listed})
    with pytest.raises(RequirementFailed, match="snapshot 3 adds delete files") as caught:
        PickedFiles.of(changed, made.manifests)
    assert caught.value.name == PICKABLE


def test_partitions_that_nobody_touched_pass_and_each_snapshot_is_read_once():
    made = overwritten()
    picked = made.metadata.snapshot_by_id(3)
    partitions = OverwrittenPartitions(picked, PickedFiles.of(picked, made.manifests))
    partitions.check(made.metadata, 2, made.manifests)
    made.append(4, "c", "warn")
    partitions.check(made.metadata, 4, made.manifests)
    made.store.manifests.clear()
    partitions.check(made.metadata, 4, made.manifests)


def test_a_file_that_was_added_and_deleted_since_counts_as_well():
    made = overwritten()
    picked = made.metadata.snapshot_by_id(3)
    made.append(4, "c", "info")
    made.overwrite(5, {}, ("c",), operation="delete", dynamic=False, stage_only=False)
    partitions = OverwrittenPartitions(picked, PickedFiles.of(picked, made.manifests))
    with pytest.raises(RequirementFailed, match=r"to which snapshot 4 has added file:/data/c.parquet"):
        partitions.check(made.metadata, 5, made.manifests)


def test_a_history_whose_beginning_expired_does_not_show_what_came_after_an_empty_table():
    made = PickableTable()
    made.overwrite(1, {"new": "info"})
    made.append(2, "a", "warn")
    made.append(3, "b", "warn")
    made.metadata = apply(made.metadata, [{"action": "remove-snapshots", "snapshot-ids": [2]}], now_ms=NOW)
    picked = made.metadata.snapshot_by_id(1)
    partitions = OverwrittenPartitions(picked, PickedFiles.of(picked, made.manifests))
    with pytest.raises(RequirementFailed, match="not in the history of main") as caught:
        partitions.check(made.metadata, 3, made.manifests)
    assert caught.value.name == PARTITIONS


def test_files_that_are_live_are_not_added_and_files_that_are_gone_are_not_removed():
    made = overwritten()
    head = made.manifests.list(made.metadata.current_snapshot)
    files = PickedFiles((data_file("x"),), (data_file("a"),))
    refuse_live(files, head, made.manifests)
    refuse_gone(files, frozenset())
    with pytest.raises(RequirementFailed, match=r"main has 1 of the files that the snapshot adds, as file:/data/b"):
        refuse_live(PickedFiles((data_file("b"),), ()), head, made.manifests)
    with pytest.raises(RequirementFailed, match=r"longer 1 of the files that the snapshot replaces, as file:/data/a"):
        refuse_gone(files, frozenset({"file:///data/a.parquet"}))
    refuse_live(PickedFiles((), ()), head, made.manifests)
