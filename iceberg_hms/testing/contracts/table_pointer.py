"""What every implementation of `coordinator.ports.TablePointer` must do.

Each check takes the implementation and a `Place`: an empty namespace that only this check uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.coordinator.ports import (
    OWNED_FOLDER,
    Pointer,
    Sending,
    SwapAnswer,
    Swapped,
    TableName,
    TablePointer,
)
from iceberg_hms.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, NotAnIcebergTable
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import at_once, checks_of, expect, expect_equal, expect_raises, expect_refused

_WRITERS: Final = 8
_UUID: Final = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
_ANOTHER_UUID: Final = "9c12d441-03fe-4693-9a96-a0705ddf69c2"


@dataclass(frozen=True)
class Place:
    """namespace, other_namespace: exist and are empty. location: a folder that the check may fill.
    add_hive_table: creates a table that is not Iceberg's, in a folder."""

    namespace: str
    other_namespace: str
    location: str
    add_hive_table: Callable[[TableName, str], None]

    def name(self, table: str) -> TableName:
        return TableName(self.namespace, table)

    def file(self, number: int) -> str:
        return f"{self.location}/metadata/{number:05d}.metadata.json"


Check = Callable[[TablePointer, Place], None]


def table_metadata(
    location: str, properties: Mapping[str, str] | None = None, columns: Sequence[tuple[int, str, Any]] = ()
) -> TableMetadata:
    """Metadata of an empty table. columns: field id, name and type (as JSON); by default id long, name string."""
    wanted = columns or ((1, "id", "long"), (2, "name", "string"))
    fields = [{"id": number, "name": name, "required": False, "type": type_} for number, name, type_ in wanted]
    raw: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": _UUID,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": max(number for number, _, _ in wanted),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": dict(properties or {}),
        "snapshots": [],
    }
    return TableMetadata.parse(raw)


def made(pointer: TablePointer, place: Place, table: str = "t", properties: Mapping[str, str] | None = None) -> Pointer:
    """Create a table at place.file(0); returns its pointer."""
    name = place.name(table)
    answer = pointer.create(name, place.file(0), table_metadata(f"{place.location}/{table}", properties), "ada")
    expect_equal(answer, Swapped(), "create")
    return pointer.load(name)


def only_winner(swap: Callable[[int], SwapAnswer]) -> int:
    """Swap with 1, 2, 3... at once, and return the number of the only swap that was made."""
    answers: dict[int, SwapAnswer] = {}

    def answer(at: int) -> None:
        answers[at + 1] = swap(at + 1)

    at_once(answer, _WRITERS)
    winners = [number for number, each in answers.items() if each == Swapped()]
    expect_equal((len(answers), len(winners)), (_WRITERS, 1), "answers and winners")
    return winners[0]


def a_missing_table_raises_no_such_table(pointer: TablePointer, place: Place) -> None:
    with expect_raises(NoSuchTable, "load"):
        pointer.load(place.name("none"))
    with expect_raises(NoSuchTable, "load from a missing namespace"):
        pointer.load(TableName("no_such_namespace", "none"))


def a_hive_table_is_not_touched(pointer: TablePointer, place: Place) -> None:
    name = place.name("hive")
    place.add_hive_table(name, f"{place.location}/hive")
    with expect_raises(NotAnIcebergTable, "load"):
        pointer.load(name)
    answer = pointer.create(name, place.file(0), table_metadata(place.location), None)
    expect_refused(answer, True, AlreadyExists, "create over a Hive table")
    with expect_raises(NotAnIcebergTable, "load afterwards"):
        pointer.load(name)


def a_new_table_is_loaded(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place, properties={"colour": "red", "gc.enabled": "false"})
    expect_equal(base.name, place.name("t"), "name")
    expect_equal(base.metadata_location, place.file(0), "metadata_location")
    expect_equal(base.previous_metadata_location, None, "previous_metadata_location")
    wanted = {
        "EXTERNAL": "TRUE",
        "table_type": "ICEBERG",
        "metadata_location": place.file(0),
        "uuid": _UUID,
        "snapshot-count": "0",
        "colour": "red",
        "external.table.purge": "false",
    }
    for key, value in wanted.items():
        expect_equal(base.parameters.get(key), value, key)
    expect("current-schema" in base.parameters, "no current-schema")
    expect_equal(base.location, f"{place.location}/t", "location")


