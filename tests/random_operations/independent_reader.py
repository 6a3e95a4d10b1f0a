"""Reads a table's state from its metadata file down to the entries of its manifests: json, fastavro and the
specification, and no code of the package that is tested.

Fields of manifests and manifest lists are found by their field ids, as the specification asks of readers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import fastavro

from tests.random_operations.specification_values import comparable, stored, transformed_type

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
#: Field ids (spec: Manifest Entry Fields, Data File Fields).
_STATUS, _SNAPSHOT_ID, _SEQUENCE_NUMBER, _FILE_SEQUENCE_NUMBER, _DATA_FILE = 0, 1, 3, 4, 2
CONTENT, FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 101, 102, 103, 104
VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS = 109, 110, 137, 125, 128
EQUALITY_IDS, FIRST_ROW_ID, REFERENCED, CONTENT_OFFSET, CONTENT_SIZE = 135, 142, 143, 144, 145


class Broken(Exception):
    """A state that the specification does not allow, or that is not the one that was expected."""


class Missing(Broken):
    """A file that is not there."""


def require(holds: object, message: str) -> None:
    """Raises Broken with the message if something does not hold."""
    if not holds:
        raise Broken(message)


#: Another one for another file: its name, its length, and its time of change or its tag.
FileKey = tuple[str, int, int | str]
#: The file of a location, and its key. Raises Missing.
FileOf = Callable[[str], tuple[Path, FileKey]]


@dataclass(frozen=True)
class ListedManifest:
    """An entry of a manifest list (spec: Manifest Lists). files, rows: how many are added, existing and deleted."""

    path: str
    length: int
    spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    files: tuple[int | None, ...]
    rows: tuple[int | None, ...]
    summaries: Sequence[Mapping[int, Any]] | None = field(compare=False)
    first_row_id: int | None


@dataclass(frozen=True)
class Entry:
    """An entry of a manifest with what it inherits. file: data_file, by field id."""

    status: int
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    first_row_id: int | None
    spec_id: int
    file: Mapping[int, Any]

    @property
    def is_live(self) -> bool:
        return self.status != DELETED

    @property
    def content(self) -> int:
        return self.file.get(CONTENT) or DATA

    @property
    def path(self) -> str:
        return str(self.file[FILE_PATH])

    @property
    def record_count(self) -> int:
        return int(self.file[RECORD_COUNT])

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector."""
        return self.file.get(CONTENT_OFFSET) is not None

    @property
    def partition(self) -> tuple[int, tuple[Any, ...]]:
        """Spec and values: equal for what is in the same partition."""
        values = self.file[PARTITION]
        return self.spec_id, tuple((id_, comparable(values[id_])) for id_ in sorted(values) if values[id_] is not None)


@dataclass(frozen=True)
class Manifest:
    """A manifest as a snapshot lists it. header: the key-value metadata of its file."""

    listed: ListedManifest
    header: Mapping[str, str]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class SnapshotState:
    """One snapshot. raw: as the metadata has it."""

    raw: Mapping[str, Any]
    manifests: tuple[Manifest, ...]

    @property
    def snapshot_id(self) -> int:
        return int(self.raw["snapshot-id"])

    @property
    def sequence_number(self) -> int:
        return int(self.raw.get("sequence-number", 0))

    @property
    def entries(self) -> Iterator[Entry]:
        """All of them, deleted ones too."""
        return (entry for manifest in self.manifests for entry in manifest.entries)

    @property
    def data(self) -> list[Entry]:
        """The live data files."""
        return [entry for entry in self.entries if entry.is_live and entry.content == DATA]

    @property
    def deletes(self) -> list[Entry]:
        """The live delete files and deletion vectors."""
        return [entry for entry in self.entries if entry.is_live and entry.content != DATA]


@dataclass(frozen=True)
class TableState:
    """A table as one metadata file says it is. snapshots: by id."""

    location: str
    metadata: Mapping[str, Any]
    snapshots: Mapping[int, SnapshotState]

    @property
    def version(self) -> int:
        return int(self.metadata["format-version"])

    @property
    def refs(self) -> dict[str, int]:
        """Name of a branch or tag -> its snapshot."""
        found = {name: ref["snapshot-id"] for name, ref in self.metadata.get("refs", {}).items()}
        current = self.metadata.get("current-snapshot-id")
        if current not in (None, -1):
            found.setdefault("main", current)
        return found

    def head(self, ref: str) -> SnapshotState | None:
        """The snapshot of a ref; None if there is no such ref."""
        return self.snapshots.get(self.refs.get(ref, 0))

    def schema(self, schema_id: int | None = None) -> Sequence[Mapping[str, Any]]:
        """The fields of a schema, by default of the current one."""
        wanted = self.metadata["current-schema-id"] if schema_id is None else schema_id
        return next(each["fields"] for each in self.metadata["schemas"] if each["schema-id"] == wanted)

    @property
    def types(self) -> dict[int, str]:
        """Field id -> type, of all columns that the table has or had; the newest type of each."""
        schemas = sorted(self.metadata["schemas"], key=lambda each: each["schema-id"] == self._current)
        return {each["id"]: each["type"] for schema in schemas for each in schema["fields"]}

    @property
    def _current(self) -> int:
        return int(self.metadata["current-schema-id"])

    def spec(self, spec_id: int | None = None) -> Sequence[Mapping[str, Any]]:
        """The fields of a partition spec, by default of the default one."""
        wanted = self.metadata["default-spec-id"] if spec_id is None else spec_id
        return next(each["fields"] for each in self.metadata["partition-specs"] if each["spec-id"] == wanted)

    def is_unpartitioned(self, spec_id: int) -> bool:
        """Whether a spec has no field; as in Java, void ones do not count."""
        return all(each["transform"] == "void" for each in self.spec(spec_id))

    @property
    def name_mapping(self) -> str | None:
        found: str | None = self.metadata.get("properties", {}).get("schema.name-mapping.default")
        return found


