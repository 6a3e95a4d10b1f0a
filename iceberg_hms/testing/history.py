"""Reads a table's whole history and reports what is wrong with it. Every test with faults ends with it.

    report = check_table(catalog, "db.t", acknowledged=[path, snapshot_id], refused=[other_path])
    report.raise_if_broken()

It trusts no cache and no summary. It reads every metadata file of the log, and every list and manifest of every
snapshot, adds them up, and compares the result with the summaries and with the answers that the writers got.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.change import Manifests
from iceberg_hms.coordinator.ports import CommitPorts, Files, Pointer
from iceberg_hms.errors import IcebergHmsError, MissingFile
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.stores import open_files

#: The spec lets clocks of writers differ by this much (spec: snapshots, snapshot-log, metadata-log).
CLOCK_TOLERANCE_MS = 60_000

_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


class HistoryRule(StrEnum):
    """The rule that a finding breaks."""

    DANGLING = "a file that the table names is missing"
    UNREADABLE = "a file that the table names cannot be read"
    LIST = "a manifest list contradicts its manifest"
    DUPLICATE = "a file is in a snapshot twice, or has two deletion vectors"
    LOST = "an acknowledged change is not in the table exactly once"
    REFUSED = "a refused change is in the table"
    TOTALS = "a summary does not add up"
    CHAIN = "a ref's history is not one chain with rising sequence numbers"
    LOG = "the metadata log is not the table's history"
    CLOCKS = "a time falls by more than the clocks of writers may differ"
    ROW_IDS = "a row id is given twice, or not below the table's next"


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """One defect of a table. message: the file or snapshot, what was expected and what was found."""

    rule: HistoryRule
    message: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The result of a check. metadata_files: the number of readable ones. data_files: those live at the ref."""

    metadata_location: str
    metadata_files: int
    snapshots: int
    data_files: tuple[str, ...]
    findings: tuple[HistoryFinding, ...]

    @property
    def broken(self) -> frozenset[HistoryRule]:
        """The rules with findings; empty for a sound table."""
        return frozenset(finding.rule for finding in self.findings)

    def raise_if_broken(self) -> None:
        """Raise AssertionError that lists the findings, if there are any."""
        if self.findings:
            raise AssertionError("\n".join([self.metadata_location, *map(str, self.findings)]))


def check_table(
    source: Catalog | CommitPorts,
    table: Identifier,
    *,
    acknowledged: Iterable[int | str] = (),
    refused: Iterable[int | str] = (),
    ref: str = MAIN_BRANCH,
    data_files: bool = True,
) -> HistoryReport:
    """Read the history of a table and compare it with the answers that its writers got.

    source: the catalog of the table, or its ports. Pass CommitPorts with empty caches, since their caches are used.
    acknowledged: snapshot ids that must be in the history of `ref`, and locations of data files that must be live at
        its head exactly once, and added by one snapshot at most (which may have expired).
    refused: snapshot ids and locations that must not be in the table at all.
    data_files: whether live data files must exist; False for tests that invent them.
    Raises NoSuchTable and the other errors of loading the pointer; all defects behind the pointer are findings.
    """
    files: Files
    manifests: Manifests
    if isinstance(source, Catalog):
        pointer, files = source.pointer(table), open_files(source.settings)
        manifests = ManifestStore(files, source.settings, ThreadRuntime()).open()
    else:
        pointer, files, manifests = source.pointer.load(table_name(table)), source.files, source.manifests()
    location = pointer.metadata_location
    try:
        metadata = metadata_file.decode(files.read(location), location)
    except IcebergHmsError as error:
        return HistoryReport(location, 0, 0, (), (_failure("pointer", error),))
    history = _History(pointer, metadata, files, manifests, ref)
    return history.check(tuple(acknowledged), tuple(refused), data_files)


@dataclass(frozen=True, slots=True)
class SnapshotContents:
    """What a snapshot's list names.

    lines: of its list. entries: those of each manifest that can be read, by its location.
    failures: what cannot be read. A snapshot with failures is judged by the rest alone.
    """

    snapshot: Snapshot
    lines: Sequence[ManifestFile] = ()
    entries: Mapping[str, Sequence[ManifestEntry]] = field(default_factory=dict)
    failures: tuple[HistoryFinding, ...] = ()

    @property
    def live(self) -> list[DataFile]:
        """The live files, as often as its manifests list them."""
        return [entry.data_file for _, entries in self.manifests for entry in entries if entry.is_live]

    @property
    def manifests(self) -> Iterator[tuple[ManifestFile, Sequence[ManifestEntry]]]:
        """The lines whose manifests can be read."""
        return ((line, self.entries[line.manifest_path]) for line in self.lines if line.manifest_path in self.entries)

    def own(self, status: EntryStatus) -> list[DataFile]:
        """The data files that this snapshot itself added or deleted."""
        id_ = self.snapshot.snapshot_id
        return [
            entry.data_file
            for line, entries in self.manifests
            if line.added_snapshot_id == id_
            for entry in entries
            if entry.status == status and entry.snapshot_id == id_ and _is_data(entry.data_file)
        ]


