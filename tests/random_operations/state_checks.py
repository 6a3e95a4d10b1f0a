"""What the specification demands of a table's state, whatever its rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.random_operations.independent_reader import (
    ADDED,
    CONTENT_OFFSET,
    CONTENT_SIZE,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    FILE_SIZE,
    LOWER_BOUNDS,
    NAN_COUNTS,
    NULL_COUNTS,
    PARTITION,
    POSITION_DELETES,
    REFERENCED,
    UPPER_BOUNDS,
    VALUE_COUNTS,
    Entry,
    ListedManifest,
    Manifest,
    SnapshotState,
    TableState,
    require,
)
from tests.random_operations.independent_rows import RowReader
from tests.random_operations.places import Place
from tests.random_operations.specification_values import comparable, decode, transformed, transformed_type

#: Field ids of a field summary.
_CONTAINS_NULL, _LOWER, _UPPER, _CONTAINS_NAN = 509, 510, 511, 518
#: What only a deletion vector that is added again has in common with a file that is live twice.
_KINDS: Final = {POSITION_DELETES: "position", EQUALITY_DELETES: "equality"}


class StateChecks:
    """Checks of states, one after the other. What was found right of a snapshot or a file is not looked at again, but
    for whether the file is still there."""

    def __init__(self, place: Place, rows: RowReader) -> None:
        self._place, self._rows = place, rows
        self._snapshots: set[tuple[int, str]] = set()
        self._files: set[tuple[str, int, int]] = set()

    def check(self, state: TableState, before: TableState | None) -> None:
        """Raises Broken. before: the state that this one replaced."""
        _check_metadata(state)
        if before is not None and before.location != state.location:
            _check_succession(before, state)
        for snapshot in state.snapshots.values():
            self.check_files(snapshot)
            key = (snapshot.snapshot_id, snapshot.raw["manifest-list"])
            if key not in self._snapshots:
                self.check_snapshot(state, snapshot)
                self._snapshots.add(key)

    def check_files(self, snapshot: SnapshotState) -> None:
        """All files of a snapshot are there, with the lengths that it says."""
        for manifest in snapshot.manifests:
            self._check_length(manifest.listed.path, manifest.listed.length)
        for entry in snapshot.entries:
            if entry.is_live:
                self._check_length(entry.path, entry.file[FILE_SIZE])

    def check_snapshot(self, state: TableState, snapshot: SnapshotState) -> None:
        """Manifests against their list, entries against their files, and the summary against both."""
        for manifest in snapshot.manifests:
            _check_manifest(state, snapshot, manifest)
        live = [entry for entry in snapshot.entries if entry.is_live]
        twice = [each for each, count in Counter(map(self._name, live)).items() if count > 1]
        require(not twice, f"files are live twice in snapshot {snapshot.snapshot_id}: {twice}")
        check_vectors(snapshot, state.snapshots.get(snapshot.raw.get("parent-snapshot-id", 0)))
        _check_summary(snapshot)
        if snapshot.raw.get("first-row-id") is not None:
            _check_row_ids(state, snapshot)
        for entry in live:
            self._check_file(state, entry)

    def _check_file(self, state: TableState, entry: Entry) -> None:
        key = (entry.path, entry.spec_id, entry.file.get(CONTENT_OFFSET) or 0)
        if key in self._files:
            return
        self._files.add(key)
        if entry.is_vector:
            count = len(self._rows.positions(entry, str(entry.file[REFERENCED])))
            require(count == entry.record_count, f"{entry.path} has {count} positions, its record {entry.record_count}")
            return
        columns = self._rows.columns(entry.path, state.name_mapping)
        require(
            columns.count == entry.record_count,
            f"{entry.path} has {columns.count} rows, its record says {entry.record_count}",
        )
        if entry.content == DATA:
            self._check_partition(state, entry)
        for id_, values in columns.by_id.items():
            if id_ in state.types:
                _check_metrics(entry, id_, state.types[id_], values)

    def _check_partition(self, state: TableState, entry: Entry) -> None:
        columns = self._rows.columns(entry.path, state.name_mapping)
        for field in state.spec(entry.spec_id):
            of = columns.by_id.get(field["source-id"])
            if of is None or field["transform"] == "void":
                continue
            type_ = state.types[field["source-id"]]
            values = {comparable(transformed(field["transform"], type_, value)) for value in of}
            stated = comparable(entry.file[PARTITION][field["field-id"]])
            require(values <= {stated}, f"{entry.path}: {field['name']} is {values}, its record says {stated}")

    def _name(self, entry: Entry) -> tuple[str, int]:
        return self._place.name_of(entry.path), entry.file.get(CONTENT_OFFSET) or 0

    def _check_length(self, location: str, length: int) -> None:
        _, (_, size, _) = self._place.file_of(location)
        require(size == length, f"{location} has {size} bytes, its record says {length}")


def _check_metadata(state: TableState) -> None:
    """Spec: Table Metadata Fields."""
    metadata, snapshots = state.metadata, state.snapshots
    rows = metadata.get("snapshots", [])
    require(len(rows) == len(snapshots), "a snapshot id is there twice")
    for name, id_ in state.refs.items():
        require(id_ in snapshots, f"{name} names snapshot {id_}, which the table does not have")
    current = metadata.get("current-snapshot-id")
    main = metadata.get("refs", {}).get("main")
    require(main is None or main["snapshot-id"] == current, f"main is at {main}, the current snapshot is {current}")
    if state.version > 1:
        numbers = [each["sequence-number"] for each in rows if each.get("sequence-number")]
        require(numbers == sorted(set(numbers)), f"sequence numbers of the snapshots: {numbers}")
        last = metadata["last-sequence-number"]
        highest = max(numbers, default=0)
        require(highest <= last, f"the last sequence number is {last}, a snapshot has {highest}")
    for each in snapshots.values():
        parent = snapshots.get(each.raw.get("parent-snapshot-id", 0))
        require(
            parent is None or state.version == 1 or parent.sequence_number <= each.sequence_number,
            f"snapshot {each.snapshot_id} has a lower sequence number than its parent",
        )
    state.schema()
    columns = [each["id"] for schema in metadata["schemas"] for each in schema["fields"]]
    require(max(columns) <= metadata["last-column-id"], f"last-column-id is {metadata['last-column-id']}")
    names = [each["name"] for each in state.schema()]
    require(len(names) == len(set(names)), f"columns of one name: {names}")
    state.spec()
    fields = [each["field-id"] for spec in metadata["partition-specs"] for each in spec["fields"]]
    require(max(fields, default=999) <= metadata["last-partition-id"], f"last-partition-id of {fields}")
    log = metadata.get("snapshot-log", [])
    require(not log or log[-1]["snapshot-id"] == current, f"the snapshot log ends with {log[-1:]}, not {current}")
    require({each["snapshot-id"] for each in log} <= snapshots.keys(), "the snapshot log has expired snapshots")


def _check_succession(before: TableState, state: TableState) -> None:
    """What never goes back, or changes."""
    old, new = before.metadata, state.metadata
    require(old["table-uuid"] == new["table-uuid"], "the table's uuid changed")
    for name in ("format-version", "last-sequence-number", "last-column-id", "last-partition-id", "next-row-id"):
        require(new.get(name, 0) >= old.get(name, 0), f"{name} went from {old.get(name)} to {new.get(name)}")
    logged = [each["metadata-file"] for each in new.get("metadata-log", [])]
    require(before.location in logged, f"the metadata log ends with {logged[-1:]} and lacks {before.location}")
    for id_, snapshot in before.snapshots.items():
        if id_ in state.snapshots:
            require(state.snapshots[id_].raw == snapshot.raw, f"snapshot {id_} changed")
    added = sorted(state.snapshots.keys() - before.snapshots.keys(), key=list(state.snapshots).index)
    if before.version > 1:
        for id_ in added:
            number = state.snapshots[id_].sequence_number
            require(number > old.get("last-sequence-number", 0), f"snapshot {id_} has an old sequence number, {number}")
    if state.version > 2:
        expected = old.get("next-row-id", 0)
        for raw in (state.snapshots[id_].raw for id_ in added):
            id_ = raw["snapshot-id"]
            if before.version < 3 and "first-row-id" not in raw:
                continue
            require(raw["first-row-id"] >= expected, f"snapshot {id_} has row ids of others: {raw['first-row-id']}")
            expected = raw["first-row-id"] + raw["added-rows"]
        require(new["next-row-id"] >= expected, f"next-row-id is {new['next-row-id']}, not {expected}")


def _check_manifest(state: TableState, snapshot: SnapshotState, manifest: Manifest) -> None:
    """Spec: Manifests, Manifest Lists."""
    listed, entries = manifest.listed, manifest.entries
    of = {status: [each for each in entries if each.status == status] for status in (ADDED, EXISTING, DELETED)}
    for status, files, rows in zip((ADDED, EXISTING, DELETED), listed.files, listed.rows, strict=True):
        there = (len(of[status]), sum(each.record_count for each in of[status]))
        stated = (there[0] if files is None else files, there[1] if rows is None else rows)
        require(there == stated, f"{listed.path} has {there} files and rows of status {status}, its list says {stated}")
    require(
        listed.sequence_number <= snapshot.sequence_number,
        f"{listed.path} has sequence number {listed.sequence_number}, later than its snapshot's",
    )
    live = [each for each in entries if each.is_live]
    lowest = min((each.sequence_number for each in live), default=listed.min_sequence_number)
    require(
        listed.min_sequence_number == lowest,
        f"{listed.path}: min_sequence_number is {listed.min_sequence_number}, the lowest of its files {lowest}",
    )
    for each in entries:
        require((each.content != DATA) == (listed.content == 1), f"{each.path} is in a manifest of other content")
        if each.is_live:
            require(
                each.sequence_number <= each.file_sequence_number <= snapshot.sequence_number,
                f"{each.path} has the numbers {each.sequence_number}, {each.file_sequence_number}",
            )
    header = manifest.header
    if header.get("format-version", "1") != "1":
        wanted = ("data", "deletes")[listed.content]
        require(header.get("content") == wanted, f"{listed.path} says that it has {header.get('content')}")
    require(int(header.get("partition-spec-id", listed.spec_id)) == listed.spec_id, f"{listed.path} has another spec")
    _check_summaries(state, listed, live)


def _check_summaries(state: TableState, listed: ListedManifest, live: Sequence[Entry]) -> None:
    """Spec: field_summary."""
    if listed.summaries is None:
        return
    spec = state.spec(listed.spec_id)
    require(len(listed.summaries) == len(spec), f"{listed.path} has {len(listed.summaries)} field summaries")
    for field, summary in zip(spec, listed.summaries, strict=True):
        type_ = transformed_type(field["transform"], state.types.get(field["source-id"], "int"))
        values = [each.file[PARTITION][field["field-id"]] for each in live]
        message = f"{listed.path}, {field['name']}: {summary} of {values}"
        require(summary[_CONTAINS_NULL] or None not in values, message)
        some = [each for each in values if each is not None and each == each]
        has_nan = any(each != each for each in values if each is not None)
        require(not has_nan or summary.get(_CONTAINS_NAN) in (True, None), message)
        low, high = summary.get(_LOWER), summary.get(_UPPER)
        # Versions of Java order UUIDs differently, so a writer may leave their bounds out.
        require(not some or None not in (low, high) or type_ == "uuid", message)
        if some and low is not None and high is not None:
            least, most = decode(type_, low), decode(type_, high)
            require(all(least <= each <= most for each in some), message)


def _check_metrics(entry: Entry, id_: int, type_: str, values: Sequence[Any]) -> None:
    """Counts and bounds of a column are those of the file's values."""
    file, name = entry.file, f"{entry.path}, column {id_}"
    nans = sum(1 for each in values if isinstance(each, float) and each != each)
    counted = {VALUE_COUNTS: len(values), NULL_COUNTS: values.count(None), NAN_COUNTS: nans}
    for key, count in counted.items():
        stated = (file.get(key) or {}).get(id_, count)
        require(stated == count, f"{name}: field {key} says {stated}, and it is {count}")
    some = [each for each in values if each is not None and each == each]
    for key in (LOWER_BOUNDS, UPPER_BOUNDS):
        raw = (file.get(key) or {}).get(id_)
        if raw is None:
            continue
        bound = decode(type_, raw)
        fits = all(bound <= each if key == LOWER_BOUNDS else each <= bound for each in some)
        require(fits, f"{name}: bound {bound!r} of {some}")


