"""A suite that cannot fail proves nothing: broken Hive tables are found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_hms.coordinator.hive_ports import HiveTable
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, Swapped, TableName
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

    def partition_folders(self, table: HiveTable, *, timeout_seconds: float) -> Iterator[str]:
        return iter(())


class DropsNothing(MemoryHiveTables):
    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        return Swapped()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tables_whose_files_a_drop_deletes_are_loaded", LoadsNone),
        ("all_others_are_not", LoadsAll),
        ("another_table_of_the_same_name_differs", LoadsAll),
        ("partitions_have_folders", ListsNothing),
        ("all_iceberg_tables_are_listed", ListsNothing),
        ("a_drop_removes_the_row", DropsNothing),
    ],
)
def test_broken_tables_fail_the_suite(name: str, kind: type[MemoryHiveTables]) -> None:
    tables = MemoryTablePointer({"db", "other"})
    hive = kind(tables)
    with pytest.raises(AssertionError):
        getattr(hive_tables, name)(hive, tables, HivePlace("db", "other", "file:/w/db", hive.add))