class SnapshotReader:
    """Reads what snapshots hold, each manifest once: manifests never change."""

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._known: dict[str, Sequence[ManifestEntry]] = {}

    def read(self, snapshot: Snapshot) -> SnapshotContents:
        """All that a snapshot's list names."""
        try:
            lines = self._manifests.list(snapshot)
        except IcebergHmsError as error:
            return SnapshotContents(snapshot, failures=(_failure(f"list of snapshot {snapshot.snapshot_id}", error),))
        entries, failures = {}, []
        for line in lines:
            path = line.manifest_path
            try:
                if path not in self._known:
                    self._known[path] = tuple(self._manifests.entries([line]))
            except IcebergHmsError as error:
                failures.append(_failure(f"manifest {path}", error))
            else:
                entries[path] = self._known[path]
        return SnapshotContents(snapshot, lines, entries, tuple(failures))


class _History:
    def __init__(self, pointer: Pointer, metadata: TableMetadata, files: Files, manifests: Manifests, ref: str) -> None:
        self._pointer = pointer
        self._metadata = metadata
        self._files = files
        self._reader = SnapshotReader(manifests)
        self._ref = ref
        self._findings: dict[HistoryFinding, None] = {}

    def check(self, acknowledged: Sequence[int | str], refused: Sequence[int | str], data_files: bool) -> HistoryReport:
        metadata_files = self._check_log()
        self._add(chain_findings(self._metadata))
        contents = {each.snapshot_id: self._reader.read(each) for each in self._metadata.snapshots}
        for each in contents.values():
            self._add(each.failures)
            self._add(snapshot_findings(each))
        self._add(row_id_findings(self._metadata, contents.values()))
        head = self._metadata.ref(self._ref)
        history = [] if head is None else list(self._metadata.ancestors(head.snapshot_id))
        live = [] if not history else [each.file_path for each in contents[history[0].snapshot_id].live]
        self._check_acknowledged(acknowledged, live, [contents[each.snapshot_id] for each in history])
        self._check_refused(refused, contents.values())
        if data_files:
            for path in sorted({live.file_path for each in contents.values() for live in each.live}):
                self._check_there(path)
        return HistoryReport(
            self._pointer.metadata_location, metadata_files, len(contents), tuple(sorted(live)), tuple(self._findings)
        )

    def _add(self, findings: Iterable[HistoryFinding]) -> None:
        self._findings.update(dict.fromkeys(findings))

    def _found(self, rule: HistoryRule, message: str) -> None:
        self._add([HistoryFinding(rule, message)])

    def _check_there(self, location: str) -> None:
        try:
            self._files.length(location)
        except IcebergHmsError as error:
            self._found(HistoryRule.DANGLING, f"data file {location}: {error.message}")

    def _check_log(self) -> int:
        """Returns the number of readable metadata files."""
        log = [str(entry["metadata-file"]) for entry in self._metadata.metadata_log]
        current = self._pointer.metadata_location
        for location, count in Counter([*log, current]).items():
            if count > 1:
                self._found(HistoryRule.LOG, f"{location} is named {count} times")
        previous = self._pointer.previous_metadata_location
        if log and previous != log[-1]:
            self._found(
                HistoryRule.LOG, f"the metastore's previous_metadata_location is {previous}, the log ends in {log[-1]}"
            )
        times = [int(entry["timestamp-ms"]) for entry in self._metadata.metadata_log]
        if any(later < earlier - CLOCK_TOLERANCE_MS for earlier, later in pairwise(times)):
            self._found(HistoryRule.CLOCKS, f"times of the metadata log fall: {times}")
        chain = [*((each, self._of_log(each)) for each in log), (current, self._metadata)]
        for (earlier, before), (later, after) in pairwise(chain):
            if before is not None and after is not None:
                self._add(swap_findings(earlier, before, later, after))
        return sum(metadata is not None for _, metadata in chain)

    def _of_log(self, location: str) -> TableMetadata | None:
        try:
            return metadata_file.decode(self._files.read(location), location)
        except IcebergHmsError as error:
            deletes = self._metadata.properties.get(_DELETE_AFTER_COMMIT, "false").lower() == "true"
            if not (deletes and isinstance(error, MissingFile)):
                self._add([_failure("metadata log", error)])
            return None

    # The answers that the writers got

    def _check_acknowledged(
        self, acknowledged: Sequence[int | str], live: Sequence[str], history: Sequence[SnapshotContents]
    ) -> None:
        ids = {each.snapshot.snapshot_id for each in history}
        counts = Counter(live)
        added = Counter(file.file_path for each in history for file in each.own(EntryStatus.ADDED))
        for item in acknowledged:
            if isinstance(item, int):
                if item not in ids:
                    self._found(HistoryRule.LOST, f"snapshot {item} is not in the history of {self._ref}")
            elif counts[item] != 1 or added[item] > 1:
                self._found(HistoryRule.LOST, f"{item} is live {counts[item]} times and was added {added[item]} times")

    def _check_refused(self, refused: Sequence[int | str], contents: Iterable[SnapshotContents]) -> None:
        everything = list(contents)
        ids = {each.snapshot.snapshot_id for each in everything}
        paths = {entry.data_file.file_path for each in everything for _, entries in each.manifests for entry in entries}
        for item in refused:
            if item in ids or item in paths:
                self._found(HistoryRule.REFUSED, f"{item} is in the table")


