"""Which files may be deleted on behalf of a table."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.files import own_files
from iceberg_hms.coordinator.files.own_files import (
    REMEMBERED_SECONDS,
    OwnFiles,
    RecentOwnFiles,
    delete_own_files,
    find_own_files,
)
from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import HIVE_TABLE, OWNED_FOLDER, Pointer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.errors import AccessDenied, MetastoreError, MetastoreUnavailable, StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness, set_properties

real_path = MemoryFiles().real_path


@pytest.mark.parametrize(
    ("folder", "location"),
    [
        ("file:/wh/t", "file:/wh/t/x"),
        ("file:/wh/t", "/wh/t/data/p=1/x"),
        ("file:/wh/t/", "file:///wh/t//x"),
        ("file:/wh/../wh/t", "file:/wh/t/data/../x"),
        ("s3a://bucket/t", "s3://bucket/t/x"),
        ("s3://bucket/a b%20/t", "s3://bucket/a b%20/t/x"),
        ("hdfs://nn:8020/t", "hdfs://nn:8020/t/x"),
    ],
)
def test_what_lies_in_the_tables_folder_is_its_own(folder: str, location: str) -> None:
    assert location in OwnFiles(folder, real_path)


@pytest.mark.parametrize(
    ("folder", "location"),
    [
        ("file:/wh/t", "file:/wh/t"),
        ("file:/wh/t", "file:/wh/t2/x"),
        ("file:/wh/t", "file:/wh/t/../u/x"),
        ("file:/wh/t", "file:/wh/t/data/.."),
        ("file:/wh/t", "file:/wh/t/data/"),
        ("file:/wh/t", "file:/wh/t/a\0b"),
        ("file:/wh/t", "s3://wh/t/x"),
        ("file:/wh/t", "x"),
        ("file:/wh/t", ""),
        ("file:/wh/t", "http://host/wh/t/x"),
        ("s3://bucket/t", "s3://other/t/x"),
        ("s3://bucket/t", "s3://bucket/t/../u/x"),
        ("s3://bucket/t/../u", "s3://bucket/t/../u/x"),
        ("hdfs://one/t", "hdfs://two/t/x"),
        ("file:/", "file:/etc/passwd"),
        ("s3://bucket", "s3://bucket/x"),
        ("s3://bucket/", "s3://bucket/x"),
        ("relative", "relative/x"),
        ("", "file:/x"),
        (None, "file:/x"),
    ],
)
def test_what_lies_elsewhere_is_not(folder: str | None, location: str) -> None:
    assert location not in OwnFiles(folder, real_path)


def test_paths_are_resolved_once_for_each_folder() -> None:
    asked: list[str] = []

    def real(location: str) -> str:
        asked.append(location)
        return real_path(location)

    files = OwnFiles("file:/wh/t", real)
    assert all(f"file:/wh/t/data/p={number % 10}/{number}" in files for number in range(10_000))
    assert len(asked) == 1 + 10


def test_a_path_that_cannot_be_resolved_is_not_the_tables_own() -> None:
    def real(location: str) -> str:
        if "loop" in location:
            raise StorageError("too many links")
        return real_path(location)

    assert "file:/wh/t/loop/x" not in OwnFiles("file:/wh/t", real)
    assert "file:/wh/loop/x" not in OwnFiles("file:/wh/loop", real)


FOLDER = "file:/wh/db/t"


def owner(harness: Harness, **changes: Any) -> OwnFiles:
    """What a table owns whose row has these changes."""
    mine = replace(harness.pointer.load(NAME), location=FOLDER)
    return find_own_files(harness.ports, replace(mine, **changes))


def recorded(folder: str = FOLDER) -> dict[str, Any]:
    return {"parameters": {OWNED_FOLDER: folder}}


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.create()
    made.pointer.metastore.databases["other"] = {}
    made.pointer.folders["other"] = ["file:/wh/other"]
    return made


def test_a_folder_directly_below_that_of_its_database_is_owned(harness: Harness) -> None:
    assert f"{FOLDER}/data/x" in owner(harness)
    harness.pointer.folders["db"] = ["s3://elsewhere/db", "/wh/db/"]
    assert f"{FOLDER}/data/x" in owner(harness), "the folder of managed tables counts"


@pytest.mark.parametrize(
    ("database", "location"),
    [
        ("file:/wh", FOLDER),
        ("file:/", FOLDER),
        (FOLDER, FOLDER),
        (f"{FOLDER}/data", FOLDER),
        ("file:/wh/d", FOLDER),
        ("file:/wh/db2", FOLDER),
        ("s3://wh/db", FOLDER),
        ("file:/wh/db", f"{FOLDER}/deeper"),
        ("file:/wh/db", "file:/wh/db/x/../../t"),
        ("relative", FOLDER),
    ],
)
def test_a_folder_that_lies_elsewhere_is_not_unless_it_is_recorded(
    harness: Harness, database: str, location: str
) -> None:
    harness.pointer.folders["db"] = [database]
    own = owner(harness, location=location)
    assert "does not lie directly below that of its database" in own.reason
    assert f"{location}/x" not in own
    assert f"{location}/x" in owner(harness, location=location, **recorded(location))


def test_a_record_of_another_folder_says_nothing(harness: Harness) -> None:
    harness.pointer.folders["db"] = []
    for folder in ("file:/wh/db", f"{FOLDER}/data", "", "file:/wh/db/T"):
        assert owner(harness, **recorded(folder)).reason
    for spelling in (FOLDER, f"{FOLDER}/", "file:///wh/db/t", "/wh//db/t"):
        assert not owner(harness, **recorded(spelling)).reason


IN_IT = [FOLDER, f"{FOLDER}/in"]
AROUND = ["file:/wh/db", "file:/"]


def add_hive_table(harness: Harness, database: str, theirs: str, *, partition: bool) -> None:
    """Of a partition the table itself lies elsewhere."""
    harness.pointer.metastore.databases["default"] = {}
    harness.pointer.folders["default"] = ["file:/wh"]
    name = TableName(database, "hive")
    harness.pointer.add_hive_table(name, f"s3://b/{database}/hive" if partition else theirs)
    if partition:
        keys = (HiveColumn("p", "string"),)
        row = harness.pointer.rows[name]
        harness.pointer.rows[name] = replace(row, partition_keys=keys, folders=("s3://b/x", theirs))


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.parametrize("database", ["db", "other", "default"])
@pytest.mark.parametrize("theirs", [*IN_IT, *AROUND])
def test_a_hive_table_or_partition_in_it_takes_any_folder_and_one_around_a_folder_that_is_not_recorded(
    harness: Harness, database: str, theirs: str, partition: bool
) -> None:
    add_hive_table(harness, database, theirs, partition=partition)
    taken = f"{database}.hive has the folder {theirs}"
    assert owner(harness).reason == taken
    assert owner(harness, **recorded()).reason == (taken if theirs in IN_IT else "")


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.parametrize("database", ["db", "other", "default"])
def test_a_search_that_others_wait_for_reads_the_rows_of_databases_around_alone(
    harness: Harness, database: str, partition: bool
) -> None:
    add_hive_table(harness, database, FOLDER, partition=partition)
    row = replace(harness.pointer.load(NAME), location=FOLDER)
    taken = database != "other" and not partition
    assert bool(find_own_files(harness.ports, row, far=False).reason) == taken
    assert not find_own_files(harness.ports, replace(row, **recorded()), far=False).reason


@pytest.mark.parametrize("error", [MetastoreUnavailable("no time", next_step=""), AccessDenied("not yours")])
@pytest.mark.parametrize("method", ["database_folders", "folders_in", "partition_folders"])
def test_rows_that_cannot_be_read_are_needed_only_near_a_folder_that_is_not_recorded(
    harness: Harness, method: str, error: MetastoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_hive_table(harness, "other", FOLDER, partition=method == "partition_folders")
    answer, calls = getattr(MemoryTablePointer, method), []

    def fails(pointer: MemoryTablePointer, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        # The first look at the databases is for namespaces in the folder, and needed always.
        if method == "database_folders" and len(calls) == 1:
            return answer(pointer, *arguments, **options)
        raise error

    monkeypatch.setattr(MemoryTablePointer, method, fails)
    assert not owner(harness, **recorded()).reason
    calls.clear()
    if method == "partition_folders":
        assert not owner(harness).reason
    else:
        with pytest.raises(type(error)):
            owner(harness)


@pytest.mark.parametrize("database", ["db", "other"])
@pytest.mark.parametrize("theirs", [FOLDER, f"{FOLDER}/in"])
def test_an_iceberg_table_in_it_takes_any_folder(harness: Harness, database: str, theirs: str) -> None:
    harness.pointer.rows[TableName(database, "u")] = MemoryRow(
        {"table_type": "ICEBERG", "metadata_location": f"{theirs}/metadata/1.metadata.json"}, location=theirs
    )
    for changes in ({}, recorded()):
        own = owner(harness, **changes)
        assert own.reason == f"{database}.u has the folder {theirs}"
        assert f"{FOLDER}/x" not in own


def test_an_iceberg_table_around_takes_a_folder_that_is_not_recorded(harness: Harness) -> None:
    harness.pointer.rows[TableName("db", "wide")] = MemoryRow(
        {"table_type": "ICEBERG", "metadata_location": "file:/wh/metadata/1.metadata.json"}, location="file:/wh"
    )
    assert owner(harness).reason == "db.wide has the folder file:/wh"
    assert not owner(harness, **recorded()).reason


def test_a_table_without_a_folder_owns_nothing(harness: Harness) -> None:
    assert owner(harness, location=None).reason == "the metastore names no folder for it"
    assert owner(harness, location="file:/", **recorded("file:/")).reason == "the metastore names no folder for it"
    assert owner(harness, location="relative").reason == "the metastore names no folder for it"


@pytest.mark.parametrize("dropped", [False, True])
def test_a_table_that_can_become_a_hive_table_again_owns_nothing(harness: Harness, dropped: bool) -> None:
    for record in ({}, recorded()["parameters"]):
        row = replace(
            harness.pointer.load(NAME), location=FOLDER, parameters={**record, HIVE_TABLE: f"{FOLDER}/_iceberg/x.json"}
        )
        own = find_own_files(harness.ports, row, dropped=dropped)
        assert "`iceberg-hms migrate --keep`" in own.reason
        assert f"{FOLDER}/data/x" not in own
        assert f"{FOLDER}/data/x" in find_own_files(harness.ports, row.without_record(HIVE_TABLE))


def test_a_store_that_gives_each_file_a_folder_of_its_own_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "FOLDERS_MAX", 10)
    asked: list[str] = []

    def counted(location: str) -> str:
        asked.append(location)
        return real_path(location)

    files = OwnFiles("file:/wh/t", counted)
    some = [f"file:/wh/t/{number}/file" for number in range(11)]
    assert all(each in files for each in some)
    del asked[:]
    assert some[-1] in files
    assert some[0] in files
    assert asked == ["file:/wh/t/0"]


def test_what_is_kept_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    mine = Pointer(NAME, "file:/wh/t/metadata/1.metadata.json", None, {}, None, "file:/wh/t")
    for number in range(5):
        harness.files.write(f"file:/wh/t/{number}", b"")
        harness.files.write(f"file:/wh/u/{number}", b"")
    both = [f"file:/wh/{table}/{number}" for table in "tu" for number in range(5)]
    with caplog.at_level(logging.WARNING):
        delete_own_files(harness.ports, mine, OwnFiles("file:/wh/t", real_path), [*both, "file:/wh/t/gone"], "purge")
    assert len(harness.files.locations()) == 5
    deleted = [f"file:/wh/t/{number}" for number in range(5)]
    assert harness.events == [{"event": "files-deleted", "table": NAME, "why": "purge", "locations": deleted}]
    [record] = caplog.records
    assert record.getMessage() == (
        "5 files of db.t are kept, such as file:/wh/u/0: they do not lie in its own folder file:/wh/t"
    )


class Recent:
    """A table that asks for the deletion of old metadata files, at a time that a test sets."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.create()
        self.now = 1_000.0
        self.harness.runtime.now = lambda: self.now  # type: ignore[method-assign]
        self.row = self.harness.pointer.load(NAME)
        self.harness.pointer.calls.clear()
        self.recent = RecentOwnFiles(self.harness.ports)
        self.landed = 0

    @property
    def searched(self) -> list[str]:
        """The databases that were searched, in order."""
        return [name.namespace for method, name in self.harness.pointer.calls if method == "find_by_folder"]

    @property
    def searches(self) -> int:
        return len(self.searched)

    def commit(self, *log: str) -> None:
        """One commit lands whose base names these files, and whose result names the last one alone."""
        properties = {"write.metadata.delete-after-commit.enabled": "true"}
        for location in log:
            if location not in self.harness.files.locations():
                self.harness.files.write(location, b"")
        self.landed += 1
        self.recent.delete_expired(
            [
                CommitAttempt(
                    TableVersion(self.row, metadata(log, properties)),
                    metadata(log[-1:], properties),
                    f"file:/wh/db/t/metadata/new-{self.landed}",
                )
            ]
        )


