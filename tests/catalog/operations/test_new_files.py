"""Files that operations take: records, and locations whose footers describe them."""

import datetime
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.catalog.operations.new_files import LinkedFolders
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, ROW_ID
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.format.missing_values import NANS, NULLS

SCHEMA = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us"))])
DAYS = {"one": 1, "two": 2, "three": 3}


def parquet(day, **more):
    rows = {"level": ["info"], "event_time": [datetime.datetime(2021, 4, day)], **more}  # noqa: DTZ001 - without zone
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue()


@pytest.fixture
def files():
    made = MemoryFiles()
    for name, day in DAYS.items():
        made.write(f"file:/data/{name}.parquet", parquet(day))
        made.write(f"file:/data/other-{name}.parquet", parquet(day))
    return made


@pytest.fixture
def catalog(files):
    with memory_catalog(files=files) as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog):
    made = catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])
    made.append([f"file:/data/{name}.parquet" for name in DAYS])
    return made


@pytest.fixture
def live(catalog):
    def names(table):
        manifests = catalog.manifests()
        entries = manifests.entries(manifests.list(table.current_snapshot()))
        return sorted(each.data_file.file_path.removeprefix("file:/data/") for each in entries if each.is_live)

    return names


def test_footers_describe_the_files_of_any_operation(table, live):
    report = table.replace_partitions(["file:/data/other-one.parquet"])
    assert len(report.snapshot_ids) == 1
    assert live(table) == ["other-one.parquet", "three.parquet", "two.parquet"]
    report = table.rewrite(["file:/data/two.parquet"], ["file:/data/other-two.parquet"])
    assert live(table) == ["other-one.parquet", "other-two.parquet", "three.parquet"]
    assert table.current_snapshot().snapshot_id == report.snapshot_ids[0]


@pytest.mark.parametrize("name", ["a#b", "a?b", "a\tb", "a\nb", "a\rb", "a:b", "x#y/a"], ids=ascii)
def test_a_file_whose_path_some_reader_does_not_open_is_refused_by_location_and_as_a_record(table, files, live, name):
    path = f"file:/data/{name}.parquet"
    files.write(path, parquet(1))
    record = DataFile(path, "PARQUET", 1, len(parquet(1)), partition={"event_time_day": 18718})
    for refused in (
        lambda: table.append([path]),
        lambda: table.append([record]),
        lambda: table.rewrite(["file:/data/one.parquet"], [path]),
        lambda: table.replace_partitions([record]),
    ):
        with pytest.raises(InvalidInput, match="not every reader opens it"):
            refused()
    assert live(table.refresh()) == ["one.parquet", "three.parquet", "two.parquet"]


def test_a_rerun_under_its_key_adds_nothing_even_if_its_files_are_gone(table, files):
    add = ["file:/data/other-one.parquet"]
    first = table.rewrite(["file:/data/one.parquet"], add, idempotency_key="compact-1")
    files.delete("file:/data/other-one.parquet")
    again = table.rewrite(["file:/data/one.parquet"], add, idempotency_key="compact-1")
    assert (again.snapshot_ids, again.already_committed) == (first.snapshot_ids, True)
    with pytest.raises(MissingFile):
        table.rewrite(["file:/data/one.parquet"], add, idempotency_key="compact-2")


def test_a_rerun_whose_file_was_deleted_finds_its_first_run(table, files):
    """Its file may have been compacted, and deleted since. "There is no such file" would say that the job failed."""
    files.write("file:/in/1.parquet", parquet(1))
    first = table.append(["file:/in/1.parquet"], idempotency_key="load-1")
    assert files.delete("file:/in/1.parquet")
    again = table.append(["file:///in/1.parquet"], snapshot_properties={"iceberg-hms.idempotency-key": "load-1"})
    assert again.already_committed
    assert again.snapshot_ids == first.snapshot_ids
    for key in ("load-2", None):
        with pytest.raises(MissingFile) as caught:
            table.append(["file:/in/1.parquet"], idempotency_key=key)
        assert "1.parquet" in str(caught.value)
    with pytest.raises(RequirementFailed, match="idempotency key load-1"):
        table.append(["file:/in/none.parquet"], idempotency_key="load-1")


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused(table, files, key):
    files.write("file:/in/1.parquet", parquet(1))
    with pytest.raises(InvalidInput, match="key is empty"):
        table.append(["file:/in/1.parquet"], idempotency_key=key)


