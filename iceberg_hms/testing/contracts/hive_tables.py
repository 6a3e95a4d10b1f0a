"""What every implementation of `coordinator.hive_ports.HiveTables` must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from iceberg_hms.coordinator.hive_ports import HiveRow, HiveTable, HiveTables
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, Refused, Sending, Swapped, TableName, TablePointer
from iceberg_hms.errors import (
    AlreadyIceberg,
    InvalidInput,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
)
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import checks_of, expect, expect_equal, expect_raises, expect_refused
from iceberg_hms.testing.contracts.table_pointer import Place, made, table_metadata

_SECONDS: Final = 30.0
_EXTERNAL: Final = "EXTERNAL_TABLE"


class AddHiveTable(Protocol):
    def __call__(
        self,
        name: TableName,
        location: str,
        table_type: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        """Create a table that is not Iceberg's, with a column `id int`. partitions: the folders of its partitions, if
        it has any; their key is `p string`."""
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


def partitions_have_folders(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    folders = [place.folder(f"elsewhere/{number}") for number in range(3)]
    place.add_hive_table(place.name("t"), place.folder("t"), partitions=folders)
    found = _loaded(hive, place.name("t"))
    expect(found.is_partitioned, "t has no partitions")
    rows = {each.name: each for each in tables.folders_in(place.namespace, timeout_seconds=_SECONDS)}
    expect(rows[place.name("t")].is_partitioned, "the row of t has no partition keys")
    listed = sorted(tables.partition_folders(place.name("t"), timeout_seconds=_SECONDS))
    expect(len(listed) == len(folders), f"partitions: {listed}")
    expect(all(map(same_folder, listed, folders)), f"partitions: {listed}")
    with expect_raises(MetastoreUnavailable, "partitions without time"):
        list(tables.partition_folders(place.name("t"), timeout_seconds=-1))
    expect_equal(list(tables.partition_folders(place.name("none"), timeout_seconds=_SECONDS)), [], "no such table")


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


def all_tables_but_icebergs_are_named(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    expect_equal(list(hive.names(place.namespace, timeout_seconds=_SECONDS)), [], "names in an empty database")
    for name, kind in (("b", "MANAGED_TABLE"), ("a", _EXTERNAL)):
        place.add_hive_table(place.name(name), place.folder(name), kind)
    made(tables, place, "iceberg")
    expect_equal(list(hive.names(place.namespace, timeout_seconds=_SECONDS)), ["a", "b"], "names")
    with expect_raises(NoSuchNamespace, "names in no namespace"):
        hive.names("no_such_namespace", timeout_seconds=_SECONDS)
    with expect_raises(MetastoreUnavailable, "names without time"):
        hive.names(place.namespace, timeout_seconds=-1)


def any_row_but_icebergs_is_loaded(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("t"), place.folder("t"), "EXTERNAL_TABLE", {"colour": "red"}, [place.folder("p")])
    row = hive.load_row(place.name("t"))
    expect_equal((row.name, row.table_type, row.parameters.get("colour")), (place.name("t"), _EXTERNAL, "red"), "row")
    expect(same_folder(row.location, place.folder("t")), f"folder {row.location}")
    expect_equal([(each.name, each.type) for each in row.columns], [("id", "int")], "columns")
    expect_equal([(each.name, each.type) for each in row.partition_keys], [("p", "string")], "partition keys")
    expect(row.last_changed is not None, "nothing says when it was changed")
    expect_equal(hive.load_row(place.name("t")), row, "the same row")
    made(tables, place, "iceberg")
    with expect_raises(AlreadyIceberg, "an Iceberg table"):
        hive.load_row(place.name("iceberg"))
    with expect_raises(NoSuchTable, "no table"):
        hive.load_row(place.name("none"))


def partitions_are_read(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    folders = [place.folder(f"elsewhere/{number}") for number in range(3)]
    place.add_hive_table(place.name("t"), place.folder("t"), partitions=folders)
    row = hive.load_row(place.name("t"))
    found = sorted(hive.partitions(row), key=lambda each: each.values)
    expect_equal([each.values for each in found], [("0",), ("1",), ("2",)], "values")
    expect(all(same_folder(each.location, folder) for each, folder in zip(found, folders, strict=True)), f"{found}")
    expect_equal(list(hive.partition_names(row)), ["p=0", "p=1", "p=2"], "names")
    place.add_hive_table(place.name("plain"), place.folder("plain"))
    plain = hive.load_row(place.name("plain"))
    expect_equal(
        (list(hive.partitions(plain)), list(hive.partition_names(plain))), ([], []), "partitions of a plain table"
    )


def a_row_is_kept_as_text(hive: HiveTables, _tables: TablePointer, place: HivePlace) -> None:
    place.add_hive_table(place.name("t"), place.folder("t"), parameters={"colour": "blau \u2603"})
    row = hive.load_row(place.name("t"))
    again = hive.decode(row.name, hive.encode(row))
    expect_equal((again, again.table), (row, row.table), "row")
    for bad in ("", "{}", "[1]", hive.encode(row)[:-20]):
        with expect_raises(InvalidInput, f"the text {bad[:20]}"):
            hive.decode(row.name, bad)


def a_managed_table_becomes_iceberg_and_hive_again(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    _there_and_back(hive, tables, place, "MANAGED_TABLE")


def an_external_table_becomes_iceberg_and_hive_again(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    _there_and_back(hive, tables, place, _EXTERNAL)


def _there_and_back(hive: HiveTables, tables: TablePointer, place: HivePlace, kind: str) -> None:
    name, folders = place.name("t"), [place.folder("t/p=0"), place.folder("elsewhere")]
    place.add_hive_table(name, place.folder("t"), kind, {"colour": "red"}, folders)
    row = hive.load_row(name)
    saved = hive.encode(row)
    base = _turned(hive, tables, place, row)
    expect_equal(base.parameters.get(HIVE_TABLE), place.file(9), "where the row is kept")
    expect_equal((base.parameters.get("colour"), base.parameters.get("EXTERNAL")), ("red", "TRUE"), "parameters")
    expect(same_folder(base.location, place.folder("t")), f"folder {base.location}")
    with expect_raises(AlreadyIceberg, "the row of what is an Iceberg table now"):
        hive.load_row(name)
    # A swap keeps what an undo needs, and takes clients' properties for neither.
    metadata = _metadata(place, {HIVE_TABLE: "file:/elsewhere", "colour": "blue"})
    expect_equal(tables.swap(base, place.file(1), metadata, _metadata(place), Sending()), Swapped(), "swap")
    base = tables.load(name)
    expect_equal(base.hive_table, place.file(9), "where the row is kept, after a swap")
    expect_equal(tables.rename(base, place.name("u"), Sending()), Swapped(), "rename")
    base = tables.load(place.name("u"))
    undo = hive.decode(base.name, saved)
    expect_equal(hive.become_hive(base, undo, "mark-1", Sending()), Swapped(), "become_hive")
    with expect_raises(NotAnIcebergTable, "an Iceberg table no longer"):
        tables.load(base.name)
    marked = hive.load_row(base.name)
    expect_equal(marked.mark, "mark-1", "mark")
    expect_equal(hive.clear_mark(marked, Sending()), Swapped(), "clear_mark")
    before = replace(_compared(row), name=base.name)
    expect_equal(_compared(hive.load_row(base.name)), before, "the row afterwards")
    expect_equal([each.location for each in hive.partitions(marked)], folders, "partitions afterwards")
    changes = [each.last_changed or "" for each in (row, marked, hive.load_row(base.name))]
    expect(len(set(changes)) == len(changes), f"last changes: {changes}")


def an_outdated_change_of_kind_changes_nothing(hive: HiveTables, tables: TablePointer, place: HivePlace) -> None:
    name = place.name("t")
    place.add_hive_table(name, place.folder("t"))
    row = hive.load_row(name)
    base = _turned(hive, tables, place, row)
    answer = hive.become_iceberg(row, place.file(2), _metadata(place), place.file(8), Sending())
    expect_refused(answer, True, None, "outdated change")
    expect_equal(tables.load(name), base, "the row after it")
    expect_equal(tables.swap(base, place.file(1), _metadata(place), _metadata(place), Sending()), Swapped(), "a commit")
    expect_refused(hive.become_hive(base, row, "mark-1", Sending()), True, None, "outdated undo")
    base = tables.load(name)
    expect_equal(hive.become_hive(base, row, "mark-2", Sending()), Swapped(), "undo")
    marked = hive.load_row(name)
    outdated = tables.swap(base, place.file(3), _metadata(place), _metadata(place), Sending())
    expect_refused(outdated, True, None, "outdated swap of an Iceberg table that is none")
    expect_equal(hive.load_row(name), marked, "the row after all")
    expect_equal(hive.clear_mark(marked, Sending()), Swapped(), "clear_mark")
    expect_refused(hive.clear_mark(marked, Sending()), True, None, "outdated clearing")
    outdated = tables.swap(base, place.file(4), _metadata(place), _metadata(place), Sending())
    expect_refused(outdated, True, None, "outdated swap of what has no mark")


def _turned(hive: HiveTables, tables: TablePointer, place: HivePlace, row: HiveRow) -> Pointer:
    """The row after it became an Iceberg table's at place.file(0), kept at place.file(9)."""
    answer = hive.become_iceberg(row, place.file(0), _metadata(place), place.file(9), Sending())
    expect_equal(answer, Swapped(), "become_iceberg")
    base = tables.load(row.name)
    expect_equal(base.metadata_location, place.file(0), "metadata_location")
    return base


def _metadata(place: HivePlace, properties: Mapping[str, str] | None = None) -> TableMetadata:
    return table_metadata(place.folder("t"), properties)


def _compared(row: HiveRow) -> HiveRow:
    """A row without what says when it was changed."""
    return replace(row, parameters={**row.parameters, "transient_lastDdlTime": ""})


CHECKS: tuple[Check, ...] = checks_of(globals())