def metadata(log: tuple[str, ...], properties: dict[str, str]) -> TableMetadata:
    entries: list[dict[str, Any]] = [{"metadata-file": each, "timestamp-ms": 1_000} for each in log]
    return TableMetadata.parse(documents.raw(metadata_log=entries, properties=properties))


def file(name: str) -> str:
    return f"file:/wh/db/t/metadata/{name}"


def test_a_commit_does_not_search_again_for_a_while() -> None:
    table = Recent()
    table.commit(file("a"), file("b"), file("c"))
    table.now += REMEMBERED_SECONDS
    table.commit(file("c"), file("new-1"), file("new-2"))
    assert table.searches == 1
    assert not {file("a"), file("b"), file("c"), file("new-1")} & set(table.harness.files.locations())
    table.now += 1
    table.commit(file("d"), file("new-3"))
    assert table.searches == 2


def test_a_recorded_folder_is_searched_for_what_clients_name_alone() -> None:
    """They name lists, but no files of the metadata log."""
    table = Recent()
    table.row = replace(table.row, parameters={**table.row.parameters, OWNED_FOLDER: str(table.row.location)})
    table.commit(file("a"), file("b"))
    assert table.harness.pointer.calls == []
    assert file("a") not in table.harness.files.locations()
    assert file("list") in table.recent.of(table.row)
    table.harness.pointer.rows[TableName("db", "u")] = table.harness.pointer.rows[NAME]
    table.now += REMEMBERED_SECONDS + 1
    assert file("list") not in table.recent.of(table.row)