def test_a_newer_schema_that_the_files_show_does_not_hide_conflicts(catalog, table, files):
    """Describing the files may reload the table; what was committed since the caller's state still conflicts."""
    files.write("file:/data/wide.parquet", parquet(1, host=["h"]))
    fresh = catalog.load_table("logging.events")
    with fresh.update_schema() as update:
        update.add_column("host", pa.string())
    fresh.delete_files(["file:/data/one.parquet"])
    with pytest.raises(RequirementFailed, match=r"removed file:/data/one.parquet"):
        table.replace_partitions(["file:/data/wide.parquet"])


def test_what_to_do_with_extra_columns_has_two_answers(table):
    with pytest.raises(InvalidInput, match="on_extra_columns must be"):
        table.replace_partitions(["file:/data/other-one.parquet"], on_extra_columns="drop")


def test_a_file_that_a_reader_misreads_is_refused_with_the_cast_that_cures_it(table, files, live):
    sink = io.BytesIO()
    times = pa.array([1], pa.timestamp("ms"))
    pq.write_table(pa.table({"level": ["info"], "event_time": times}), sink)
    files.write("file:/data/millis.parquet", sink.getvalue())
    before = live(table)
    with pytest.raises(InvalidInput, match="column event_time is Timestamp milliseconds") as refused:
        table.append(["file:/data/millis.parquet"])
    assert "pyarrow.timestamp('us')" in refused.value.next_step
    assert live(table.refresh()) == before

    sink = io.BytesIO()
    pq.write_table(pa.table({"level": ["info"], "event_time": times.cast(pa.timestamp("us"))}), sink)
    files.write("file:/data/cured.parquet", sink.getvalue())
    table.append(["file:/data/cured.parquet"])
    assert live(table) == sorted([*before, "cured.parquet"])


def test_files_may_come_from_an_iterator(table, live):
    def each(*names):
        return (f"file:/data/{name}.parquet" for name in names)

    table.append(each("other-one", "other-two"))
    table.delete_files(each("one", "two"))
    assert live(table) == ["other-one.parquet", "other-two.parquet", "three.parquet"]
    table.rewrite(remove=each("other-two"), add=each("two"))
    table.replace_partitions(each("one"))
    assert live(table) == ["one.parquet", "three.parquet", "two.parquet"]
    table.overwrite(each("other-one"), overwrite_filter="event_time < '2021-04-03'")
    table.row_delta(each("other-three"))
    with table.transaction() as tx:
        tx.append(each("other-two"))
    assert live(table) == ["other-one.parquet", "other-three.parquet", "other-two.parquet", "three.parquet"]
    with pytest.raises(InvalidInput, match="nothing to append"):
        table.append(each())


def record(name, size, **more):
    partition = {"event_time_day": (datetime.date(2021, 4, 1) - datetime.date(1970, 1, 1)).days}
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", 1, size, partition, **more)


def deletes_of_one(name, size):
    return record(name, size, content=1, referenced_data_file="file:/data/one.parquet")


VERIFIED = [
    lambda table, name, size: table.append([record(name, size)], verify=True),
    lambda table, name, size: table.overwrite([record(name, size)], verify=True),
    lambda table, name, size: table.replace_partitions([record(name, size)], verify=True),
    lambda table, name, size: table.rewrite(["file:/data/one.parquet"], [record(name, size)], verify=True),
    lambda table, name, size: table.row_delta([record(name, size)], verify=True),
    lambda table, name, size: table.row_delta(deletes=[deletes_of_one(name, size)], verify=True),
]


@pytest.mark.parametrize("verified", VERIFIED)
def test_an_operation_looks_for_the_files_of_records_on_request(table, files, verified):
    before, size = table.current_snapshot().snapshot_id, len(files.read("file:/data/other-one.parquet"))
    with pytest.raises(MissingFile, match=r"none\.parquet"):
        verified(table, "none", size)
    with pytest.raises(InvalidInput, match=f"other-one.parquet has {size} bytes, and its record says {size + 1}"):
        verified(table, "other-one", size + 1)
    assert table.refresh().current_snapshot().snapshot_id == before
    assert verified(table, "other-one", size).snapshot_ids


def test_a_rewrite_looks_for_new_delete_files_too(table, files):
    files.write("file:/data/p.parquet", b"12345")
    table.row_delta(deletes=[deletes_of_one("p", 5)])
    with pytest.raises(MissingFile, match=r"q\.parquet"):
        table.rewrite(remove_deletes=[deletes_of_one("p", 5)], add_deletes=[deletes_of_one("q", 5)], verify=True)


