"""Cherry-pick: what a snapshot outside of main's history changed, on main as it is."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.manifests.new_data_files import FILES_SCHEMA
from iceberg_hms.changes.operations.snapshots.cherry_pick import PICKED_ONCE, STAGED_ONCE, CherryPick
from iceberg_hms.changes.operations.snapshots.picked_files import NEW_FILES, PARTITIONS, PICKABLE
from iceberg_hms.changes.operations.snapshots.ref_change import SNAPSHOT_EXISTS
from iceberg_hms.changes.operations.snapshots.rollback import SetCurrentSnapshot
from iceberg_hms.changes.requirements import ASSERT_TABLE_UUID
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.pickable import NOW, PickableTable
from tests.changes.tables import UUID


def table(version=2):
    """main is at 2, with the files a and b; 3 adds c to it, staged under the WAP id w."""
    made = PickableTable(version)
    made.append(1, "a")
    made.append(2, "b", "warn")
    made.stage(3, "c", **{"wap.id": "w"})
    return made


def refused(call, name):
    with pytest.raises(RequirementFailed) as caught:
        call()
    assert caught.value.name == name
    return caught.value


@pytest.mark.parametrize("version", [1, 2, 3])
def test_main_moves_forward_to_its_next_snapshot(version):
    made = table(version)
    before = made.metadata
    new = made.pick(3)
    assert (new.current_snapshot_id, list(new.snapshots)) == (3, list(before.snapshots))
    assert made.staged.snapshot_ids == ()
    assert made.live() == ["a", "b", "c"]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("picked", [3, "w"])
def test_an_append_is_added_to_main_as_it_is(version, picked):
    made = table(version)
    made.append(4, "d")
    rows = made.metadata.next_row_id
    new = made.pick(picked)
    head = new.current_snapshot
    assert (head.snapshot_id, head.parent_snapshot_id, head.operation, head.timestamp_ms) == (100, 4, "append", NOW)
    assert made.live() == ["a", "b", "c", "d"]
    summary = dict(head.summary)
    assert (summary["source-snapshot-id"], summary["published-wap-id"]) == ("3", "w")
    assert "wap.id" not in summary
    assert (summary["added-data-files"], summary["added-records"], summary["changed-partition-count"]) == (
        "1",
        "10",
        "1",
    )
    assert (summary["total-data-files"], summary["total-records"]) == ("4", "40")
    own = made.manifests.list(head)[0]
    entry = next(iter(made.manifests.entries([own])))
    assert (entry.status, entry.snapshot_id) == (EntryStatus.ADDED, 100)
    if version > 1:
        assert (head.sequence_number, entry.sequence_number) == (5, 5)
    if version > 2:
        assert (head.first_row_id, entry.data_file.first_row_id, new.next_row_id) == (rows, rows, rows + 10)


def test_the_files_of_several_partition_specs_are_added():
    made = table()
    spec = {"spec-id": 1, "fields": []}
    made.metadata = apply(made.metadata, [{"action": "add-spec", "spec": spec}], now_ms=NOW)
    made.append(4, "d")
    made.pick(3)
    assert made.live() == ["a", "b", "c", "d"]


def test_main_keeps_its_settings():
    made = table()
    made.metadata = made.metadata.replace(
        refs={"main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 5}}
    )
    made.append(4, "d")
    assert made.pick(3).ref("main").min_snapshots_to_keep == 5


def test_a_pick_replays_on_whatever_main_is_and_writes_its_manifest_once():
    made = table()
    before = made.append(4, "d")
    made.append(5, "e")
    written = len(made.store.manifests)
    new = made.pick(3, base=before)
    assert (new.current_snapshot.parent_snapshot_id, made.live()) == (5, ["a", "b", "c", "d", "e"])
    assert len(made.store.manifests) == written + 1


def test_a_pick_that_was_staged_as_a_new_snapshot_may_move_forward_in_the_end():
    made = table()
    start = made.metadata
    moved = made.append(4, "d")
    made.metadata = start
    assert made.pick(3, base=moved).current_snapshot_id == 3


def test_the_first_snapshot_of_a_table_is_picked():
    made = PickableTable()
    made.stage(1, "a")
    made.stage(2, "b")
    assert made.pick(1).current_snapshot_id == 1
    made.pick(2)
    assert made.live() == ["a", "b"]


def test_the_key_of_the_job_that_staged_a_snapshot_goes_to_main():
    made = table()
    made.append(4, "d", stage_only=True, idempotency_key="job")
    made.append(5, "e")
    assert made.pick(4).current_snapshot.summary[IDEMPOTENCY_KEY] == "job"


def test_what_main_has_already_is_refused():
    made = table()
    made.append(4, "d")
    assert "snapshot 2 is in the history" in refused(lambda: made.pick(2), PICKED_ONCE).what
    made.pick(3)
    error = refused(lambda: made.pick(3, 101), PICKED_ONCE)
    assert "snapshot 3 was cherry-picked already, as snapshot 100" in error.what
    assert error.rests_on == {100}


def test_a_wap_id_is_published_once():
    made = table()
    made.stage(4, "d", **{"wap.id": "w"})
    made.pick(3)
    assert "the WAP id w was published already, as snapshot 3" in refused(lambda: made.pick(4, 101), PICKED_ONCE).what


def test_a_wap_id_that_a_pick_published_is_not_published_again():
    made = table()
    made.append(4, "d")
    made.stage(5, "e", **{"wap.id": "w"})
    made.pick(3)
    assert "the WAP id w was published already, as snapshot 100" in refused(lambda: made.pick(5, 101), PICKED_ONCE).what


def test_what_was_rolled_back_can_be_picked_again():
    made = table()
    made.append(4, "d")
    made.pick(3)
    made.commit(SetCurrentSnapshot(target=4, seen=None, table_uuid=UUID))
    made.append(5, "e")
    made.pick(100, 101)
    assert made.live() == ["a", "b", "c", "d", "e"]


def test_a_file_that_is_there_is_not_added_again_though_the_pick_has_expired():
    made = table()
    made.append(4, "d")
    made.pick(3)
    made.append(5, "e")
    made.append(6, "f")
    expired = {"action": "remove-snapshots", "snapshot-ids": [1, 2, 4, 5, 100]}
    made.metadata = apply(made.metadata, [expired], now_ms=NOW)
    assert "c.parquet (snapshot 100)" in refused(lambda: made.pick(3, 101), NEW_FILES).what


def test_a_snapshot_or_wap_id_that_is_not_there_is_refused():
    made = table()
    refused(lambda: made.pick(9), SNAPSHOT_EXISTS)
    assert "no snapshot is staged under the WAP id x" in refused(lambda: made.pick("x"), STAGED_ONCE).what


def test_a_wap_id_of_two_snapshots_is_refused():
    made = table()
    made.stage(4, "d", **{"wap.id": "w"})
    error = refused(lambda: made.pick("w"), STAGED_ONCE)
    assert (error.found, "snapshots 3, 4 are staged" in error.what) == ((3, 4), True)


def test_an_empty_wap_id_is_bad_input():
    with pytest.raises(InvalidInput, match="must not be empty"):
        CherryPick(PickableTable().new(1), " ")


def test_another_table_is_refused():
    made = table()
    made.metadata = made.metadata.replace(table_uuid="00000000-0000-0000-0000-000000000000")
    refused(lambda: made.pick(3), ASSERT_TABLE_UUID)


def test_a_schema_that_gives_the_files_another_meaning_is_refused():
    made = table()
    made.append(4, "d")
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "string"},
        {"id": 2, "name": "level", "required": False, "type": "string"},
    ]
    other = {"type": "struct", "schema-id": 1, "fields": fields}
    made.metadata = made.metadata.replace(schemas=[*made.metadata.raw["schemas"], other], current_schema_id=1)
    assert "column id was long" in refused(lambda: made.pick(3), FILES_SCHEMA).what


@pytest.mark.parametrize("operation", ["overwrite", "delete", "replace"])
def test_other_snapshots_can_only_be_the_next_of_main(operation):
    made = table()
    made.overwrite(4, {}, ("a",), operation=operation, dynamic=False)
    before = made.metadata
    assert made.pick(4).current_snapshot_id == 4
    made.metadata = before
    made.append(5, "e")
    assert "snapshot 4 is neither an append nor" in refused(lambda: made.pick(4), PICKABLE).what


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_dynamic_overwrite_replaces_its_partitions_beside_other_commits(version):
    made = table(version)
    made.overwrite(4, {"new": "info"}, ("a",))
    made.append(5, "e", "warn")
    before = {
        each.data_file.file_path: each
        for each in made.manifests.entries(made.manifests.list(made.metadata.current_snapshot))
    }
    head = made.pick(4).current_snapshot
    assert made.live() == ["b", "e", "new"]
    assert (head.operation, head.parent_snapshot_id, head.summary["source-snapshot-id"]) == ("overwrite", 5, "4")
    counts = ("added-data-files", "deleted-data-files", "deleted-records", "removed-files-size", "total-data-files")
    assert [head.summary[name] for name in counts] == ["1", "1", "10", "100", "3"]
    entries = {each.data_file.file_path: each for each in made.manifests.entries(made.manifests.list(head))}
    removed = entries["file:/data/a.parquet"]
    assert (removed.status, removed.snapshot_id) == (EntryStatus.DELETED, 100)
    for name in ("b", "e"):
        was, now = before[f"file:/data/{name}.parquet"], entries[f"file:/data/{name}.parquet"]
        assert (now.snapshot_id, now.sequence_number, now.data_file) == (
            was.snapshot_id,
            was.sequence_number,
            was.data_file,
        )


def test_a_dynamic_overwrite_is_refused_where_a_file_was_added_to_its_partition():
    made = table()
    made.overwrite(4, {"new": "info"}, ("a",))
    made.append(5, "e", "info")
    error = refused(lambda: made.pick(4), PARTITIONS)
    assert "snapshot 4 overwrote partition level=info, to which snapshot 5 has added file:/data/e.parquet" in error.what
    assert error.rests_on == {5}


def test_a_dynamic_overwrite_is_refused_where_a_file_that_it_replaces_is_gone():
    made = table()
    made.overwrite(4, {"new": "info"}, ("a",))
    made.overwrite(5, {}, ("a",), operation="delete", dynamic=False, stage_only=False)
    assert "main has no longer 1 of the files" in refused(lambda: made.pick(4), PARTITIONS).what


def test_a_dynamic_overwrite_is_refused_where_main_does_not_descend_from_its_parent():
    made = table()
    made.overwrite(4, {"new": "info"}, ("a",))
    made.commit(SetCurrentSnapshot(target=1, seen=None, table_uuid=UUID))
    made.append(5, "e", "warn")
    assert (
        "overwrote partitions of snapshot 2, which is not in the history"
        in refused(lambda: made.pick(4), PARTITIONS).what
    )


def test_a_dynamic_overwrite_of_an_empty_table_is_picked_beside_other_partitions():
    made = PickableTable()
    made.overwrite(1, {"new": "info"})
    made.append(2, "b", "warn")
    made.pick(1)
    assert made.live() == ["b", "new"]


def test_looking_ahead_refuses_nothing():
    made = table()
    made.append(4, "d")
    CherryPick(made.new(100), 9).look_ahead(made.metadata, made.manifests)
    change = CherryPick(made.new(100), 3)
    change.look_ahead(made.metadata, made.manifests)
    made.commit(change)
    CherryPick(made.new(101), 3).look_ahead(made.metadata, made.manifests)
    assert made.live() == ["a", "b", "c", "d"]
