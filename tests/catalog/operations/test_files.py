"""Appending real Parquet bytes, kept in memory."""

import datetime
import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("message", pa.string())])


def parquet(day, *levels):
    sink = io.BytesIO()
    time = datetime.datetime(2021, 4, day)  # noqa: DTZ001 - the column is without zone
    rows = {"level": list(levels), "event_time": [time] * len(levels), "message": ["m"] * len(levels)}
    pq.write_table(pa.table(rows, schema=SCHEMA), sink)
    return sink.getvalue()


def with_extra_columns():
    sink = io.BytesIO()
    rows = {"level": ["ERROR"], "event_time": [datetime.datetime(2021, 4, 1)], "host": ["h"], "port": [80]}  # noqa: DTZ001
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue()


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def pointer():
    return MemoryTablePointer(namespaces=())


@pytest.fixture
def catalog(files, pointer):
    with memory_catalog(files=files, pointer=pointer) as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog):
    return catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])


@pytest.fixture
def entries(catalog):
    def read(table):
        reader = catalog.manifests()
        return list(reader.entries(reader.list(table.current_snapshot())))

    return read


class WatchedAccess(TableAccess):
    """Calls `before_commit(size)` before each commit."""

    def __init__(self, catalog, before_commit):
        super().__init__(lambda: catalog.services)
        self._before_commit = before_commit

    def commit(self, name, change, wait_seconds, *, size, prepared=()):
        self._before_commit(size)
        return super().commit(name, change, wait_seconds, size=size, prepared=prepared)

    def table(self, name):
        loaded = self.load(name)
        return Table(self, loaded.name, loaded.metadata, loaded.metadata_location)


def test_an_append_counts_in_the_queue_by_its_files(catalog, table, files):
    sizes = []
    table = WatchedAccess(catalog, sizes.append).table(table.name())
    for number in range(3):
        files.write(f"file:/in/{number}.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/0.parquet"])
    table.append(["file:/in/1.parquet", "file:/in/2.parquet"])
    assert sizes == [1_000, 2_000]


def test_appended_paths_have_the_metrics_of_their_footers(table, files, entries):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    files.write("file:/in/2.parquet", parquet(2, "ERROR", "WARN"))
    report = table.append(["file:/in/1.parquet", "file:/in/2.parquet"])
    assert report.snapshot_ids == (table.current_snapshot().snapshot_id,)
    found = {entry.data_file.file_path: entry.data_file for entry in entries(table)}
    assert {path: dict(file.partition) for path, file in found.items()} == {
        "file:/in/1.parquet": {"event_time_day": 18718},
        "file:/in/2.parquet": {"event_time_day": 18719},
    }
    assert found["file:/in/2.parquet"].record_count == 2
    assert found["file:/in/2.parquet"].upper_bounds[1] == b"WARN"
    assert table.current_snapshot().summary["total-records"] == "3"
    assert [entry.snapshot_id for entry in table.history()] == list(report.snapshot_ids)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == list(report.snapshot_ids)


def test_a_file_with_extra_columns_is_refused_with_their_names(table, files):
    files.write("file:/in/1.parquet", with_extra_columns())
    with pytest.raises(InvalidInput, match=r"1\.parquet has columns that the table lacks: host, port;") as caught:
        table.append(["file:/in/1.parquet"])
    assert 'on_extra_columns="ignore"' in caught.value.next_step
    assert "schema.name-mapping.default" in caught.value.next_step
    assert table.refresh().current_snapshot() is None


def test_files_without_rows_are_skipped_by_an_append(table, files, entries):
    files.write("file:/in/none.parquet", parquet(1))
    files.write("file:/in/some.parquet", parquet(1, "INFO"))
    table.append(["file:/in/none.parquet", "file:/in/some.parquet"])
    assert [entry.data_file.file_path for entry in entries(table)] == ["file:/in/some.parquet"]
    table.append(["file:/in/none.parquet"])
    assert table.current_snapshot().summary["total-data-files"] == "1"


def test_a_caller_may_append_a_file_with_extra_columns(table, files, entries):
    files.write("file:/in/1.parquet", with_extra_columns())
    table.append(["file:/in/1.parquet"], on_extra_columns="ignore")
    assert [entry.data_file.file_path for entry in entries(table)] == ["file:/in/1.parquet"]


