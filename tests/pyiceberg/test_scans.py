"""Scans of the adapter's tables, planned by our planner and by PyIceberg's own: the same tasks."""

from __future__ import annotations

import ast
import datetime
import decimal
import inspect
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions as e
from pyiceberg import table as table_module
from pyiceberg import types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as TheirDataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import BaseScan, DataScan, FileScanTask, Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform

from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.pyiceberg import HmsCatalog
from iceberg_hms.pyiceberg import catalog as module
from iceberg_hms.pyiceberg.scans import HmsScan
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.pyiceberg.test_upstream import functions, tree_of

SCHEMA = Schema(
    types.NestedField(1, "id", types.LongType()),
    types.NestedField(2, "at", types.TimestampType()),
    types.NestedField(3, "name", types.StringType()),
    types.NestedField(4, "price", types.DoubleType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
FILTERS: list[str | e.BooleanExpression] = [
    "id = 7",
    "id > 5 and at < '2026-01-03T00:00:00'",
    "at >= '2026-01-02T00:00:00'",
    "at >= '2026-01-02T12:00:00' or name = 'x'",
    "at is null",
    "at is not null and id != 3",
    "not (id = 7)",
    "name in ('a3', 'a8')",
    "name like 'a1%'",
    "name not like 'a1%'",
    "price > 2.5",
    "price is nan",
    "id = 7 and id = 8",
    "id > 1000",
    e.AlwaysTrue(),
    e.AlwaysFalse(),
    e.NotIn("id", {1, 2, 3}),
    e.NotEqualTo("at", "2026-01-02T00:00:00"),
]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HmsCatalog]:
    pointer = MemoryTablePointer(namespaces=())

    def assemble(settings: Settings) -> Any:
        return memory_catalog(files=RoutedFiles(fsync=False), pointer=pointer, warehouse=settings.warehouse)

    monkeypatch.setattr(module, "assemble", assemble)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with HmsCatalog("lake", uri="thrift://nowhere:1", warehouse=tmp_path.as_uri()) as made:
        made.create_namespace("db")
        yield made


def rows(*ids: int | None, day: int | None = 1) -> pa.Table:
    at = None if day is None else datetime.datetime(2026, 1, day, 11)  # noqa: DTZ001 - a column without zone
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([at] * len(ids), pa.timestamp("us")),
            "name": pa.array([f"a{each}" for each in ids]),
            "price": pa.array(
                [float("nan") if each == 3 else each / 2 if each else None for each in ids], pa.float64()
            ),
        }
    )


@pytest.fixture
def table(catalog: HmsCatalog) -> Table:
    """Three days and null, several manifests."""
    made = catalog.create_table("db.t", SCHEMA, partition_spec=BY_DAY)
    made.append(pa.concat_tables([rows(1, 2, 3), rows(4, 5, day=2), rows(None, 6, day=None)]))
    made.append(pa.concat_tables([rows(7, 8, day=2), rows(9, 10, 11, day=3)]))
    made.append(rows(12, None, 13))
    return catalog.load_table("db.t")


def described(file: TheirDataFile) -> dict[str, Any]:
    """All that a record says; what it has no values for is as good as empty."""
    found = {
        name: getattr(file, name) for name in dir(TheirDataFile) if isinstance(getattr(TheirDataFile, name), property)
    }
    return {name: None if value == {} else value for name, value in found.items()}


def told(tasks: Any) -> dict[str, Any]:
    found: list[FileScanTask] = list(tasks)
    assert len({task.file.file_path for task in found}) == len(found)
    return {
        task.file.file_path: (
            described(task.file),
            sorted((described(each) for each in task.delete_files), key=lambda each: str(each["file_path"])),
            str(task.residual),
        )
        for task in found
    }


def same(scan: DataScan) -> dict[str, Any]:
    """What both planners say of a scan, which is the same."""
    assert isinstance(scan, HmsScan)
    theirs = told(DataScan.plan_files(scan))
    assert told(by_ours(scan)) == theirs
    return theirs


def by_ours(scan: DataScan) -> list[FileScanTask]:
    """What our planner says. Raises AssertionError if PyIceberg's own is asked."""
    return list(scan.update(io=NoFiles()).plan_files())


