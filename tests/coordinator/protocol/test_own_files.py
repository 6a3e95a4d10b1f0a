"""Which files may be deleted on behalf of a table."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.protocol.attempt import CommitAttempt
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.coordinator.protocol.own_files import (
    POSTPONED_MAX,
    REMEMBERED_SECONDS,
    SEARCH_AFTER_COMMIT_SECONDS,
    OwnFiles,
    RecentOwnFiles,
    delete_own_files,
    find_own_files,
    refuse_shared_folder,
    tables_sharing,
)
from iceberg_hms.errors import InvalidInput, MetastoreUnavailable, StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness

real_path = MemoryFiles().real_path


def row(location: str | None, name: str = "other", metadata: str | None = None, **properties: str) -> Pointer:
    parameters = {key.replace("_", "."): value for key, value in properties.items()}
    return Pointer(
        TableName("db", name), metadata or f"{location}/metadata/1.metadata.json", None, parameters, None, location
    )


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
    assert location in OwnFiles(folder, [], real_path)


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
    assert location not in OwnFiles(folder, [], real_path)


INSIDE = ["file:/wh/t/x", "file:/wh/t/in/x", "file:/wh/t/in/deep/x", "file:/wh/t/inner/x"]


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (row("file:/wh/u"), INSIDE),
        (row("file:/wh/t"), []),
        (row("file:///wh/x/../t/"), []),
        (row("file:/wh"), []),
        (row("file:/"), []),
        (row("file:/wh/t/in"), [INSIDE[0], INSIDE[3]]),
        (row("file:/wh/u", metadata="file:/wh/t/in/1.metadata.json"), [INSIDE[0], INSIDE[3]]),
        (row("file:/wh/u", metadata="file:/wh/t/1.metadata.json"), []),
        (row("file:/wh/u", write_data_path="file:/wh/t/in"), [INSIDE[0], INSIDE[3]]),
        (row("file:/wh/u", write_metadata_path="/wh/t/in"), [INSIDE[0], INSIDE[3]]),
        (row("file:/wh/u", write_data_path="file:/wh"), INSIDE),
        (row("file:/wh/u", metadata="file:/wh/1.metadata.json"), INSIDE),
        (row("no location"), INSIDE),
        (row(None, metadata="file:/wh/u/1.metadata.json"), INSIDE),
    ],
)
def test_what_lies_in_another_tables_folder_is_not(other: Pointer, own: list[str]) -> None:
    files = OwnFiles("file:/wh/t", [row("file:/wh/z"), other], real_path)
    assert [each for each in INSIDE if each in files] == own
    assert not (files.reason and own)


def test_another_name_of_the_same_cluster_does_not_hide_a_table() -> None:
    files = OwnFiles("hdfs:///wh/t", [row("hdfs://nn:8020/wh/t")], real_path)
    assert files.reason == "its folder lies in that of db.other"
    files = OwnFiles("hdfs:///wh/t", [row("viewfs://cluster/wh/t/in")], real_path)
    assert "hdfs:///wh/t/x" in files
    assert "hdfs:///wh/t/in/x" not in files


def test_paths_are_resolved_once_for_each_folder() -> None:
    asked: list[str] = []

    def real(location: str) -> str:
        asked.append(location)
        return real_path(location)

    files = OwnFiles("file:/wh/t", [], real)
    assert all(f"file:/wh/t/data/p={number % 10}/{number}" in files for number in range(10_000))
    assert len(asked) == 1 + 10


def test_a_path_that_cannot_be_resolved_is_not_the_tables_own() -> None:
    def real(location: str) -> str:
        if "loop" in location:
            raise StorageError("too many links")
        return real_path(location)

    assert "file:/wh/t/loop/x" not in OwnFiles("file:/wh/t", [], real)
    assert "file:/wh/loop/x" not in OwnFiles("file:/wh/loop", [], real)


def test_the_table_itself_is_no_other_table() -> None:
    harness = Harness()
    harness.create()
    assert "file:/wh/db/t/data/x" in find_own_files(harness.ports, harness.pointer.load(NAME))


def test_what_is_kept_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    mine = row("file:/wh/t", "t")
    for number in range(5):
        harness.files.write(f"file:/wh/t/{number}", b"")
        harness.files.write(f"file:/wh/u/{number}", b"")
    both = [f"file:/wh/{table}/{number}" for table in "tu" for number in range(5)]
    with caplog.at_level(logging.WARNING):
        delete_own_files(harness.ports, mine, OwnFiles("file:/wh/t", [], real_path), both)
    assert len(harness.files.locations()) == 5
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


def test_a_commit_does_not_search_again_for_files_that_the_table_had_at_the_last_search() -> None:
    table = Recent()
    table.commit(file("a"), file("b"), file("c"))
    table.commit(file("c"), file("new-1"), file("new-2"))
    assert table.searches == 1
    assert not {file("a"), file("b"), file("c"), file("new-1")} & set(table.harness.files.locations())


def test_a_file_that_the_table_got_otherwise_waits_for_another_search() -> None:
    table = Recent()
    table.commit(file("a"), file("b"))
    table.commit(file("registered"), file("b"))
    table.commit(file("b"))
    assert table.searches == 1
    assert file("registered") in table.harness.files.locations()
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("b"))
    assert table.searches == 2
    assert file("registered") not in table.harness.files.locations()


def test_a_waiting_file_that_the_table_names_again_stays() -> None:
    table = Recent()
    table.commit(file("a"), file("b"))
    table.commit(file("registered"), file("b"))
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("b"), file("registered"))
    assert file("registered") in table.harness.files.locations()


def test_so_many_files_wait_for_another_search() -> None:
    table = Recent()
    table.commit(file("a"), file("b"))
    table.commit(*(file(f"other-{number}") for number in range(POSTPONED_MAX + 2)), file("b"))
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("b"))
    left = [each for each in table.harness.files.locations() if "/other-" in each]
    assert left == [file(f"other-{POSTPONED_MAX}"), file(f"other-{POSTPONED_MAX + 1}")]


def test_a_commit_searches_again_after_a_while_and_in_another_folder() -> None:
    table = Recent()
    table.commit(file("a"), file("b"), file("c"))
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("c"), file("new-1"))
    assert table.searches == 2
    table.row = replace(table.row, location="file:/wh/db/moved")
    table.commit(file("new-1"), file("new-2"))
    assert table.searches == 3
    assert file("new-1") in table.harness.files.locations()


def test_other_databases_are_searched_again_for_files_of_other_writers_alone() -> None:
    table = Recent()
    table.harness.pointer.namespaces.add("other")
    table.commit(file("a"), file("b"), file("c"))
    assert table.searched == ["db", "other"]
    table.now += REMEMBERED_SECONDS + 1
    table.commit(file("c"), file("new-1"))
    assert table.searched == ["db", "other", "db"]
    table.commit(file("theirs"), file("new-2"))
    assert table.searched == ["db", "other", "db", "db", "other"]


def test_a_table_of_another_database_counts_until_all_are_searched_again() -> None:
    table = Recent()
    table.harness.pointer.namespaces.add("other")
    theirs = table.harness.pointer.rows[NAME]
    table.harness.pointer.rows[TableName("other", "t")] = theirs
    for log in ((file("a"), file("b"), file("c")), (file("c"), file("new-1"))):
        table.commit(*log)
        assert set(log) <= set(table.harness.files.locations())
        table.now += REMEMBERED_SECONDS + 1


def test_databases_that_take_too_long_are_left_alone_for_a_while() -> None:
    table = Recent()
    for number in range(3):
        table.harness.pointer.namespaces.add(f"other{number}")
    find = table.harness.pointer.find_by_folder

    def slow(*args: Any, **more: Any) -> Any:
        table.now += SEARCH_AFTER_COMMIT_SECONDS / 2
        return find(*args, **more)

    table.harness.pointer.find_by_folder = slow  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(MetastoreUnavailable, match="There was no time to search all databases"):
            table.commit(file("a"), file("b"))
        assert table.searched == ["db", "other0"]
    table.now += REMEMBERED_SECONDS + 1
    table.harness.pointer.find_by_folder = find  # type: ignore[method-assign]
    table.commit(file("a"), file("b"))
    assert file("a") not in table.harness.files.locations()


def test_a_commit_that_expires_nothing_asks_nothing() -> None:
    table = Recent()
    table.commit(file("a"))
    table.recent.delete_expired([])
    assert table.searches == 0


def test_a_search_serves_for_files_that_were_named_before_it() -> None:
    table = Recent()
    first = table.recent.of(table.row, named_at=900.0)
    table.now += 10
    assert table.recent.of(table.row, named_at=999.0) is first
    assert table.recent.of(table.row, named_at=1_005.0) is not first
    assert table.searches == 2


def test_without_an_answer_of_the_metastore_nothing_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Recent()

    def gone(*_: Any, **__: Any) -> Any:
        raise MetastoreUnavailable("no server answers")

    monkeypatch.setattr(table.harness.pointer, "find_by_folder", gone)
    with pytest.raises(MetastoreUnavailable):
        table.commit(file("a"), file("b"))
    assert file("a") in table.harness.files.locations()


def test_a_table_around_the_folder_of_its_database_shares_nothing() -> None:
    harness = Harness()
    harness.create()
    other = TableName("db", "u")
    [mine] = tables_sharing(harness.ports, other, "file:/wh/db/t/data")
    assert mine.name == NAME
    assert tables_sharing(harness.ports, other, "file:/wh/db/t/data", root="file:/wh/db/t") == []
    assert tables_sharing(harness.ports, NAME, "file:/wh/db/t") == []
    with pytest.raises(InvalidInput, match=r"file:/wh/db is, holds or lies in that of the table db\.t"):
        refuse_shared_folder(harness.ports, other, "file:/wh/db")
    refuse_shared_folder(harness.ports, other, "file:/wh/db/u")