def test_the_file_of_a_rerun_may_be_gone_since(table, files):
    size = len(files.read("file:/data/other-one.parquet"))
    table.append([record("other-one", size)], idempotency_key="load-1", verify=True)
    files.delete("file:/data/other-one.parquet")
    assert table.append([record("other-one", size)], idempotency_key="load-1", verify=True).already_committed


@pytest.fixture
def linked(tmp_path):
    """A table of files on a disk, the folder of its files, and a symbolic link to that folder."""
    real, link = tmp_path / "real" / "in", tmp_path / "link"
    real.mkdir(parents=True)
    link.symlink_to(tmp_path / "real")
    for number in (1, 2):
        (real / f"{number}.parquet").write_bytes(parquet(number))
    with memory_catalog(files=RoutedFiles(fsync=False), warehouse=f"file:{tmp_path}/w") as catalog:
        catalog.create_namespace("logging")
        yield catalog.create_table("logging.events", SCHEMA), f"file:{real}", f"file:{link}/in"


def test_a_live_file_is_not_appended_again_through_a_linked_folder(linked):
    """Its rows were there twice."""
    table, real, link = linked
    first = table.append([f"{real}/1.parquet"]).snapshot_ids[0]
    for add in (table.append, table.replace_partitions):
        with pytest.raises(RequirementFailed, match=rf"has 1 of the files.*{real}/1.parquet \(snapshot {first}\)"):
            add([f"{link}/2.parquet", f"{link}/1.parquet"])
    with pytest.raises(InvalidInput, match=rf"{real}/2.parquet and {link}/2.parquet are one file"):
        table.append([f"{real}/2.parquet", f"{link}/2.parquet"])
    with pytest.raises(InvalidInput, match="are one file"):
        table.overwrite([f"{real}/2.parquet", f"{link}/2.parquet"])
    assert [each.snapshot_id for each in table.refresh().snapshots()] == [first]
    table.append([f"{link}/2.parquet"])
    table.append([f"{link}/1.parquet"], check_duplicate_files=False)
    assert len(table.snapshots()) == 3


ONE = "file:/data/one.parquet"
NO_LIST = r"not a list of files: .* \(give a list, also of one file\)"
NO_FILE = r"not a file: .* \(name each file by its location as text or a DataFile\)"
NO_RECORD = r"not a file: .* \(name each file by a DataFile\)"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda table: table.append(ONE), NO_LIST),
        (lambda table: table.append(None), NO_LIST),
        (lambda table: table.append(Path("/data/one.parquet")), NO_LIST),
        (lambda table: table.append(DataFile(ONE, "PARQUET", 1, 10)), NO_LIST),
        (lambda table: table.append([Path("/data/one.parquet")]), NO_FILE),
        (lambda table: table.append(pa.table({"level": ["info"]})), "not a list of files: an object of class Table"),
        (lambda table: table.delete_files(ONE), NO_LIST),
        (lambda table: table.delete_files([1]), NO_FILE),
        (lambda table: table.overwrite(ONE), NO_LIST),
        (lambda table: table.replace_partitions(ONE), NO_LIST),
        (lambda table: table.rewrite(ONE, ["file:/data/other-one.parquet"]), NO_LIST),
        (lambda table: table.rewrite([ONE], "file:/data/other-one.parquet"), NO_LIST),
        (lambda table: table.row_delta(ONE), NO_LIST),
        (lambda table: table.row_delta(deletes=["file:/data/deletes.parquet"]), NO_RECORD),
        (lambda table: table.row_delta(replaced_deletes=[ONE]), NO_RECORD),
        (lambda table: table.row_delta(referenced_files=ONE), NO_LIST),
    ],
)
def test_what_is_no_list_of_files_is_refused(table, files, call, problem):
    before, there = table.metadata_location, set(files.locations())
    with pytest.raises(InvalidInput, match=problem):
        call(table)
    assert (table.refresh().metadata_location, set(files.locations())) == (before, there)


def carrying(*levels, row_ids=None, updated=None):
    """A Parquet file of a table of version 3. row_ids, updated: None: it lacks the column."""
    columns = {("level", 1): levels, ("_row_id", ROW_ID.id): row_ids, ("_last", LAST_UPDATED.id): updated}
    there = {key: values for key, values in columns.items() if values is not None}
    types = [pa.string() if name == "level" else pa.int64() for name, _ in there]
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(id_)})
        for (name, id_), kind in zip(there, types, strict=True)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.table([list(each) for each in there.values()], schema=pa.schema(fields)), sink)
    return sink.getvalue()