def swap_findings(earlier: str, before: TableMetadata, later: str, after: TableMetadata) -> Iterator[HistoryFinding]:
    """Compare the metadata files before and after one swap, which have these locations."""
    step = f"{earlier} -> {later}"
    if not after.metadata_log or after.metadata_log[-1]["metadata-file"] != earlier:
        logged = after.metadata_log[-1]["metadata-file"] if after.metadata_log else "nothing"
        yield HistoryFinding(HistoryRule.LOG, f"{step}: the later file's log ends in {logged}")
    if before.uuid != after.uuid:
        yield HistoryFinding(HistoryRule.LOG, f"{step}: the table's uuid was {before.uuid} and is {after.uuid}")
    for name in ("last_sequence_number", "last_updated_ms", "last_column_id", "next_row_id"):
        if getattr(after, name) < getattr(before, name):
            fell = f"{name} fell from {getattr(before, name)} to {getattr(after, name)}"
            yield HistoryFinding(HistoryRule.LOG, f"{step}: {fell}")
    for id_, raw in after.raw_snapshots_by_id.items():
        if id_ in before.raw_snapshots_by_id:
            if before.raw_snapshots_by_id[id_] != raw:
                yield HistoryFinding(HistoryRule.LOG, f"{step}: snapshot {id_} was changed")
            continue
        added = Snapshot(raw)
        # A snapshot without a parent starts a history of its own, whose numbers need not rise above others'. One
        # swap may bring a snapshot of version 1, and then the upgrade.
        if (
            before.format_version > 1
            and added.parent_snapshot_id is not None
            and added.sequence_number <= before.last_sequence_number
        ):
            message = f"snapshot {id_} has number {added.sequence_number}, the last was {before.last_sequence_number}"
            yield HistoryFinding(HistoryRule.CHAIN, f"{step}: {message}")


def chain_findings(metadata: TableMetadata) -> Iterator[HistoryFinding]:
    """Check the lines of snapshots. Decoding has already checked that refs point to snapshots, ids are unique and no
    number is too high."""
    # A snapshot without a parent starts a history of its own, and may have any number.
    numbers = Counter(
        each.sequence_number
        for each in metadata.snapshots
        if each.sequence_number and each.parent_snapshot_id is not None
    )
    for number, count in numbers.items():
        if count > 1:
            yield HistoryFinding(HistoryRule.CHAIN, f"sequence number {number} is used {count} times")
    for name, ref in metadata.refs.items():
        for child, parent in pairwise(metadata.ancestors(ref.snapshot_id)):
            link = f"{name}: {parent.snapshot_id} -> {child.snapshot_id}"
            # Snapshots of version 1 have no numbers, also once the table was upgraded.
            numbers_fall = child.sequence_number <= parent.sequence_number and parent.sequence_number > 0
            if metadata.format_version > 1 and numbers_fall:
                message = f"number {parent.sequence_number} is followed by {child.sequence_number}"
                yield HistoryFinding(HistoryRule.CHAIN, f"{link}: {message}")
            if child.timestamp_ms < parent.timestamp_ms - CLOCK_TOLERANCE_MS:
                message = f"time {parent.timestamp_ms} is followed by {child.timestamp_ms}"
                yield HistoryFinding(HistoryRule.CLOCKS, f"{link}: {message}")


def snapshot_findings(contents: SnapshotContents) -> Iterator[HistoryFinding]:
    """Compare a snapshot's list with its manifests, and its summary with both."""
    snapshot = contents.snapshot
    what = f"snapshot {snapshot.snapshot_id}"
    for line, entries in contents.manifests:
        yield from _line_findings(snapshot, line, entries)
    if contents.failures:
        return
    live = contents.live
    files = Counter(each.file_path for each in live if _is_data(each))
    vectors = Counter(each.referenced_data_file for each in live if each.is_deletion_vector)
    for path, count in files.items():
        if count > 1:
            yield HistoryFinding(HistoryRule.DUPLICATE, f"{what} has {path} {count} times")
    for data_file, count in vectors.items():
        if count > 1:
            yield HistoryFinding(HistoryRule.DUPLICATE, f"{what} has {count} deletion vectors of {data_file}")
    for name, expected in _counted(contents):
        said = snapshot.summary.get(name)
        # A writer leaves out a total that the parent lacks, and any count of zero.
        if said is None and (name.startswith("total-") or expected == 0):
            continue
        if said != str(expected):
            yield HistoryFinding(HistoryRule.TOTALS, f"{what} says {name}={said}, its manifests make {expected}")