class NoFiles(PyArrowFileIO):
    """With which PyIceberg's own planner, which reads manifests, goes wrong."""

    def new_input(self, location: str) -> Any:
        raise AssertionError(f"PyIceberg reads {location}")


@pytest.mark.parametrize("row_filter", FILTERS, ids=str)
def test_both_plan_the_same_tasks(table: Table, row_filter: Any) -> None:
    same(table.scan(row_filter))


def test_the_filters_tell_files_apart(table: Table) -> None:
    assert [len(same(table.scan(each))) for each in ("id = 7", "at is null", "id > 1000", e.AlwaysTrue())] == [
        1,
        1,
        0,
        6,
    ]


def test_rows_that_are_read_are_the_same(table: Table) -> None:
    for row_filter in FILTERS:
        plain = DataScan(table_metadata=table.metadata, io=table.io, row_filter=row_filter)
        assert sorted(map(str, table.scan(row_filter).to_arrow().to_pylist())) == sorted(
            map(str, plain.to_arrow().to_pylist())
        )
    assert table.scan("id = 7").count() == 1
    assert table.scan().count() == 15
    read = table.scan("id > 10", ("id",)).to_arrow_batch_reader().read_all()
    assert sorted(read.column("id").to_pylist()) == [11, 12, 13]


def test_what_a_scan_is_made_of_stays_when_it_is_refined(table: Table) -> None:
    scan = table.scan().filter("id > 5").select("id")
    assert isinstance(scan, HmsScan)
    assert len(by_ours(scan)) == 4
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [6, 7, 8, 9, 10, 11, 12, 13]
    assert table.scan(case_sensitive=False).filter("ID = 7").count() == 1
    assert table.scan(limit=2).to_arrow().num_rows == 2
    same(table.scan("ID = 7", case_sensitive=False))


def test_older_snapshots_and_branches(table: Table) -> None:
    first, second, _ = table.snapshots()
    table.manage_snapshots().create_tag(first.snapshot_id, "first").commit()
    assert len(same(table.scan(snapshot_id=second.snapshot_id))) == 5
    assert len(same(table.scan().use_ref("first"))) == 3
    with pytest.raises(ValueError, match="unknown ref"):
        table.scan().use_ref("nobody")


def test_a_table_s_own_commits_and_refresh_are_seen(catalog: HmsCatalog, table: Table) -> None:
    table.append(rows(20))
    assert len(same(table.scan("id = 20"))) == 1
    catalog.load_table("db.t").append(rows(21))
    assert len(same(table.scan("id = 21"))) == 0
    table.refresh()
    assert len(same(table.scan("id = 21"))) == 1
    table.delete("id = 20")
    assert len(same(table.scan("id = 20"))) == 0


def test_a_table_without_snapshots(catalog: HmsCatalog) -> None:
    table = catalog.create_table("db.empty", SCHEMA)
    assert list(table.scan().plan_files()) == []
    assert table.scan().count() == 0


def test_evolved_specs_and_schemas(table: Table) -> None:
    with table.update_spec() as spec:
        spec.remove_field("at_day")
        spec.add_field("id", BucketTransform(4), "id_bucket")
        spec.add_field("name", TruncateTransform(2), "name_start")
    table.append(rows(30, 31, None, day=None))
    with table.update_schema() as schema:
        schema.rename_column("name", "label")
        schema.add_column("more", types.IntegerType())
    table.append(rows(40, 41).rename_columns(["id", "at", "label", "price"]))
    for row_filter in (
        "id = 31",
        "label = 'a31'",
        "label like 'a4%'",
        "at > '2026-01-02T00:00:00'",
        "more is null",
        "id > 0",
    ):
        found = same(table.scan(row_filter))
        assert found
    assert len(same(table.scan())) > 8


