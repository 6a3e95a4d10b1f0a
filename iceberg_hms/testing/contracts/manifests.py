"""What every implementation of `changes.change.Manifests` must do.

Each check takes a function that opens the port for a new group, and the location of a folder that it may fill. All
groups of one check share their files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from iceberg_hms.changes.change import Manifests
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, FieldSummary, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import checks_of, expect, expect_equal, expect_raises
from iceberg_hms.testing.contracts.table_pointer import table_metadata

Open = Callable[[], Manifests]

_VERSIONS: Final = (1, 2, 3)
_OLD: Final[dict[str, Any]] = {"snapshot_id": 3, "sequence_number": 2, "file_sequence_number": 2}


def sample_metadata(
    location: str, format_version: int = 2, properties: Mapping[str, str] | None = None
) -> TableMetadata:
    """An empty table of columns id, name and event_day, partitioned by event_day (identity, a date)."""
    columns = ((1, "id", "long"), (2, "name", "string"), (3, "event_day", "date"))
    partition = {"source-id": 3, "field-id": 1000, "transform": "identity", "name": "event_day"}
    raw = {
        **table_metadata(location, properties, columns).raw,
        "format-version": format_version,
        "partition-specs": [{"spec-id": 0, "fields": [partition]}],
        "last-partition-id": 1000,
    }
    if format_version == 1:
        raw |= {"schema": raw["schemas"][0], "partition-spec": [partition]}
        del raw["last-sequence-number"]
    if format_version >= 3:
        raw["next-row-id"] = 0
    return TableMetadata.parse(raw)


def sample_file(path: str, event_day: int | None = 18_718, **changes: Any) -> DataFile:
    """A data file of `sample_metadata`'s table, with ten rows."""
    file = DataFile(
        file_path=path,
        file_format="PARQUET",
        record_count=10,
        file_size_in_bytes=1_234,
        partition={"event_day": event_day},
        column_sizes={1: 100, 2: 200},
        value_counts={1: 10, 2: 10},
        null_value_counts={1: 0, 2: 3},
        lower_bounds={1: b"\x01" + bytes(7)},
        upper_bounds={1: b"\x0a" + bytes(7)},
        split_offsets=(4,),
        sort_order_id=0,
    )
    return replace(file, **changes)


def sample_snapshot(snapshot_id: int, sequence_number: int, manifest_list: str | None = None, **more: Any) -> Snapshot:
    """A snapshot; more: further fields in JSON form, with underscores for dashes."""
    raw: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": 1_700_000_000_000 + sequence_number,
        "summary": {"operation": "append"},
    }
    if manifest_list is not None:
        raw["manifest-list"] = manifest_list
    return Snapshot.parse(raw | {name.replace("_", "-"): value for name, value in more.items()})


def _write(port: Manifests, metadata: TableMetadata, snapshot_id: int, entries: Iterable[ManifestEntry]) -> Any:
    return port.write(metadata, metadata.schema, metadata.spec, snapshot_id, entries)


def _added(*paths: str, **changes: Any) -> list[ManifestEntry]:
    return [ManifestEntry(EntryStatus.ADDED, sample_file(path, **changes)) for path in paths]


def _stage(
    port: Manifests, metadata: TableMetadata, snapshot_id: int, number: int, files: Sequence[ManifestFile], **more: Any
) -> Snapshot:
    """Stage a list, and return the snapshot with its location."""
    number = 0 if metadata.format_version == 1 else number
    if metadata.format_version >= 3:
        more.setdefault("first_row_id", 0)
    location = port.stage_list(metadata, sample_snapshot(snapshot_id, number, **more), files)
    return sample_snapshot(snapshot_id, number, location, **more)


def entries_are_read_with_inherited_values(open_: Open, root: str) -> None:
    for version in _VERSIONS:
        metadata = sample_metadata(f"{root}/v{version}", version)
        port = open_()
        snapshot = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a", "file:/d/b")))
        port.flush()
        reader = open_()
        (line,) = reader.list(snapshot)
        number = 0 if version == 1 else 5
        expect_equal((line.sequence_number, line.min_sequence_number), (number, number), f"v{version} list")
        found = list(reader.entries([line]))
        expect_equal([entry.data_file.file_path for entry in found], ["file:/d/a", "file:/d/b"], f"v{version} paths")
        for at, entry in enumerate(found):
            row_id = at * 10 if version >= 3 else None
            wanted = sample_file(f"file:/d/{'ab'[at]}", first_row_id=row_id)
            expect_equal(entry.status, EntryStatus.ADDED, "status")
            expect_equal(entry.snapshot_id, 7, "snapshot id")
            expect_equal((entry.sequence_number, entry.file_sequence_number), (number, number), f"v{version} numbers")
            expect_equal(replace(entry.data_file, split_offsets=(4,)), wanted, f"v{version} data file")


