"""What every implementation of `coordinator.hive_ports.HiveTables` must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from iceberg_hms.coordinator.hive_ports import HiveTable, HiveTables
from iceberg_hms.coordinator.ports import Refused, Sending, Swapped, TableName, TablePointer
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.format.locations import same_folder
from iceberg_hms.testing.contracts import checks_of, expect, expect_equal, expect_raises
from iceberg_hms.testing.contracts.table_pointer import Place, made

_SECONDS: Final = 30.0


class AddHiveTable(Protocol):
    def __call__(
        self,
        name: TableName,
        location: str,
        table_type: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        """Create a table that is not Iceberg's. partitions: the folders of its partitions, if it has any."""
        ...


@dataclass(frozen=True)
class HivePlace(Place):
    """A `Place` whose tables of Hive's can be of any kind."""

    add_hive_table: AddHiveTable

    def folder(self, table: str) -> str:
        return f"{self.location}/{table}"


Check = Callable[[HiveTables, TablePointer, HivePlace], None]


def _loaded(hive: HiveTables, name: TableName) -> HiveTable:
    found = hive.load(name)
    if found is None:
        raise AssertionError(f"{name} is not found")
    return found


def tables_whose_files_a_drop_deletes_are_loaded(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("managed"), place.folder("managed"))
    place.add_hive_table(
        place.name("purged"), place.folder("purged"), "EXTERNAL_TABLE", {"external.table.purge": "TRUE"}
    )
    for table in ("managed", "purged"):
        found = _loaded(hive, place.name(table))
        expect_equal(found.name, place.name(table), "name")
        expect(same_folder(found.folder, place.folder(table)), f"folder {found.folder}")
        expect(not found.is_partitioned, f"{table} has no partitions")
        expect_equal(hive.load(place.name(table)), found, "the same table")


def all_others_are_not(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("kept"), place.folder("kept"), "EXTERNAL_TABLE")
    made(tables, place, "iceberg")
    for name in (place.name("kept"), place.name("iceberg"), place.name("none"), TableName("no_such_namespace", "t")):
        expect_equal(hive.load(name), None, f"load of {name}")


def another_table_of_the_same_name_differs(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("t"), place.folder("t"))
    found = _loaded(hive, place.name("t"))
    expect_equal(hive.drop(found, Sending()), Swapped(), "drop")
    place.add_hive_table(place.name("t"), place.folder("elsewhere"))
    expect(hive.load(place.name("t")) != found, "another table equals the first one")


def partitions_have_folders(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    folders = [place.folder(f"elsewhere/{number}") for number in range(3)]
    place.add_hive_table(place.name("t"), place.folder("t"), partitions=folders)
    found = _loaded(hive, place.name("t"))
    expect(found.is_partitioned, "t has no partitions")
    listed = sorted(hive.partition_folders(found, timeout_seconds=_SECONDS))
    expect(len(listed) == len(folders), f"partitions: {listed}")
    expect(all(map(same_folder, listed, folders)), f"partitions: {listed}")
    with expect_raises(MetastoreUnavailable, "partitions without time"):
        list(hive.partition_folders(found, timeout_seconds=-1))


def all_iceberg_tables_are_listed(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("hive"), place.folder("hive"))
    pointers = [made(tables, place, each) for each in ("one", "two")]
    listed = {each.name: each for each in hive.iceberg_tables(place.namespace, timeout_seconds=_SECONDS)}
    expect_equal(listed.keys(), {each.name for each in pointers}, "names")
    for each in pointers:
        expect_equal(listed[each.name].parameters, each.parameters, "parameters")
    expect_equal(list(hive.iceberg_tables("no_such_namespace", timeout_seconds=_SECONDS)), [], "no such namespace")
    with expect_raises(MetastoreUnavailable, "tables without time"):
        list(hive.iceberg_tables(place.namespace, timeout_seconds=-1))


def a_drop_removes_the_row(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("t"), place.folder("t"))
    found = _loaded(hive, place.name("t"))
    expect_equal(hive.drop(found, Sending()), Swapped(), "drop")
    expect_equal(hive.load(place.name("t")), None, "load of a dropped table")
    expect(isinstance(hive.drop(found, Sending()), Refused), "a second drop is not refused")


CHECKS: tuple[Check, ...] = checks_of(globals())