@pytest.fixture
def tracked(catalog, files):
    """A table of version 3 with two rows in one file."""
    made = catalog.create_table(
        "logging.tracked", pa.schema([("level", pa.string())]), properties={"format-version": "3"}
    )
    files.write("file:/data/old.parquet", carrying("a", "b"))
    files.write("file:/data/moved.parquet", carrying("b", "a", row_ids=[1, 0], updated=[1, 1]))
    files.write("file:/data/bare.parquet", carrying("b", "a"))
    files.write("file:/data/half.parquet", carrying("b", "a", row_ids=[1, 0]))
    files.write("file:/data/foreign.parquet", carrying("b", "a", row_ids=[1, 900], updated=[1, 1]))
    made.append(["file:/data/old.parquet"])
    return made


OLD = ["file:/data/old.parquet"]
#: A record as an engine makes it that keeps no metrics.
PLAIN = DataFile("file:/data/moved.parquet", "PARQUET", 2, 100)


@pytest.mark.parametrize("how", ["location", "record"])
def test_a_rewrite_takes_files_that_carry_the_ids_of_their_rows(tracked, live, how):
    tracked.rewrite(OLD, ["file:/data/moved.parquet" if how == "location" else PLAIN])
    assert live(tracked) == ["moved.parquet"]


@pytest.mark.parametrize("extra", ["refuse", "ignore"])
@pytest.mark.parametrize("how", ["location", "record"])
@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("bare", RequirementFailed, "bare.parquet has no _row_id for 2 of its rows"),
        ("half", RequirementFailed, "half.parquet has no _last_updated_sequence_number for 2 of its rows"),
        (
            "foreign",
            InvalidInput,
            "foreign.parquet has _row_id from 1 to 900, and the table has only given such as are below 2",
        ),
    ],
)
def test_a_rewrite_that_would_lose_row_ids_changes_nothing(tracked, live, files, name, error, why, how, extra):
    location = f"file:/data/{name}.parquet"
    add = [location if how == "location" else replace(PLAIN, file_path=location)]
    before = set(files.locations())
    with pytest.raises(error, match=why):
        tracked.rewrite(OLD, add, on_extra_columns=extra)
    assert (live(tracked.refresh()), set(files.locations())) == (["old.parquet"], before)


def test_a_record_that_states_the_columns_is_believed(tracked, live, files):
    files.delete("file:/data/moved.parquet")
    with pytest.raises(MissingFile):
        tracked.rewrite(OLD, [PLAIN])
    tracked.rewrite(OLD, [replace(PLAIN, null_value_counts={1: 0, ROW_ID.id: 0, LAST_UPDATED.id: 0})])
    assert live(tracked) == ["moved.parquet"]


def test_the_footer_of_a_record_is_read_whatever_its_partition(catalog, files, live):
    """A record may be of any partition spec, and its file may span the partitions of another."""
    made = catalog.create_table(
        "logging.respecified", pa.schema([("level", pa.string())]), properties={"format-version": "3"}
    )
    files.write("file:/data/old.parquet", carrying("a", "b"))
    files.write("file:/data/moved.parquet", carrying("b", "a", row_ids=[1, 0], updated=[1, 1]))
    made.append(["file:/data/old.parquet"])
    made.update_spec().add_field("level", "identity").commit()
    made.rewrite(OLD, [PLAIN])
    assert live(made) == ["moved.parquet"]


@pytest.mark.parametrize(
    "operate",
    [
        lambda table, file: table.overwrite([file]),
        lambda table, file: table.replace_partitions([file]),
        lambda table, file: table.row_delta([file]),
    ],
)
def test_what_replaces_rows_takes_the_copies_that_an_engine_makes(tracked, live, files, operate):
    files.write("file:/data/copy.parquet", carrying("b", "new", row_ids=[1, None], updated=[None, None]))
    operate(tracked, "file:/data/copy.parquet")
    assert "copy.parquet" in live(tracked)


