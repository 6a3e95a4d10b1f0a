"""Reads a table's whole history and reports what is wrong with it. Every test with faults ends with it.

    report = check_table(catalog, "db.t", acknowledged=[path, snapshot_id], refused=[other_path])
    report.raise_if_broken()

It trusts no cache and no summary. It reads every metadata file of the log, and every list and manifest of every
snapshot, adds them up, and compares the result with the summaries and with the answers that the writers got.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from iceberg_hms.assembly import open_files
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.change import Manifests
from iceberg_hms.coordinator.ports import CommitPorts, Files, Pointer
from iceberg_hms.errors import IcebergHmsError, MissingFile
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.manifests import ManifestStore

#: The spec lets clocks of writers differ by this much (spec: snapshots, snapshot-log, metadata-log).
CLOCK_TOLERANCE_MS = 60_000

_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


class HistoryRule(StrEnum):
    """The rule that a finding breaks."""

    DANGLING = "a file that the table names is missing"
    UNREADABLE = "a file that the table names cannot be read"
    LIST = "a manifest list contradicts its manifest"
    DUPLICATE = "a file is in a snapshot twice"
    LOST = "an acknowledged change is not in the table exactly once"
    REFUSED = "a refused change is in the table"
    TOTALS = "a summary does not add up"
    CHAIN = "a ref's history is not one chain with rising sequence numbers"
    LOG = "the metadata log is not the table's history"


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


@dataclass
class _Contents:
    """The entries of a snapshot's manifests, each with the line of the list that names its manifest."""

    snapshot: Snapshot
    entries: list[tuple[ManifestFile, ManifestEntry]] = field(default_factory=list)
    complete: bool = True

    @property
    def live(self) -> list[ManifestEntry]:
        return [entry for _, entry in self.entries if entry.is_live]

    def own(self, status: EntryStatus) -> list[ManifestEntry]:
        """Data-file entries that this snapshot itself added or deleted."""
        id_ = self.snapshot.snapshot_id
        return [
            entry
            for line, entry in self.entries
            if entry.status == status and line.added_snapshot_id == id_ and entry.snapshot_id == id_ and _is_data(entry)
        ]


