"""What every implementation of `coordinator.view_ports.ViewPointer` must do.

Each check takes the implementation, a TablePointer on the same metastore, and a `Place` that only this check uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.coordinator.ports import Pointer, Sending, Swapped, TableName, TablePointer
from iceberg_hms.coordinator.view_ports import ViewPointer
from iceberg_hms.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, NoSuchView, NotAnIcebergView
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.testing.contracts import checks_of, expect, expect_equal, expect_raises, expect_refused
from iceberg_hms.testing.contracts.table_pointer import Place, only_winner, table_metadata

_UUID: Final = "9c12d441-03fe-4693-9a96-a0705ddf69c1"

Check = Callable[[ViewPointer, TablePointer, Place], None]


def view_version(*texts: tuple[str, str]) -> dict[str, Any]:
    """A view version in JSON. texts: dialect and SQL of each representation; by default one for Spark."""
    representations = [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in texts or (("spark", "s"),)]
    return {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {},
        "default-namespace": ["db"],
        "representations": representations,
    }


def view_metadata(
    location: str,
    properties: Mapping[str, str] | None = None,
    *,
    texts: Sequence[tuple[str, str]] = (),
    columns: Sequence[tuple[str, str]] = (("id", "long"),),
) -> ViewMetadata:
    """Metadata of a new view. columns: name and type of each."""
    fields = [{"id": at, "name": name, "required": False, "type": kind} for at, (name, kind) in enumerate(columns, 1)]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    version = view_version(*texts)
    return new_view_metadata(_UUID, location, properties or {}, schema, version, now_ms=1_700_000_000_000)


def made(
    views: ViewPointer, place: Place, view: str = "v", properties: Mapping[str, str] | None = None, **more: Any
) -> Pointer:
    """Create a view at place.file(0); returns its row."""
    name = place.name(view)
    metadata = view_metadata(f"{place.location}/{view}", properties, **more)
    expect_equal(views.create(name, place.file(0), metadata, "ada"), Swapped(), "create")
    return views.load(name)


def a_missing_view_raises_no_such_view(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    for name in (place.name("none"), TableName("no_such_namespace", "none")):
        with expect_raises(NoSuchView, f"load of {name}"):
            views.load(name)


def a_new_view_is_loaded(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    row = made(views, place, properties={"colour": "red", "gc.enabled": "false"})
    expect_equal(row.name, place.name("v"), "name")
    expect_equal(row.previous_metadata_location, None, "previous_metadata_location")
    expect_equal(row.location, f"{place.location}/v", "location")
    wanted = {
        "table_type": "ICEBERG-VIEW",
        "metadata_location": place.file(0),
        "uuid": _UUID,
        "colour": "red",
        "gc.enabled": "false",
        "EXTERNAL": None,
        "external.table.purge": None,
    }
    for key, value in wanted.items():
        expect_equal(row.parameters.get(key), value, key)
    expect("current-schema" in row.parameters, "no current-schema")


def a_swap_moves_the_pointer(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    base = made(views, place, properties={"old": "1", "both": "1"})
    before = view_metadata(place.location, {"old": "1", "both": "1"})
    after = view_metadata(f"{place.location}/moved", {"both": "2", "new": "1"}, columns=(("x", "string"),))
    expect_equal(views.swap(base, place.file(1), after, before, Sending()), Swapped(), "swap")
    now = views.load(base.name)
    expect_equal(now.metadata_location, place.file(1), "metadata_location")
    expect_equal(now.previous_metadata_location, place.file(0), "previous_metadata_location")
    expect_equal(now.location, f"{place.location}/moved", "location")
    for key, value in {"old": None, "both": "2", "new": "1", "table_type": "ICEBERG-VIEW"}.items():
        expect_equal(now.parameters.get(key), value, key)


def an_outdated_swap_changes_nothing(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    base = made(views, place)
    metadata = view_metadata(place.location)
    expect_equal(views.swap(base, place.file(1), metadata, metadata, Sending()), Swapped(), "first swap")
    moved = views.load(base.name)
    expect_refused(views.swap(base, place.file(2), metadata, metadata, Sending()), True, None, "outdated swap")
    again = views.swap(base, place.file(1), metadata, metadata, Sending(require_cas=True))
    expect_refused(again, True, None, "the same swap again")
    expect_equal(views.load(base.name), moved, "the row")


def one_of_many_concurrent_swaps_wins(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    base = made(views, place)
    metadata = view_metadata(place.location)
    winner = only_winner(lambda at: views.swap(base, place.file(at), metadata, metadata, Sending()))
    expect_equal(views.load(base.name).metadata_location, place.file(winner), "metadata_location")


def a_name_that_is_taken_is_refused(views: ViewPointer, tables: TablePointer, place: Place) -> None:
    made(views, place)
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    table = table_metadata(f"{place.location}/t")
    expect_equal(tables.create(place.name("t"), place.file(0), table, "ada"), Swapped(), "create of a table")
    for name in ("v", "t", "hive"):
        answer = views.create(place.name(name), place.file(1), view_metadata(place.location), None)
        expect_refused(answer, True, AlreadyExists, f"create over {name}")
        if name != "v":
            answer = views.rename(views.load(place.name("v")), place.name(name), Sending())
            expect_refused(answer, True, AlreadyExists, f"rename to {name}")
    expect_refused(tables.create(place.name("v"), place.file(1), table, None), True, AlreadyExists, "table over view")
    expect_equal(views.load(place.name("v")).metadata_location, place.file(0), "metadata_location")


def a_missing_namespace_is_refused(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    name = TableName("no_such_namespace", "v")
    answer = views.create(name, place.file(0), view_metadata(place.location), None)
    expect_refused(answer, False, NoSuchNamespace, "create in a missing namespace")
    expect_refused(
        views.rename(made(views, place), name, Sending()), False, NoSuchNamespace, "rename to a missing namespace"
    )
    with expect_raises(NoSuchNamespace, "list of a missing namespace"):
        views.list_views(name.namespace)


def tables_are_no_views_and_views_are_no_tables(views: ViewPointer, tables: TablePointer, place: Place) -> None:
    place.add_hive_table(place.name("hive"), f"{place.location}/hive")
    made(views, place)
    table = table_metadata(f"{place.location}/t")
    expect_equal(tables.create(place.name("t"), place.file(0), table, "ada"), Swapped(), "create of a table")
    for name in ("t", "hive"):
        with expect_raises(NotAnIcebergView, f"load of {name} as a view"):
            views.load(place.name(name))
    with expect_raises(NoSuchTable, "load of a view as a table"):
        tables.load(place.name("v"))
    expect_equal(list(views.list_views(place.namespace)), ["v"], "views")
    expect_equal(list(views.list_views(place.other_namespace)), [], "views of an empty namespace")
    listed = getattr(tables, "list_tables", None)
    if listed is not None:
        expect_equal(list(listed(place.namespace)), ["t"], "tables")
    found = tables.find_by_uuid(place.namespace, _UUID, timeout_seconds=60.0)
    expect_equal([each.name.name for each in (*found.matching, *found.without_uuid)], ["t"], "tables with the UUID")
    near = tables.find_by_folder(place.namespace, f"{place.location}/v", timeout_seconds=60.0)
    expect_equal([each.is_view for each in near if each.name.name == "v"], [True], "views by their folder")


def a_view_is_renamed_and_dropped(views: ViewPointer, _tables: TablePointer, place: Place) -> None:
    base = made(views, place)
    targets = (place.name("renamed"), TableName(place.other_namespace, "moved"))
    for to, require_cas in zip(targets, (False, True), strict=True):
        expect_equal(views.rename(base, to, Sending(require_cas=require_cas)), Swapped(), f"rename to {to}")
        with expect_raises(NoSuchView, "load of the old name"):
            views.load(base.name)
        now = views.load(to)
        expect_equal(now.metadata_location, base.metadata_location, "metadata_location")
        expect_equal(now.parameters.get("uuid"), _UUID, "uuid")
        base = now
    expect_equal(views.drop(base, Sending()), Swapped(), "drop")
    metadata = view_metadata(place.location)
    expect_refused(
        views.swap(base, place.file(1), metadata, metadata, Sending()), True, NoSuchView, "swap of a dropped view"
    )
    expect_refused(views.rename(base, place.name("u"), Sending()), True, NoSuchView, "rename of a dropped view")
    expect_refused(views.drop(base, Sending()), True, NoSuchView, "second drop")


CHECKS: tuple[Check, ...] = checks_of(globals())
