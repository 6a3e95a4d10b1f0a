"""The files of slices in manifests, and what cannot be taken over."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.folder_names import FolderNames
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import CorruptFile, ResourceExhausted, StorageError
from iceberg_hms.format.manifests.lineage_columns import ROW_ID
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.migration.describing import describe_slice, described, list_and_describe
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.task import MigrationTask
from iceberg_hms.migration.work import PROBLEMS_MAX, Described, SourcePartition
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.local_store import LocalStore
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.stores import Stores
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.catalog.parquet import open_input, table_for, with_ids
from tests.migration.hive_files import COLUMNS, TABLE, HiveFolder, data_files, rows, write


@pytest.fixture
def hive(tmp_path: Path) -> HiveFolder:
    return HiveFolder(tmp_path / "flights")


def only(found: list[Described]) -> Described:
    (one,) = found
    return one


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_manifest_has_the_records_that_an_append_would_write(hive: HiveFolder, file_format: str) -> None:
    locations = [write(hive.path / f"month={month}" / "00_0", rows(month), file_format) for month in (1, 2)]
    for month in (1, 2):
        hive.partition(month, file_format=file_format)
    work = hive.work()
    found = only(hive.described(work))
    metadata = metadata_file.decode(work.metadata, "")
    expected = [
        describe(each, TableOfFiles(metadata), lambda it: open_input(it.removeprefix("file:"))) for each in locations
    ]
    assert data_files(found.manifests) == [each.data_file for each in expected]
    assert [each.partition for each in data_files(found.manifests)] == [{"month": 1}, {"month": 2}]
    assert (found.files, found.records, found.problem_count, found.reused) == (2, 6, 0, False)
    assert found.size == sum(Path(each.removeprefix("file:")).stat().st_size for each in locations)
    (manifest,) = found.manifests
    assert (manifest.added_snapshot_id, manifest.sequence_number) == (7, UNASSIGNED)
    assert (manifest.added_files_count, manifest.added_rows_count) == (2, 6)
    assert manifest.manifest_path.startswith(work.manifest_folder + "/")
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_files_without_rows_are_skipped(hive: HiveFolder, file_format: str) -> None:
    folder = hive.partition(1, file_format=file_format)
    write(folder / "a", rows(1), file_format)
    write(folder / "b", rows(0, 0), file_format)
    found = only(hive.described(hive.work()))
    assert [each.record_count for each in data_files(found.manifests)] == [3]
    assert (found.files, found.records, found.problem_count) == (1, 3, 0)


@pytest.mark.parametrize("name", ["a#b", "a?b", "a\tb", "a:b", "c#d/a"], ids=ascii)
def test_a_path_that_some_reader_does_not_open_is_a_problem(hive: HiveFolder, name: str) -> None:
    folder, _, file = f"month=1/{name}".rpartition("/")
    write(hive.partition(1, folder) / file, rows(1))
    (problem,) = only(hive.described(hive.work(skip_unreadable=True))).problems
    assert "not every reader opens it" in problem.reason


def test_the_given_partition_counts_wherever_the_files_lie(hive: HiveFolder) -> None:
    write(hive.partition(None, "month=3") / "a", rows(0))
    write(hive.partition(5, "elsewhere/odd folder") / "b", rows(5))
    found = data_files(only(hive.described(hive.work())).manifests)
    assert [each.partition for each in found] == [{"month": None}, {"month": 5}]


def test_a_partition_without_given_values_has_those_of_its_folders(hive: HiveFolder) -> None:
    write(hive.partition(1, "month=4") / "a.parquet")
    hive.partitions = [replace(each, values=None, file_format=None) for each in hive.partitions]
    assert [each.partition for each in data_files(only(hive.described(hive.work())).manifests)] == [{"month": 4}]


def test_metrics_and_manifests_are_as_the_table_s_properties_say(hive: HiveFolder) -> None:
    folder = hive.partition()
    for number in range(9):
        write(folder / str(number), rows(number))
    properties = {"write.metadata.metrics.column.carrier": "none", "commit.manifest.target-size-bytes": "400"}
    found = only(hive.described(hive.work(properties=properties)))
    assert len(found.manifests) > 1
    files = data_files(found.manifests)
    assert len(files) == 9
    assert all(set(each.lower_bounds or {}) == {1, 3} for each in files)


CASED = ["ID", "Carrier", "delay"]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_columns_whose_names_differ_by_case_are_the_table_s_and_told(hive: HiveFolder, file_format: str) -> None:
    folder = hive.partition(file_format=file_format)
    write(folder / "a", rows(), file_format)
    expected = data_files(only(hive.described(hive.work(adds_names=True))).manifests)
    write(folder / "a", rows().rename_columns(CASED), file_format)
    write(folder / "b", rows().rename_columns(["iD", "Carrier", "delay"]), file_format)
    work = hive.work(adds_names=True)
    for _ in range(2):
        found = only(hive.described(work))
        assert found.spellings == {(1, "ID"), (1, "iD"), (2, "Carrier")}
    assert found.reused
    for each in data_files(found.manifests):
        assert (each.lower_bounds, each.upper_bounds) == (expected[0].lower_bounds, expected[0].upper_bounds)
        assert set(each.value_counts or {}) == {1, 2, 3}
    listed, described = list_and_describe(replace(work, dry_run=True), tuple(hive.partitions))
    assert (described.files, described.problem_count, listed.problem_count) == (2, 0, 0)


def test_the_columns_of_avro_files_are_found_by_their_exact_names(hive: HiveFolder) -> None:
    """Hive and Spark read nulls otherwise."""
    folder = hive.partition(file_format="avro")
    write(folder / "a", rows(), "avro")
    data = (folder / "a").read_bytes()
    assert data.count(b"carrier") == 1
    (folder / "a").write_bytes(data.replace(b"carrier", b"CARRIER"))
    found = only(hive.described(hive.work(adds_names=True)))
    assert (found.problem_count, found.spellings) == (1, frozenset())
    assert "CARRIER (readers do not take it for carrier" in found.problems[0].reason


def test_two_columns_of_a_file_that_differ_by_case_alone_are_a_problem(hive: HiveFolder) -> None:
    write(hive.partition() / "a", rows().append_column("ID", pa.array([7, 8, 9])))
    found = only(hive.described(hive.work(adds_names=True, skip_unreadable=True)))
    assert (found.problem_count, found.files, found.spellings) == (1, 0, frozenset())
    assert "ID is column id of the table, and so is another column" in found.problems[0].reason


def test_a_partition_column_in_a_file_counts_in_any_case(hive: HiveFolder) -> None:
    folder = hive.partition()
    write(folder / "good", with_month(1, 1).rename_columns(["id", "carrier", "delay", "Month"]))
    write(folder / "other", with_month(2, 2).rename_columns(["id", "carrier", "delay", "MONTH"]))
    found = only(hive.described(hive.work(adds_names=True, skip_unreadable=True)))
    (problem,) = found.problems
    assert problem.location.endswith("/other")
    assert (found.files, found.spellings) == (1, {(4, "Month")})


def with_month(*values: int | None) -> pa.Table:
    return rows(count=len(values)).append_column("month", pa.array(values, pa.int32()))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: write(path, file_format="orc"), "is of format orc, and must be parquet"),
        (lambda path: path.write_bytes(b"PAR1" + b"x" * 40), "does not end with a Parquet footer"),
        (lambda path: path.write_bytes(b"PAR1" + b"x" * 40 + b"\x20\0\0\0PAR1"), "footer cannot be read"),
        (lambda path: path.write_bytes(b"no data file"), "does not end with a Parquet footer"),
        (lambda path: write(path, rows().set_column(0, "id", pa.array(["a", "b", "c"]))), "column id is String"),
        (
            lambda path: write(path, rows().set_column(0, "id", pa.array([1, 2, 3], pa.duration("s")))),
            "column id is INT64, which pyarrow reads as duration",
        ),
        (lambda path: write(path, rows().append_column("more", pa.array([1, 2, 3]))), "that the table lacks: more;"),
        (lambda path: write(path, rows().rename_columns(["id", "CARRIER", "delay"])), "CARRIER .*for carrier, since"),
        (
            lambda path: write(path, rows().rename_columns(["ID", "CARRIER", "Delay"])),
            "no column .* ID .*for id, since",
        ),
        (lambda path: write(path, rows().rename_columns(["_col0", "_col1", "_col2"])), "no column of the table"),
        (lambda path: write(path, with_month(1, 1, 2)), "spans partitions"),
        (lambda path: write(path, with_month(2, 2, 2)), "month=1: that .* the file has 2"),
        (lambda path: write(path, with_month(1, 1, None)), "spans partitions"),
        (
            lambda path: pq.write_table(with_month(1), path, write_statistics=False),
            "is not proved, since the footer has",
        ),
    ],
)
def test_a_file_that_cannot_be_taken_over_is_named(
    hive: HiveFolder, make: Callable[[Path], object], reason: str
) -> None:
    folder = hive.partition()
    write(folder / "good", rows())
    make(folder / "bad")
    found = only(hive.described(hive.work()))
    (problem,) = found.problems
    assert (problem.partition, problem.location) == ("month=1", f"file:{folder}/bad")
    assert re.search(reason, problem.reason), problem.reason
    assert problem.next_step
    assert (found.problem_count, found.files, found.manifests) == (1, 1, ())
    # Nothing is written for a run that fails.
    assert hive.names() == {"listing"}


def test_a_file_may_have_the_partition_column_if_all_rows_have_the_partition_s_value(hive: HiveFolder) -> None:
    write(hive.partition(1) / "a", with_month(1, 1))
    write(hive.partition(None, "none") / "b", with_month(None, None))
    found = only(hive.described(hive.work()))
    assert found.problems == ()
    assert [each.partition["month"] for each in data_files(found.manifests)] == [1, None]


def test_a_required_partition_column_need_not_be_in_the_files(hive: HiveFolder) -> None:
    write(hive.partition(1, "anywhere") / "a")
    write(hive.partition(None, "none") / "b")
    schema = pa.schema([*COLUMNS, pa.field("month", pa.int32(), nullable=False)])
    found = only(hive.described(hive.work(schema, skip_unreadable=True)))
    assert [each.partition["month"] for each in data_files(found.manifests)] == [1]
    assert "required columns: month" in found.problems[0].reason


def test_field_ids_must_be_those_of_the_columns_with_the_same_names(hive: HiveFolder) -> None:
    def problems(table: pa.Table, ids_of: pa.Schema, schema: pa.Schema = TABLE) -> list[str]:
        hive.partitions.clear()
        path = hive.partition(1, f"{len(list(hive.path.glob('*')))}") / "a"
        write(path, table.cast(with_ids(table.schema, table_for(ids_of))))
        return [each.reason for each in only(hive.described(hive.work(schema))).problems]

    def with_struct(*names: str) -> pa.Schema:
        return pa.schema(
            [("id", pa.int64()), ("month", pa.int32()), ("s", pa.struct([(each, pa.int64()) for each in names]))]
        )

    assert problems(rows(), TABLE) == []
    (reason,) = problems(rows(), pa.schema([TABLE.field(each) for each in ("id", "delay", "carrier")]))
    assert "column delay is String (BYTE_ARRAY) in the file (by its field id, and called carrier)" in reason
    swapped = pa.table({"id": [1], "s": [{"b": 1, "a": 2}]}).cast(with_struct("b", "a").remove(1))
    (reason,) = problems(swapped, with_struct("b", "a"), with_struct("a", "b"))
    assert "would take s.b as s.a, s.a as s.b" in reason
    (reason,) = problems(swapped, with_struct("c", "d", "a", "b"), with_struct("a", "b"))
    assert "would take s.b as another column, s.a as another column" in reason


def test_a_file_with_row_ids_of_another_table_is_refused(hive: HiveFolder) -> None:
    row_id = pa.field("_row_id", pa.int64(), metadata={"PARQUET:field_id": str(ROW_ID.id)})
    marked = rows().cast(with_ids(COLUMNS, table_for(TABLE, version=3)))
    write(hive.partition() / "a", marked.append_column(row_id, pa.array([1, 2, 3])))
    (problem,) = only(hive.described(hive.work(version=3))).problems
    assert "carries row ids" in problem.reason


def test_bad_files_are_left_out_if_the_caller_says_so_and_tried_again_by_the_next_run(hive: HiveFolder) -> None:
    folder = hive.partition()
    for number in range(3):
        write(folder / str(number), rows(number))
    (folder / "bad").write_bytes(b"no data file")
    work = hive.work(skip_unreadable=True)
    found = only(hive.described(work))
    assert [each.file_path for each in data_files(found.manifests)] == [f"file:{folder}/{each}" for each in range(3)]
    assert (found.files, found.records, found.problem_count) == (3, 9, 1)
    assert not only(hive.described(work)).reused


def test_problems_are_counted_and_the_first_ones_named(hive: HiveFolder) -> None:
    folder = hive.partition()
    folder.mkdir(parents=True)
    for number in range(PROBLEMS_MAX + 5):
        (folder / f"{number:03}").write_bytes(b"no data file")
    found = only(hive.described(hive.work(skip_unreadable=True)))
    assert (found.problem_count, found.files, found.manifests) == (PROBLEMS_MAX + 5, 0, ())
    assert [each.location for each in found.problems] == [f"file:{folder}/{each:03}" for each in range(PROBLEMS_MAX)]


def test_a_file_that_changed_or_vanished_since_it_was_listed_is_a_problem(hive: HiveFolder) -> None:
    folder = hive.partition()
    write(folder / "changed")
    write(folder / "gone")
    work = hive.work()
    (slice_,) = hive.listed(work).slices
    (folder / "gone").unlink()
    write(folder / "changed", rows(count=500))
    found = describe_slice(work, slice_)
    assert [each.location for each in found.problems] == [f"file:{folder}/changed", f"file:{folder}/gone"]
    assert "when it was listed" in found.problems[0].reason


class Remote(MemoryFiles):
    """A store of which one file cannot be reached at first."""

    unreachable = ""

    def __init__(self) -> None:
        super().__init__()
        self._two_at_once = threading.Barrier(2)

    def open(self, location: str) -> Any:
        if location in ("s3://b/t/001", "s3://b/t/002"):
            self._two_at_once.wait(timeout=30)
        if location == self.unreachable:
            raise StorageError("no answer")
        return super().open(location)


def test_files_of_a_remote_store_are_read_by_many_threads_in_order(hive: HiveFolder, tmp_path: Path) -> None:
    files, runtime = Remote(), ThreadRuntime()
    work = hive.work()
    table = TableOfFiles(metadata_file.decode(work.metadata, ""))
    manifests = ManifestStore(files, work.settings, runtime)  # type: ignore[arg-type]
    stores: Any = Stores(runtime, runtime, files, manifests, ManifestColumns(manifests))  # type: ignore[arg-type]
    listed = []
    for number in range(150):
        data = Path(write(tmp_path / str(number), rows(number)).removeprefix("file:")).read_bytes()
        files.write(f"s3://b/t/{number:03}", data if number % 50 else b"no data file")
        listed.append(ListedFile(f"s3://b/t/{number:03}", len(data) if number % 50 else 12, 0))
    task, problems = MigrationTask(work, stores, table, table, b"", FolderNames()), Problems()
    parts = [(SourcePartition("p", "s3://b/t", {"month": 1}, "parquet"), listed)]
    found = described(task, parts, problems)
    assert [each.data_file.file_path for each in found] == [f"s3://b/t/{each:03}" for each in range(150) if each % 50]
    assert [each.location for each in problems.named] == ["s3://b/t/000", "s3://b/t/050", "s3://b/t/100"]
    files.unreachable = "s3://b/t/007"
    with pytest.raises(StorageError, match="no answer"):
        described(task, parts, Problems())
    runtime.close()


def test_what_is_no_fault_of_a_file_fails_the_task(hive: HiveFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    write(hive.partition() / "a")
    work = hive.work(skip_unreadable=True)
    (slice_,) = hive.listed(work).slices
    listing = LocalStore.open
    errors: list[StorageError] = []

    def failing(store: LocalStore, location: str) -> Any:
        if errors and not location.endswith(".listing"):
            raise errors[0]
        return listing(store, location)

    monkeypatch.setattr(LocalStore, "open", failing)
    errors.append(StorageError("Permission denied"))
    assert [each.reason for each in describe_slice(work, slice_).problems] == ["Permission denied"]
    errors[0] = ResourceExhausted("too many open files")
    with pytest.raises(ResourceExhausted):
        describe_slice(work, slice_)


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data[:9] + b"x" + data[10:]])
def test_a_damaged_listing_fails_the_task(hive: HiveFolder, damage: Callable[[bytes], bytes]) -> None:
    write(hive.partition() / "a")
    work = hive.work()
    (slice_,) = hive.listed(work).slices
    path = Path(slice_.listing.removeprefix("file:"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptFile):
        describe_slice(work, slice_)


def test_a_slice_of_another_listing_than_its_work_s_fails(hive: HiveFolder) -> None:
    write(hive.partition() / "a")
    (slice_,) = hive.listed(hive.work()).slices
    with pytest.raises(CorruptFile, match="not those that were listed"):
        describe_slice(hive.work(release="other"), slice_)


def test_a_file_whose_days_other_readers_would_show_as_others_is_a_problem(hive: HiveFolder) -> None:
    days = pa.table({"day": pa.array([-200_000], pa.int32()).cast(pa.date32())})
    of_spark_2 = days.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    for name, table in {"today": days, "then": of_spark_2}.items():
        write((hive.path / "month=1") / name, table)
    hive.partition()
    found = only(hive.described(hive.work(pa.schema([("day", pa.date32()), ("month", pa.int32())]))))
    (problem,) = found.problems
    assert problem.location.endswith("/then")
    assert "days before October 15, 1582 in day" in problem.reason


def test_a_dry_run_finds_the_same_and_writes_nothing(hive: HiveFolder) -> None:
    for month in (1, 2):
        write(hive.partition(month) / "a", rows(count=month))
    write(hive.path / "month=2" / "nested" / "b")
    (hive.path / "month=1" / "bad").write_bytes(b"no data file")
    hive.partition(3)
    work = hive.work(skip_unreadable=True)
    listed, described = list_and_describe(work, tuple(hive.partitions))
    assert hive.names() == set()
    assert replace(hive.listed(work), slices=()) == listed
    found = only(hive.described(work))
    assert replace(found, manifests=()) == described
    assert [each.partition for each in (*listed.problems, *described.problems)] == ["month=2", "month=3", "month=1"]


#: What executors must have besides Python; docs/migration.md says so.
NEEDED = {"pyarrow", "orjson", "fastavro", "tenacity"}
#: What is imported where it is there.
OPTIONAL = {"cloudpickle", "isal", "numpy"}


def test_tasks_need_no_metastore_and_few_libraries() -> None:
    code = """
import sys
import iceberg_hms.migration.describing, iceberg_hms.migration.file_keys, iceberg_hms.migration.listing
for name, module in list(sys.modules.items()):
    if "site-packages" in (getattr(module, "__file__", None) or "") and not name.startswith("_"):
        print(name.partition(".")[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) - NEEDED - OPTIONAL == set()
    document = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
    assert all(f"`{each}`" in document for each in NEEDED)