def test_a_namespace_in_a_recorded_folder_keeps_all_files(harness: Harness) -> None:
    """Hive's tables are there, which no search for Iceberg tables finds. In the table's own namespace they are made by
    those who may write in the folder."""
    harness.pointer.folders["other"] = [f"{FOLDER}/other.db"]
    own = owner(harness, **recorded(FOLDER))
    assert own.reason == f"the namespace other has the folder {FOLDER}/other.db"
    harness.pointer.folders["other"] = [f"{FOLDER}2"]
    assert not owner(harness, **recorded(FOLDER)).reason


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_table_that_can_become_a_hive_table_again_keeps_its_old_metadata(is_recorded: bool) -> None:
    table = Recent()
    table.commit(file("a"), file("b"))
    assert file("a") not in table.harness.files.locations(), "what was found then is remembered"
    record = {OWNED_FOLDER: str(table.row.location)} if is_recorded else {}
    table.row = replace(table.row, parameters={**table.row.parameters, **record, HIVE_TABLE: file("x.json")})
    table.commit(file("c"), file("d"))
    assert file("c") in table.harness.files.locations()
    assert file("list") not in table.recent.of(table.row)
    table.row = table.row.without_record(HIVE_TABLE)
    table.commit(file("c"), file("d"))
    assert file("c") not in table.harness.files.locations()