class _History:
    def __init__(self, pointer: Pointer, metadata: TableMetadata, files: Files, manifests: Manifests, ref: str) -> None:
        self._pointer = pointer
        self._metadata = metadata
        self._files = files
        self._manifests = manifests
        self._ref = ref
        self._findings: list[HistoryFinding] = []
        self._read: dict[str, list[ManifestEntry] | None] = {}

    def check(self, acknowledged: Sequence[int | str], refused: Sequence[int | str], data_files: bool) -> HistoryReport:
        metadata_files = self._check_log()
        self._check_chains()
        contents = {each.snapshot_id: self._contents(each) for each in self._metadata.snapshots}
        for each in contents.values():
            if each.complete:
                self._check_duplicates(each)
                self._check_totals(each)
        head = self._metadata.ref(self._ref)
        history = [] if head is None else list(self._metadata.ancestors(head.snapshot_id))
        live = [] if not history else [entry.data_file.file_path for entry in contents[history[0].snapshot_id].live]
        self._check_acknowledged(acknowledged, live, [contents[each.snapshot_id] for each in history])
        self._check_refused(refused, contents.values())
        if data_files:
            for path in sorted({entry.data_file.file_path for each in contents.values() for entry in each.live}):
                self._check_there(path, "data file")
        return HistoryReport(
            self._pointer.metadata_location, metadata_files, len(contents), tuple(sorted(live)), tuple(self._findings)
        )

    def _found(self, rule: HistoryRule, message: str) -> None:
        self._findings.append(HistoryFinding(rule, message))

    def _check_there(self, location: str, what: str) -> None:
        try:
            self._files.length(location)
        except IcebergHmsError as error:
            self._found(HistoryRule.DANGLING, f"{what} {location}: {error.message}")

    def _failed(self, what: str, error: IcebergHmsError) -> None:
        self._findings.append(_failure(what, error))

    # The chain of metadata files

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
            self._found(HistoryRule.LOG, f"times of the metadata log fall: {times}")
        chain = [*((each, self._of_log(each)) for each in log), (current, self._metadata)]
        for (earlier, before), (later, after) in pairwise(chain):
            if before is not None and after is not None:
                self._check_step(earlier, before, later, after)
        return sum(metadata is not None for _, metadata in chain)

    def _of_log(self, location: str) -> TableMetadata | None:
        try:
            return metadata_file.decode(self._files.read(location), location)
        except IcebergHmsError as error:
            deletes = self._metadata.properties.get(_DELETE_AFTER_COMMIT, "false").lower() == "true"
            if not (deletes and isinstance(error, MissingFile)):
                self._failed("metadata log", error)
            return None

    def _check_step(self, earlier: str, before: TableMetadata, later: str, after: TableMetadata) -> None:
        """Compare the two metadata files of one swap."""
        step = f"{earlier} -> {later}"
        if not after.metadata_log or after.metadata_log[-1]["metadata-file"] != earlier:
            self._found(HistoryRule.LOG, f"{step}: the later file's log does not end in the earlier file")
        if before.uuid != after.uuid:
            self._found(HistoryRule.LOG, f"{step}: the table's uuid was {before.uuid} and is {after.uuid}")
        for name in ("last_sequence_number", "last_updated_ms", "last_column_id"):
            if getattr(after, name) < getattr(before, name):
                self._found(
                    HistoryRule.LOG, f"{step}: {name} fell from {getattr(before, name)} to {getattr(after, name)}"
                )
        for id_, raw in before.raw_snapshots_by_id.items():
            if id_ in after.raw_snapshots_by_id and after.raw_snapshots_by_id[id_] != raw:
                self._found(HistoryRule.LOG, f"{step}: snapshot {id_} was changed")

    # The chain of snapshots

    def _check_chains(self) -> None:
        """Decoding has already checked that refs point to snapshots, ids are unique and no number is too high."""
        metadata = self._metadata
        numbers = Counter(each.sequence_number for each in metadata.snapshots if each.sequence_number)
        for number, count in numbers.items():
            if count > 1:
                self._found(HistoryRule.CHAIN, f"sequence number {number} is used {count} times")
        for name, ref in metadata.refs.items():
            for child, parent in pairwise(metadata.ancestors(ref.snapshot_id)):
                self._check_link(name, child, parent)

    def _check_link(self, ref: str, child: Snapshot, parent: Snapshot) -> None:
        link = f"{ref}: {parent.snapshot_id} -> {child.snapshot_id}"
        if self._metadata.format_version > 1 and child.sequence_number <= parent.sequence_number:
            self._found(
                HistoryRule.CHAIN, f"{link}: number {parent.sequence_number} is followed by {child.sequence_number}"
            )
        if child.timestamp_ms < parent.timestamp_ms - CLOCK_TOLERANCE_MS:
            self._found(HistoryRule.CHAIN, f"{link}: time {parent.timestamp_ms} is followed by {child.timestamp_ms}")

    # Lists and manifests

    def _contents(self, snapshot: Snapshot) -> _Contents:
        contents = _Contents(snapshot)
        try:
            lines = self._manifests.list(snapshot)
        except IcebergHmsError as error:
            self._failed(f"manifest list of snapshot {snapshot.snapshot_id}", error)
            contents.complete = False
            return contents
        for line in lines:
            entries = self._entries(line, snapshot)
            if entries is None:
                contents.complete = False
            else:
                contents.entries.extend((line, entry) for entry in entries)
        return contents

    def _entries(self, line: ManifestFile, snapshot: Snapshot) -> list[ManifestEntry] | None:
        """The entries of a manifest, read once; None if it cannot be read."""
        path = line.manifest_path
        if path not in self._read:
            try:
                self._read[path] = list(self._manifests.entries([line]))
            except IcebergHmsError as error:
                self._failed(f"manifest of snapshot {snapshot.snapshot_id}", error)
                self._read[path] = None
        entries = self._read[path]
        if entries is not None:
            self._check_line(line, entries, snapshot)
        return entries

    def _check_line(self, line: ManifestFile, entries: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        counts = Counter(entry.status for entry in entries)
        for status, said in (
            (EntryStatus.ADDED, line.added_files_count),
            (EntryStatus.EXISTING, line.existing_files_count),
            (EntryStatus.DELETED, line.deleted_files_count),
        ):
            if said is not None and said != counts[status]:
                self._found(
                    HistoryRule.LIST,
                    f"snapshot {snapshot.snapshot_id}: {line.manifest_path} has {counts[status]} entries "
                    f"{status.name}, its list says {said}",
                )
        if line.sequence_number > snapshot.sequence_number:
            self._found(
                HistoryRule.LIST,
                f"snapshot {snapshot.snapshot_id} has number {snapshot.sequence_number}, its manifest "
                f"{line.manifest_path} has {line.sequence_number}",
            )

    def _check_duplicates(self, contents: _Contents) -> None:
        for path, count in Counter(entry.data_file.file_path for entry in contents.live if _is_data(entry)).items():
            if count > 1:
                self._found(HistoryRule.DUPLICATE, f"snapshot {contents.snapshot.snapshot_id} has {path} {count} times")

    def _check_totals(self, contents: _Contents) -> None:
        summary = contents.snapshot.summary
        for name, expected in _counted(contents):
            said = summary.get(name)
            # A writer leaves out a total that the parent lacks, and any count of zero.
            if said is None and (name.startswith("total-") or expected == 0):
                continue
            if said != str(expected):
                self._found(
                    HistoryRule.TOTALS,
                    f"snapshot {contents.snapshot.snapshot_id} says {name}={said}, its manifests make {expected}",
                )

    # The answers that the writers got

    def _check_acknowledged(
        self, acknowledged: Sequence[int | str], live: Sequence[str], history: Sequence[_Contents]
    ) -> None:
        ids = {each.snapshot.snapshot_id for each in history}
        counts = Counter(live)
        added = Counter(entry.data_file.file_path for each in history for entry in each.own(EntryStatus.ADDED))
        for item in acknowledged:
            if isinstance(item, int):
                if item not in ids:
                    self._found(HistoryRule.LOST, f"snapshot {item} is not in the history of {self._ref}")
            elif counts[item] != 1 or added[item] > 1:
                self._found(HistoryRule.LOST, f"{item} is live {counts[item]} times and was added {added[item]} times")

    def _check_refused(self, refused: Sequence[int | str], contents: Iterable[_Contents]) -> None:
        everything = list(contents)
        ids = {each.snapshot.snapshot_id for each in everything}
        paths = {entry.data_file.file_path for each in everything for _, entry in each.entries}
        for item in refused:
            if item in ids or item in paths:
                self._found(HistoryRule.REFUSED, f"{item} is in the table")


def _failure(what: str, error: IcebergHmsError) -> HistoryFinding:
    return HistoryFinding(
        HistoryRule.DANGLING if isinstance(error, MissingFile) else HistoryRule.UNREADABLE, f"{what}: {error.message}"
    )


def _is_data(entry: ManifestEntry) -> bool:
    return entry.data_file.content == FileContent.DATA


def _records(entries: Iterable[ManifestEntry]) -> int:
    return sum(entry.data_file.record_count for entry in entries)


def _counted(contents: _Contents) -> Iterator[tuple[str, int]]:
    """Summary properties (spec: metrics), and their values by the manifests."""
    live = contents.live
    data = [entry for entry in live if _is_data(entry)]
    added, deleted = contents.own(EntryStatus.ADDED), contents.own(EntryStatus.DELETED)
    yield "total-data-files", len(data)
    yield "total-delete-files", len(live) - len(data)
    yield "total-records", _records(data)
    yield "total-files-size", sum(entry.data_file.file_size_in_bytes for entry in live)
    yield "added-data-files", len(added)
    yield "added-records", _records(added)
    yield "deleted-data-files", len(deleted)
    yield "deleted-records", _records(deleted)