def check_vectors(snapshot: SnapshotState, parent: SnapshotState | None) -> None:
    """Spec: Delete Formats."""
    of = [str(each.file[REFERENCED]) for each in snapshot.deletes if each.is_vector]
    twice = [each for each, count in Counter(of).items() if count > 1]
    require(not twice, f"data files have two deletion vectors: {twice}")
    # A rewrite of deletes may add the vector of a data file that others removed meanwhile: nobody reads it.
    removed = {entry.path for entry in parent.data} - {entry.path for entry in snapshot.data} if parent else set[str]()
    gone = set(of) & removed
    require(not gone, f"snapshot {snapshot.snapshot_id} removes data files whose deletion vectors it keeps: {gone}")
    for each in snapshot.deletes:
        require(not each.is_vector or each.file.get(CONTENT_SIZE), f"{each.path} has no content_size_in_bytes")


def _check_row_ids(state: TableState, snapshot: SnapshotState) -> None:
    """Spec: Row Lineage."""
    spans = []
    for entry in snapshot.data:
        require(entry.first_row_id is not None, f"{entry.path} has no row ids in snapshot {snapshot.snapshot_id}")
        spans.append((entry.first_row_id or 0, (entry.first_row_id or 0) + entry.record_count, entry.path))
    spans.sort()
    for (_, end, path), (start, _, other) in pairwise(spans):
        require(end <= start, f"{path} and {other} have the same row ids")
    next_row_id = state.metadata["next-row-id"]
    require(not spans or spans[-1][1] <= next_row_id, f"{spans[-1:]}: next-row-id is {next_row_id}")
    for manifest in snapshot.manifests:
        is_data = manifest.listed.content == DATA
        require(is_data == (manifest.listed.first_row_id is not None), f"first_row_id of {manifest.listed.path}")