def test_every_type_of_a_partition(catalog: HmsCatalog) -> None:
    values: dict[str, tuple[types.IcebergType, Any]] = {
        "flag": (types.BooleanType(), True),
        "i": (types.IntegerType(), 7),
        "n": (types.LongType(), 2**40),
        "f": (types.FloatType(), 0.5),
        "d": (types.DoubleType(), 0.25),
        "day": (types.DateType(), 20_000),
        "time": (types.TimeType(), 3_600_000_001),
        "at": (types.TimestampType(), 1_700_000_000_000_001),
        "tz": (types.TimestamptzType(), 1_700_000_000_000_001),
        "s": (types.StringType(), "x"),
        "u": (types.UUIDType(), uuid.UUID(int=7)),
        "b": (types.BinaryType(), b"x"),
        "m": (types.DecimalType(9, 2), decimal.Decimal("1.25")),
    }
    schema = Schema(*(types.NestedField(at, name, of) for at, (name, (of, _)) in enumerate(values.items(), 1)))
    spec = PartitionSpec(
        *(PartitionField(at, 999 + at, IdentityTransform(), name) for at, name in enumerate(values, 1))
    )
    table = catalog.create_table("db.kinds", schema, partition_spec=spec)
    stored = {name: value for name, (_, value) in values.items()}
    ours = catalog.hms.load_table("db.kinds")
    ours.append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10, stored)])
    ours.append([DataFile("file:/in/b.parquet", "PARQUET", 1, 10, dict.fromkeys(values))])
    table.refresh()
    assert len(same(table.scan())) == 2
    for name in values:
        assert list(same(table.scan(e.IsNull(name)))) == ["file:/in/b.parquet"]
        assert list(same(table.scan(e.NotNull(name)))) == ["file:/in/a.parquet"]
    for name in ("i", "n", "f", "d", "s", "b", "m", "flag"):
        assert list(same(table.scan(e.EqualTo(name, stored[name])))) == ["file:/in/a.parquet"]
        assert list(same(table.scan(e.NotEqualTo(name, stored[name])))) == ["file:/in/b.parquet"]


def test_a_partition_by_a_uuid_is_found(catalog: HmsCatalog) -> None:
    # PyIceberg 0.12 compares it with the bytes of the filter, and finds no file.
    schema = Schema(types.NestedField(1, "u", types.UUIDType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "u"))
    table = catalog.create_table("db.uuids", schema, partition_spec=spec)
    one, other = uuid.UUID(int=7), uuid.UUID(int=8)
    files = [DataFile(f"file:/in/{each.int}.parquet", "PARQUET", 1, 10, {"u": each}) for each in (one, other)]
    catalog.hms.load_table("db.uuids").append(files)
    table.refresh()
    scan = table.scan(e.EqualTo("u", one.bytes))
    (task,) = scan.plan_files()
    assert (task.file.file_path, task.residual) == ("file:/in/7.parquet", scan.row_filter)
    assert list(DataScan.plan_files(scan)) == []


def test_a_partition_by_a_double_keeps_its_digits(catalog: HmsCatalog) -> None:
    # PyIceberg 0.12 reads it as a float, and finds no file.
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "price"))
    table = catalog.create_table("db.doubles", SCHEMA, partition_spec=spec)
    catalog.hms.load_table("db.doubles").append([DataFile("file:/in/a.parquet", "PARQUET", 1, 10, {"price": 0.1})])
    table.refresh()
    (task,) = table.scan("price = 0.1").plan_files()
    assert (task.file.partition[0], str(task.residual)) == (0.1, "AlwaysTrue()")
    assert list(DataScan.plan_files(table.scan("price = 0.1"))) == []


def test_the_calls_that_plan_are_those_that_the_module_names() -> None:
    source = Path(table_module.__file__)
    plan = {
        name
        for name, function in functions(tree_of(source))
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "plan_files"
    }
    assert plan == {
        "DataScan.to_arrow",
        "DataScan.to_arrow_batch_reader",
        "DataScan.count",
        # Not those of the adapter's scans.
        "DataScan._plan_files_local",
        "Transaction.delete",
        "IncrementalAppendScan.plan_files",
        "IncrementalAppendScan.to_arrow",
        "IncrementalAppendScan.to_arrow_batch_reader",
    }
    for verb in (BaseScan.to_pandas, BaseScan.to_polars, BaseScan.to_duckdb, BaseScan.to_ray):
        assert "self.to_arrow()" in inspect.getsource(verb)
    made = {name for name, function in functions(tree_of(source)) for call in ast.walk(function) if is_scan(call)}
    assert made == {"Transaction._scan", "Transaction.upsert", "Table.scan"}


