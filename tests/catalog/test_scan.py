"""Scans of tables: which files they read, in which snapshot, and what metadata alone says of them."""

from __future__ import annotations

import datetime
import decimal
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.scan import Scan
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile
from iceberg_hms.expressions import col
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "day", "required": False, "type": "date"},
        {"id": 3, "name": "level", "required": False, "type": "string"},
    ],
}
FIRST = datetime.date(2026, 1, 1)
DAY = (FIRST - datetime.date(1970, 1, 1)).days


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", SCHEMA, partition_spec=["day"])


def data_file(
    name: str, day: int | None = DAY, rows: int = 3, ids: tuple[int, int] | None = None, **more: Any
) -> DataFile:
    """ids: the smallest and the largest in the file."""
    bounds = [None, None] if ids is None else [{1: each.to_bytes(8, "little")} for each in ids]
    known = {"partition": {"day": day}, "lower_bounds": bounds[0], "upper_bounds": bounds[1]}
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", rows, 10, **known | more)


def name_of(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def names(scan: Scan) -> list[str]:
    return sorted(map(name_of, scan.plan().column("path").to_pylist()))


def head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_a_plan_says_what_manifests_say(table: Table) -> None:
    table.append([data_file("a", DAY, 3), data_file("b", None, 4)])
    plan = table.scan().plan()
    assert sorted(plan.to_pylist(), key=lambda row: row["path"]) == [
        {
            "path": "file:/in/a.parquet",
            "format": "PARQUET",
            "partition": {"day": FIRST},
            "spec_id": 0,
            "rows": 3,
            "size": 10,
            "sequence_number": 1,
            "first_row_id": None,
            "delete_files": [],
            "residual": "true",
        },
        {
            "path": "file:/in/b.parquet",
            "format": "PARQUET",
            "partition": {"day": None},
            "spec_id": 0,
            "rows": 4,
            "size": 10,
            "sequence_number": 1,
            "first_row_id": None,
            "delete_files": [],
            "residual": "true",
        },
    ]


def test_a_table_without_snapshots_has_an_empty_plan_of_the_same_columns(table: Table) -> None:
    scan = table.scan("id = 1")
    empty = scan.plan()
    assert (len(empty), scan.count(), list(scan.tasks()), scan.snapshot) == (0, 0, [], None)
    assert repr(scan) == "Scan(logging.events, no snapshot, where='id = 1')"
    table.append([data_file("a")])
    assert table.scan().plan().schema == empty.schema


def test_files_that_can_have_no_matching_row_are_left_out(table: Table) -> None:
    table.append(
        [data_file("a", DAY, ids=(1, 5)), data_file("b", DAY, ids=(6, 9)), data_file("c", DAY + 1, ids=(1, 9))]
    )
    assert names(table.scan("id = 7")) == ["b", "c"]
    assert names(table.scan("day = '2026-01-01'")) == ["a", "b"]
    assert names(table.scan((col("id") < 6) & (col("day") == FIRST))) == ["a"]
    assert names(table.scan("id > 100")) == []


def test_a_residual_is_what_the_partition_leaves_of_the_filter(table: Table) -> None:
    table.append([data_file("a", DAY), data_file("b", DAY + 1)])
    plan = table.scan("day = '2026-01-01' or id = 7").plan()
    found = dict(zip(map(name_of, plan.column("path").to_pylist()), plan.column("residual").to_pylist(), strict=True))
    assert found == {"a": "true", "b": "id = 7"}


def test_delete_files_are_with_the_files_that_they_apply_to(catalog: Catalog) -> None:
    table = catalog.create_table("logging.deletes", SCHEMA, partition_spec=["day"])
    table.append([data_file("a"), data_file("b"), data_file("c", DAY + 1)])
    positions = data_file("p", DAY, 2, content=FileContent.POSITION_DELETES)
    of_b = data_file("q", DAY, 1, content=FileContent.POSITION_DELETES, referenced_data_file="file:/in/b.parquet")
    equal = data_file("e", DAY + 1, 5, content=FileContent.EQUALITY_DELETES, equality_ids=[1])
    table.row_delta(deletes=[positions, of_b, equal])
    plan = table.scan().plan().to_pylist()
    found = {name_of(row["path"]): sorted(name_of(each["path"]) for each in row["delete_files"]) for row in plan}
    assert found == {"a": ["p"], "b": ["p", "q"], "c": ["e"]}
    (described,) = next(row for row in plan if name_of(row["path"]) == "c")["delete_files"]
    assert described == {
        "path": "file:/in/e.parquet",
        "content": "equality-deletes",
        "format": "PARQUET",
        "rows": 5,
        "size": 10,
        "sequence_number": 2,
        "equality_ids": [1],
        "content_offset": None,
        "content_size": None,
    }
    assert [len(file.deletes) for file in sorted(table.scan().files(), key=lambda file: file.path)] == [1, 2, 1]


def test_batches_are_the_plan_manifest_by_manifest(table: Table) -> None:
    for name in "abc":
        table.append([data_file(name)])
    batches = list(table.scan().to_batches())
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    assert pa.Table.from_batches(batches) == table.scan().plan()
    # Only one manifest has a file that may match, by the manifest list and by bounds.
    table.append([data_file("d", DAY + 1)])
    assert len(list(table.scan("day = '2026-01-02'").to_batches())) == 1
    table.replace_partitions([data_file("e", ids=(1, 5)), data_file("f", DAY + 1, ids=(1, 5))])
    table.append([data_file("g", ids=(6, 9))])
    assert [batch.num_rows for batch in table.scan("id = 7").to_batches()] == [1]


# Which snapshot.


def test_a_scan_reads_the_table_object_s_state_or_the_snapshot_branch_tag_or_time_that_it_names(
    catalog: Catalog, table: Table
) -> None:
    table.append([data_file("a")])
    first, since = head(table), table.metadata.snapshots[-1].timestamp_ms
    table.create_tag("first", first)
    table.create_branch("audit")
    catalog.load_table("logging.events").append([data_file("b")], branch="audit")
    assert names(table.scan()) == ["a"]
    table.refresh().append([data_file("c")])
    assert names(table.scan()) == ["a", "c"]
    assert names(table.scan(branch="main")) == ["a", "c"]
    assert names(table.scan(branch="audit")) == ["a", "b"]
    assert names(table.scan(branch="first")) == ["a"]
    assert names(table.scan(snapshot_id=first)) == ["a"]
    assert names(table.scan(as_of=since)) == ["a"]
    assert names(table.scan(as_of=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1))) == ["a", "c"]
    assert repr(table.scan(branch="first", columns=["id"])) == f"Scan(logging.events, snapshot {first}, columns=['id'])"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"where": "nobody = 1"}, "nobody"),
        ({"where": "ID = 1"}, "ID"),
        ({"where": "id ="}, "expected a value"),
        ({"where": "id = 'x'"}, "x"),
        ({"columns": ["nobody"]}, "there is no column nobody .the table has id, day, level"),
        ({"columns": ["ID"]}, "there is no column ID"),
        ({"snapshot_id": 7}, "no snapshot 7"),
        ({"branch": "nobody"}, "no branch or tag 'nobody'"),
        ({"as_of": 0}, "no snapshot that was current at 1970-01-01"),
        ({"as_of": datetime.datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 - the error that is tested
        ({"branch": "main", "snapshot_id": 7}, "one snapshot"),
    ],
)
def test_what_the_table_does_not_have_is_said_at_once(table: Table, asked: dict[str, Any], said: str) -> None:
    table.append([data_file("a")])
    with pytest.raises(InvalidInput, match=said):
        table.scan(**asked)