def _line_findings(
    snapshot: Snapshot, line: ManifestFile, entries: Sequence[ManifestEntry]
) -> Iterator[HistoryFinding]:
    counts = Counter(entry.status for entry in entries)
    for status, said in (
        (EntryStatus.ADDED, line.added_files_count),
        (EntryStatus.EXISTING, line.existing_files_count),
        (EntryStatus.DELETED, line.deleted_files_count),
    ):
        if said is not None and said != counts[status]:
            message = f"has {counts[status]} entries {status.name}, its list says {said}"
            yield HistoryFinding(HistoryRule.LIST, f"snapshot {snapshot.snapshot_id}: {line.manifest_path} {message}")
    unnumbered = [entry.data_file.file_path for entry in entries if entry.is_live and entry.sequence_number is None]
    if unnumbered:
        message = f"has no sequence number for {unnumbered[0]}, which no reader can plan"
        yield HistoryFinding(HistoryRule.UNREADABLE, f"snapshot {snapshot.snapshot_id}: {line.manifest_path} {message}")
    number, own = line.sequence_number, line.added_snapshot_id == snapshot.snapshot_id
    # What was written for version 1 has number 0, also where the table was upgraded before it was committed.
    is_another = own and number != snapshot.sequence_number and (number, line.min_sequence_number) != (0, 0)
    if number > snapshot.sequence_number or is_another:
        yield HistoryFinding(
            HistoryRule.LIST,
            f"snapshot {snapshot.snapshot_id} has number {snapshot.sequence_number}, its manifest "
            f"{line.manifest_path} has {number}",
        )


def row_id_findings(metadata: TableMetadata, contents: Iterable[SnapshotContents]) -> Iterator[HistoryFinding]:
    """Check that no two snapshots and no two manifests share row ids (spec: Row Lineage), and that next-row-id is
    beyond them all. contents: of all snapshots."""
    if metadata.format_version < 3:
        return
    snapshots = [
        (each.first_row_id, each.first_row_id + (each.added_rows or 0), f"snapshot {each.snapshot_id}")
        for each in metadata.snapshots
        if each.first_row_id is not None
    ]
    # Many lists have the same line.
    manifests = {
        (
            line.first_row_id,
            line.first_row_id + (line.added_rows_count or 0) + (line.existing_rows_count or 0),
            f"manifest {line.manifest_path}",
        )
        for each in contents
        for line in each.lines
        if line.first_row_id is not None
    }
    for ranges in (sorted(snapshots), sorted(manifests)):
        for (_, end, name), (first, _, other) in pairwise(ranges):
            if first < end:
                yield HistoryFinding(HistoryRule.ROW_IDS, f"{name} and {other} both have row {first}")
        if ranges and ranges[-1][1] > metadata.next_row_id:
            message = f"{ranges[-1][2]} has row {ranges[-1][1] - 1}, the table's next is {metadata.next_row_id}"
            yield HistoryFinding(HistoryRule.ROW_IDS, message)


def _failure(what: str, error: IcebergHmsError) -> HistoryFinding:
    return HistoryFinding(
        HistoryRule.DANGLING if isinstance(error, MissingFile) else HistoryRule.UNREADABLE, f"{what}: {error.message}"
    )


def _is_data(file: DataFile) -> bool:
    return file.content == FileContent.DATA


def _records(files: Iterable[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _counted(contents: SnapshotContents) -> Iterator[tuple[str, int]]:
    """Summary properties (spec: metrics), and their values by the manifests."""
    live = contents.live
    data = [file for file in live if _is_data(file)]
    added, deleted = contents.own(EntryStatus.ADDED), contents.own(EntryStatus.DELETED)
    yield "total-data-files", len(data)
    yield "total-delete-files", len(live) - len(data)
    yield "total-records", _records(data)
    # Many deletion vectors may share one file (Java: ScanTaskUtil.contentSizeInBytes).
    sizes = (file.content_size_in_bytes if file.is_deletion_vector else file.file_size_in_bytes for file in live)
    yield "total-files-size", sum(size or 0 for size in sizes)
    yield "added-data-files", len(added)
    yield "added-records", _records(added)
    yield "deleted-data-files", len(deleted)
    yield "deleted-records", _records(deleted)
