"""What snapshots added and removed, as records and as an Arrow table."""

from __future__ import annotations

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.snapshot_changes import changes_between
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_manifests import MemoryManifestStore

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "day", "required": False, "type": "date"},
    ],
}
DAY = 18_718


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", SCHEMA, partition_spec=["day"])


def data_file(name: str, day: int | None = DAY, rows: int = 3) -> DataFile:
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", rows, 10, {"day": day})


def seen(table: Table, *between: int | str | None) -> list[tuple[str, str, int]]:
    changes = table.changes(*between)
    return [(each.operation, each.path.rpartition("/")[2].split(".")[0], each.snapshot_id) for each in changes]


def head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_added_and_removed_files_come_snapshot_by_snapshot(table: Table) -> None:
    table.append([data_file("a"), data_file("b")])
    first = head(table)
    table.replace_partitions([data_file("c")])
    second = head(table)
    table.append([data_file("d", None)])
    third = head(table)
    replaced = [("removed", "a", second), ("removed", "b", second), ("added", "c", second)]
    assert seen(table, first) == [*replaced, ("added", "d", third)]
    assert seen(table, first, second) == replaced
    assert seen(table) == [("added", "a", first), ("added", "b", first), *seen(table, first)]
    assert (seen(table, third), seen(table, "main", third)) == ([], [])
    assert [each.path for each in table.changes(first).appended()] == ["file:/in/d.parquet"]
    assert [each.snapshot_id for each in table.changes(first).snapshots] == [second, third]


def test_a_change_has_what_the_manifest_says(table: Table) -> None:
    table.append([data_file("a", rows=7)])
    table.append([data_file("n", None)])
    change, without_day = table.changes()
    assert (change.content, change.format, change.rows, change.size) == ("data", "PARQUET", 7, 10)
    assert (change.partition, without_day.partition) == ({"day": "2021-04-01"}, {"day": None})
    assert (change.snapshot_operation, change.file.file_path) == ("append", change.path)


def test_a_compaction_says_that_it_replaces_and_rewritten_manifests_change_no_file(table: Table) -> None:
    table.append([data_file("a")])
    table.append([data_file("b")])
    before = head(table)
    table.rewrite(["file:/in/a.parquet", "file:/in/b.parquet"], [data_file("ab", rows=6)])
    assert {each.snapshot_operation for each in table.changes(before)} == {"replace"}
    assert sorted(name for _, name, _ in seen(table, before)) == ["a", "ab", "b"]
    assert list(table.changes(before).appended()) == []
    table.append([data_file("c")])
    before = head(table)
    table.rewrite_manifests()
    assert head(table) != before
    assert seen(table, before) == []


def test_delete_files_are_changes_too(table: Table) -> None:
    table.append([data_file("a")])
    before = head(table)
    deletes = DataFile(
        "file:/in/a-deletes.parquet", "PARQUET", 1, 5, {"day": DAY}, content=FileContent.POSITION_DELETES
    )
    table.row_delta(deletes=[deletes])
    [change] = table.changes(before)
    assert (change.operation, change.content, change.rows) == ("added", "position-deletes", 1)


def test_an_arrow_table_has_a_row_for_each_change(table: Table) -> None:
    table.append([data_file("a"), data_file("n", None)])
    table.delete_files(["file:/in/a.parquet"])
    arrow = table.changes().to_arrow()
    assert arrow.column_names == [
        "operation",
        "snapshot_id",
        "snapshot_operation",
        "content",
        "path",
        "format",
        "partition",
        "rows",
        "size",
    ]
    assert arrow["operation"].to_pylist() == ["added", "added", "removed"]
    assert arrow["partition"].to_pylist() == [[("day", "2021-04-01")], [("day", None)], [("day", "2021-04-01")]]
    empty = table.changes("main").to_arrow()
    assert (empty.num_rows, empty.schema) == (0, arrow.schema)


def test_only_the_manifests_that_the_snapshots_added_are_read(
    table: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        table.append([data_file(name)])
    before = table.snapshots()[-2].snapshot_id
    read: list[str] = []
    files = catalog.services.ports.files
    original = MemoryFiles.read
    monkeypatch.setattr(
        MemoryFiles, "read", lambda self, location, *limit: read.append(location) or original(self, location, *limit)
    )
    assert [name for _, name, _ in seen(table, before)] == ["d"]
    assert isinstance(files, MemoryFiles)
    assert len([each for each in read if "snap-" not in each]) == 1


def test_what_the_snapshots_do_not_tell_is_refused(table: Table) -> None:
    assert seen(table) == []
    with pytest.raises(InvalidInput, match="no current snapshot"):
        table.changes(5)
    table.append([data_file("a")])
    first = head(table)
    table.append([data_file("b")])
    second = head(table)
    for wanted in ((first, 5), (first, "no_such_tag")):
        with pytest.raises(InvalidInput, match="the table has no"):
            table.changes(*wanted)
    with pytest.raises(InvalidInput, match=f"snapshot {second} is no ancestor of {first}"):
        table.changes(second, first)
    table.rollback_to_snapshot(first)
    table.append([data_file("c")])
    with pytest.raises(InvalidInput, match="no ancestor"):
        table.changes(second)


def test_an_expired_snapshot_may_be_where_the_changes_begin_and_none_on_the_way(table: Table) -> None:
    for name in "abc":
        table.append([data_file(name)])
    first, second, third = (each.snapshot_id for each in table.snapshots())
    table.expire_snapshots(snapshot_ids=[first, second])
    assert seen(table, second) == [("added", "c", third)]
    for since in (first, None):
        with pytest.raises(InvalidInput, match="has expired"):
            table.changes(since)


def test_snapshots_of_version_1_without_a_list_are_read_by_their_entries(table: Table) -> None:
    store = MemoryManifestStore()
    metadata = table.metadata.replace(format_version=1)
    paths = []
    for id_, name in ((1, "a"), (2, "b")):
        entry = ManifestEntry(EntryStatus.ADDED, data_file(name), snapshot_id=id_)
        paths += [
            each.manifest_path for each in store.open().write(metadata, metadata.schema, metadata.spec, id_, [entry])
        ]
    snapshots = [
        {"snapshot-id": 1, "timestamp-ms": 1, "manifests": paths[:1]},
        {"snapshot-id": 2, "timestamp-ms": 2, "manifests": paths, "parent-snapshot-id": 1},
    ]
    metadata = metadata.replace(snapshots=snapshots, current_snapshot_id=2)
    for since, wanted in ((1, [("b", 2)]), (None, [("a", 1), ("b", 2)])):
        changes = list(changes_between(metadata, since, "main", store.open()))
        assert [(each.path[9:10], each.snapshot_id) for each in changes] == wanted
        assert {each.snapshot_operation for each in changes} == {None}
