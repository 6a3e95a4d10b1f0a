from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.hive_drops import HiveDrops
from iceberg_hms.catalog.table import Table
from iceberg_hms.coordinator.hive_ports import HiveTable
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    HiveTableKept,
    MetastoreRefused,
    MetastoreUnavailable,
    NoSuchTable,
)
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer, ScriptedAnswer

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
MAPPED = {NAME_MAPPING: '[{"field-id": 1, "names": ["id"]}]'}
HIVE = TableName("db", "t_backup_")
FOLDER = "file:/warehouse/db.db/t_backup_"


class Lake:
    """A Hive table, and Iceberg tables with files anywhere."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.pointer = MemoryTablePointer(namespaces=())
        self.hive = MemoryHiveTables(self.pointer)
        self.catalog: Catalog
        self.reopen()
        self.catalog.create_namespace("db")
        self.catalog.create_namespace("other")
        self.hive.add(HIVE, FOLDER)

    def reopen(self) -> None:
        """A catalog with empty caches."""
        self.catalog = memory_catalog(files=self.files, pointer=self.pointer, hive_tables=self.hive)

    def table(self, name: str, *locations: str, **more: Any) -> Table:
        table = self.catalog.create_table(name, SCHEMA, **({"properties": MAPPED} | more))
        for location in locations:
            table.append([DataFile(location, "PARQUET", 1, 10)])
        return table

    def drop(self) -> TableName | None:
        return self.catalog.drop_hive_table_in_use(HIVE.namespace + "." + HIVE.name, wait_seconds=1)

    @property
    def is_there(self) -> bool:
        return HIVE in self.pointer.rows


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.mark.parametrize(
    "location",
    [
        f"{FOLDER}/1.parquet",
        f"{FOLDER}/p=1/1.parquet",
        "file:///warehouse/db.db/t_backup_/1.parquet",
        "/warehouse/db.db//t_backup_/1.parquet",
        "hdfs://alias/warehouse/db.db/t_backup_/1.parquet",
        "no/location/t_backup_/1.parquet",
    ],
)
@pytest.mark.parametrize("name", ["db.t", "other.t"])
def test_a_hive_table_whose_files_an_iceberg_table_reads_loses_its_row_alone(
    lake: Lake, name: str, location: str
) -> None:
    lake.table("db.first", "file:/elsewhere/1.parquet")
    lake.table(name, location)
    assert lake.drop() == TableName(*name.split("."))
    assert not lake.is_there
    assert ("drop_hive", HIVE) in lake.pointer.calls


@pytest.mark.parametrize(
    "location",
    [
        "file:/warehouse/db.db/t/1.parquet",
        "file:/warehouse/db.db/t_backup_2/1.parquet",
        "file:/t_backup_/1.parquet",
        "file:/warehouse/db.db/t_backup_/../t/1.parquet",
    ],
)
def test_a_hive_table_whose_files_nobody_reads_stays(lake: Lake, location: str) -> None:
    lake.table("db.t", location)
    assert lake.drop() is None
    assert lake.is_there


def test_files_of_old_snapshots_are_read_too(lake: Lake) -> None:
    table = lake.table("db.t", f"{FOLDER}/1.parquet")
    table.delete("true")
    assert lake.drop() == TableName("db", "t")


def test_files_that_only_expired_snapshots_had_are_not(lake: Lake) -> None:
    table = lake.table("db.t", f"{FOLDER}/1.parquet")
    table.delete("true")
    table.expire_snapshots(older_than=2**62, retain_last=1)
    assert lake.drop() is None


def test_folders_of_partitions_count(lake: Lake) -> None:
    lake.hive.add(HIVE, FOLDER, partitions=[f"{FOLDER}/p=1", "file:/far/p=2"])
    lake.table("db.t", "file:/far/p=2/1.parquet")
    assert lake.drop() == TableName("db", "t")


def test_an_iceberg_table_in_the_folder_counts(lake: Lake) -> None:
    del lake.pointer.rows[HIVE]
    lake.table("db.t", properties={}, location=f"{FOLDER}/inside")
    lake.hive.add(HIVE, FOLDER)
    assert lake.drop() == TableName("db", "t")


def test_tables_without_a_name_mapping_are_not_read(lake: Lake) -> None:
    """Files that Hive wrote have no field ids: a table that has taken them over has a name mapping."""
    table = lake.table("db.t", "file:/elsewhere/1.parquet", properties={})
    snapshot = table.refresh().metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    lake.files.delete(snapshot.manifest_list)
    assert lake.drop() is None


def without_schema(lake: Lake) -> None:
    """A row of Trino's or PyIceberg's, which tell no properties."""
    name = TableName("db", "t")
    row = lake.pointer.rows[name]
    kept = {key: row.parameters[key] for key in ("table_type", "metadata_location")}
    lake.pointer.rows[name] = replace(row, parameters=kept)


def with_a_wide_schema(lake: Lake) -> None:
    """So wide that the row may not hold the name mapping."""
    name = TableName("db", "t")
    row = lake.pointer.rows[name]
    parameters = {key: value for key, value in row.parameters.items() if key != NAME_MAPPING}
    lake.pointer.rows[name] = replace(row, parameters={**parameters, "current-schema": "x" * 20_000})


@pytest.mark.parametrize("change", [without_schema, with_a_wide_schema])
def test_rows_that_tell_too_little_are_not_believed(lake: Lake, change: Callable[[Lake], None]) -> None:
    lake.table("db.t", f"{FOLDER}/1.parquet")
    change(lake)
    assert lake.drop() == TableName("db", "t")


def test_a_table_without_its_metadata_file_keeps_nothing(lake: Lake) -> None:
    lake.files.delete(lake.table("db.t", f"{FOLDER}/1.parquet").refresh().metadata_location or "")
    lake.reopen()
    assert lake.drop() is None


def test_a_search_that_takes_too_long_proves_nothing(lake: Lake) -> None:
    lake.hive.slow = True
    with pytest.raises(MetastoreUnavailable):
        lake.drop()
    with pytest.raises(HiveTableKept, match=r"longer than 0 s.*try again; or drop it with PURGE"):
        HiveDrops(lake.catalog.services, seconds=0).reader(HIVE)
    assert lake.is_there


@pytest.mark.parametrize("damage", [b"", b"Obj\x01 and no more"], ids=["missing", "damaged"])
@pytest.mark.parametrize("part", ["list", "manifest"])
def test_what_is_gone_or_damaged_keeps_nothing_and_hides_nothing(lake: Lake, part: str, damage: bytes) -> None:
    """Nobody reads a row through it. What else the table reads counts all the same."""
    table = lake.table("db.t", "file:/elsewhere/1.parquet", f"{FOLDER}/1.parquet")
    first, second = table.refresh().metadata.snapshots
    reader = lake.catalog.services.ports.manifests()
    lists = {each.snapshot_id: each.manifest_list or "" for each in (first, second)}
    manifests = {each.added_snapshot_id: each.manifest_path for each in reader.list(second)}
    locations = lists if part == "list" else manifests

    def destroy(location: str) -> None:
        lake.files.delete(location)
        if damage:
            lake.files.write(location, damage)
        lake.reopen()

    destroy(locations[first.snapshot_id])
    assert lake.catalog.drop_hive_table_in_use("db.t_backup_", wait_seconds=1) == TableName("db", "t")
    lake.hive.add(HIVE, FOLDER)
    destroy(locations[second.snapshot_id])
    assert lake.drop() is None


def test_a_table_that_others_may_read_proves_nothing(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.table("db.t", "file:/elsewhere/1.parquet")
    catalog = memory_catalog(
        files=lake.files, pointer=lake.pointer, hive_tables=lake.hive, **{"storage.max-metadata-bytes": 500}
    )
    with pytest.raises(HiveTableKept, match="one cannot be read"):
        catalog.drop_hive_table_in_use("db.t_backup_", wait_seconds=1)
    assert "db.t_backup_ is not dropped, since db.t cannot be read" in caplog.text
    assert lake.is_there


@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_drop_without_a_clear_answer_is_looked_up(lake: Lake, answer: ScriptedAnswer) -> None:
    lake.table("db.t", f"{FOLDER}/1.parquet")
    lake.pointer.answers.append(answer)
    assert lake.drop() == TableName("db", "t")


@pytest.mark.parametrize("is_lookable", [True, False])
def test_a_refused_drop_is_its_own_error_if_the_table_is_seen_unchanged(lake: Lake, is_lookable: bool) -> None:
    lake.table("db.t", f"{FOLDER}/1.parquet")
    lake.pointer.answers.append(ScriptedAnswer.REFUSED)
    load = lake.hive.load

    def unavailable(_: TableName) -> HiveTable | None:
        raise MetastoreUnavailable("no answer")

    if not is_lookable:
        lake.pointer.before_moves.append(lambda: setattr(lake.hive, "load", unavailable))
    with pytest.raises(MetastoreRefused if is_lookable else CommitStateUnknown):
        lake.drop()
    lake.hive.load = load  # type: ignore[method-assign]
    assert lake.is_there


def test_another_table_of_the_name_is_not_dropped(lake: Lake) -> None:
    drops = HiveDrops(lake.catalog.services)
    lake.table("db.t", f"{FOLDER}/1.parquet")
    found = drops.reader(HIVE)
    assert found is not None
    lake.hive.add(HIVE, "file:/new")
    with pytest.raises(CommitConflict, match="another table"):
        drops.drop(found[0], wait_seconds=1)
    assert lake.is_there
    del lake.pointer.rows[HIVE]
    with pytest.raises(NoSuchTable):
        drops.drop(found[0], wait_seconds=1)


def test_external_tables_and_missing_ones_are_left_alone(lake: Lake) -> None:
    lake.table("db.t", f"{FOLDER}/1.parquet")
    lake.hive.add(HIVE, FOLDER, "EXTERNAL_TABLE")
    assert lake.drop() is None
    assert lake.is_there
    del lake.pointer.rows[HIVE]
    assert lake.drop() is None