def lists_count_files_rows_and_partitions(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    entries = [
        ManifestEntry(EntryStatus.ADDED, sample_file("file:/d/a", 5)),
        ManifestEntry(EntryStatus.ADDED, sample_file("file:/d/b", None)),
        ManifestEntry(EntryStatus.EXISTING, sample_file("file:/d/c", -1, record_count=100), **_OLD),
        ManifestEntry(
            EntryStatus.DELETED, sample_file("file:/d/d", 9, record_count=1_000), **(_OLD | {"sequence_number": 1})
        ),
    ]
    (line,) = _write(open_(), metadata, 7, entries)
    expect_equal((line.added_files_count, line.existing_files_count, line.deleted_files_count), (2, 1, 1), "files")
    expect_equal((line.added_rows_count, line.existing_rows_count, line.deleted_rows_count), (20, 100, 1_000), "rows")
    expect_equal((line.sequence_number, line.min_sequence_number), (UNASSIGNED, 2), "numbers")
    expect_equal((line.added_snapshot_id, line.partition_spec_id), (7, 0), "ids")
    bounds = FieldSummary(True, False, (-1).to_bytes(4, "little", signed=True), (9).to_bytes(4, "little"))
    expect_equal(line.partitions, (bounds,), "partitions")


def replays_reuse_manifests(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    own = _write(port, metadata, 7, _added("file:/d/a"))
    first, second = _stage(port, metadata, 7, 5, own), _stage(port, metadata, 7, 6, own)
    expect(first.manifest_list != second.manifest_list, "two lists have one name")
    expect_equal([line.sequence_number for line in port.list(first)], [5], "first list")
    expect_equal([line.sequence_number for line in port.list(second)], [6], "second list")


def earlier_manifests_keep_their_numbers(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    first = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a")))
    both = [*_write(port, metadata, 8, _added("file:/d/b")), *port.list(first)]
    second = _stage(port, metadata, 8, 6, both)
    port.flush()
    lines = open_().list(second)
    expect_equal([line.sequence_number for line in lines], [6, 5], "numbers")
    expect_equal([entry.sequence_number for entry in open_().entries(lines)], [6, 5], "numbers of entries")


def an_unnumbered_manifest_of_another_snapshot_is_refused(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    with expect_raises(InvalidInput, "stage_list"):
        _stage(port, metadata, 8, 6, _write(port, metadata, 7, _added("file:/d/a")))


def other_groups_see_a_staged_list_only_after_the_flush(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    snapshot = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a")))
    expect_equal(len(port.list(snapshot)), 1, "manifests, in the group")
    with expect_raises(MissingFile, "list in another group before flush"):
        open_().list(snapshot)
    expect_equal(list(port.flush()), [snapshot.manifest_list], "flushed")
    expect_equal(len(open_().list(snapshot)), 1, "manifests, in another group")
    expect_equal(list(port.flush()), [], "second flush")


def a_discarded_list_is_never_written(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    own = _write(port, metadata, 7, _added("file:/d/a"))
    gone, kept = _stage(port, metadata, 7, 5, own), _stage(port, metadata, 7, 6, own)
    port.discard([str(gone.manifest_list), "file:/not/staged"])
    expect_equal(list(port.flush()), [kept.manifest_list], "flushed")
    with expect_raises(MissingFile, "a discarded list"):
        open_().list(gone)


def data_and_delete_files_go_into_separate_manifests(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    deletes = _added("file:/d/x", content=FileContent.EQUALITY_DELETES, equality_ids=(1,), lower_bounds=None)
    lines = _write(port, metadata, 7, [*_added("file:/d/a"), *deletes, *_added("file:/d/b")])
    expect_equal([line.content for line in lines], [ManifestContent.DATA, ManifestContent.DELETES], "contents")
    expect_equal([line.added_files_count for line in lines], [2, 1], "files")
    with expect_raises(InvalidInput, "delete files in v1"):
        _write(port, sample_metadata(f"{root}/v1", 1), 7, deletes)


def uuids_that_readers_order_differently_go_into_separate_manifests(open_: Open, root: str) -> None:
    raw = dict(sample_metadata(f"{root}/t").raw)
    (schema,) = raw["schemas"]
    key = {"id": 4, "name": "key", "required": False, "type": "uuid"}
    raw["schemas"] = [{**schema, "fields": [*schema["fields"], key]}]
    by_key = {"source-id": 4, "field-id": 1000, "transform": "identity", "name": "key"}
    raw |= {"last-column-id": 4, "partition-specs": [{"spec-id": 0, "fields": [by_key]}]}
    low, middle, high = (UUID(f"{first}0000000-0000-4000-8000-000000000000") for first in "07f")
    entries = [
        ManifestEntry(EntryStatus.ADDED, sample_file(f"file:/d/{at}", partition={"key": each}))
        for at, each in enumerate((high, middle, None, low))
    ]
    lines = _write(open_(), TableMetadata.parse(raw), 7, entries)
    bounds = [FieldSummary(True, False, low.bytes, middle.bytes), FieldSummary(False, False, high.bytes, high.bytes)]
    expect_equal([line.partitions for line in lines], [(each,) for each in bounds], "partitions")
    expect_equal([line.added_files_count for line in lines], [3, 1], "files")


def data_files_without_row_ids_get_some(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t", 3)
    port = open_()
    first = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a", "file:/d/b")), first_row_id=100)
    deletes = _added("file:/d/x", content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    own = [
        *_write(port, metadata, 8, [*_added("file:/d/c"), *deletes]),
        *_write(port, metadata, 8, _added("file:/d/e")),
    ]
    second = _stage(port, metadata, 8, 6, [*own, *port.list(first)], first_row_id=120)
    found = [(entry.data_file.file_path, entry.data_file.first_row_id) for entry in port.entries(port.list(second))]
    ours = [("file:/d/c", 120), ("file:/d/x", None), ("file:/d/e", 130)]
    wanted = [*ours, ("file:/d/a", 100), ("file:/d/b", 110)]
    expect_equal(found, wanted, "first row ids")


def entries_returns_only_the_chosen_ones(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t", 3)
    port = open_()
    own = _write(port, metadata, 7, _added(*(f"file:/d/{at}" for at in range(20))))
    lines = port.list(_stage(port, metadata, 7, 5, own))
    found = list(port.entries(lines, lambda entry: entry.data_file.file_path.endswith("9")))
    rows = [(entry.data_file.file_path, entry.data_file.first_row_id) for entry in found]
    expect_equal(rows, [("file:/d/9", 90), ("file:/d/19", 190)], "entries")


def existing_entries_without_numbers_are_refused(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    for status in (EntryStatus.EXISTING, EntryStatus.DELETED):
        for lacking in ("snapshot_id", "sequence_number", "file_sequence_number"):
            entry = ManifestEntry(status, sample_file("file:/d/a"), **(_OLD | {lacking: None}))
            with expect_raises(InvalidInput, f"{status.name} without {lacking}"):
                _write(port, metadata, 7, [entry])


def other_partition_values_are_refused(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    for partition in ({}, {"event_day": 1, "level": "WARN"}, {"level": "WARN"}):
        with expect_raises(InvalidInput, str(partition)):
            _write(open_(), metadata, 7, _added("file:/d/a", partition=partition))


def writing_no_entries_writes_no_manifest(open_: Open, root: str) -> None:
    expect_equal(list(_write(open_(), sample_metadata(f"{root}/t"), 7, [])), [], "manifests")


def an_empty_list_can_be_read(open_: Open, root: str) -> None:
    for version in _VERSIONS:
        port = open_()
        snapshot = _stage(port, sample_metadata(f"{root}/v{version}", version), 7, 5, [])
        port.flush()
        expect_equal(list(open_().list(snapshot)), [], f"v{version}")


def a_v1_snapshot_may_name_its_manifests(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t", 1)
    port = open_()
    (line,) = _write(port, metadata, 7, _added("file:/d/a", "file:/d/b"))
    old = sample_snapshot(7, 0, manifests=[line.manifest_path])
    (found,) = open_().list(old)
    expect_equal((found.manifest_path, found.added_snapshot_id), (line.manifest_path, 7), "manifest")
    expect_equal((found.added_files_count, found.added_rows_count, found.sequence_number), (2, 20, 0), "counts")
    expect_equal([entry.sequence_number for entry in port.entries([found])], [0, 0], "numbers")
    later = _stage(port, sample_metadata(f"{root}/t", 2), 8, 1, [found])
    expect_equal([line.sequence_number for line in port.list(later)], [0], "numbers after the upgrade")


def metadata_goes_to_the_folder_that_the_table_names(open_: Open, root: str) -> None:
    port = open_()
    other_folder = sample_metadata(f"{root}/t", properties={"write.metadata.path": f"{root}/elsewhere/"})
    for metadata, folder in ((sample_metadata(f"{root}/t"), f"{root}/t/metadata"), (other_folder, f"{root}/elsewhere")):
        own = _write(port, metadata, 7, _added("file:/d/a"))
        snapshot = _stage(port, metadata, 7, 5, own)
        paths = (own[0].manifest_path, str(snapshot.manifest_list))
        expect_equal([path.rpartition("/")[0] for path in paths], [folder, folder], "folders")
        expect(paths[0].endswith("-m0.avro"), f"manifest name {paths[0]}")
        name = paths[1].rpartition("/")[2]
        expect(re.fullmatch(r"snap-7-[0-9]+-[0-9a-f-]{36}\.avro", name) is not None, f"list name {name}")


def added_returns_a_snapshots_own_manifests_alone(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    first = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a")))
    own = _write(port, metadata, 8, _added("file:/d/b", "file:/d/c"))
    summary = {"operation": "append", "added-data-files": "2"}
    second = _stage(port, metadata, 8, 6, [*own, *port.list(first)], summary=summary)
    port.flush()
    for reader in (port, open_()):
        found = reader.added(second)
        expect_equal([file.manifest_path for file in found or ()], [own[0].manifest_path], "added")
        expect_equal(reader.added(sample_snapshot(8, 6, second.manifest_list)), None, "without a count")
        more = {**summary, "added-data-files": "3"}
        expect_equal(reader.added(sample_snapshot(8, 6, second.manifest_list, summary=more)), None, "another count")


def a_list_that_extends_another_reads_the_same_everywhere(open_: Open, root: str) -> None:
    for version in _VERSIONS:
        metadata = sample_metadata(f"{root}/v{version}", version)
        port = open_()
        parent: Snapshot | None = None
        for number in range(1, 9):
            kept = () if parent is None else port.list(parent)
            files = [*_write(port, metadata, number, _added(f"file:/d/{number}")), *kept]
            more = {} if parent is None else {"parent_snapshot_id": parent.snapshot_id}
            if version >= 3:
                more["first_row_id"] = 10 * (number - 1)
            parent = _stage(port, metadata, number, number, files, **more)
            metadata = metadata.replace(snapshots=[*metadata.raw["snapshots"], parent.raw])
        port.flush()
        last = sample_snapshot(8, 8, None if parent is None else parent.manifest_list)
        found = open_().list(last)
        expect_equal(tuple(port.list(last)), tuple(found), f"v{version} list")
        numbers = [file.sequence_number for file in found]
        expect_equal(numbers, [0] * 8 if version == 1 else list(range(8, 0, -1)), f"v{version} numbers")
        if version >= 3:
            expect_equal([file.first_row_id for file in found], list(range(70, -1, -10)), "row ids")


def _live(port: Manifests, files: Sequence[ManifestFile], keys: Collection[str]) -> list[ManifestEntry]:
    """The live entries of the candidates whose files have one of these keys."""
    return [
        each
        for each in port.entries(port.candidates(files, keys))
        if each.is_live and file_key(each.data_file.file_path) in keys
    ]


def candidates_are_found_by_any_spelling(open_: Open, root: str) -> None:
    for version in _VERSIONS:
        metadata = sample_metadata(f"{root}/v{version}", version)
        port = open_()
        entries = [
            *_added("file:/d/a", "s3a://b/x"),
            ManifestEntry(EntryStatus.EXISTING, sample_file("file:///d//b"), **_OLD),
            ManifestEntry(EntryStatus.DELETED, sample_file("file:/d/gone"), **_OLD),
        ]
        lines = port.list(_stage(port, metadata, 7, 5, _write(port, metadata, 7, entries)))
        port.flush()
        for reader in (port, open_()):
            for spelling, wanted in (("file:///d/a", "file:/d/a"), ("s3://b/x", "s3a://b/x"), ("/d/b", "file:///d//b")):
                for more in ((), tuple(f"file:/d/{at}" for at in range(100))):
                    keys = {file_key(each) for each in (spelling, *more)}
                    found = [entry.data_file.file_path for entry in _live(reader, lines, keys)]
                    expect_equal(found, [wanted], f"v{version}, {spelling} and {len(more)} others")
            for spelling in ("file:/d/gone", "file:/d", "s3a://b/a", "a"):
                expect_equal(list(_live(reader, lines, {file_key(spelling)})), [], f"v{version}, {spelling}")


def candidates_have_entries_with_inherited_values(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t", 3)
    port = open_()
    first = _stage(port, metadata, 7, 5, _write(port, metadata, 7, _added("file:/d/a", "file:/d/b")), first_row_id=40)
    own = _write(port, metadata, 8, _added("file:/d/b", "file:/d/c"))
    second = _stage(port, metadata, 8, 6, [*own, *port.list(first)], first_row_id=60)
    keys = {file_key("file:/d/b")}
    found = [
        (entry.snapshot_id, entry.sequence_number, entry.data_file.first_row_id)
        for entry in _live(port, port.list(second), keys)
    ]
    expect_equal(found, [(8, 6, 60), (7, 5, 50)], "snapshot, number and row id of a file that is in the table twice")
    expect_equal(list(_live(port, [], keys)), [], "in no manifest")
    expect_equal(list(_live(port, port.list(second), set())), [], "no file")


def candidates_leave_out_delete_files(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    deletes = _added("file:/d/x", content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    lines = port.list(_stage(port, metadata, 7, 5, _write(port, metadata, 7, deletes)))
    expect_equal(list(_live(port, lines, {file_key("file:/d/x")})), [], "live data files")


def manifests_are_found_by_the_text_of_a_path(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    deletes = _added("file:/far/x", content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    own = [
        line
        for each in (_added("file:/d/büro/a", "file:/d/b"), _added("file:/d/c"), deletes)
        for line in _write(port, metadata, 7, each)
    ]
    lines = port.list(_stage(port, metadata, 7, 5, own))
    port.flush()
    for reader in (port, open_()):
        for texts, wanted in ((["/büro/"], [0]), (["/no/", "/d/"], [0, 1]), (["/far/"], [2]), (["/no/"], []), ([], [])):
            expect_equal(list(reader.naming(lines, texts)), [lines[at] for at in wanted], f"manifests with {texts}")


def manifests_are_read_one_by_one_and_more_than_once(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t", 3)
    port = open_()
    own = [
        *_write(port, metadata, 7, _added("file:/d/a", "file:/d/b")),
        *_write(port, metadata, 7, _added("file:/d/c")),
    ]
    lines = port.list(_stage(port, metadata, 7, 5, own))
    for file, entries in port.read(lines):
        wanted = list(port.entries([file]))
        expect_equal([list(entries), list(entries)], [wanted, wanted], "entries, twice")
    expect_equal([file for file, _ in port.read(lines)], list(lines), "manifests")
    expect_equal(list(port.read([])), [], "no manifest")


def candidates_are_all_manifests_with_one_of_the_files(open_: Open, root: str) -> None:
    metadata = sample_metadata(f"{root}/t")
    port = open_()
    deletes = _added("file:/d/x", content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    gone = [ManifestEntry(EntryStatus.DELETED, sample_file("file:/d/gone"), **_OLD)]
    own = [
        line
        for each in (_added("file:/d/a"), _added("file:/d/b"), gone, deletes)
        for line in _write(port, metadata, 7, each)
    ]
    lines = port.list(_stage(port, metadata, 7, 5, own))
    port.flush()
    for reader in (port, open_()):
        keys = {file_key(each) for each in ("file:///d/b", "file:/d/gone", "file:/d/x", "file:/d/z")}
        expect_equal(list(reader.candidates(lines, keys)), [lines[1]], "candidates")
        expect_equal(list(reader.candidates(lines, set())), [], "no file")


CHECKS: Final[tuple[Callable[[Open, str], None], ...]] = checks_of(globals())