def test_a_file_that_the_table_names_again_stays() -> None:
    table = Recent()
    table.commit(file("a"), file("b"), file("a"))
    assert file("a") in table.harness.files.locations()
    assert file("b") not in table.harness.files.locations()


def test_a_table_in_another_folder_is_searched_for_anew() -> None:
    table = Recent()
    table.commit(file("a"), file("b"))
    table.row = replace(table.row, location="file:/wh/db/moved")
    table.commit(file("c"), file("d"))
    assert table.searches == 2
    assert file("c") in table.harness.files.locations()


def test_a_search_that_fails_is_not_made_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Recent()

    def gone(*_: Any, **__: Any) -> Any:
        raise MetastoreUnavailable("no server answers")

    with monkeypatch.context() as patch:
        patch.setattr(table.harness.pointer, "find_by_folder", gone)
        with pytest.raises(MetastoreUnavailable):
            table.commit(file("a"), file("b"))
    for _ in range(2):
        with pytest.raises(MetastoreUnavailable, match="no server answers"):
            table.commit(file("a"), file("b"))
    assert file("a") in table.harness.files.locations()
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("a"), file("b"))
    assert file("a") not in table.harness.files.locations()


def test_a_commit_that_expires_nothing_asks_nothing() -> None:
    table = Recent()
    table.commit(file("a"))
    table.recent.delete_expired([])
    assert table.searches == 0


def test_metadata_files_that_fall_out_of_the_log_are_deleted_where_the_table_asks_for_it() -> None:
    kept = Harness()
    kept.create(**{"write.metadata.previous-versions-max": "2"})
    swept = Harness()
    swept.create(**{"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"})
    for number in range(5):
        kept.commit(set_properties(n=str(number)))
        swept.commit(set_properties(n=str(number)))
    assert len(kept.metadata_files()) == 6
    assert len(swept.metadata_files()) == 3
    assert {entry["metadata-file"] for entry in swept.metadata().metadata_log} <= swept.metadata_files()