def _check_summary(snapshot: SnapshotState) -> None:
    """Spec, appendix F: the metrics of a summary are those of the snapshot's entries."""
    summary, id_ = snapshot.raw["summary"], snapshot.snapshot_id
    live = [each for each in snapshot.entries if each.is_live]
    added = [each for each in snapshot.entries if each.status == ADDED and each.snapshot_id == id_]
    removed = [each for each in snapshot.entries if each.status == DELETED and each.snapshot_id == id_]
    for word, entries in (("total", live), ("added", added), ("removed", removed)):
        for name, count in _counted(word, entries).items():
            stated = summary.get(name, None if word == "total" else "0")
            require(stated == str(count), f"snapshot {id_}: {name} is {stated}, and there are {count}; {summary}")


def _counted(word: str, entries: Sequence[Entry]) -> dict[str, int]:
    """The metrics of a summary for entries that are live, added or removed."""
    data = [each for each in entries if each.content == DATA]
    deletes = [each for each in entries if each.content != DATA]
    of = {kind: [each for each in deletes if each.content == content] for content, kind in _KINDS.items()}
    data_word = "deleted" if word == "removed" else word
    return {
        f"{data_word}-data-files": len(data),
        f"{data_word}-records": _sum(data),
        f"{word}-delete-files": len(deletes),
        f"{word}-position-deletes": _sum(of["position"]),
        f"{word}-equality-deletes": _sum(of["equality"]),
    }


def _sum(entries: Iterable[Entry]) -> int:
    return sum(each.record_count for each in entries)
