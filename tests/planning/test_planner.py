"""Plans of scans, on tables in memory."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.changes.operations.manifests.delete_index import DeleteIndex
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.expressions.text import parse
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.planner import DELETES, RESIDUAL, ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "int", "required": False},
        {"id": 2, "name": "day", "type": "int", "required": False},
    ],
}


ORDERS = "sales.orders"


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with memory_catalog() as made:
        made.create_namespace("sales")
        made.create_table(ORDERS, SCHEMA, partition_spec=["day"])
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.load_table(ORDERS)


def data_file(name: str, day: int | None, ids: tuple[int, int] = (0, 9), **more: Any) -> DataFile:
    low, high = (struct.pack("<i", each) for each in ids)
    counts: dict[str, Any] = {"value_counts": {1: 10}, "null_value_counts": {1: 0}}
    bounds: dict[str, Any] = {"lower_bounds": {1: low}, "upper_bounds": {1: high}}
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 10, 100, {"day": day}, **counts, **bounds, **more)


def planner_of(
    catalog: Catalog, where: str = "true", *, metadata: TableMetadata | None = None, **more: Any
) -> ScanPlanner:
    """metadata: of the table; None: its current one."""
    services, request = catalog.services, ScanRequest(filter=parse(where), **more)
    current = catalog.load_table(ORDERS).metadata if metadata is None else metadata
    return ScanPlanner(current, request, services.ports.manifests(), services.manifest_columns)


def planned(planner: ScanPlanner, *, specs: Collection[int] = (0,), **how: Any) -> dict[str, tuple[str, list[str]]]:
    """What is left of the filter, and the delete files, by the names of files."""
    found = {}
    for files in planner.plan(**how):
        columns = files.columns
        assert files.spec_id in specs
        for path, residual, deletes in zip(
            columns.column(layout.FILE_PATH).to_pylist(),
            columns.column(RESIDUAL).to_pylist(),
            columns.column(DELETES).to_pylist(),
            strict=True,
        ):
            names = [name_of(planner.delete_files[each].data_file.file_path) for each in deletes]
            found[name_of(path)] = (str(planner.residuals[residual]), names)
    return found


def name_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".parquet")


def current(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_partitions_and_bounds_rule_out_files_and_partitions_decide_the_residual(
    catalog: Catalog, table: Table
) -> None:
    table.append([data_file("a", 1), data_file("b", 2), data_file("c", 2, (20, 29))])
    table.append([data_file("d", 3)])

    assert planned(planner_of(catalog, "day = 2 and id < 15")) == {"b": ("id < 15", [])}
    assert planned(planner_of(catalog, "day >= 2")) == {each: ("true", []) for each in "bcd"}
    assert planned(planner_of(catalog, "id > 100")) == {}
    planner = planner_of(catalog, "day = 3")
    assert len(planner.manifests) == 1
    assert planned(planner) == {"d": ("true", [])}


def test_the_partition_of_null_is_ruled_out(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", None)])
    assert planned(planner_of(catalog, "day is null or id > 5")) == {"a": ("true", [])}
    (manifest,) = planner_of(catalog).manifests
    assert planned(planner_of(catalog, "day = 1"), manifests=[manifest]) == {}


def test_a_table_without_snapshots_has_no_files(catalog: Catalog, table: Table) -> None:
    assert planner_of(catalog).manifests == ()
    assert planned(planner_of(catalog)) == {}


def test_deletes_are_named_where_they_apply(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1), data_file("b", 2)])
    deletes = data_file("x", 1, (3, 3), content=FileContent.EQUALITY_DELETES, equality_ids=[1])
    far = data_file("y", 2, (70, 70), content=FileContent.EQUALITY_DELETES, equality_ids=[1])
    table.row_delta(deletes=[deletes, far])

    assert planned(planner_of(catalog)) == {"a": ("true", ["x"]), "b": ("true", [])}
    # No row that the filter wants is among the deleted ones.
    assert planned(planner_of(catalog, "id = 5")) == {"a": ("id = 5", []), "b": ("id = 5", [])}


@pytest.mark.parametrize(
    "where",
    [
        "true",
        "id < 4",
        "id = 25 or day = 2",
        "day is null",
        "day = 1 and id > 20",
        "id in (3, 70)",
        "day > 7",
    ],
)
def test_deletes_are_those_of_the_manifests_records(catalog: Catalog, table: Table, where: str) -> None:
    days, ids = (1, 2, None), ((0, 9), (20, 29), (70, 79))
    files = [data_file(f"{day}-{low}", day, (low, high)) for day in days for low, high in ids]
    table.append(files[:8])
    equality = {"content": FileContent.EQUALITY_DELETES, "equality_ids": [1]}
    for number, (day, (low, high)) in enumerate(zip((1, None, 2), ids, strict=True)):
        of_partition = data_file(f"p{number}", day, content=FileContent.POSITION_DELETES)
        named = next(each for each in files if each.partition["day"] == day)
        of_file = replace(of_partition, referenced_data_file=named.file_path)
        deletes = [
            data_file(f"e{number}", day, (low + 3, high + 9), **equality),
            replace(of_partition, lower_bounds=None, upper_bounds=None),
            replace(of_file, file_path=f"file:/in/f{number}.parquet"),
        ]
        table.row_delta([data_file(f"new{number}", day, (low, high))], deletes=deletes)
    with table.update_spec() as spec:
        spec.remove_field("day")
    table = table.refresh()
    everywhere = {"partition": {}, "spec_id": table.metadata.default_spec_id}
    table.row_delta(
        [replace(files[8], **everywhere)], deletes=[replace(data_file("all", None, (5, 75), **equality), **everywhere)]
    )
    # Of manifests that were merged, entries are existing ones.
    table.rewrite_manifests()

    planner = planner_of(catalog, where)
    manifests = catalog.services.ports.manifests()
    may_match = parse_filter(table, where).may_match
    entries = [each for each in manifests.entries(manifests.list(planner.snapshot)) if each.is_live]
    index = DeleteIndex(
        [each for each in entries if each.data_file.content != FileContent.DATA and may_match(each.data_file)],
        planner.metadata,
    )
    expected = {
        name_of(each.data_file.file_path): sorted(
            name_of(found.data_file.file_path) for found in index.applying_to(each.data_file, each.sequence_number or 0)
        )
        for each in entries
        if each.data_file.content == FileContent.DATA and may_match(each.data_file)
    }
    found = {name: sorted(deletes) for name, (_, deletes) in planned(planner, specs={0, 1}).items()}
    assert found == expected
    assert where == "day > 7" or any(expected.values())


def parse_filter(table: Table, where: str) -> FileFilter:
    return FileFilter(bind(parse(where), table.schema()), table.metadata.specs_by_id, where)


def test_a_snapshot_of_the_past(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1)])
    before = current(table)
    table.append([data_file("b", 1)])
    assert planned(planner_of(catalog, snapshot_id=before)) == {"a": ("true", [])}
    with pytest.raises(InvalidInput, match="the table has no snapshot 7"):
        planner_of(catalog, snapshot_id=7)


def test_what_appends_added_between_two_snapshots(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1)])
    start = current(table)
    table.append([data_file("b", 1), data_file("c", 2)])
    table.overwrite([data_file("d", 2)], overwrite_filter="day = 2")
    table.append([data_file("e", 3)])

    planner = planner_of(catalog, "day < 9", start_snapshot_id=start, snapshot_id=current(table))
    assert planned(planner) == {"b": ("true", []), "c": ("true", []), "e": ("true", [])}
    with pytest.raises(InvalidInput, match="no ancestor"):
        planner_of(catalog, start_snapshot_id=current(table), snapshot_id=start)


def test_an_incremental_scan_has_no_deletes(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1)])
    start = current(table)
    table.row_delta([data_file("b", 1)], deletes=[data_file("x", 1, content=FileContent.POSITION_DELETES)])
    metadata = catalog.load_table(ORDERS).metadata
    assert planned(planner_of(catalog))["b"] == ("true", ["x"])
    # Some writers call everything an append.
    snapshots = [{**each, "summary": {"operation": "append"}} for each in metadata.fields["snapshots"]]
    planner = planner_of(
        catalog, metadata=metadata.replace(snapshots=snapshots), start_snapshot_id=start, snapshot_id=current(table)
    )
    assert planned(planner) == {"b": ("true", [])}


def test_a_plan_ends_once_it_has_enough_rows(catalog: Catalog, table: Table) -> None:
    for name in "abc":
        table.append([data_file(name, 1)])
    planner = planner_of(catalog, "day = 1", min_rows=11)
    assert len(planned(planner)) == 2
    assert planner.has_enough
    # Rows that a residual may refuse do not count.
    assert len(planned(planner_of(catalog, "id = 1", min_rows=11))) == 3
    assert planned(planner_of(catalog, min_rows=0)) == {}


def test_a_part_of_the_manifests(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1), data_file("b", 1)])
    table.append([data_file("c", 1)])
    planner = planner_of(catalog)
    newest, oldest = planner.manifests
    assert planned(planner, manifests=[newest]).keys() == {"c"}
    assert planned(planner, manifests=[oldest]).keys() == {"a", "b"}
    assert [each.manifest for each in planner.plan([newest, oldest])] == [0, 1]


@pytest.mark.parametrize("version", [2, 3])
def test_what_files_inherit_does_not_depend_on_the_filter(catalog: Catalog, version: int) -> None:
    catalog.create_table("sales.numbered", SCHEMA, properties={"format-version": str(version)})
    table = catalog.load_table("sales.numbered")
    table.append([replace(data_file(name, 1, ids), partition={}) for name, ids in {"a": (0, 9), "b": (20, 29)}.items()])
    (found,) = planner_of(catalog, "id > 15", metadata=table.metadata).plan()
    columns = found.columns
    assert columns.column(layout.SNAPSHOT_ID).to_pylist() == [current(table)]
    assert columns.column(layout.SEQUENCE_NUMBER).to_pylist() == [1]
    row_ids = layout.column(columns, layout.FIRST_ROW_ID)
    assert (row_ids and row_ids.to_pylist()) == ([10] if version == 3 else None)


def test_names_are_of_the_schema_that_is_read(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1, (0, 9)), data_file("b", 1, (20, 29))])
    before = current(table)
    with table.update_schema() as update:
        update.rename_column("id", "number")

    # No snapshot was written since, so the current one is read with the table's names.
    for by_snapshot in (False, True):
        found = planned(planner_of(catalog, "number < 10", snapshot_id=before, use_snapshot_schema=by_snapshot))
        assert found.keys() == {"a"}
    table.append([data_file("c", 1, (0, 9))])
    assert planned(planner_of(catalog, "id < 10", snapshot_id=before, use_snapshot_schema=True)).keys() == {"a"}
    # A branch is read with the table's names, and its old ones are known as well.
    assert planned(planner_of(catalog, "number < 10", snapshot_id=before)).keys() == {"a"}
    assert planned(planner_of(catalog, "id < 10", snapshot_id=before)).keys() == {"a"}
    with pytest.raises(InvalidInput, match="there is no column none"):
        planner_of(catalog, "none < 10", snapshot_id=before)


def test_statistics_of_named_columns(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1)])
    planner = planner_of(catalog, stats_fields=("ID",), case_sensitive=False)
    (found,) = planner.plan()
    assert planner.stats_ids == (1,)
    assert found.columns.column(layout.statistic(layout.VALUE_COUNT, 1)).to_pylist() == [10]
    with pytest.raises(InvalidInput, match="there is no column ID"):
        planner_of(catalog, stats_fields=("ID",))


def test_a_snapshot_that_has_expired_since_the_table_was_loaded(catalog: Catalog, table: Table) -> None:
    table.append([data_file("a", 1)])
    stale = catalog.load_table(ORDERS)
    table.overwrite([data_file("b", 1)], overwrite_filter="day = 1")
    table.expire_snapshots(snapshot_ids=[current(stale)])
    with pytest.raises(MissingFile):
        list(planner_of(catalog, metadata=stale.metadata).plan())