def is_scan(call: ast.AST) -> bool:
    """Whether a piece of code makes a DataScan."""
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "DataScan"


def positions(name: str, day: int, **more: Any) -> DataFile:
    days = (datetime.date(2026, 1, day) - datetime.date(1970, 1, 1)).days
    known: dict[str, Any] = {"content": FileContent.POSITION_DELETES, "partition": {"at_day": days}}
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10, **known | more)


def bounds(path: str) -> dict[str, Any]:
    return {"lower_bounds": {2147483546: path.encode()}, "upper_bounds": {2147483546: path.encode()}}


def test_position_deletes(catalog: HmsCatalog, table: Table) -> None:
    path = next(iter(told(table.scan("id = 8").plan_files())))
    catalog.hms.load_table("db.t").row_delta(deletes=[positions("p", 1), positions("q", 2, **bounds(path))])
    table.refresh()
    found = same(table.scan())
    assert sorted(len(deletes) for _, deletes, _ in found.values()) == [0, 0, 0, 1, 1, 1]
    # Added later, so that no delete applies.
    table.append(rows(50))
    assert [len(deletes) for _, deletes, _ in same(table.scan("id = 50")).values()] == [0]


def test_a_delete_file_that_names_its_data_file_is_in_no_other_task(catalog: HmsCatalog, table: Table) -> None:
    path = next(iter(told(table.scan("id = 8").plan_files())))
    catalog.hms.load_table("db.t").row_delta(deletes=[positions("q", 2, referenced_data_file=path)])
    table.refresh()
    ours = {task.file.file_path for task in table.scan().plan_files() if task.delete_files}
    theirs = {task.file.file_path for task in DataScan.plan_files(table.scan()) if task.delete_files}
    assert ours == {path}
    assert ours < theirs


def test_equality_deletes_are_refused_by_pyiceberg_where_they_apply(catalog: HmsCatalog, table: Table) -> None:
    days = (datetime.date(2026, 1, 2) - datetime.date(1970, 1, 1)).days
    known: dict[str, Any] = {
        "content": FileContent.EQUALITY_DELETES,
        "equality_ids": [1],
        "partition": {"at_day": days},
    }
    catalog.hms.load_table("db.t").row_delta(deletes=[DataFile("file:/in/e.parquet", "PARQUET", 1, 10, **known)])
    table.refresh()
    with pytest.raises(ValueError, match="equality deletes"):
        table.scan().plan_files()
    assert table.scan("at < '2026-01-02T00:00:00'").count() == 6


def test_files_without_rows_are_left_out_unless_the_caller_wants_them(catalog: HmsCatalog) -> None:
    table = catalog.create_table("db.none", SCHEMA)
    catalog.hms.load_table("db.none").append([DataFile("file:/in/a.parquet", "PARQUET", 0, 10)])
    table.refresh()
    assert len(same(table.scan())) == 0
    assert len(same(table.scan(options={"include_empty_files": "true"}))) == 1


def test_what_ours_cannot_say_pyiceberg_plans(table: Table) -> None:
    with table.update_schema() as schema:
        schema.add_column("f", types.FloatType())
    scan = table.scan("f > 0.1")
    with pytest.raises(AssertionError, match="PyIceberg reads"):
        by_ours(scan)
    assert len(list(scan.plan_files())) == 6
    with pytest.raises(ValueError, match="nobody"):
        table.scan("nobody = 1").plan_files()
    with pytest.raises(ValueError, match="Snapshot not found"):
        table.scan(snapshot_id=7).to_arrow()


def test_a_missing_file_is_pyiceberg_s_error(catalog: HmsCatalog, table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        Path(manifest.manifest_path.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError):
        table.scan("id = 7").plan_files()


def test_a_table_reads_on_after_its_catalog_was_closed(catalog: HmsCatalog, table: Table) -> None:
    catalog.close()
    assert len(same(table.scan())) == 6


def test_a_staged_table_and_one_of_another_catalog_are_pyiceberg_s(catalog: HmsCatalog) -> None:
    with catalog.create_table_transaction("db.staged", SCHEMA) as transaction:
        transaction.append(rows(1))
    assert catalog.load_table("db.staged").scan().count() == 1