def test_a_column_added_since_the_load_is_no_extra_one(table, files, catalog, entries):
    files.write("file:/in/1.parquet", with_extra_columns())
    schema = table.metadata.schema.raw
    added = [("host", "string"), ("port", "long")]
    fields = [{"id": 4 + at, "name": name, "required": False, "type": type_} for at, (name, type_) in enumerate(added)]
    updates = [
        {"action": "add-schema", "schema": {**schema, "schema-id": 1, "fields": [*schema["fields"], *fields]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    catalog.commit("logging.events", requirements=[], updates=updates)
    assert table.metadata.schema.find("host") is None
    table.append(["file:/in/1.parquet"])
    assert set(entries(table)[0].data_file.lower_bounds) == {1, 2, 4, 5}


def test_columns_of_a_replacement_table_are_extra_ones(table, files, catalog):
    files.write("file:/in/1.parquet", with_extra_columns())
    catalog.drop_table("logging.events")
    catalog.create_table("logging.events", SCHEMA.append(pa.field("host", pa.string())))
    with pytest.raises(InvalidInput, match="the table lacks: host, port"):
        table.append(["file:/in/1.parquet"])


@pytest.mark.parametrize("wish", ["Ignore", "", None])
def test_on_extra_columns_takes_two_values_only(table, files, wish):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    with pytest.raises(InvalidInput, match="on_extra_columns must be"):
        table.append(["file:/in/1.parquet"], on_extra_columns=wish)
    assert table.refresh().current_snapshot() is None


def test_appending_files_without_field_ids_sets_the_name_mapping(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    assert "schema.name-mapping.default" not in table.properties
    table.append(["file:/in/1.parquet"])
    assert "event_time" in table.properties["schema.name-mapping.default"]


def test_records_and_paths_may_be_mixed_and_are_kept_in_order(table, files, entries):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    record = describe("file:/in/1.parquet", TableOfFiles(table.metadata), files.open).data_file
    table.append([record, "file:/in/2.parquet"])
    assert [entry.data_file.file_path for entry in entries(table)] == ["file:/in/1.parquet", "file:/in/2.parquet"]


def test_many_footers_are_read(table, files, entries):
    paths = [f"file:/in/{number}.parquet" for number in range(20)]
    for path in paths:
        files.write(path, parquet(3, "INFO"))
    table.append(paths)
    assert len(entries(table)) == 20


def test_an_append_with_an_old_state_applies_to_the_current_table(table, files, catalog, entries):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    other = catalog.load_table("logging.events")
    table.append(["file:/in/1.parquet"])
    other.append(["file:/in/2.parquet"])
    assert len(entries(table.refresh())) == 2


def test_a_rerun_with_the_same_key_adds_nothing(table, files, entries):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/1.parquet"], idempotency_key="load-1")
    assert table.append(["file:/in/1.parquet"], idempotency_key="load-1").already_committed
    assert len(entries(table)) == 1


@pytest.mark.parametrize("spelling", ["file:/in/1.parquet", "file:///in/1.parquet", "/in//1.parquet"])
def test_a_duplicate_file_is_refused_as_path_and_as_record(table, files, spelling, entries):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    first = table.append(["file:/in/1.parquet"]).snapshot_ids[0]
    before = set(files.locations())
    record = describe(spelling, TableOfFiles(table.metadata), files.open).data_file
    for again in (spelling, record):
        with pytest.raises(RequirementFailed, match=rf"file:/in/1\.parquet \(snapshot {first}\)") as caught:
            table.append(["file:/in/2.parquet", again])
        assert caught.value.proved_failed
        assert "delete none" in str(caught.value)
    assert set(files.locations()) == before
    assert len(entries(table.refresh())) == 1
    table.append([record], check_duplicate_files=False)
    assert len(entries(table)) == 2


def test_a_file_that_another_writer_appended_meanwhile_is_refused(table, files, catalog):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    other = catalog.load_table("logging.events")
    table.append(["file:/in/1.parquet"])
    with pytest.raises(RequirementFailed, match=r"file:/in/1\.parquet"):
        other.append(["file:/in/1.parquet"])


def test_two_spellings_of_one_file_are_refused(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    with pytest.raises(InvalidInput, match=r"twice: file:///in/1\.parquet"):
        table.append(["file:/in/1.parquet", "file:///in/1.parquet"])


def test_an_append_reads_old_manifests_before_its_commit(table, files, pointer, monkeypatch):
    """So that it reads only newer ones under the lock."""
    for number in range(4):
        files.write(f"file:/in/{number}.parquet", parquet(1, "ERROR"))
    for number in range(3):
        table.append([f"file:/in/{number}.parquet"])
    reads, read = [], files.read
    monkeypatch.setattr(files, "read", lambda location, *limit: reads.append(location) or read(location, *limit))

    def committing(_):
        manifests = {line.manifest_path for line in fresh.manifests().list(table.current_snapshot())}
        assert manifests <= set(reads)
        reads.clear()

    # Its caches are empty.
    with memory_catalog(files=files, pointer=pointer) as fresh:
        WatchedAccess(fresh, committing).table(table.name()).append(["file:/in/3.parquet"])
    assert not any("-m0.avro" in location for location in reads)


def test_an_idempotency_key_of_other_files_is_refused(table, files):
    for number in (1, 2, 3):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    first = table.append(["file:/in/1.parquet", "file:/in/2.parquet"], idempotency_key="load-1").snapshot_ids[0]
    before = set(files.locations())
    for others in (
        ["file:/in/3.parquet"],
        ["file:/in/1.parquet"],
        [f"file:/in/{number}.parquet" for number in (1, 2, 3)],
    ):
        with pytest.raises(RequirementFailed, match=f"load-1.*snapshot {first}") as caught:
            table.append(others, idempotency_key="load-1")
        assert caught.value.proved_failed
    assert set(files.locations()) == before
    assert table.refresh().current_snapshot().snapshot_id == first
    again = table.append(["file:///in/2.parquet", "file:///in/1.parquet"], idempotency_key="load-1")
    assert again.already_committed
    assert again.snapshot_ids == (first,)


@pytest.mark.parametrize(
    "call",
    [
        lambda at, on: at.delete("true", branch=on),
        lambda at, on: at.delete_files(["file:/in/1.parquet"], branch=on),
        lambda at, on: at.overwrite(["file:/in/2.parquet"], "true", branch=on),
        lambda at, on: at.replace_partitions(["file:/in/2.parquet"], branch=on),
        lambda at, on: at.rewrite(["file:/in/1.parquet"], ["file:/in/2.parquet"], branch=on),
        lambda at, on: at.row_delta(["file:/in/2.parquet"], branch=on),
        lambda at, on: at.rewrite_manifests(branch=on),
        lambda at, on: at.delete("true", branch=on, stage_only=True),
    ],
)
def test_a_branch_whose_name_is_mistyped_is_not_created_by_what_removes_rows(table, files, catalog, call):
    """The rows stayed in the branch that was meant, and the deletion seemed to be done."""
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    table.append(["file:/in/1.parquet"])
    table.create_branch("audit")
    before, stored = table.metadata_location, set(files.locations())
    with pytest.raises(RequirementFailed, match="branch audti does not exist") as refused:
        call(table, "audti")
    assert refused.value.next_step == "the table has audit, main; create_branch() makes one"
    with pytest.raises(RequirementFailed, match="branch audti does not exist"), table.transaction() as tx:
        call(tx, "audti")
    assert catalog.load_table("logging.events").metadata_location == before
    assert set(files.locations()) == stored
    with table.transaction() as tx:
        tx.create_branch("audti")
        call(tx, "audti")
    assert "audti" in table.refs()


def test_a_missing_branch_is_created_by_an_append(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/1.parquet"], branch="audit")
    assert table.metadata.ref("audit") is not None
    assert table.current_snapshot() is None


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (None, MissingFile, "Failed to open input stream"),
        (b"PAR1 and then nothing", CorruptFile, "damaged"),
        (parquet(1, "ERROR")[:-100], CorruptFile, "damaged"),
    ],
)
def test_an_unreadable_file_changes_nothing(table, files, content, error, says):
    if content is not None:
        files.write("file:/in/bad.parquet", content)
    before = set(files.locations())
    with pytest.raises(error, match=says):
        table.append(["file:/in/bad.parquet"])
    assert set(files.locations()) == before
    assert table.refresh().current_snapshot() is None


@pytest.mark.parametrize("where", [None, "level = 'ERROR'"])
def test_an_overwrite_without_files_is_refused_and_says_how_to_mean_it(table, where):
    """A pattern that found no file would else empty the table."""
    with pytest.raises(InvalidInput, match="nothing to overwrite with") as refused:
        table.overwrite((path for path in ()), where)
    assert "`delete(filter)`, and all rows, `delete('true')`" in refused.value.next_step
    with pytest.raises(InvalidInput, match="nothing to overwrite with"):
        table.transaction().overwrite([], where)


def test_nothing_to_append_is_refused(table):
    with pytest.raises(InvalidInput, match="nothing to append"):
        table.append([])


def test_a_table_that_was_replaced_is_not_appended_to(table, files, catalog):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    catalog.drop_table("logging.events")
    catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])
    with pytest.raises(RequirementFailed, match="UUID"):
        table.append(["file:/in/1.parquet"])
    assert catalog.load_table("logging.events").current_snapshot() is None


def test_a_record_of_another_spec_is_refused(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    record = describe("file:/in/1.parquet", TableOfFiles(table.metadata), files.open).data_file
    with pytest.raises(InvalidInput, match="partition"):
        table.append([replace(record, spec_id=7)])


def record(path, day, records=3, **changes):
    partition = {"event_time_day": (datetime.date(2021, 4, day) - datetime.date(1970, 1, 1)).days}
    return DataFile(path, "PARQUET", records, 30, partition, spec_id=0, **changes)


def live(table, entries):
    return {each.data_file.file_path for each in entries(table) if each.is_live}


def test_files_are_deleted_by_name(table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    table.delete_files(["file:///d/a"])
    assert live(table, entries) == {"file:/d/b"}
    with pytest.raises(RequirementFailed, match=r"does not have 1 of the files: file:/d/a"):
        table.delete_files(["file:/d/a"])


def test_deletes_under_a_key_happen_once(table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    first = table.delete_files([record("file:/d/a", 1)], idempotency_key="job-1")
    again = table.delete_files([record("file:/d/a", 1)], idempotency_key="job-1")
    assert (again.already_committed, again.snapshot_ids) == (True, first.snapshot_ids)
    assert live(table, entries) == {"file:/d/b"}


def of_file(name, path, **more):
    return record(name, 1, content=1, referenced_data_file=path, **more)


@pytest.mark.parametrize(
    ("job", "others"),
    [
        (
            lambda table: table.row_delta(deletes=[of_file("file:/d/p", "file:/d/a")], idempotency_key="job"),
            [
                lambda table: table.row_delta(deletes=[of_file("file:/d/q", "file:/d/b")], idempotency_key="job"),
                lambda table: table.delete("level = 'ERROR'", idempotency_key="job"),
                lambda table: table.append([record("file:/d/x", 1)], idempotency_key="job"),
            ],
        ),
        (
            lambda table: table.delete("event_time < '2021-04-02T00:00:00'", idempotency_key="job"),
            [
                lambda table: table.delete("event_time >= '2021-04-02T00:00:00'", idempotency_key="job"),
                lambda table: table.delete_files(["file:/d/c"], idempotency_key="job"),
            ],
        ),
        (
            lambda table: table.overwrite([record("file:/d/x", 1)], "event_time < '2021-04-02'", idempotency_key="job"),
            [
                lambda table: table.overwrite([record("file:/d/x", 1)], idempotency_key="job"),
                lambda table: table.append([record("file:/d/x", 1)], idempotency_key="job"),
                lambda table: table.append(["file:/d/x"], idempotency_key="job"),
                lambda table: table.replace_partitions([record("file:/d/x", 1)], idempotency_key="job"),
            ],
        ),
        (
            lambda table: table.rewrite(["file:/d/a"], [record("file:/d/x", 1)], idempotency_key="job"),
            [lambda table: table.rewrite(["file:/d/b"], [record("file:/d/x", 1)], idempotency_key="job")],
        ),
    ],
)
def test_the_key_of_a_job_that_did_something_else_is_refused(table, entries, job, others):
    """Reporting the first job's success would lose what the second one deletes."""
    table.append([record("file:/d/a", 1), record("file:/d/b", 1), record("file:/d/c", 3)])
    first = job(table)
    after = live(table, entries)
    again = job(table)
    assert (again.already_committed, again.snapshot_ids) == (True, first.snapshot_ids)
    for other in others:
        with pytest.raises(RequirementFailed, match=f"idempotency key job belongs to snapshot {first.snapshot_ids[0]}"):
            other(table)
    assert live(table.refresh(), entries) == after


def test_operations_conflict_with_what_others_committed_since_the_tables_state(catalog, table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    stale = catalog.load_table("logging.events")
    table.append([record("file:/d/c", 1)])
    with pytest.raises(RequirementFailed, match=r"added file:/d/c in one partition"):
        stale.replace_partitions([record("file:/d/x", 1)])
    stale.replace_partitions([record("file:/d/x", 2)])
    assert live(table.refresh(), entries) == {"file:/d/a", "file:/d/c", "file:/d/x"}


def test_rows_are_deleted_and_added_by_files_of_an_engine(table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    deletes = record("file:/d/p", 1, content=1, referenced_data_file="file:/d/a")
    table.row_delta([record("file:/d/c", 1)], [deletes])
    assert live(table, entries) == {"file:/d/a", "file:/d/b", "file:/d/c", "file:/d/p"}
    assert table.current_snapshot().operation == "overwrite"


def test_steps_of_a_transaction_see_each_others_files_and_do_not_conflict(catalog, table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    with table.transaction() as tx:
        tx.append([record("file:/d/c", 1)])
        tx.replace_partitions([record("file:/d/x", 2)])
        tx.delete_files(["file:/d/c"])
        tx.rewrite(["file:/d/a"], [record("file:/d/new", 1)])
        catalog.load_table("logging.events").append([record("file:/d/other", 3)])
    assert live(table, entries) == {"file:/d/x", "file:/d/new", "file:/d/other"}
    assert [each.operation for each in table.snapshots()] == [
        "append",
        "append",
        "append",
        "overwrite",
        "delete",
        "replace",
    ]


def test_a_step_that_conflicts_undoes_the_whole_transaction(catalog, table, entries, files):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    manifests = {each for each in files.locations() if each.endswith(".avro")}
    tx = table.transaction()
    tx.append([record("file:/d/c", 1)])
    tx.delete_files(["file:/d/b"])
    catalog.load_table("logging.events").delete_files(["file:/d/b"])
    others = {each for each in files.locations() if each.endswith(".avro")} - manifests
    with pytest.raises(RequirementFailed, match=r"file:/d/b; snapshot .* removed"):
        tx.commit()
    # The worker tidies up before it takes the next commit.
    table.set_properties({"owner": "etl"})
    assert live(table.refresh(), entries) == {"file:/d/a"}
    left = {each for each in files.locations() if each.endswith(".avro")} - manifests
    assert left < others, "only the other writer's files are left"


def test_manifests_that_a_replay_no_longer_needs_are_deleted(catalog, table, entries, files):
    """The first filtered manifest was written without one file; meanwhile another writer replaced the original."""
    table.append([record("file:/d/a", 1), record("file:/d/b", 1), record("file:/d/c", 1)])
    other = catalog.load_table("logging.events")
    stale = WatchedAccess(catalog, lambda _size: other.delete_files(["file:/d/b"])).table(table.name())
    stale.delete_files(["file:/d/a"])
    assert live(stale, entries) == {"file:/d/c"}
    # The worker tidies up before it takes the next commit.
    table.set_properties({"owner": "etl"})
    manifests = catalog.manifests()
    named = {each.manifest_list for each in stale.snapshots()}
    named |= {file.manifest_path for each in stale.snapshots() for file in manifests.list(each)}
    assert {each for each in files.locations() if each.endswith(".avro")} == named


def test_an_appends_own_manifest_that_a_merge_took_in_is_deleted(catalog, table, files):
    with table.transaction() as tx:
        tx.set_properties({"commit.manifest.min-count-to-merge": "2"})
    for day in (1, 2, 3):
        table.append([record(f"file:/d/{day}", day)])
    # The worker tidies up before it takes the next commit.
    table.set_properties({"owner": "etl"})
    manifests = catalog.manifests()
    named = {each.manifest_list for each in table.snapshots()}
    named |= {file.manifest_path for each in table.snapshots() for file in manifests.list(each)}
    assert {each for each in files.locations() if each.endswith(".avro")} == named


def test_rows_are_deleted_and_overwritten_by_a_filter(table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2), record("file:/d/c", 3)])
    table.delete("event_time < '2021-04-02T00:00:00'")
    assert live(table, entries) == {"file:/d/b", "file:/d/c"}
    table.overwrite([record("file:/d/x", 2)], "event_time < '2021-04-03T00:00:00'")
    assert live(table, entries) == {"file:/d/x", "file:/d/c"}
    with pytest.raises(RequirementFailed, match=r"some rows of file:/d/x"):
        table.delete("event_time < '2021-04-02T12:00:00'")
    table.overwrite([record("file:/d/y", 2)])
    assert live(table, entries) == {"file:/d/y"}
    deletes = record("file:/d/p", 2, content=1, referenced_data_file="file:/d/y")
    table.row_delta([], [deletes], where="event_time < '2021-04-03T00:00:00'")
    assert live(table, entries) == {"file:/d/y", "file:/d/p"}


def test_a_filter_finds_columns_whatever_their_case_if_its_caller_says_so(table, entries):
    table.append([record("file:/d/a", 1), record("file:/d/b", 2)])
    for refused in (
        lambda: table.delete("EVENT_TIME < '2021-04-02T00:00:00'"),
        lambda: table.overwrite([record("file:/d/x", 2)], "EVENT_TIME >= '2021-04-02T00:00:00'"),
        lambda: table.row_delta([record("file:/d/x", 2)], where="EVENT_TIME >= '2021-04-02T00:00:00'"),
    ):
        with pytest.raises(InvalidInput, match="there is no column EVENT_TIME"):
            refused()
    table.delete("EVENT_TIME < '2021-04-02T00:00:00'", case_sensitive=False)
    assert live(table, entries) == {"file:/d/b"}
    later = "EVENT_TIME >= '2021-04-02T00:00:00'"
    table.overwrite([record("file:/d/x", 2)], later, case_sensitive=False)
    assert live(table, entries) == {"file:/d/x"}
    table.row_delta([record("file:/d/y", 2)], where=later, case_sensitive=False)
    assert live(table, entries) == {"file:/d/x", "file:/d/y"}


def test_many_writers_of_one_manifest_lose_nothing_and_leave_nothing_behind(catalog, table, entries, files):
    """All files are in one manifest, which every delete and every compaction has to rewrite."""
    names = [f"file:/d/{at}" for at in range(8)]
    table.append([record(name, 1) for name in names])
    loaded = [catalog.load_table("logging.events") for _ in range(12)]

    def compact(mine, at):
        mine.rewrite([names[at]], [record(f"file:/d/compact-{at}", 1)])

    def write(number):
        mine = loaded[number]
        if number < 4:
            mine.delete_files([names[number]])
        elif number < 8:
            compact(mine, number)
        else:
            mine.append([record(f"file:/d/new-{number}", 2)])

    with ThreadPoolExecutor(12) as pool:
        for done in [pool.submit(write, number) for number in range(12)]:
            done.result(60)
    # The worker tidies up before it takes the next commit.
    table.refresh().set_properties({"owner": "etl"})
    added = {f"file:/d/compact-{at}" for at in range(4, 8)} | {f"file:/d/new-{at}" for at in range(8, 12)}
    assert live(table, entries) == added
    assert table.current_snapshot().summary["total-data-files"] == "8"
    manifests = catalog.manifests()
    named = {each.manifest_list for each in table.snapshots()}
    named |= {file.manifest_path for each in table.snapshots() for file in manifests.list(each)}
    assert {each for each in files.locations() if each.endswith(".avro")} == named