def test_case_does_not_count_if_the_caller_says_so(table: Table) -> None:
    table.append([data_file("a", ids=(1, 5)), data_file("b", ids=(6, 9))])
    assert names(table.scan("ID = 7", ["LEVEL"], case_sensitive=False)) == ["b"]


def test_an_older_snapshot_has_the_columns_that_it_had(table: Table) -> None:
    table.append([data_file("a", ids=(1, 5)), data_file("b", ids=(6, 9))])
    first = head(table)
    table.create_branch("audit")
    with table.update_schema() as change:
        change.rename_column("id", "number")
    table.append([data_file("c", ids=(1, 9))])
    assert names(table.scan("id = 7", ["id"], snapshot_id=first)) == ["b"]
    assert names(table.scan("number = 7", ["number"])) == ["b", "c"]
    # Those of a branch are the table's (Java: SnapshotUtil.schemaFor).
    assert names(table.scan("number = 7", ["number"], branch="audit")) == ["b"]
    with pytest.raises(InvalidInput, match="no column id"):
        table.scan(columns=["id"])
    with table.update_schema() as change:
        change.add_column("id", "long")
    # A name that both have is the snapshot's own; of no file are bounds of the new column known.
    assert names(table.scan("id = 7", snapshot_id=first)) == ["b"]
    assert names(table.scan("id = 7", branch="audit")) == ["a", "b"]


