"""Append: one new snapshot on the table's current state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import StagedChange
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.errors import CommitStateUnknown, InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from simulation.actors import requests
from tests.changes.tables import BY_LEVEL, FIELDS, UUID, branch, snapshot, table, with_main

NOW = 5_000


def data_file(name: str, level: str | None = None, records: int = 10, **changes: Any) -> DataFile:
    partition = {} if level is None else {"level": level}
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", records, records * 10, partition, **changes)


def append(files: Iterable[DataFile], number: int = 100, *, check_duplicates: bool = True, **changes: Any) -> Append:
    files, specs = list(files), {changes.pop("spec_id", 0): changes.pop("spec", None)}
    planned = {each: changes.pop(each) for each in ("schema", "name_mapping") if each in changes}
    added = NewDataFiles(files, snapshot_id=number, schema_id=0, specs=specs, **planned)
    new = NewSnapshot(snapshot_id=number, **{"table_uuid": UUID, "now_ms": lambda: NOW, **changes})
    return Append(new.of_job("append", added=files), added, check_duplicates=check_duplicates)


def committed(base: TableMetadata, change: Append, manifests: MemoryManifests) -> TableMetadata:
    change.check(base)
    return apply(base, change.stage(base, manifests).updates, now_ms=NOW)


def fresh() -> MemoryManifests:
    return MemoryManifestStore().open()


def files_of(head: Snapshot | None, manifests: MemoryManifests) -> list[str]:
    assert head is not None
    return [entry.data_file.file_path for entry in manifests.entries(manifests.list(head)) if entry.is_live]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("level", [None, "info"], ids=["unpartitioned", "partitioned"])
def test_the_first_append_to_an_empty_table(version: int, level: str | None) -> None:
    manifests = fresh()
    base = table(version, spec=None if level is None else BY_LEVEL)
    new = committed(base, append([data_file("a", level), data_file("b", level)]), manifests)
    head = new.current_snapshot
    assert head is not None
    assert (head.snapshot_id, head.parent_snapshot_id, head.timestamp_ms, head.schema_id) == (100, None, NOW, 0)
    assert head.summary == {
        "operation": "append",
        "added-data-files": "2",
        "added-records": "20",
        "added-files-size": "200",
        "changed-partition-count": "1",
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "0",
        "total-records": "20",
        "total-files-size": "200",
        "total-data-files": "2",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }
    assert head.sequence_number == new.last_sequence_number == (0 if version == 1 else 1)
    assert ("sequence-number" in head.raw) == (version > 1)
    assert (head.first_row_id, head.added_rows) == ((0, 20) if version == 3 else (None, None))
    assert new.next_row_id == (20 if version == 3 else 0)
    assert files_of(head, manifests) == ["file:/data/a.parquet", "file:/data/b.parquet"]
    assert new.refs["main"].snapshot_id == 100


def test_a_second_append_names_its_own_manifests_first_and_keeps_all_others() -> None:
    manifests = fresh()
    base = committed(table(), append([data_file("a")], 100), manifests)
    new = committed(base, append([data_file("b")], 101), manifests)
    head = new.current_snapshot
    assert head is not None
    assert (head.parent_snapshot_id, head.sequence_number) == (100, 2)
    assert [each.added_snapshot_id for each in manifests.list(head)] == [101, 100]
    assert [each.sequence_number for each in manifests.list(head)] == [2, 1]
    assert (head.summary["manifests-created"], head.summary["manifests-kept"]) == ("1", "1")
    assert head.summary["total-data-files"] == "2"


def test_totals_that_the_parent_lacks_are_left_out() -> None:
    base = with_main(7, snapshots=[snapshot(7, summary={"operation": "append", "total-records": "5"})])
    store = MemoryManifestStore()
    store.lists[str(base.current_snapshot.manifest_list)] = ()  # type: ignore[union-attr]
    head = committed(base, append([data_file("a")]), store.open()).current_snapshot
    assert head is not None
    assert {name: value for name, value in head.summary.items() if name.startswith("total-")} == {"total-records": "15"}


def test_a_file_of_unknown_order_is_written_as_unsorted_and_a_sorted_one_as_it_is() -> None:
    manifests = fresh()
    new = committed(table(), append([data_file("a"), data_file("b", sort_order_id=1)]), manifests)
    entries = manifests.entries(manifests.list(new.snapshots[-1]))
    assert [entry.data_file.sort_order_id for entry in entries] == [0, 1]


def test_an_append_of_nothing_is_an_empty_snapshot() -> None:
    manifests = fresh()
    new = committed(table(), append([]), manifests)
    assert files_of(new.current_snapshot, manifests) == []
    assert new.current_snapshot is not None
    assert new.current_snapshot.summary["total-records"] == "0"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_replay_on_a_moved_base_reuses_the_manifests_in_a_new_list(version: int) -> None:
    store = MemoryManifestStore()
    change = append([data_file("mine")], 100)
    first = change.stage(table(version), store.open())
    written = set(store.manifests)
    moved = store.open()
    base = committed(table(version), append([data_file("theirs")], 99), moved)
    moved.flush()
    manifests = store.open()
    second = change.stage(base, manifests)
    new = apply(base, second.updates, now_ms=NOW)
    assert written < set(store.manifests)
    assert len(store.manifests) == 2, "the replay wrote no manifest of its own again"
    assert written < set(second.files)
    assert list_of(first) != list_of(second)
    assert sorted(files_of(new.current_snapshot, manifests)) == ["file:/data/mine.parquet", "file:/data/theirs.parquet"]
    assert new.current_snapshot is not None
    assert new.current_snapshot.parent_snapshot_id == 99
    assert new.current_snapshot.summary["total-records"] == "20"
    if version == 3:
        assert (new.current_snapshot.first_row_id, new.next_row_id) == (10, 20)


def list_of(staged: StagedChange) -> str:
    (location,) = [update["snapshot"]["manifest-list"] for update in staged.updates if "snapshot" in update]
    return str(location)


def test_a_replay_after_an_upgrade_writes_manifests_of_the_new_version() -> None:
    store = MemoryManifestStore()
    change = append([data_file("a")])
    change.stage(table(1), store.open())
    upgraded = apply(table(1), [requests.upgrade_format_version(2)], now_ms=NOW)
    staged = change.stage(upgraded, store.open())
    assert len(store.manifests) == 2
    assert [path for path in staged.files if path in store.manifests] == list(store.manifests)[1:]


def test_a_table_upgraded_to_v3_assigns_ids_to_existing_rows() -> None:
    manifests = fresh()
    base = committed(table(2), append([data_file("old", records=7)], 100), manifests)
    upgraded = apply(base, [requests.upgrade_format_version(3)], now_ms=NOW)
    new = committed(upgraded, append([data_file("new", records=5)], 101), manifests)
    head = new.current_snapshot
    assert head is not None
    assert (head.first_row_id, head.added_rows, new.next_row_id) == (0, 12, 12)
    assert [each.first_row_id for each in manifests.list(head)] == [0, 5]


def test_staging_twice_on_one_base_is_harmless() -> None:
    manifests = fresh()
    change = append([data_file("a")])
    change.stage(table(), manifests)
    new = committed(table(), change, manifests)
    assert files_of(new.current_snapshot, manifests) == ["file:/data/a.parquet"]


def test_a_branch_is_appended_to_and_main_stays() -> None:
    manifests = fresh()
    base = committed(table(), append([data_file("a")], 100), manifests)
    base = apply(base, [updates.set_snapshot_ref("audit", 100)], now_ms=NOW)
    new = committed(base, append([data_file("b")], 101, branch="audit"), manifests)
    assert (new.refs["main"].snapshot_id, new.refs["audit"].snapshot_id) == (100, 101)
    assert new.snapshot_by_id(101).parent_snapshot_id == 100  # type: ignore[union-attr]


def test_a_new_branch_starts_from_main() -> None:
    manifests = fresh()
    base = committed(table(), append([data_file("a")], 100), manifests)
    new = committed(base, append([data_file("b")], 101, branch="audit"), manifests)
    head = new.snapshots[-1]
    assert (new.refs["main"].snapshot_id, new.refs["audit"].snapshot_id) == (100, 101)
    assert files_of(head, manifests) == ["file:/data/b.parquet", "file:/data/a.parquet"]
    assert (head.snapshot_id, head.summary["total-records"]) == (101, "20")


def test_a_branchs_retention_stays() -> None:
    manifests = fresh()
    base = committed(table(), append([data_file("a")], 100), manifests)
    kept = branch(100, **{"min-snapshots-to-keep": 3, "max-ref-age-ms": 99})
    base = TableMetadata.parse({**base.raw, "refs": {"main": branch(100), "audit": kept}})
    new = committed(base, append([data_file("b")], 101, branch="audit"), manifests)
    assert new.raw["refs"]["audit"] == {**kept, "snapshot-id": 101}


def test_the_timestamp_never_falls() -> None:
    new = committed(table(last_updated_ms=NOW + 7), append([data_file("a")]), fresh())
    assert new.current_snapshot is not None
    assert new.current_snapshot.timestamp_ms == NOW + 7


def test_summary_and_key_of_the_caller_are_kept() -> None:
    change = append([data_file("a")], summary={"app": "loader"}, idempotency_key="job-1", caller="etl")
    head = committed(table(), change, fresh()).current_snapshot
    assert head is not None
    assert (head.summary["app"], head.summary[IDEMPOTENCY_KEY]) == ("loader", "job-1")
    identity = change.identity
    assert (identity.snapshot_ids, identity.ref, identity.idempotency_key) == ((100,), "main", "job-1")
    assert identity.caller == "etl"


def test_the_name_mapping_is_set_once() -> None:
    change = append([data_file("a")], name_mapping="[]")
    new = committed(table(), change, fresh())
    assert new.properties["schema.name-mapping.default"] == "[]"
    mapped = table(properties={"schema.name-mapping.default": "mine"})
    assert committed(mapped, change, fresh()).properties["schema.name-mapping.default"] == "mine"


def test_the_schema_of_the_files_may_be_an_older_one() -> None:
    schemas = [{"type": "struct", "schema-id": number, "fields": FIELDS[: 2 - number]} for number in (0, 1)]
    base = table(schemas=schemas, current_schema_id=1)
    head = committed(base, append([data_file("a")]), fresh()).current_snapshot
    assert head is not None
    assert head.schema_id == 1, "a snapshot names the schema that was current when it was made"


def evolved(*fields: dict[str, Any], **changes: Any) -> TableMetadata:
    """The table that the append was planned on, with another current schema."""
    schemas = [
        {"type": "struct", "schema-id": 0, "fields": FIELDS},
        {"schema-id": 1, "type": "struct", "fields": list(fields)},
    ]
    return table(schemas=schemas, current_schema_id=1, last_column_id=9, **changes)


def test_an_append_is_committed_after_legal_schema_evolution() -> None:
    base = evolved(
        {**FIELDS[1], "name": "severity"}, FIELDS[0], {"id": 3, "name": "n", "required": False, "type": "int"}
    )
    manifests = fresh()
    assert files_of(committed(base, append([data_file("a")]), manifests).current_snapshot, manifests) == [
        "file:/data/a.parquet"
    ]


def test_a_name_mapping_that_is_set_after_evolution_has_the_new_names_too() -> None:
    base = evolved({**FIELDS[0], "name": "key"})
    change = append([data_file("a")], name_mapping='[{"field-id":1,"names":["id"]}]')
    mapping = committed(base, change, fresh()).properties["schema.name-mapping.default"]
    assert mapping == '[{"field-id":1,"names":["id","key"]}]'


def test_an_append_planned_before_a_replace_fails_and_names_the_changed_columns() -> None:
    """The table and its uuid stay, and so do the ids of columns of the same name."""
    must = {"id": 3, "name": "must", "required": True, "type": "int"}
    base = evolved({**FIELDS[0], "type": "string"}, FIELDS[1], must)
    with pytest.raises(RequirementFailed) as caught:
        append([data_file("a")]).check(base)
    assert (caught.value.name, caught.value.expected, caught.value.found) == ("files-schema", 0, 1)
    assert caught.value.what.endswith(
        "column id was long and is string now; column must is new and required, and has no default"
    )


def test_a_new_schema_with_a_removed_schema_s_id_is_another_one() -> None:
    planned = table().schema
    append([data_file("a")], schema=planned).check(table())
    other = [{"type": "struct", "schema-id": 0, "fields": [{**FIELDS[0], "type": "string"}]}]
    with pytest.raises(RequirementFailed, match="another one has its id") as caught:
        append([data_file("a")], schema=planned).check(table(schemas=other))
    assert caught.value.name == "files-schema"


def test_a_new_spec_with_a_removed_spec_s_id_is_another_one() -> None:
    """A table reuses its highest spec id once that spec is removed; the files are partitioned by the removed one."""

    def by(width: int) -> dict[str, Any]:
        field = {"source-id": 2, "field-id": 1000, "transform": f"truncate[{width}]", "name": "level"}
        return {"spec-id": 0, "fields": [field]}

    planned = table(spec=by(2))
    change = append([data_file("a", "in")], spec=planned.spec_by_id(0))
    change.check(planned)
    with pytest.raises(RequirementFailed, match="another one has its id") as caught:
        change.check(table(spec=by(4)))
    assert caught.value.name == "files-spec"


def test_an_append_of_files_without_ids_fails_if_a_name_now_belongs_to_another_column() -> None:
    mapped = append([data_file("a")], name_mapping='[{"field-id": 1, "names": ["id"]}]')
    key = "schema.name-mapping.default"
    mapped.check(table(properties={key: '[{"field-id": 1, "names": ["id", "key"]}]'}))
    moved = table(properties={key: '[{"field-id": 1, "names": ["key"]}, {"field-id": 3, "names": ["id"]}]'})
    with pytest.raises(
        RequirementFailed, match="name mapping changed since the files were matched by it: id"
    ) as caught:
        mapped.check(moved)
    assert caught.value.name == "files-name-mapping"
    append([data_file("a")]).check(moved)


def test_no_name_mapping_is_set_that_maps_a_column_s_name_to_another_column() -> None:
    """level became severity, and a new column is called level: later files would have level read as severity."""
    new = {"id": 3, "name": "level", "required": False, "type": "string"}
    base = evolved(FIELDS[0], {**FIELDS[1], "name": "severity"}, new)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["level"]}]'
    with pytest.raises(RequirementFailed, match="now belong to other columns: level") as caught:
        append([data_file("a")], name_mapping=mapping).check(base)
    assert caught.value.name == "files-name-mapping"
    append([data_file("a")]).check(base)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (None, "assert-table-uuid"),
        (table(table_uuid="00000000-0000-0000-0000-000000000001"), "assert-table-uuid"),
        (
            table(schemas=[{"type": "struct", "schema-id": 1, "fields": FIELDS}], current_schema_id=1),
            "files-schema",
        ),
        (table(partition_specs=[{"spec-id": 3, "fields": []}], default_spec_id=3), "files-spec"),
    ],
    ids=["no table", "another table", "schema removed", "spec removed"],
)
def test_the_error_names_the_failed_assumption(base: TableMetadata | None, name: str) -> None:
    with pytest.raises(RequirementFailed) as caught:
        append([data_file("a")]).check(base)
    assert caught.value.name == name


def test_nothing_is_staged_on_a_dropped_table() -> None:
    with pytest.raises(RequirementFailed, match="table does not exist"):
        append([data_file("a")]).stage(None, fresh())


def test_an_old_v1_table_without_uuid_can_be_appended_to() -> None:
    base = table(1, table_uuid=None)
    append([data_file("a")], table_uuid=None).check(base)


def test_a_tag_cannot_be_appended_to() -> None:
    base = with_main(7, refs={"main": branch(7), "v1": {"snapshot-id": 7, "type": "tag"}})
    with pytest.raises(InvalidInput, match="v1 is a tag"):
        append([data_file("a")], branch="v1").check(base)


def test_partition_values_must_be_the_specs() -> None:
    with pytest.raises(InvalidInput, match=r"partition values \[\], its spec has \['level'\]"):
        append([data_file("a")]).check(table(spec=BY_LEVEL))
    with pytest.raises(InvalidInput, match="partition values"):
        append([data_file("a", "info")]).check(table())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([data_file("a"), data_file("a")], "twice"),
        ([data_file("a"), DataFile("file:///data//a.parquet", "PARQUET", 1, 10)], "twice: file:///data//a.parquet"),
        ([DataFile("s3a://b/a", "PARQUET", 1, 10), DataFile("s3n://b/a", "PARQUET", 1, 10)], "twice: s3n://b/a"),
        ([data_file("a", content=1)], "delete file"),
        ([data_file("a", spec_id=3)], "made for partition spec 3"),
        ([data_file("a", records=-1)], "negative"),
        ([replace(data_file("a"), file_path="")], "has no path"),
        ([replace(data_file("a"), file_format="PUFFIN")], "'PUFFIN', which is none of PARQUET, ORC, AVRO"),
    ],
)
def test_files_that_cannot_be_appended_are_refused_at_once(files: list[DataFile], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        append(files)


class Watched(MemoryManifests):
    """Records which manifests are searched for files."""

    def __init__(self, store: MemoryManifestStore) -> None:
        super().__init__(store)
        self.looked: list[list[int]] = []

    def candidates(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestFile]:
        files = tuple(files)
        self.looked.append([each.added_snapshot_id for each in files])
        return super().candidates(files, keys)


def with_files(store: MemoryManifestStore, *names: str) -> TableMetadata:
    """A table whose main has files, one of each snapshot from 1 on; its lists are flushed."""
    manifests, base = store.open(), table()
    for number, name in enumerate(names, 1):
        base = committed(base, append([data_file(name)], number), manifests)
    manifests.flush()
    return base


def test_a_file_that_the_branch_has_is_refused_and_nothing_is_written() -> None:
    store = MemoryManifestStore()
    base = with_files(store, "a", "b", "c")
    before = set(store.manifests)
    change = append([data_file("new"), data_file("b"), data_file("a")])
    change.check(base)
    with pytest.raises(RequirementFailed) as caught:
        change.stage(base, store.open())
    error = caught.value
    assert error.name == "new-files"
    assert "main has 2 of the files already: file:/data/b.parquet (snapshot 2), file:/data/a.parquet (snapshot 1)" in (
        error.message
    )
    assert error.rests_on == {1, 2}
    assert "delete none" in error.next_step
    assert "check_duplicates=False" in error.next_step
    assert set(store.manifests) == before


@pytest.mark.parametrize("spelling", ["file:///data/a.parquet", "/data//a.parquet", "file:/data/x/../a.parquet"])
def test_a_file_that_the_branch_has_under_another_spelling_is_refused(spelling: str) -> None:
    store = MemoryManifestStore()
    base = with_files(store, "a")
    with pytest.raises(RequirementFailed, match=r"file:/data/a\.parquet \(snapshot 1\)"):
        append([DataFile(spelling, "PARQUET", 10, 100)]).stage(base, store.open())


def test_an_error_names_some_of_many_duplicate_files_and_counts_all() -> None:
    manifests = fresh()
    files = [data_file(f"{number:03d}") for number in range(200)]
    base = committed(table(), append(files, 1), manifests)
    with pytest.raises(RequirementFailed) as caught:
        append([data_file("new"), *files]).stage(base, manifests)
    assert "200 of the files already" in caught.value.message
    assert len(caught.value.message) < 1_000


def test_a_file_may_be_added_twice_without_the_duplicate_check() -> None:
    store = MemoryManifestStore()
    base = with_files(store, "a")
    manifests = store.open()
    new = committed(base, append([data_file("a")], check_duplicates=False), manifests)
    assert files_of(new.current_snapshot, manifests) == ["file:/data/a.parquet"] * 2


def test_a_file_of_another_branch_may_be_appended() -> None:
    store = MemoryManifestStore()
    base = apply(with_files(store, "a"), [updates.set_snapshot_ref("audit", 1)], now_ms=NOW)
    manifests = store.open()
    base = committed(base, append([data_file("b")], 2, branch="audit"), manifests)
    new = committed(base, append([data_file("b")], 3), manifests)
    assert files_of(new.current_snapshot, manifests) == ["file:/data/b.parquet", "file:/data/a.parquet"]
    with pytest.raises(RequirementFailed, match="audit has 1 of the files"):
        append([data_file("b")], 4, branch="audit").stage(new, manifests)
    with pytest.raises(RequirementFailed, match="fresh has 1 of the files"):
        append([data_file("a")], 4, branch="fresh").stage(new, manifests)


def test_a_file_that_was_removed_may_be_appended_again() -> None:
    manifests = fresh()
    base = committed(table(), append([data_file("a"), data_file("b")], 1), manifests)
    numbers: dict[str, Any] = {"snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1}
    entries = [
        ManifestEntry(EntryStatus.DELETED, data_file("a"), **numbers),
        ManifestEntry(EntryStatus.EXISTING, data_file("b"), **numbers),
    ]
    rewritten = manifests.write(base, base.schema, base.spec, 2, entries)
    raw = snapshot(2, sequence_number=2, parent_snapshot_id=1, summary={"operation": "delete"})
    raw["manifest-list"] = manifests.stage_list(base, Snapshot(raw), rewritten)
    base = apply(base, [updates.add_snapshot(raw), updates.set_snapshot_ref("main", 2)], now_ms=NOW)
    new = committed(base, append([data_file("a")], 3), manifests)
    assert files_of(new.current_snapshot, manifests) == ["file:/data/a.parquet", "file:/data/b.parquet"]
    with pytest.raises(RequirementFailed, match=r"file:/data/b\.parquet \(snapshot 1\)"):
        append([data_file("b")], 4).stage(new, manifests)


def test_a_file_added_since_the_last_search_is_refused_and_only_new_manifests_are_searched() -> None:
    store = MemoryManifestStore()
    base = with_files(store, "a", "b")
    change, others, manifests = append([data_file("mine")]), store.open(), Watched(store)
    change.look_ahead(base, manifests)
    change.stage(base, manifests)
    base = committed(base, append([data_file("theirs")], 8), others)
    others.flush()
    change.stage(base, manifests)
    base = committed(base, append([data_file("mine")], 9), others)
    others.flush()
    with pytest.raises(RequirementFailed, match=r"mine\.parquet \(snapshot 9\)"):
        change.stage(base, manifests)
    assert manifests.looked == [[2, 1], [8], [9]]


def test_the_early_search_refuses_nothing() -> None:
    store = MemoryManifestStore()
    base = with_files(store, "a")
    change = append([data_file("a")])
    change.look_ahead(base, store.open())
    store.lists.clear()
    change.look_ahead(base, store.open())
    append([data_file("a")], check_duplicates=False).look_ahead(base, store.open())


def test_an_append_without_the_duplicate_check_reads_no_manifest() -> None:
    store = MemoryManifestStore()
    base, manifests = with_files(store, "a"), Watched(store)
    change = append([data_file("b")], check_duplicates=False)
    change.look_ahead(base, manifests)
    change.stage(base, manifests)
    append([]).stage(base, manifests)
    assert manifests.looked == []


def test_files_of_its_own_expired_snapshot_make_the_state_unknown() -> None:
    """Its snapshot has expired since, so its id is gone; its files are not."""
    store = MemoryManifestStore()
    base = with_files(store, "a", "b")
    base = apply(base, [requests.remove_snapshots([1])], now_ms=NOW)
    with pytest.raises(CommitStateUnknown, match="snapshot 1 "):
        append([data_file("a")], 1).stage(base, store.open())


def test_computed_summary_properties_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="total-records"):
        append([data_file("a")], summary={"total-records": "5"})


@given(
    version=st.integers(1, 3),
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    data=st.data(),
)
def test_appends_in_any_order_leave_every_file_once_and_one_chain(
    version: int, sizes: list[int], data: st.DataObject
) -> None:
    """Appends are staged on a running metadata, as a group is; some groups are thrown away and staged again, in another
    order or with others."""
    store = MemoryManifestStore()
    changes = [
        append([data_file(f"{number}-{each}", "info" if each % 2 else "warn") for each in range(size)], 100 + number)
        for number, size in enumerate(sizes)
    ]
    base = table(version, spec=BY_LEVEL)
    waiting = list(data.draw(st.permutations(changes)))
    while waiting:
        group = waiting[: data.draw(st.integers(1, len(waiting)), label="group")]
        manifests, running = store.open(), base
        for change in group:
            running = committed(running, change, manifests)
        if data.draw(st.booleans(), label="the swap is refused"):
            waiting = list(data.draw(st.permutations(waiting)))
            if data.draw(st.booleans(), label="for good"):
                continue
            manifests, running = store.open(), base
            group = waiting[: len(group)]
            for change in group:
                running = committed(running, change, manifests)
        manifests.flush()
        base = running
        waiting = [change for change in waiting if change not in group]
    head = base.current_snapshot
    assert head is not None
    found = files_of(head, store.open())
    assert sorted(found) == sorted(
        f"file:/data/{n}-{each}.parquet" for n, size in enumerate(sizes) for each in range(size)
    )
    chain = list(base.ancestors(head.snapshot_id))
    assert {each.snapshot_id for each in chain} == {100 + number for number in range(len(sizes))}
    assert [each.parent_snapshot_id for each in chain] == [*(each.snapshot_id for each in chain[1:]), None]
    assert head.summary["total-data-files"] == str(sum(sizes))
    assert head.summary["total-records"] == str(10 * sum(sizes))
    if version > 1:
        assert [each.sequence_number for each in chain] == list(range(len(sizes), 0, -1))
    if version == 3:
        assert base.next_row_id == 10 * sum(sizes)
        assert_row_ids_are_given_once(store.open(), chain)


def assert_row_ids_are_given_once(manifests: MemoryManifests, chain: list[Snapshot]) -> None:
    given: dict[str, int] = {}
    for each in chain:
        for entry in manifests.entries(manifests.list(each)):
            first = entry.data_file.first_row_id
            assert first is not None
            assert given.setdefault(entry.data_file.file_path, first) == first
    firsts = sorted(given.values())
    assert firsts == list(range(0, 10 * len(firsts), 10))
