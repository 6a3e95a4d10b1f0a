"""A suite that cannot fail proves nothing: broken Hive tables are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from iceberg_hms.coordinator.hive_ports import HivePartition, HiveRow, HiveTable
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, Swapped, TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import hive_tables
from iceberg_hms.testing.contracts.hive_tables import HivePlace
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer


class LoadsAll(MemoryHiveTables):
    def load(self, name: TableName) -> HiveTable | None:
        return HiveTable(name, "file:/w/db/x", 0)


class LoadsNone(MemoryHiveTables):
    def load(self, name: TableName) -> HiveTable | None:
        return None


class ListsNothing(MemoryHiveTables):
    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        return iter(())


class DropsNothing(MemoryHiveTables):
    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        return Swapped()


class LoadsIcebergToo(MemoryHiveTables):
    def load_row(self, name: TableName) -> HiveRow:
        return self.decode(name, json.dumps(asdict(self.tables.read(name))))


class NamesAll(MemoryHiveTables):
    def names(self, namespace: str, *, timeout_seconds: float) -> list[str]:
        return sorted(name.name for name in self.tables.rows)


class ReadsNoPartitions(MemoryHiveTables):
    def partitions(self, row: HiveRow) -> Iterator[HivePartition]:
        return iter(())


class ForgetsParameters(MemoryHiveTables):
    def decode(self, name: TableName, text: str) -> HiveRow:
        row = super().decode(name, text)
        return replace(row, parameters={}, table=replace(row.table, parameters={}))


class NamesNoRecord(MemoryHiveTables):
    def become_iceberg(
        self, row: HiveRow, location: str, metadata: TableMetadata, saved: str, sending: Sending
    ) -> SwapAnswer:
        return super().become_iceberg(row, location, metadata, "file:/elsewhere", sending)


class KeepsTheMark(MemoryHiveTables):
    def clear_mark(self, row: HiveRow, sending: Sending) -> SwapAnswer:
        return Swapped()


class ComparesNothing(MemoryHiveTables):
    def become_iceberg(
        self, row: HiveRow, location: str, metadata: TableMetadata, saved: str, sending: Sending
    ) -> SwapAnswer:
        now = self.tables.read(row.name)
        parameters = {**row.parameters, "transient_lastDdlTime": now.parameters["transient_lastDdlTime"]}
        return super().become_iceberg(replace(row, parameters=parameters), location, metadata, saved, sending)


class UndoesWithoutAMark(MemoryHiveTables):
    def become_hive(self, base: Pointer, row: HiveRow, mark: str, sending: Sending) -> SwapAnswer:
        return super().become_hive(base, row, base.metadata_location, sending)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tables_whose_files_a_drop_deletes_are_loaded", LoadsNone),
        ("all_others_are_not", LoadsAll),
        ("another_table_of_the_same_name_differs", LoadsAll),
        ("all_iceberg_tables_are_listed", ListsNothing),
        ("a_drop_removes_the_row", DropsNothing),
        ("all_tables_but_icebergs_are_named", NamesAll),
        ("any_row_but_icebergs_is_loaded", LoadsIcebergToo),
        ("partitions_are_read", ReadsNoPartitions),
        ("a_row_is_kept_as_text", ForgetsParameters),
        ("a_managed_table_becomes_iceberg_and_hive_again", NamesNoRecord),
        ("a_managed_table_becomes_iceberg_and_hive_again", ForgetsParameters),
        ("an_external_table_becomes_iceberg_and_hive_again", KeepsTheMark),
        ("an_outdated_change_of_kind_changes_nothing", ComparesNothing),
        ("an_outdated_change_of_kind_changes_nothing", UndoesWithoutAMark),
    ],
)
def test_broken_tables_fail_the_suite(name: str, kind: type[MemoryHiveTables]) -> None:
    tables = MemoryTablePointer({"db", "other"})
    hive = kind(tables)
    with pytest.raises(AssertionError):
        getattr(hive_tables, name)(hive, tables, HivePlace("db", "other", "file:/w/db", hive.add))