class IndependentReader:
    """Reads states. What it read of a file is kept for as long as the file has the same key."""

    def __init__(self, file_of: FileOf) -> None:
        self._file_of = file_of
        self._files: dict[FileKey, tuple[Mapping[str, str], list[Mapping[int, Any]]]] = {}

    def state(self, location: str) -> TableState:
        """The table of a metadata file, with all snapshots. Raises Broken for what no reader could read."""
        data = self._file_of(location)[0].read_bytes()
        metadata = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        state = TableState(location, metadata, {})
        snapshots = {each["snapshot-id"]: self._snapshot(each, state) for each in metadata.get("snapshots", [])}
        return TableState(location, metadata, snapshots)

    def _snapshot(self, raw: Mapping[str, Any], state: TableState) -> SnapshotState:
        _, listed = self._avro(raw["manifest-list"])
        manifests = [self._manifest(_listed(each), state) for each in listed]
        return SnapshotState(raw, tuple(manifests))

    def _manifest(self, listed: ListedManifest, state: TableState) -> Manifest:
        header, records = self._avro(listed.path)
        types = state.types
        partition = {
            each["field-id"]: transformed_type(each["transform"], types.get(each["source-id"], "int"))
            for each in state.spec(listed.spec_id)
        }
        return Manifest(listed, header, tuple(_inherited(listed, records, partition)))

    def _avro(self, location: str) -> tuple[Mapping[str, str], list[Mapping[int, Any]]]:
        """The key-value metadata and the records of an Avro file, by field id."""
        path, key = self._file_of(location)
        if key not in self._files:
            with path.open("rb") as file:
                reader = fastavro.reader(file)
                schema = reader.writer_schema
                self._files[key] = dict(reader.metadata), [_by_id(schema, each) for each in reader]
        return self._files[key]


def _by_id(schema: Any, value: Any) -> Any:
    """Records as mappings from field ids, and the arrays of pairs that Iceberg writes for maps as mappings."""
    if isinstance(schema, list):
        if value is None:
            return None
        return _by_id(next(each for each in schema if each != "null"), value)
    if not isinstance(schema, Mapping):
        return value
    if schema["type"] == "record":
        return {each["field-id"]: _by_id(each["type"], value[each["name"]]) for each in schema["fields"]}
    if schema["type"] == "array":
        if schema.get("logicalType") == "map":
            return {each["key"]: each["value"] for each in value}
        return [_by_id(schema["items"], each) for each in value]
    return value


#: Field ids of how many files and rows are added, existing and deleted.
_FILES: Final = (504, 505, 506)
_ROWS: Final = (512, 513, 514)


def _listed(record: Mapping[int, Any]) -> ListedManifest:
    return ListedManifest(
        path=record[500],
        length=record[501],
        spec_id=record[502],
        content=record.get(517) or 0,
        sequence_number=record.get(515) or 0,
        min_sequence_number=record.get(516) or 0,
        added_snapshot_id=record[503],
        files=tuple(record.get(each) for each in _FILES),
        rows=tuple(record.get(each) for each in _ROWS),
        summaries=record.get(507),
        first_row_id=record.get(520),
    )


def _inherited(
    listed: ListedManifest, records: Sequence[Mapping[int, Any]], partition: Mapping[int, str]
) -> Iterator[Entry]:
    """Spec: Sequence Number Inheritance, First Row ID Inheritance. partition: field id -> type."""
    next_row_id = listed.first_row_id
    for record in records:
        file = dict(record[_DATA_FILE])
        file[PARTITION] = {id_: stored(value, partition.get(id_)) for id_, value in file[PARTITION].items()}
        status, numbers = record[_STATUS], []
        for each in (_SEQUENCE_NUMBER, _FILE_SEQUENCE_NUMBER):
            number = record.get(each)
            if number is None:
                may_inherit = status == ADDED or listed.sequence_number == 0
                require(may_inherit, f"{file[FILE_PATH]} is not added and has no sequence number in {listed.path}")
                number = listed.sequence_number
            numbers.append(number)
        snapshot_id = record.get(_SNAPSHOT_ID)
        first_row_id = file.get(FIRST_ROW_ID)
        # The specification does not say whether deleted entries count; in Java (ManifestReader.idAssigner) they do not.
        if first_row_id is None and next_row_id is not None and listed.content == DATA and status != DELETED:
            first_row_id = next_row_id
            next_row_id += file[RECORD_COUNT]
        yield Entry(
            status,
            listed.added_snapshot_id if snapshot_id is None else snapshot_id,
            numbers[0],
            numbers[1],
            first_row_id,
            listed.spec_id,
            file,
        )