def test_an_append_takes_no_row_ids(tracked, live, files):
    with pytest.raises(InvalidInput, match=r"moved.parquet carries values of _row_id, .* an append are new"):
        tracked.append(["file:/data/moved.parquet"], on_extra_columns="ignore")
    files.write("file:/data/nulls.parquet", carrying("c", row_ids=[None], updated=[None]))
    tracked.append(["file:/data/nulls.parquet"])
    assert live(tracked) == ["nulls.parquet", "old.parquet"]


class CountingFiles(RoutedFiles):
    """Counts looks at folders."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.looks = 0

    def is_link(self, location: str) -> bool:
        self.looks += 1
        return super().is_link(location)


@pytest.fixture
def links(tmp_path: Path) -> str:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "again").symlink_to("in")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("named", "own"),
    [
        ("real/in/a", "real/in/a"),
        ("link/in/a", "real/in/a"),
        ("link/again/a", "real/in/a"),
        ("link/none/a", "real/none/a"),
        ("none/a", "none/a"),
        ("loop/in/a", "loop/in/a"),
        # The file itself is not looked at.
        ("link", "link"),
    ],
)
def test_linked_folders_are_followed(links: str, named: str, own: str) -> None:
    assert LinkedFolders(RoutedFiles()).own_key(file_key(f"{links}/{named}")) == f"{links}/{own}"


@pytest.mark.parametrize("key", ["s3://b//a/../x", "hdfs://nn/a", "a", "file:///a", f"file:///{'a/' * 5_000}b"])
def test_other_keys_stay_as_they_are(key: str) -> None:
    assert LinkedFolders(RoutedFiles()).own_key(key) == key


def test_each_folder_is_looked_at_once(links: str) -> None:
    files = CountingFiles()
    folders = LinkedFolders(files)
    for number in range(100):
        folders.own_key(f"{links}/link/in/day={number % 3}/{number}")
    assert files.looks == links.count("/") - 2 + 2 + 3


PARTITIONS = {
    "boolean": [(np.bool_(True), True)],
    "int": [(np.int64(3), 3), (pa.scalar(3, pa.uint8()), 3)],
    "float": [(np.float32(0.5), 0.5)],
    "string": [(np.str_("a"), "a"), (pa.scalar("a"), "a")],
    "binary": [(bytearray(b"a"), b"a"), (memoryview(b"a"), b"a")],
    "date": [(np.int32(3), 3)],
    "timestamp": [(np.int64(3), 3)],
}
REFUSED = [True, "true", datetime.date(2021, 4, 1), pd.Timestamp("2021-04-01"), np.datetime64("2021-04-01"), [1]]


@pytest.mark.parametrize("of", PARTITIONS)
def test_the_partition_of_a_missing_value_is_that_of_null(catalog, of):
    schema = {"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": of}]}
    table = catalog.create_table("logging.parts", schema, partition_spec=["c"])
    given = [*((value, None) for value in NULLS.values()), *PARTITIONS[of]]
    table.append([DataFile(f"file:/d/{at}", "PARQUET", 1, 10, {"c": value}) for at, (value, _) in enumerate(given)])
    manifests = catalog.manifests()
    stored = {
        each.data_file.file_path: each.data_file.partition["c"]
        for each in manifests.entries(manifests.list(table.current_snapshot()))
    }
    assert stored == {f"file:/d/{at}": value for at, (_, value) in enumerate(given)}
    for value in [] if of == "float" else NANS.values():
        with pytest.raises(InvalidInput, match="Cannot store partition value"):
            table.append([DataFile("file:/d/nan", "PARQUET", 1, 10, {"c": value})])


@pytest.mark.parametrize(
    "of", ["boolean", "int", "long", "float", "double", "date", "timestamp", "decimal(9, 2)", "binary"]
)
def test_a_partition_value_of_another_class_is_refused(catalog, of):
    schema = {"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": of}]}
    table = catalog.create_table("logging.parts", schema, partition_spec=["c"])
    for value in REFUSED[of == "boolean" :]:
        with pytest.raises(InvalidInput, match=r"Cannot store partition value|no single value"):
            table.append([DataFile("file:/d/a", "PARQUET", 1, 10, {"c": value})])
    assert table.current_snapshot() is None


@pytest.mark.parametrize("field", ["record_count", "file_size_in_bytes"])
def test_a_count_that_is_missing_is_refused(table, field):
    for value in (None, "1", 1.5, *NULLS.values(), *NANS.values()):
        record = replace(DataFile("file:/d/a", "PARQUET", 1, 10, {"event_time_day": 1}), **{field: value})
        with pytest.raises(InvalidInput, match="no whole number"):
            table.append([record])
