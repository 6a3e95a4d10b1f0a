"""Appending real Parquet bytes, kept in memory."""

import datetime
import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.datafiles.footers import describe_parquet
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles

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
def table(files):
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("logging")
        yield catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])


def entries(table):
    reader = table._catalog.services.world.manifests()
    return list(reader.entries(reader.list(table.current_snapshot)))


def test_an_append_weighs_by_its_files_while_it_waits(table, files, monkeypatch):
    sizes, commit = [], table._catalog.commit_change

    def weighed(*args, size, **options):
        sizes.append(size)
        return commit(*args, size=size, **options)

    monkeypatch.setattr(table._catalog, "commit_change", weighed)
    for number in range(3):
        files.write(f"file:/in/{number}.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/0.parquet"])
    table.append(["file:/in/1.parquet", "file:/in/2.parquet"])
    assert sizes == [1_000, 2_000]


def test_paths_are_appended_with_what_their_footers_say(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    files.write("file:/in/2.parquet", parquet(2, "ERROR", "WARN"))
    report = table.append(["file:/in/1.parquet", "file:/in/2.parquet"])
    assert report.snapshot_ids == (table.current_snapshot.snapshot_id,)
    found = {entry.data_file.file_path: entry.data_file for entry in entries(table)}
    assert {path: dict(file.partition) for path, file in found.items()} == {
        "file:/in/1.parquet": {"event_time_day": 18718},
        "file:/in/2.parquet": {"event_time_day": 18719},
    }
    assert found["file:/in/2.parquet"].record_count == 2
    assert found["file:/in/2.parquet"].upper_bounds[1] == b"WARN"
    assert table.current_snapshot.summary["total-records"] == "3"
    assert [entry["snapshot-id"] for entry in table.history()] == list(report.snapshot_ids)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == list(report.snapshot_ids)


def test_a_file_with_columns_that_the_table_lacks_is_refused_by_their_names(table, files):
    files.write("file:/in/1.parquet", with_extra_columns())
    with pytest.raises(InvalidInput, match=r"1\.parquet has columns that the table lacks: host, port;") as caught:
        table.append(["file:/in/1.parquet"])
    assert 'on_extra_columns="ignore"' in caught.value.next_step
    assert "schema.name-mapping.default" in caught.value.next_step
    assert table.refresh().current_snapshot is None


def test_who_insists_appends_a_file_with_columns_that_the_table_lacks(table, files):
    files.write("file:/in/1.parquet", with_extra_columns())
    table.append(["file:/in/1.parquet"], on_extra_columns="ignore")
    assert [entry.data_file.file_path for entry in entries(table)] == ["file:/in/1.parquet"]


def test_a_column_that_came_since_the_table_was_looked_at_is_no_extra_one(table, files):
    files.write("file:/in/1.parquet", with_extra_columns())
    schema = table.metadata.schema.raw
    added = [("host", "string"), ("port", "long")]
    fields = [{"id": 4 + at, "name": name, "required": False, "type": type_} for at, (name, type_) in enumerate(added)]
    updates = [
        {"action": "add-schema", "schema": {**schema, "schema-id": 1, "fields": [*schema["fields"], *fields]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    table._catalog.commit("logging.events", requirements=[], updates=updates)
    assert table.metadata.schema.find("host") is None
    table.append(["file:/in/1.parquet"])
    assert set(entries(table)[0].data_file.lower_bounds) == {1, 2, 4, 5}


def test_columns_of_another_table_of_the_name_are_extra_ones(table, files):
    files.write("file:/in/1.parquet", with_extra_columns())
    catalog = table._catalog
    catalog.drop_table("logging.events")
    catalog.create_table("logging.events", SCHEMA.append(pa.field("host", pa.string())))
    with pytest.raises(InvalidInput, match="the table lacks: host, port"):
        table.append(["file:/in/1.parquet"])


@pytest.mark.parametrize("wish", ["Ignore", "", None])
def test_what_to_do_with_extra_columns_is_one_of_two_words(table, files, wish):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    with pytest.raises(InvalidInput, match="on_extra_columns must be"):
        table.append(["file:/in/1.parquet"], on_extra_columns=wish)
    assert table.refresh().current_snapshot is None


def test_files_without_field_ids_bring_the_name_mapping_that_readers_need(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    assert "schema.name-mapping.default" not in table.properties
    table.append(["file:/in/1.parquet"])
    assert "event_time" in table.properties["schema.name-mapping.default"]


def test_records_and_paths_may_be_mixed_and_are_kept_in_order(table, files):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    record = describe_parquet("file:/in/1.parquet", table.metadata, files.open).data_file
    table.append([record, "file:/in/2.parquet"])
    assert [entry.data_file.file_path for entry in entries(table)] == ["file:/in/1.parquet", "file:/in/2.parquet"]


def test_many_footers_are_read(table, files):
    paths = [f"file:/in/{number}.parquet" for number in range(20)]
    for path in paths:
        files.write(path, parquet(3, "INFO"))
    table.append(paths)
    assert len(entries(table)) == 20


def test_an_old_view_of_the_table_appends_to_the_table_as_it_is(table, files):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    other = table._catalog.load_table("logging.events")
    table.append(["file:/in/1.parquet"])
    other.append(["file:/in/2.parquet"])
    assert len(entries(table.refresh())) == 2


def test_a_rerun_with_the_same_key_adds_nothing(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/1.parquet"], idempotency_key="load-1")
    assert table.append(["file:/in/1.parquet"], idempotency_key="load-1").already_committed
    assert len(entries(table)) == 1


@pytest.mark.parametrize("spelling", ["file:/in/1.parquet", "file:///in/1.parquet", "/in//1.parquet"])
def test_a_file_that_the_table_has_is_refused_as_a_path_and_as_a_record(table, files, spelling):
    for number in (1, 2):
        files.write(f"file:/in/{number}.parquet", parquet(number, "ERROR"))
    first = table.append(["file:/in/1.parquet"]).snapshot_ids[0]
    before = set(files.locations())
    record = describe_parquet(spelling, table.metadata, files.open).data_file
    for again in (spelling, record):
        with pytest.raises(RequirementFailed, match=rf"file:/in/1\.parquet \(snapshot {first}\)") as caught:
            table.append(["file:/in/2.parquet", again])
        assert caught.value.proved_failed
        assert "delete none" in str(caught.value)
    assert set(files.locations()) == before
    assert len(entries(table.refresh())) == 1
    table.append([record], check_duplicates=False)
    assert len(entries(table)) == 2


def test_a_file_that_another_process_appended_since_is_refused(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    other = table._catalog.load_table("logging.events")
    table.append(["file:/in/1.parquet"])
    with pytest.raises(RequirementFailed, match=r"file:/in/1\.parquet"):
        other.append(["file:/in/1.parquet"])


def test_a_file_is_given_once_however_it_is_spelled(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    with pytest.raises(InvalidInput, match=r"twice: file:///in/1\.parquet"):
        table.append(["file:/in/1.parquet", "file:///in/1.parquet"])


def test_the_manifests_are_looked_through_before_the_commit_waits_for_anybody(table, files, monkeypatch):
    """So that under the lock only those are read which are new since."""
    for number in range(4):
        files.write(f"file:/in/{number}.parquet", parquet(1, "ERROR"))
    for number in range(3):
        table.append([f"file:/in/{number}.parquet"])
    store = table._catalog.services.world.manifests()._store
    store._cache._entries.clear()
    store._filters._entries.clear()
    commit, read = table._catalog.commit_change, files.read
    reads = []

    def committing(*arguments, **options):
        manifests = {line.manifest_path for line in store.open().list(table.current_snapshot)}
        assert manifests <= set(reads)
        reads.clear()
        return commit(*arguments, **options)

    monkeypatch.setattr(files, "read", lambda location: reads.append(location) or read(location))
    monkeypatch.setattr(table._catalog, "commit_change", committing)
    table.append(["file:/in/3.parquet"])
    assert not any("-m0.avro" in location for location in reads)


def test_a_rerun_whose_file_is_gone_by_now_finds_its_first_run(table, files):
    """Its file may have been compacted, and deleted since. "There is no such file" would say that the job failed."""
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    first = table.append(["file:/in/1.parquet"], idempotency_key="load-1")
    assert files.delete("file:/in/1.parquet")
    again = table.append(["file:///in/1.parquet"], summary={"iceberg-hms.idempotency-key": "load-1"})
    assert again.already_committed
    assert again.snapshot_ids == first.snapshot_ids
    for key in ("load-2", None):
        with pytest.raises(MissingFile) as caught:
            table.append(["file:/in/1.parquet"], idempotency_key=key)
        assert "1.parquet" in str(caught.value)
    with pytest.raises(RequirementFailed, match="idempotency key load-1"):
        table.append(["file:/in/none.parquet"], idempotency_key="load-1")


def test_a_key_that_other_files_were_added_under_is_refused_and_nothing_is_changed(table, files):
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
    assert table.refresh().current_snapshot.snapshot_id == first
    again = table.append(["file:///in/2.parquet", "file:///in/1.parquet"], idempotency_key="load-1")
    assert again.already_committed
    assert again.snapshot_ids == (first,)


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused(table, files, key):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    with pytest.raises(InvalidInput, match="key is empty"):
        table.append(["file:/in/1.parquet"], idempotency_key=key)


def test_a_branch_is_made_when_it_is_not_there(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    table.append(["file:/in/1.parquet"], branch="audit")
    assert table.metadata.ref("audit") is not None
    assert table.current_snapshot is None


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (None, MissingFile, "Failed to open input stream"),
        (b"PAR1 and then nothing", CorruptFile, "damaged"),
        (parquet(1, "ERROR")[:-100], CorruptFile, "damaged"),
    ],
)
def test_a_file_that_cannot_be_appended_changes_nothing(table, files, content, error, says):
    if content is not None:
        files.write("file:/in/bad.parquet", content)
    before = set(files.locations())
    with pytest.raises(error, match=says):
        table.append(["file:/in/bad.parquet"])
    assert set(files.locations()) == before
    assert table.refresh().current_snapshot is None


def test_nothing_to_append_is_refused(table):
    with pytest.raises(InvalidInput, match="nothing to append"):
        table.append([])


def test_a_table_that_was_replaced_is_not_appended_to(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    catalog = table._catalog
    catalog.drop_table("logging.events")
    catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])
    with pytest.raises(RequirementFailed, match="UUID"):
        table.append(["file:/in/1.parquet"])
    assert catalog.load_table("logging.events").current_snapshot is None


def test_a_record_of_another_spec_is_refused(table, files):
    files.write("file:/in/1.parquet", parquet(1, "ERROR"))
    record = describe_parquet("file:/in/1.parquet", table.metadata, files.open).data_file
    with pytest.raises(InvalidInput, match="partition"):
        table.append([replace(record, spec_id=7)])