def test_a_snapshot_that_expired_since_the_table_was_loaded(files: MemoryFiles) -> None:
    with memory_catalog(files=files, manifest_cache_max_bytes=0) as catalog:
        catalog.create_namespace("logging")
        table = catalog.create_table("logging.events", SCHEMA)
        table.append([DataFile("file:/in/a.parquet", "PARQUET", 3, 10)])
        scan, snapshot = table.scan(), table.current_snapshot()
        assert snapshot is not None
        assert snapshot.manifest_list is not None
        files.delete(snapshot.manifest_list)
        for ask in (scan.plan, scan.count, lambda: list(scan.tasks())):
            with pytest.raises(MissingFile, match="`refresh` the table"):
                ask()


# Tasks and rows.


def test_tasks_are_packed_as_the_table_says_or_the_caller(table: Table) -> None:
    table.append([data_file(name) for name in "abcd"])
    assert [len(group.tasks) for group in table.scan().tasks()] == [4]
    assert [len(group.tasks) for group in table.scan().tasks(split_size=20, open_cost=0)] == [2, 2]
    table.set_properties({"read.split.target-size": "30", "read.split.open-file-cost": "10"})
    assert [len(group.tasks) for group in table.scan().tasks()] == [3, 1]
    assert [len(group.tasks) for group in table.scan().tasks(open_cost=15)] == [2, 2]
    with pytest.raises(InvalidInput, match="split_size"):
        table.scan().tasks(split_size=0)


def test_groups_look_back_as_far_as_the_table_says_or_the_caller(catalog: Catalog) -> None:
    table = catalog.create_table("logging.flat", SCHEMA)
    table.append([DataFile(f"file:/in/{size}.parquet", "PARQUET", 1, size) for size in (15, 10, 5)])

    def sizes(**numbers: int) -> list[list[int]]:
        groups = table.scan().tasks(split_size=20, open_cost=0, **numbers)
        return [[task.length for task in group.tasks] for group in groups]

    assert sizes() == [[15, 5], [10]]
    assert sizes(lookback=1) == [[15], [10, 5]]
    table.set_properties({"read.split.planning-lookback": "1"})
    assert sizes() == [[15], [10, 5]]
    assert sizes(lookback=2) == [[15, 5], [10]]


def test_the_properties_of_splits_are_checked_when_they_are_set(table: Table) -> None:
    for name in ("read.split.target-size", "read.split.metadata-target-size", "read.split.planning-lookback"):
        with pytest.raises(InvalidInput, match=name):
            table.set_properties({name: "0"})
    table.set_properties({"read.split.open-file-cost": "0"})


def test_a_file_of_a_task_has_its_partition_and_its_residual(table: Table) -> None:
    table.append([data_file("a", split_offsets=[4])])
    (group,) = table.scan("day = '2026-01-01' and id = 7").tasks()
    (task,) = group.tasks
    assert (task.file.path, task.start, task.length) == ("file:/in/a.parquet", 4, 6)
    assert (task.file.partition, str(task.file.residual)) == ({"day": DAY}, "id = 7")


def test_rows_are_counted_where_metadata_alone_tells(table: Table) -> None:
    table.append([data_file("a", DAY, 3), data_file("b", DAY + 1, 4), data_file("c", DAY + 1, 5)])
    assert table.scan().count() == 12
    assert table.scan("day = '2026-01-02'").count() == 9
    assert table.scan("day = '2027-01-01'").count() == 0
    # Some rows of a file may match.
    assert table.scan("id = 7").count() is None
    assert table.scan("day = '2026-01-01' or id = 7").count() is None
    table.row_delta(deletes=[data_file("p", DAY + 1, 2, content=FileContent.POSITION_DELETES)])
    assert table.scan().count() is None
    assert table.scan("day = '2026-01-01'").count() == 3


# Partitions.


