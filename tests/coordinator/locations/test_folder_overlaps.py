"""Which other tables and views share a folder, of all databases."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.locations.folder_overlaps import (
    SEARCH_SECONDS,
    HiveRows,
    overlapping,
    refuse_shared_folder,
    tables_sharing,
)
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import InvalidInput, MetastoreUnavailable
from iceberg_hms.testing.memory_pointer import MemoryRow
from tests.coordinator.harness import NAME, Harness

MINE = TableName("db", "mine")
FOLDER = "file:/wh/db/mine"


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.pointer.metastore.databases.update({"default": {}, "far": {}})
    made.pointer.folders.update(default=["file:/wh"], far=["s3://far/db"])
    return made


def iceberg(location: str, metadata: str | None = None, **properties: str) -> MemoryRow:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    metadata = metadata or f"{location}/metadata/1.metadata.json"
    return MemoryRow({"table_type": "ICEBERG", "metadata_location": metadata, **named}, location=location)


def found(harness: Harness, hive: HiveRows = HiveRows.UNREAD, **options: Any) -> set[tuple[str, str]]:
    return {(str(each.name), each.location) for each in overlapping(harness.ports, MINE, FOLDER, hive=hive, **options)}


@pytest.mark.parametrize(
    ("row", "shared"),
    [
        (iceberg("file:/wh/db/u"), None),
        (iceberg("file:/wh/db/mine2"), None),
        (iceberg(FOLDER), FOLDER),
        (iceberg("file:///wh/x/../db/mine/"), "file:///wh/x/../db/mine/"),
        (iceberg("file:/wh"), "file:/wh"),
        (iceberg(f"{FOLDER}/in"), f"{FOLDER}/in"),
        (iceberg("file:/wh/u", f"{FOLDER}/in/1.metadata.json"), f"{FOLDER}/in"),
        (iceberg("file:/wh/u", f"{FOLDER}/1.metadata.json"), FOLDER),
        (iceberg("file:/wh/u", f"{FOLDER}2/1.metadata.json"), None),
        (iceberg("file:/wh/u", "file:/wh/db/metadata/1.metadata.json"), None),
        (iceberg("file:/wh/u", "file:/wh/db/metadata/1", write_data_path=f"{FOLDER}/data"), f"{FOLDER}/data"),
        (iceberg("file:/wh/u", "file:/wh/db/metadata/1", write_data_path="file:/wh/db"), None),
        (iceberg("no location", "file:/wh/db/metadata/1"), None),
    ],
)
@pytest.mark.parametrize("database", ["db", "far"])
def test_an_iceberg_table_shares_what_it_has_in_the_folder_or_around(
    harness: Harness, database: str, row: MemoryRow, shared: str | None
) -> None:
    harness.pointer.rows[TableName(database, "u")] = row
    assert found(harness) == (set() if shared is None else {(f"{database}.u", shared)})


@pytest.mark.parametrize(
    ("hive", "databases"),
    [(HiveRows.UNREAD, set()), (HiveRows.NEAR, {"db", "default"}), (HiveRows.ALL, {"db", "default", "far"})],
)
def test_hive_tables_are_found_in_the_databases_that_are_read(
    harness: Harness, hive: HiveRows, databases: set[str]
) -> None:
    for database in ("db", "default", "far"):
        harness.pointer.add_hive_table(TableName(database, "hive"), f"{FOLDER}/part")
        harness.pointer.add_hive_table(TableName(database, "without a folder"))
        harness.pointer.add_hive_table(TableName(database, "elsewhere"), "file:/wh/db/mine2")
    assert found(harness, hive) == {(f"{database}.hive", f"{FOLDER}/part") for database in databases}
    read = {name.namespace for method, name in harness.pointer.calls if method == "folders_in"}
    assert read == databases


def test_the_table_itself_shares_nothing_and_a_view_of_its_name_does(harness: Harness) -> None:
    harness.pointer.rows[MINE] = iceberg(FOLDER)
    assert found(harness, HiveRows.ALL) == set()
    parameters = {"table_type": "iceberg-view", "metadata_location": f"{FOLDER}/metadata/1"}
    harness.pointer.rows[MINE] = MemoryRow(parameters, location=FOLDER, table_type="VIRTUAL_VIEW")
    assert found(harness) == {("db.mine", FOLDER)}


def test_a_table_around_the_root_does_not_count(harness: Harness) -> None:
    harness.pointer.rows[TableName("db", "wide")] = iceberg("file:/wh")
    harness.pointer.rows[TableName("db", "root")] = iceberg("file:/wh/db")
    harness.pointer.add_hive_table(TableName("default", "hive"), "file:/wh/db")
    assert len(found(harness, HiveRows.NEAR)) == 3
    assert found(harness, HiveRows.NEAR, root="file:/wh/db") == set()
    harness.pointer.rows[TableName("db", "same")] = iceberg(FOLDER)
    assert found(harness, HiveRows.NEAR, root="file:/wh/db") == {("db.same", FOLDER)}


def test_another_name_of_the_same_cluster_does_not_hide_a_table(harness: Harness) -> None:
    for folder in ("hdfs://nn:8020/wh/t", "viewfs://cluster/wh/t/in"):
        harness.pointer.rows[TableName("db", "u")] = iceberg(folder)
        [other] = overlapping(harness.ports, MINE, "hdfs:///wh/t", hive=HiveRows.UNREAD)
        assert other.location == folder


def test_all_databases_together_have_one_limit(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def slow(_namespace: str, _folder: str, *, timeout_seconds: float) -> list[Pointer]:
        given.append(timeout_seconds)
        harness.runtime.skipped += 0.6 * SEARCH_SECONDS
        return []

    monkeypatch.setattr(harness.pointer, "find_by_folder", slow)
    with pytest.raises(MetastoreUnavailable, match="There was no time to search all databases"):
        found(harness)
    assert given == [pytest.approx(SEARCH_SECONDS, abs=1), pytest.approx(0.4 * SEARCH_SECONDS, abs=1)]


def test_a_folder_that_nothing_resolves_is_refused(harness: Harness) -> None:
    with pytest.raises(InvalidInput, match="cannot be resolved"):
        list(overlapping(harness.ports, MINE, "relative", hive=HiveRows.UNREAD))


def test_a_table_around_the_folder_of_its_database_keeps_no_other_from_being_made(harness: Harness) -> None:
    harness.create()
    other = TableName("db", "u")
    [mine] = tables_sharing(harness.ports, other, "file:/wh/db/t/data")
    assert mine.name == NAME
    assert tables_sharing(harness.ports, other, "file:/wh/db/t/data", root="file:/wh/db/t") == []
    assert tables_sharing(harness.ports, NAME, "file:/wh/db/t") == []
    with pytest.raises(InvalidInput, match=r"file:/wh/db is, holds or lies in that of the table db\.t"):
        refuse_shared_folder(harness.ports, other, "file:/wh/db")
    refuse_shared_folder(harness.ports, other, "file:/wh/db/u")


def test_other_databases_are_searched_unless_the_server_has_just_chosen_the_folder(harness: Harness) -> None:
    """A table that was renamed from this database into another is there still."""
    folder, root = "file:/wh/db/x", "file:/wh/db"
    for is_new, searched in ((True, 1), (False, 3)):
        harness.pointer.calls.clear()
        refuse_shared_folder(harness.ports, MINE, folder, root=root, is_new=is_new)
        assert [method for method, _ in harness.pointer.calls].count("find_by_folder") == searched
    harness.pointer.rows[TableName("far", "u")] = iceberg(folder)
    refuse_shared_folder(harness.ports, MINE, folder, root=root, is_new=True)
    with pytest.raises(InvalidInput, match=r"that of the table far\.u"):
        refuse_shared_folder(harness.ports, MINE, folder, root=root)


def test_a_search_of_other_databases_that_takes_too_long_refuses_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> list[str]:
        harness.runtime.skipped += SEARCH_SECONDS
        return ["far"]

    harness.pointer.rows[TableName("far", "u")] = iceberg("file:/wh/x")
    monkeypatch.setattr(harness.pointer, "databases", slow)
    refuse_shared_folder(harness.ports, MINE, "file:/wh/x", root="file:/wh/db")
