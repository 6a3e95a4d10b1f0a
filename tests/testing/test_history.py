"""A sound table passes; each kind of damage is found, and named by its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.errors import NoSuchTable
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.testing.history import (
    HistoryFinding,
    HistoryRule,
    SnapshotContents,
    chain_findings,
    check_table,
    row_id_findings,
    snapshot_findings,
    swap_findings,
)
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

NAME = TableName("db", "t")
SCHEMA = pa.schema([("id", pa.int64())])


class Subject:
    """A table of three appends, and the means to damage it."""

    def __init__(self, **properties: str) -> None:
        self.files = MemoryFiles()
        self.pointer = MemoryTablePointer(namespaces=())
        self.catalog: Catalog = memory_catalog(files=self.files, pointer=self.pointer)
        self.catalog.create_namespace("db")
        self.table = self.catalog.create_table("db.t", SCHEMA, properties=properties)
        self.paths = [self.append(f"file:/data/{number}.parquet") for number in range(3)]
        self.ids = [each.snapshot_id for each in self.table.snapshots()]

    def append(self, path: str, records: int = 2) -> str:
        self.files.write(path, b"rows")
        self.table.append([DataFile(path, "PARQUET", record_count=records, file_size_in_bytes=4)])
        return path

    @property
    def world(self) -> CommitPorts:
        """The same table through ports whose caches are empty."""
        runtime = ThreadRuntime()
        store = ManifestStore(self.files, Settings.load({}, environ={}), runtime)
        return CommitPorts(self.pointer, MemoryTableLock(), self.files, store.open, runtime, LoggedEvents())

    def check(self, **answers: Any) -> Any:
        return check_table(self.world, NAME, **answers)

    @property
    def location(self) -> str:
        return self.catalog.pointer(NAME).metadata_location

    def edit(self, change: Callable[[dict[str, Any]], None], location: str | None = None) -> None:
        """Rewrite a metadata file in place."""
        where = location or self.location
        raw = orjson.loads(self.files.read(where))
        change(raw)
        self.files.replace(where, orjson.dumps(raw))

    def log(self, position: int) -> str:
        return str(self.table.metadata.metadata_log[position]["metadata-file"])

    def manifest_list(self, position: int) -> str:
        return str(self.table.snapshots()[position].manifest_list)

    def manifests(self) -> list[str]:
        return [location for location in self.files.locations() if location.endswith("-m0.avro")]


@pytest.fixture
def subject() -> Iterator[Subject]:
    subject = Subject()
    yield subject
    subject.catalog.close()


def test_a_sound_table_has_no_findings(subject: Subject) -> None:
    report = subject.check(
        acknowledged=[*subject.paths, *subject.ids], refused=["file:/data/never.parquet", 17], data_files=True
    )
    report.raise_if_broken()
    assert report.broken == frozenset()
    assert report.data_files == tuple(sorted(subject.paths))
    assert (report.metadata_files, report.snapshots) == (4, 3)
    assert report.metadata_location == subject.location


def test_an_empty_table_is_sound() -> None:
    subject = Subject.__new__(Subject)
    subject.files, subject.pointer = MemoryFiles(), MemoryTablePointer(namespaces=())
    with memory_catalog(files=subject.files, pointer=subject.pointer) as subject.catalog:
        subject.catalog.create_namespace("db")
        subject.catalog.create_table("db.t", SCHEMA)
        assert subject.check().findings == ()
        assert subject.check(acknowledged=[5]).broken == {HistoryRule.LOST}


def test_the_answers_of_writers_are_compared_with_the_table(subject: Subject) -> None:
    report = subject.check(acknowledged=["file:/data/lost.parquet", 99])
    assert [finding.rule for finding in report.findings] == [HistoryRule.LOST, HistoryRule.LOST]
    report = subject.check(refused=[subject.paths[0], subject.ids[1]])
    assert [finding.rule for finding in report.findings] == [HistoryRule.REFUSED, HistoryRule.REFUSED]
    with pytest.raises(AssertionError, match=f"REFUSED: {subject.paths[0]} is in the table"):
        report.raise_if_broken()


def test_a_file_that_was_committed_twice_is_found(subject: Subject) -> None:
    twice = DataFile(subject.paths[0], "PARQUET", record_count=2, file_size_in_bytes=4)
    subject.table.append([twice], check_duplicate_files=False)
    report = subject.check(acknowledged=[subject.paths[0]])
    assert report.broken == {HistoryRule.DUPLICATE, HistoryRule.LOST}
    assert "live 2 times" in str(report.findings[-1])


def lose_an_update(subject: Subject) -> None:
    """A blind swap: the last snapshot is gone, the pointer is new."""

    def forget(raw: dict[str, Any]) -> None:
        last = raw["snapshots"].pop()["snapshot-id"]
        raw["snapshot-log"] = [each for each in raw["snapshot-log"] if each["snapshot-id"] != last]
        raw["current-snapshot-id"] = raw["refs"]["main"]["snapshot-id"] = raw["snapshots"][-1]["snapshot-id"]

    subject.edit(forget)


def test_acknowledged_changes_alone_reveal_a_lost_update(subject: Subject) -> None:
    lose_an_update(subject)
    assert subject.check().findings == ()
    assert subject.check(acknowledged=subject.paths).broken == {HistoryRule.LOST}
    assert subject.check(acknowledged=subject.ids).broken == {HistoryRule.LOST}


def summary(position: int, **changes: str) -> Callable[[dict[str, Any]], None]:
    def change(raw: dict[str, Any]) -> None:
        renamed = {key.replace("_", "-"): value for key, value in changes.items()}
        raw["snapshots"][position]["summary"].update(renamed)

    return change


def numbers(position: int, number: int) -> Callable[[dict[str, Any]], None]:
    def change(raw: dict[str, Any]) -> None:
        raw["snapshots"][position]["sequence-number"] = number

    return change


DAMAGES: dict[str, tuple[Callable[[Subject], object], set[HistoryRule]]] = {
    "a data file is gone": (lambda s: s.files.delete(s.paths[1]), {HistoryRule.DANGLING}),
    "a list is gone": (lambda s: s.files.delete(s.manifest_list(0)), {HistoryRule.DANGLING}),
    "a list is cut off": (
        lambda s: s.files.replace(s.manifest_list(2), s.files.read(s.manifest_list(2))[:-9]),
        {HistoryRule.UNREADABLE},
    ),
    "a manifest is gone": (lambda s: s.files.delete(s.manifests()[0]), {HistoryRule.DANGLING}),
    "a manifest is noise": (lambda s: s.files.replace(s.manifests()[0], b"noise"), {HistoryRule.UNREADABLE}),
    "an old metadata file is gone": (lambda s: s.files.delete(s.log(0)), {HistoryRule.DANGLING}),
    "an old metadata file is cut off": (lambda s: s.files.replace(s.log(1), b'{"format'), {HistoryRule.UNREADABLE}),
    "a total is wrong": (lambda s: s.edit(summary(2, total_records="7")), {HistoryRule.TOTALS}),
    "what was added is wrong": (
        lambda s: s.edit(summary(0, added_data_files="3")), {HistoryRule.TOTALS, HistoryRule.LOG}
    ),
    "a sequence number is used twice": (lambda s: s.edit(numbers(2, 2)), {HistoryRule.CHAIN, HistoryRule.LIST}),
    "a number is above the table's": (lambda s: s.edit(numbers(2, 30)), {HistoryRule.UNREADABLE}),
    "the log lacks a file": (lambda s: s.edit(lambda raw: raw["metadata-log"].pop(1)), {HistoryRule.LOG}),
    "the log ends too early": (lambda s: s.edit(lambda raw: raw["metadata-log"].pop()), {HistoryRule.LOG}),
    "the log names a file twice": (
        lambda s: s.edit(lambda raw: raw["metadata-log"].append(raw["metadata-log"][-1])),
        {HistoryRule.LOG},
    ),
    "time runs backwards": (lambda s: s.edit(lambda raw: raw.update({"last-updated-ms": 5})), {HistoryRule.LOG}),
    "an old snapshot was changed": (
        lambda s: s.edit(lambda raw: raw["snapshots"][0].update({"timestamp-ms": 1})), {HistoryRule.LOG}
    ),
    "another table took the place": (
        lambda s: s.edit(lambda raw: raw.update({"table-uuid": "00000000-0000-0000-0000-000000000001"})),
        {HistoryRule.LOG},
    ),
    "main is not the current snapshot": (
        lambda s: s.edit(lambda raw: raw["refs"]["main"].update({"snapshot-id": s.ids[0]})), {HistoryRule.UNREADABLE}
    ),
    "the current metadata file is gone": (lambda s: s.files.delete(s.location), {HistoryRule.DANGLING}),
    "a parent has a later time": (
        lambda s: s.edit(lambda raw: raw["snapshots"][2].update({"timestamp-ms": 5})), {HistoryRule.CLOCKS}
    ),
    "an entry of the log has an earlier time": (
        lambda s: s.edit(lambda raw: raw["metadata-log"][1].update({"timestamp-ms": 5})), {HistoryRule.CLOCKS}
    ),
    "a tag points nowhere": (
        lambda s: s.edit(lambda raw: raw["refs"].update({"x": {"type": "tag", "snapshot-id": 4}})),
        {HistoryRule.UNREADABLE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_named(subject: Subject, name: str) -> None:
    damage, broken = DAMAGES[name]
    damage(subject)
    assert subject.check().broken == broken


def test_the_check_can_leave_out_invented_data_files(subject: Subject) -> None:
    subject.files.delete(subject.paths[0])
    assert subject.check(data_files=False).findings == ()


def test_metadata_files_that_the_table_deletes_are_not_missed() -> None:
    subject = Subject(
        **{"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    )
    subject.files.delete(subject.log(0))
    assert subject.check(acknowledged=subject.paths).findings == ()
    subject.catalog.close()


def test_another_branch_is_judged_by_its_own_history(subject: Subject) -> None:
    path = "file:/data/audit.parquet"
    subject.files.write(path, b"rows")
    subject.table.append([DataFile(path, "PARQUET", record_count=1, file_size_in_bytes=4)], branch="audit")
    assert subject.check(acknowledged=[path]).broken == {HistoryRule.LOST}
    assert subject.check(acknowledged=[path, *subject.paths], ref="audit").findings == ()


def test_a_missing_table_raises_and_is_no_finding(subject: Subject) -> None:
    with pytest.raises(NoSuchTable):
        check_table(subject.world, "db.other")


def contents(snapshot: dict[str, Any], *files: DataFile, **line: Any) -> SnapshotContents:
    """A snapshot whose one manifest adds some files. line: what its list says otherwise."""
    raw = {"snapshot-id": 1, "timestamp-ms": 1, "sequence-number": 3, "summary": {}, **snapshot}
    said = {"sequence_number": 3, "min_sequence_number": 3, "added_files_count": len(files), **line}
    listed = ManifestFile("file:/m.avro", 1, 0, added_snapshot_id=1, **said)
    entries = [ManifestEntry(EntryStatus.ADDED, file, snapshot_id=1, sequence_number=3) for file in files]
    return SnapshotContents(Snapshot(raw), [listed], {listed.manifest_path: entries})


def found(findings: Iterable[HistoryFinding]) -> list[tuple[HistoryRule, str]]:
    return [(each.rule, each.message) for each in findings]


def vector(path: str, offset: int, data_file: str) -> DataFile:
    return DataFile(
        path,
        "PUFFIN",
        1,
        100,
        content=FileContent.POSITION_DELETES,
        referenced_data_file=data_file,
        content_offset=offset,
        content_size_in_bytes=40,
    )


def test_a_second_deletion_vector_of_a_data_file_is_found() -> None:
    sound = contents({}, vector("file:/v.puffin", 4, "file:/a"), vector("file:/v.puffin", 44, "file:/b"))
    assert found(snapshot_findings(sound)) == []
    twice = contents({}, vector("file:/v.puffin", 4, "file:/a"), vector("file:/w.puffin", 4, "file:/a"))
    assert found(snapshot_findings(twice)) == [(HistoryRule.DUPLICATE, "snapshot 1 has 2 deletion vectors of file:/a")]


def test_the_size_of_a_deletion_vector_is_that_of_its_blob() -> None:
    vectors = vector("file:/v.puffin", 4, "file:/a"), vector("file:/v.puffin", 44, "file:/b")
    assert found(snapshot_findings(contents({"summary": {"total-files-size": "80"}}, *vectors))) == []
    [(rule, _)] = found(snapshot_findings(contents({"summary": {"total-files-size": "200"}}, *vectors)))
    assert rule is HistoryRule.TOTALS


@pytest.mark.parametrize(
    ("number", "added_by", "broken"), [(3, 1, False), (2, 1, True), (2, 9, False), (4, 9, True), (4, 1, True)]
)
def test_a_manifest_has_the_number_of_the_snapshot_that_added_it(number: int, added_by: int, broken: bool) -> None:
    sound = contents({})
    [line] = sound.lines
    moved = replace(line, sequence_number=number, added_snapshot_id=added_by)
    expected = [(HistoryRule.LIST, f"snapshot 1 has number 3, its manifest file:/m.avro has {number}")]
    assert found(snapshot_findings(replace(sound, lines=[moved]))) == (expected if broken else [])


@pytest.mark.parametrize(("number", "lowest", "broken"), [(0, 0, False), (0, 1, True), (0, UNASSIGNED, True)])
def test_what_was_written_for_version_1_has_number_0(number: int, lowest: int, broken: bool) -> None:
    sound = contents({})
    [line] = sound.lines
    older = replace(line, sequence_number=number, min_sequence_number=lowest, added_snapshot_id=1)
    assert bool(found(snapshot_findings(replace(sound, lines=[older])))) is broken


@pytest.mark.parametrize(("status", "broken"), [(EntryStatus.EXISTING, True), (EntryStatus.DELETED, False)])
def test_a_live_file_without_a_sequence_number_is_found(status: EntryStatus, broken: bool) -> None:
    [(line, [entry])] = contents({}, vector("file:/v.puffin", 4, "file:/a")).manifests
    counts = {"added_files_count": None, "existing_files_count": None, "deleted_files_count": None}
    line = replace(line, **counts)  # type: ignore[arg-type]
    unnumbered = replace(entry, status=status, sequence_number=None)
    held = replace(contents({}), lines=[line], entries={line.manifest_path: [unnumbered]})
    message = f"snapshot 1: {line.manifest_path} has no sequence number for file:/v.puffin, which no reader can plan"
    assert found(snapshot_findings(held)) == ([(HistoryRule.UNREADABLE, message)] if broken else [])


def test_snapshots_of_version_1_have_no_numbers_after_an_upgrade() -> None:
    refs = {"main": {"snapshot-id": 3, "type": "branch"}}
    upgraded = metadata(snapshots=snapshots((0, None), (0, 1), (1, 2)), refs=refs, current_snapshot_id=3)
    assert found(chain_findings(upgraded)) == []
    before = metadata(1, snapshots=snapshots((0, None)))
    after = metadata(snapshots=snapshots((0, None), (0, 1))).with_metadata_log_entry("file:/a", 1)
    assert found(swap_findings("file:/a", before, "file:/b", after)) == []


def metadata(version: int = 2, **fields: Any) -> TableMetadata:
    column = {"id": 1, "name": "id", "required": False, "type": "long"}
    schema = Schema.parse({"type": "struct", "schema-id": 0, "fields": [column]})
    properties = {"format-version": str(version)}
    uuid = str(UUID(int=1))
    return new_table_metadata(schema, None, None, "file:/t", properties, uuid=uuid, now_ms=1).replace(**fields)


def snapshots(*numbers: tuple[int, int | None], **fields: Any) -> list[dict[str, Any]]:
    """One for each: sequence number, parent."""
    raw = []
    for id_, (number, parent) in enumerate(numbers, start=1):
        raw.append({"snapshot-id": id_, "timestamp-ms": 1, "sequence-number": number, **fields})
        if parent is not None:
            raw[-1]["parent-snapshot-id"] = parent
    return raw


def test_two_snapshots_share_a_number_only_if_one_begins_a_history() -> None:
    assert found(chain_findings(metadata(snapshots=snapshots((1, None), (1, None), (2, 1), (2, None))))) == []
    twice = metadata(snapshots=snapshots((1, None), (2, 1), (2, 1)))
    assert found(chain_findings(twice)) == [(HistoryRule.CHAIN, "sequence number 2 is used 2 times")]


@pytest.mark.parametrize(("number", "parent", "broken"), [(3, 1, False), (2, 1, True), (2, None, False)])
def test_a_swap_adds_numbers_above_the_last(number: int, parent: int | None, broken: bool) -> None:
    before = metadata(snapshots=snapshots((1, None)), last_sequence_number=2)
    after = before.with_metadata_log_entry("file:/a", 1).replace(
        snapshots=snapshots((1, None), (number, parent)), last_sequence_number=3
    )
    expected = [(HistoryRule.CHAIN, f"file:/a -> file:/b: snapshot 2 has number {number}, the last was 2")]
    assert found(swap_findings("file:/a", before, "file:/b", after)) == (expected if broken else [])


def test_a_swap_never_lowers_the_next_row_id() -> None:
    before = metadata(3, next_row_id=9)
    after = before.with_metadata_log_entry("file:/a", 1).replace(next_row_id=8)
    expected = [(HistoryRule.LOG, "file:/a -> file:/b: next_row_id fell from 9 to 8")]
    assert found(swap_findings("file:/a", before, "file:/b", after)) == expected


@pytest.mark.parametrize(
    ("of_snapshots", "of_manifests", "expected"),
    [
        (((0, 10), (10, 10)), ((0, 10), (10, 20)), []),
        (((0, 10), (9, 10)), (), ["snapshot 0 and snapshot 1 both have row 9"]),
        ((), ((0, 10), (9, 11)), ["manifest file:/0.avro and manifest file:/1.avro both have row 9"]),
        ((), ((0, 10), (0, 10)), ["manifest file:/0.avro and manifest file:/1.avro both have row 0"]),
        (((0, 10), (10, 21)), (), ["snapshot 1 has row 30, the table's next is 30"]),
        ((), ((0, 10), (10, 21)), ["manifest file:/1.avro has row 30, the table's next is 30"]),
        ((), (), []),
    ],
)
def test_row_ids_that_are_given_twice_or_beyond_the_next_are_found(
    of_snapshots: tuple[tuple[int, int], ...], of_manifests: tuple[tuple[int, int], ...], expected: list[str]
) -> None:
    raw = [
        {"snapshot-id": id_, "timestamp-ms": 1, "first-row-id": first, "added-rows": rows}
        for id_, (first, rows) in enumerate(of_snapshots)
    ]
    lines = [
        ManifestFile(
            f"file:/{number}.avro", 1, 0, 1, first_row_id=first, added_rows_count=rows - 1, existing_rows_count=1
        )
        for number, (first, rows) in enumerate(of_manifests)
    ]
    table, listed = metadata(3, next_row_id=30, snapshots=raw), SnapshotContents(Snapshot({}), lines)
    # Two lists name the same manifests.
    assert found(row_id_findings(table, [listed, listed])) == [(HistoryRule.ROW_IDS, each) for each in expected]
    assert found(row_id_findings(metadata(2, snapshots=raw), [listed])) == []