def test_partitions_have_the_types_of_their_values_and_all_fields_of_all_specs(catalog: Catalog) -> None:
    kinds: dict[str, tuple[str, Any, Any]] = {
        "boolean": ("boolean", True, True),
        "int": ("int", 7, 7),
        "long": ("long", 2**40, 2**40),
        "float": ("float", 0.5, 0.5),
        "double": ("double", 0.1, 0.1),
        "date": ("date", DAY, FIRST),
        "time": ("time", 3_600_000_001, datetime.time(1, 0, 0, 1)),
        "timestamp": ("timestamp", 1, datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
        "timestamptz": ("timestamptz", 1, datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)),
        "string": ("string", "x", "x"),
        "uuid": ("uuid", uuid.UUID(int=7), uuid.UUID(int=7)),
        "binary": ("binary", b"x", b"x"),
        "decimal": ("decimal(9, 2)", decimal.Decimal("1.25"), decimal.Decimal("1.25")),
    }
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, (kind, _, _)) in enumerate(kinds.items(), 1)
    ]
    table = catalog.create_table("logging.kinds", {"type": "struct", "fields": fields}, partition_spec=list(kinds))
    stored = {name: value for name, (_, value, _) in kinds.items()}
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10, stored)])
    table.append([DataFile("file:/in/b.parquet", "PARQUET", 1, 10, dict.fromkeys(kinds))])
    with table.update_spec() as change:
        for name in kinds:
            change.remove_field(name)
        change.add_field("long", "bucket[4]", "part")
        change.add_field("date", "year", "year")
    spec = table.spec().spec_id
    table.append([DataFile("file:/in/c.parquet", "PARQUET", 1, 10, {"part": 3, "year": 56}, spec_id=spec)])
    found = {name_of(row["path"]): row["partition"] for row in table.scan().plan().to_pylist()}
    nothing: dict[str, Any] = dict.fromkeys([*kinds, "part", "year"])
    assert found == {
        "a": nothing | {name: shown for name, (_, _, shown) in kinds.items()},
        "b": nothing,
        "c": nothing | {"part": 3, "year": 56},
    }


def test_an_unpartitioned_table_has_an_empty_struct(catalog: Catalog) -> None:
    table = catalog.create_table("logging.flat", SCHEMA)
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10), DataFile("file:/in/b.parquet", "PARQUET", 1, 10)])
    plan = table.scan().plan()
    assert plan.column("partition").to_pylist() == [{}, {}]
    plan.validate(full=True)


def test_values_from_before_a_promotion_and_fields_of_one_name(catalog: Catalog) -> None:
    fields = [{"id": 1, "name": "n", "required": False, "type": "int"}, SCHEMA["fields"][1]]  # type: ignore[index]
    table = catalog.create_table("logging.wide", {"type": "struct", "fields": fields}, partition_spec=["n"])
    table.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10, {"n": 7})])
    with table.update_schema() as change:
        change.update_column("n", "long")
    table.append([DataFile("file:/in/b.parquet", "PARQUET", 1, 10, {"n": 2**40})])
    plan = table.scan().plan()
    assert sorted(row["n"] for row in plan.column("partition").to_pylist()) == [7, 2**40]
    assert plan.schema.field("partition").type.field("n").type == pa.int64()


def test_a_dropped_source_column_does_not_hide_its_partition_values(table: Table) -> None:
    table.append([data_file("a")])
    with table.update_spec() as change:
        change.remove_field("day")
    with table.update_schema() as change:
        change.delete_column("day")
    assert table.scan().plan().column("partition").to_pylist() == [{"day": FIRST}]


# With the cache.


def test_a_cache_on_disk_answers_the_same(files: MemoryFiles, tmp_path: Path) -> None:
    folder = tmp_path / "columns"
    with memory_catalog(files=files, planning_cache_dir=str(folder)) as catalog:
        catalog.create_namespace("logging")
        table = catalog.create_table("logging.events", SCHEMA, partition_spec=["day"])
        for number in range(3):
            table.append([data_file(f"a{number}", DAY + number, ids=(number, number))])
        cold = table.scan("id < 2").plan()
        assert len(list(folder.iterdir())) == 3
        assert table.scan("id < 2").plan() == cold
        assert len(cold) == 2


def test_a_corrupt_manifest_is_named(table: Table, files: MemoryFiles) -> None:
    table.append([data_file("a")])
    (manifest,) = [each.location for each in files.list_files(table.location()) if each.location.endswith("-m0.avro")]
    data = files.read(manifest)
    files.delete(manifest)
    files.write(manifest, data[:-20])
    with pytest.raises(CorruptFile, match=manifest.rpartition("/")[2]):
        table.scan().plan()