def a_swap_moves_the_folder(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    moved, old = table_metadata(f"{place.location}/moved"), table_metadata(f"{place.location}/t")
    expect_equal(pointer.swap(base, place.file(1), moved, old, Sending()), Swapped(), "swap")
    expect_equal(pointer.load(base.name).location, f"{place.location}/moved", "location")


def a_second_create_of_a_name_is_refused(pointer: TablePointer, place: Place) -> None:
    made(pointer, place)
    answer = pointer.create(place.name("t"), place.file(1), table_metadata(place.location), None)
    expect_refused(answer, True, AlreadyExists, "second create")
    expect_equal(pointer.load(place.name("t")).metadata_location, place.file(0), "metadata_location")


def create_in_a_missing_namespace_is_refused(pointer: TablePointer, place: Place) -> None:
    name = TableName("no_such_namespace", "t")
    answer = pointer.create(name, place.file(0), table_metadata(place.location), None)
    expect_refused(answer, False, NoSuchNamespace, "create in a missing namespace")


def a_swap_moves_the_pointer(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place, properties={"old": "1", "both": "1", "gc.enabled": "false"})
    before = table_metadata(place.location, {"old": "1", "both": "1", "gc.enabled": "false"})
    after = table_metadata(place.location, {"both": "2", "new": "1"})
    expect_equal(pointer.swap(base, place.file(1), after, before, Sending()), Swapped(), "swap")
    now = pointer.load(base.name)
    expect_equal(now.metadata_location, place.file(1), "metadata_location")
    expect_equal(now.previous_metadata_location, place.file(0), "previous_metadata_location")
    for key, value in {"old": None, "external.table.purge": None, "both": "2", "new": "1", "EXTERNAL": "TRUE"}.items():
        expect_equal(now.parameters.get(key), value, key)


def an_outdated_swap_changes_nothing(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    metadata = table_metadata(place.location)
    expect_equal(pointer.swap(base, place.file(1), metadata, metadata, Sending()), Swapped(), "first swap")
    expect_refused(pointer.swap(base, place.file(2), metadata, metadata, Sending()), True, None, "outdated swap")
    expect_equal(pointer.load(base.name).metadata_location, place.file(1), "metadata_location")


def a_swap_that_requires_compare_and_swap_moves_the_pointer(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    metadata = table_metadata(place.location)
    for number in (1, 2):
        answer = pointer.swap(base, place.file(number), metadata, metadata, Sending(require_cas=True))
        expect_equal(answer, Swapped(), f"swap {number}")
        base = pointer.load(base.name)
        expect_equal(base.metadata_location, place.file(number), "metadata_location")


def a_swap_sent_again_changes_nothing(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    metadata = table_metadata(place.location)
    expect_equal(pointer.swap(base, place.file(1), metadata, metadata, Sending()), Swapped(), "swap")
    moved = pointer.load(base.name)
    again = pointer.swap(base, place.file(1), metadata, metadata, Sending(require_cas=True))
    expect_refused(again, True, None, "the same swap again")
    expect_equal(pointer.load(base.name), moved, "the row")


def one_of_many_concurrent_swaps_wins(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    metadata = table_metadata(place.location)
    winner = only_winner(lambda at: pointer.swap(base, place.file(at), metadata, metadata, Sending()))
    expect_equal(pointer.load(base.name).metadata_location, place.file(winner), "metadata_location")


def the_metastore_accepts_any_schema_change(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    before = table_metadata(place.location)
    other = ((2, "name", "string"), (3, "at", "timestamptz"), (1, "key", "long"), (4, "price", "decimal(9,2)"))
    for number, columns in enumerate((other, other[1:], ((9, "x", "binary"),)), 1):
        after = table_metadata(place.location, columns=columns)
        expect_equal(pointer.swap(base, place.file(number), after, before, Sending()), Swapped(), f"swap {number}")
        base, before = pointer.load(base.name), after
        expect_equal(base.metadata_location, place.file(number), "metadata_location")


def a_change_of_a_dropped_table_is_a_conflict(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    metadata = table_metadata(place.location)
    expect_equal(pointer.drop(base, Sending()), Swapped(), "drop")
    with expect_raises(NoSuchTable, "load"):
        pointer.load(base.name)
    expect_refused(pointer.swap(base, place.file(1), metadata, metadata, Sending()), True, NoSuchTable, "swap")
    expect_refused(pointer.rename(base, place.name("u"), Sending()), True, NoSuchTable, "rename")
    expect_refused(pointer.drop(base, Sending()), True, NoSuchTable, "drop")


def a_table_is_renamed(pointer: TablePointer, place: Place) -> None:
    _rename_twice(pointer, place, require_cas=False)


def a_rename_that_requires_compare_and_swap_renames_the_table(pointer: TablePointer, place: Place) -> None:
    _rename_twice(pointer, place, require_cas=True)


def _rename_twice(pointer: TablePointer, place: Place, *, require_cas: bool) -> None:
    base = made(pointer, place)
    for to in (place.name("renamed"), TableName(place.other_namespace, "moved")):
        expect_equal(pointer.rename(base, to, Sending(require_cas=require_cas)), Swapped(), f"rename to {to}")
        with expect_raises(NoSuchTable, "load of the old name"):
            pointer.load(base.name)
        now = pointer.load(to)
        expect_equal(now.metadata_location, base.metadata_location, "metadata_location")
        expect_equal(now.parameters.get("uuid"), base.parameters.get("uuid"), "uuid")
        base = now


def a_rename_to_a_taken_name_or_of_an_outdated_row_is_refused(pointer: TablePointer, place: Place) -> None:
    base = made(pointer, place)
    made(pointer, place, "taken")
    metadata = table_metadata(place.location)
    expect_refused(pointer.rename(base, place.name("taken"), Sending()), True, AlreadyExists, "rename to a taken name")
    answer = pointer.rename(base, TableName("no_such_namespace", "t"), Sending())
    expect_refused(answer, False, NoSuchNamespace, "rename to a missing namespace")
    expect_equal(pointer.swap(base, place.file(1), metadata, metadata, Sending()), Swapped(), "swap")
    expect_refused(pointer.rename(base, place.name("u"), Sending()), True, None, "outdated rename")
    expect_equal(pointer.load(base.name).metadata_location, place.file(1), "metadata_location")


def accepts_writes_is_true_and_leaves_no_row(pointer: TablePointer, place: Place) -> None:
    before = made(pointer, place)
    name = before.name
    expect(pointer.accepts_writes(name) is True, "a working metastore does not accept writes")
    expect_equal(pointer.load(name).metadata_location, before.metadata_location, "the table's pointer")
    tables = getattr(pointer, "list_tables", None)
    if tables is not None:
        expect_equal(list(tables(place.namespace)), [name.name], "the tables of the database")


def tables_are_listed_in_pages(pointer: TablePointer, place: Place) -> None:
    page = getattr(pointer, "list_tables_after", None)
    if page is None:
        return
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    for name in ("c", "a", "b", "e"):
        expect_equal(
            pointer.create(place.name(name), place.file(1), table_metadata(f"{place.location}/{name}"), "ada"),
            Swapped(),
            "create",
        )
    names, more = page(place.namespace, None, 2)
    expect_equal((list(names), more), (["a", "b"], True), "the first page")
    expect_equal(pointer.drop(pointer.load(place.name("b")), Sending()), Swapped(), "drop")
    names, more = page(place.namespace, "b", 1)
    expect_equal((list(names), more), (["c"], True), "the page after a table that is gone")
    names, more = page(place.namespace, "c", 2)
    expect_equal((list(names), more), (["e"], False), "the last page")
    names, more = page(place.namespace, None, 3)
    expect_equal((list(names), more), (["a", "c", "e"], False), "a first page after a drop")
    expect_equal(list(page(place.namespace, "e", 3)[0]), [], "a page after the last table")
    with expect_raises(NoSuchNamespace, "a page of a missing namespace"):
        page("no_such_namespace", None, 3)


def the_locations_of_many_tables_are_read_at_once(pointer: TablePointer, place: Place) -> None:
    locations_in = getattr(pointer, "locations_in", None)
    if locations_in is None:
        return
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    for number, name in enumerate(("a", "b", "c")):
        metadata = table_metadata(f"{place.location}/{name}")
        expect_equal(pointer.create(place.name(name), place.file(number), metadata, "ada"), Swapped(), "create")
    all_ = {"a": place.file(0), "b": place.file(1), "c": place.file(2)}
    expect_equal(dict(locations_in(place.namespace)), all_, "the locations in a namespace")
    some = dict(locations_in(place.namespace, ["c", "missing", "hive"]))
    expect_equal(some, {"c": place.file(2)}, "the locations of some tables")
    expect_equal(dict(locations_in(place.namespace, [])), {}, "the locations of no table")
    known = {"a": place.file(0), "b": place.file(7), "gone": place.file(8)}
    # Names without a random id are never taken for unmoved.
    for turn in range(3):
        expect_equal(dict(locations_in(place.namespace, known=known, turn=turn)), all_, f"the locations in turn {turn}")
    for names in (None, ["a"]):
        expect_equal(dict(locations_in("no_such_namespace", names)), {}, "a missing namespace")


def a_table_is_found_by_its_uuid(pointer: TablePointer, place: Place) -> None:
    expect({place.namespace, place.other_namespace} <= set(pointer.databases()), "databases")
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    base = made(pointer, place)
    raw = dict(table_metadata(place.location).raw)
    del raw["table-uuid"]
    silent = TableMetadata.parse({**raw, "format-version": 1, "schema": raw["schemas"][0], "partition-spec": []})
    expect_equal(pointer.create(place.name("silent"), place.file(1), silent, "ada"), Swapped(), "create without a UUID")
    to = TableName(place.other_namespace, "moved")
    for uuid, here, there in ((_UUID, [base.name], []), (_UUID.upper(), [], [to]), (_ANOTHER_UUID, [], [])):
        found = pointer.find_by_uuid(place.namespace, uuid, timeout_seconds=60.0)
        expect_equal([each.name for each in found.matching], here, f"rows with {uuid}")
        expect_equal(
            [each.name for each in found.without_uuid], [place.name("silent")], f"rows without a UUID beside {uuid}"
        )
        moved = pointer.find_by_uuid(place.other_namespace, uuid, timeout_seconds=60.0)
        expect_equal([each.name for each in moved.matching], there, f"moved rows with {uuid}")
        if here:
            expect_equal(found.matching[0].metadata_location, base.metadata_location, "metadata_location")
            expect_equal(pointer.rename(base, to, Sending()), Swapped(), "rename")
    nowhere = pointer.find_by_uuid("no_such_namespace", _UUID, timeout_seconds=60.0)
    expect_equal([*nowhere.matching, *nowhere.without_uuid], [], "rows of a missing namespace")


def a_table_is_found_by_a_folder_that_meets_its_own(pointer: TablePointer, place: Place) -> None:
    root = place.location
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    tables = {"t": "a_b/t", "u": "a_b/u", "inner": "a_b/t/in ner"}
    for number, (name, folder) in enumerate(tables.items()):
        metadata = table_metadata(f"{root}/{folder}")
        file = f"{root}/{folder}/metadata/{number:05d}.metadata.json"
        expect_equal(pointer.create(place.name(name), file, metadata, "ada"), Swapped(), f"create {name}")
    path = root.partition(":")[2]
    for folder, wanted in (
        (f"{root}/a_b/t", {"t", "inner"}),
        (f"{path}/a_b/./t/", {"t", "inner"}),
        ("s3://elsewhere/t", {"t", "inner"}),
        (f"{root}/a_b/t/data", {"t"}),
        (f"{root}/a_b/u/metadata", {"u"}),
        (f"{root}/a_b/t/in ner/data/x", {"t", "inner"}),
        (f"{root}/a_b", {"t", "u", "inner"}),
        (f"{root}/a_b/%", set()),
        ("file:/", set()),
        (f"{root}/{'/'.join('deep' * 12)}", set()),
    ):
        found = pointer.find_by_folder(place.namespace, folder, timeout_seconds=60.0)
        expect(wanted <= {each.name.name for each in found}, f"{folder}: {found} lacks one of {wanted}")
        expect_equal({each.name.namespace for each in found} - {place.namespace}, set(), "other namespaces")
    found = pointer.find_by_folder(place.namespace, f"{root}/a_b/u", timeout_seconds=60.0)
    expect_equal({each.name: each.location for each in found}.get(place.name("u")), f"{root}/a_b/u", "its folder")
    none = pointer.find_by_folder(place.namespace, "s3://elsewhere/none", timeout_seconds=60.0)
    expect_equal(list(none), [], "a folder that nobody has")
    nowhere = pointer.find_by_folder("no_such_namespace", f"{root}/a_b/t", timeout_seconds=60.0)
    expect_equal(list(nowhere), [], "rows of a missing namespace")


def the_folders_of_all_tables_are_listed(pointer: TablePointer, place: Place) -> None:
    """Hive's too."""
    made(pointer, place)
    place.add_hive_table(place.name("hive"), f"{place.location}/elsewhere/hive")
    found = {each.name: each.location for each in pointer.folders_in(place.namespace, timeout_seconds=60.0)}
    wanted = {"t": f"{place.location}/t", "hive": f"{place.location}/elsewhere/hive"}
    expect_equal(found.keys(), {place.name(each) for each in wanted}, "tables")
    for name, location in wanted.items():
        expect(same_folder(found[place.name(name)], location), f"{name} has {found[place.name(name)]}, not {location}")
    nowhere = pointer.folders_in("no_such_namespace", timeout_seconds=60.0)
    expect_equal(list(nowhere), [], "tables of a missing namespace")


def the_folders_of_all_databases_are_listed(pointer: TablePointer, place: Place) -> None:
    found = pointer.database_folders(timeout_seconds=60.0)
    expect({place.namespace, place.other_namespace} <= found.keys(), f"{found} lacks a namespace")


def a_table_owns_the_folder_that_it_was_made_in(pointer: TablePointer, place: Place) -> None:
    """Whatever its properties say, under every name, and until it moves."""
    mine, other = table_metadata(f"{place.location}/t"), table_metadata(f"{place.location}/moved")
    claimed = table_metadata(f"{place.location}/u", {OWNED_FOLDER: f"{place.location}/u"})
    expect_equal(pointer.create(place.name("u"), place.file(0), claimed, None), Swapped(), "create")
    expect_equal(pointer.load(place.name("u")).owns_folder, False, "owns_folder by a property")
    expect_equal(
        pointer.create(place.name("t"), place.file(0), mine, None, owns_folder=True), Swapped(), "create with a folder"
    )
    base = pointer.load(place.name("t"))
    expect_equal((base.owns_folder, base.parameters.get(OWNED_FOLDER)), (True, mine.location), "owns_folder")
    expect_equal(pointer.swap(base, place.file(1), mine, mine, Sending()), Swapped(), "swap")
    base = pointer.load(place.name("t"))
    expect_equal(base.owns_folder, True, "owns_folder after a swap")
    there = TableName(place.other_namespace, "renamed")
    expect_equal(pointer.rename(base, there, Sending()), Swapped(), "rename")
    base = pointer.load(there)
    expect_equal(base.owns_folder, True, "owns_folder after a rename")
    expect_equal(pointer.swap(base, place.file(2), other, mine, Sending()), Swapped(), "move")
    base = pointer.load(there)
    expect_equal((base.owns_folder, OWNED_FOLDER in base.parameters), (False, False), "owns_folder after a move")
    expect_equal(
        pointer.swap(base, place.file(3), mine, other, Sending(), owns_folder=True), Swapped(), "move to a free folder"
    )
    base = pointer.load(there)
    expect_equal((base.owns_folder, base.parameters.get(OWNED_FOLDER)), (True, mine.location), "owns_folder there")


CHECKS: tuple[Check, ...] = checks_of(globals())
