"""Manifests: which files a snapshot added, kept or removed, with their metrics (spec: manifests).

Records first, then their Avro form. An entry without sequence numbers, snapshot id or row ids inherits them from the
manifest's entry in the manifest list: so a manifest is written once, and every replay of a commit reuses it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds
from iceberg_hms.format.manifests.entry_bytes import EncodedFile, layout_of
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID
from iceberg_hms.format.schema.types import StructType


class EntryStatus(IntEnum):
    """What happened to a file in the snapshot that wrote the entry."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file or delete file and its metrics (spec: data file fields).

    partition: partition field name -> value, as `schema.values` describes values; empty for unpartitioned specs.
    column_sizes ... nan_value_counts: column field id -> number; None if not collected.
    lower_bounds, upper_bounds: column field id -> binary form (spec appendix D).
    spec_id: the partition spec of `partition`; the manifest list has it, not the manifest.
    referenced_data_file, content_offset, content_size_in_bytes: for deletion vectors and position deletes.
    """

    file_path: str
    file_format: str
    record_count: int
    file_size_in_bytes: int
    partition: Mapping[str, Any] = field(default_factory=dict)
    content: int = FileContent.DATA
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: Sequence[int] | None = None
    equality_ids: Sequence[int] | None = None
    sort_order_id: int | None = None
    spec_id: int = 0
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """Only deletion vectors are in Puffin files (spec: Deletion Vectors)."""
        return self.content == FileContent.POSITION_DELETES and self.file_format.upper() == "PUFFIN"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest and what happened to it.

    snapshot_id: the snapshot that added the file, or deleted it. sequence_number: the file's data sequence number.
    file_sequence_number: that of the snapshot that added the file. None, only for ADDED entries, inherits the
    manifest's.
    encoded: the record in the manifest that the entry was read from, for `manifest_writer`.
    """

    status: int
    data_file: DataFile
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    encoded: EncodedFile | None = field(default=None, compare=False, repr=False)

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the snapshot: added or existing."""
        return self.status != EntryStatus.DELETED


class StoredPartitionField(NamedTuple):
    """A field of a manifest's partition tuples, by the Avro schema of its writer.

    label: its name in records. field_id: None if the schema has none. name: by the Avro schema; the spec's comes first.
    kind: the Avro type of its values but for null, with its logical type. convert: a stored value to one of
    `schema.values`; None: it is one."""

    label: str
    field_id: int | None
    name: str
    kind: Any
    convert: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest whose frame, counts and schema are as they should be, with undecoded entries.

    schema: the Avro schema, with today's names and without logical types, as JSON. parsed: the same, for
    `Container.records`, whose records are as the manifest stores them. partition: the fields of their partition tuples.
    names: partition field id -> name, by the spec in its header.
    """

    container: avro_file.Container
    schema: Any
    parsed: Any
    partition: Sequence[StoredPartitionField]
    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ManifestHeader:
    """The part of a manifest's key-value metadata that is needed without a manifest list.

    format_version: 1 if missing. partition_names: partition field id -> name.
    """

    format_version: int
    partition_spec_id: int
    content: ManifestContent
    partition_names: Mapping[int, str]


def read_header(data: bytes, location: str, bounds: FileBounds = DEFAULT_BOUNDS) -> ManifestHeader:
    """The header of a manifest. Raises CorruptFile."""
    return _header(avro_file.decode(data, location, bounds))


def decode_manifest(
    data: bytes, location: str, manifest_file: ManifestFile, bounds: FileBounds = DEFAULT_BOUNDS
) -> Iterator[ManifestEntry]:
    """The entries of a manifest, with the values filled in that they inherit from `manifest_file`: snapshot id,
    sequence numbers, spec id, and in v3 first_row_id (spec: inheritance). Entries of v1 manifests have sequence
    number 0.

    Raises CorruptFile: at once if the file's frame is damaged or it has fewer entries than the list counted, while
    iterating if a record is damaged.
    """
    stored = open_manifest(data, location, manifest_file, bounds)
    return inherit(_entries(stored, manifest_file.partition_spec_id), manifest_file)


def open_manifest(
    data: bytes, location: str, manifest_file: ManifestFile, bounds: FileBounds = DEFAULT_BOUNDS
) -> StoredManifest:
    """A manifest, to decode its entries otherwise than `decode_manifest`. Raises CorruptFile as that does at once."""
    container = _counted(data, location, manifest_file, bounds)
    names = _header(container).partition_names
    try:
        return StoredManifest(container, *_reading(container.schema_text), names)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its schema is not a manifest's: {error!r}") from error


def live_data_files(
    data: bytes, location: str, manifest_file: ManifestFile, bounds: FileBounds = DEFAULT_BOUNDS
) -> Iterator[str]:
    """The paths of a manifest's live data files. Decodes nothing else, which is several times quicker. Raises
    CorruptFile as `decode_manifest` does."""
    container = _counted(data, location, manifest_file, bounds)
    try:
        schema, wanted = _path_schemas(container.schema_text)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its schema is not a manifest's: {error!r}") from error
    for record in container.records(schema, wanted):
        data_file = record["data_file"]
        if record["status"] != EntryStatus.DELETED and (data_file.get("content") or 0) == FileContent.DATA:
            yield data_file["file_path"]


def has_text(
    data: bytes,
    location: str,
    manifest_file: ManifestFile,
    texts: Sequence[bytes],
    bounds: FileBounds = DEFAULT_BOUNDS,
) -> bool:
    """Whether the records of a manifest have one of these texts, in UTF-8, anywhere. Decodes none, which is a hundred
    times as quick as `decode_manifest`. Raises CorruptFile as that does, but for a damaged record."""
    blocks = _counted(data, location, manifest_file, bounds).raw_blocks()
    return any(text in raw for _, raw in blocks for text in texts)


def _counted(data: bytes, location: str, manifest_file: ManifestFile, bounds: FileBounds) -> avro_file.Container:
    """A manifest's container, checked to have as many entries as the list counted."""
    container = avro_file.decode(data, location, bounds)
    avro_file.check_count(container, bounds.entries)
    expected = manifest_file.files_count
    if expected is not None and container.record_count < expected:
        raise CorruptFile(location, f"it has {container.record_count} entries, its manifest list counted {expected}")
    try:
        ids = _top_level_ids(container.schema_text)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its schema is not a manifest's: {error!r}") from error
    if not ids >= {0, 2}:
        raise CorruptFile(location, "it is not a manifest: no fields with ids 0 and 2")
    return container


@lru_cache(maxsize=64)
def _top_level_ids(schema_text: bytes) -> frozenset[int]:
    return frozenset(manifest_schemas.top_level_ids(orjson.loads(schema_text)))


@lru_cache(maxsize=64)
def _reading(schema_text: bytes) -> tuple[Any, Any, Sequence[StoredPartitionField]]:
    """The schema of a manifest with today's names; the same parsed, if it can be; and the fields of its partition
    tuples. Cached, since a table's manifests have few schemas, and this takes longer than a small manifest's
    entries."""
    schema = orjson.loads(schema_text)
    partition = _partition_fields(schema)
    relabelled = manifest_schemas.relabel(schema, _NAMES)
    return relabelled, avro_file.parsed_if_possible(relabelled), partition


@lru_cache(maxsize=64)
def _path_schemas(schema_text: bytes) -> tuple[Any, Any]:
    """The schema of a manifest with today's names, and the part of it that gives the live data files."""
    schema = manifest_schemas.relabel(orjson.loads(schema_text), _NAMES)
    data_file = {**_field_type(schema, 2, "data_file")}
    named = {each["name"]: each for each in data_file["fields"]}
    data_file["fields"] = [named["file_path"], *(named[name] for name in ("content",) if name in named)]
    status = next(each for each in schema["fields"] if each["name"] == "status")
    wanted = {**schema, "fields": [status, {"name": "data_file", "type": data_file}]}
    return avro_file.parsed_if_possible(schema), avro_file.parsed_if_possible(wanted)


def inherit(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Entries as a manifest stores them, in its order, with inherited values filled in. Entries inherit nothing from a
    manifest that no list has numbered yet, and keep the row ids that they state."""
    sequence_number = None if manifest.sequence_number == UNASSIGNED else manifest.sequence_number
    next_row_id = manifest.first_row_id
    for entry in entries:
        data_file, encoded = entry.data_file, entry.encoded
        number, file_number = entry.sequence_number, entry.file_sequence_number
        # Sequence number 0 means a v1 manifest, where it applies to every entry.
        if sequence_number == 0 or entry.status == EntryStatus.ADDED:
            number = sequence_number if number is None else number
            file_number = sequence_number if file_number is None else file_number
        if data_file.content == FileContent.DATA and entry.is_live:
            if next_row_id is None:
                # If a list gives the manifest no first row id, no file in it has one (Java: ManifestReader.idAssigner).
                if data_file.first_row_id is not None and sequence_number is not None:
                    data_file = replace(data_file, first_row_id=None)
            elif data_file.first_row_id is None:
                data_file = replace(data_file, first_row_id=next_row_id)
                if encoded is not None:
                    encoded = EncodedFile(data_file, encoded.layout, encoded.entry, lacks_row_id=True)
                next_row_id += data_file.record_count
        snapshot_id = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        yield ManifestEntry(entry.status, data_file, snapshot_id, number, file_number, encoded)


#: Field id -> name, for all fields of manifests of any version.
_NAMES: Final = {
    **manifest_schemas.known_fields(manifest_schemas.manifest_entry(1, StructType(()))),
    **manifest_schemas.known_fields(manifest_schemas.manifest_entry(3, StructType(()))),
}
_MAPS: Final = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
#: The fields of a data file that its record has under the same name.
_STORED_FIELDS: Final = tuple([each.name for each in fields(DataFile) if each.name not in ("partition", "spec_id")])
#: For each field: label in records, name in the spec, conversion of the stored value.
_PartitionReaders = Sequence[tuple[str, str, Callable[[Any], Any] | None]]


def _header(container: avro_file.Container) -> ManifestHeader:
    metadata = container.metadata
    try:
        raw = orjson.loads(metadata.get("partition-spec", "[]"))
        # v1 specs may lack field ids, which then count from 1000.
        names = {each.get("field-id", FIRST_PARTITION_FIELD_ID + at): each["name"] for at, each in enumerate(raw)}
        return ManifestHeader(
            format_version=int(metadata.get("format-version", "1")),
            partition_spec_id=int(metadata.get("partition-spec-id", "0")),
            content=ManifestContent[metadata.get("content", "data").upper()],
            partition_names=names,
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(container.location, f"its key-value metadata is not a manifest's: {error!r}") from error


def _entries(stored: StoredManifest, spec_id: int) -> Iterator[ManifestEntry]:
    container, names = stored.container, stored.names
    partition = [
        (each.label, each.name if each.field_id is None else names.get(each.field_id, each.name), each.convert)
        for each in stored.partition
    ]
    layout = layout_of(container.schema_text)
    # Version 1 has no sequence numbers, and its entries are small.
    is_copied = container.metadata.get("format-version", "1") != "1"
    for record, encoded in container.encoded_records(stored.parsed, encoded=is_copied):
        try:
            data_file = _data_file(record["data_file"], partition, spec_id)
            yield ManifestEntry(
                status=EntryStatus(record["status"]),
                data_file=data_file,
                snapshot_id=record.get("snapshot_id"),
                sequence_number=record.get("sequence_number"),
                file_sequence_number=record.get("file_sequence_number"),
                encoded=EncodedFile(data_file, layout, encoded) if is_copied else None,
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFile(container.location, f"an entry is not a manifest's: {error!r}") from error


def _data_file(record: Mapping[str, Any], partition: _PartitionReaders, spec_id: int) -> DataFile:
    stored = record["partition"]
    tuple_ = {}
    for label, name, convert in partition:
        value = stored[label]
        tuple_[name] = value if value is None or convert is None else convert(value)
    found = {name: record[name] for name in _STORED_FIELDS if name in record}
    for name in _MAPS:
        pairs = found.get(name)
        if pairs is not None:
            found[name] = {pair["key"]: pair["value"] for pair in pairs}
    found["content"] = FileContent(found.get("content") or 0)
    return DataFile(partition=tuple_, spec_id=spec_id, **found)


def _partition_fields(schema: Any) -> Sequence[StoredPartitionField]:
    """The fields of the partition tuple, by the writer's Avro schema."""
    data_file = _field_type(schema, 2, "data_file")
    partition = _field_type(data_file, manifest_schemas.PARTITION_ID, "partition")
    named: dict[str, Any] = {}
    found = []
    for each in partition["fields"]:
        kind = each["type"]
        if isinstance(kind, list):
            kind = next((branch for branch in kind if branch != "null"), "null")
        if isinstance(kind, dict) and "name" in kind:
            named[kind["name"]] = kind
        kind = named.get(kind, kind) if isinstance(kind, str) else kind
        field_id = each.get("field-id")
        if field_id is not None and not isinstance(field_id, int):
            raise ValueError(f"a field has the id {field_id!r}")
        label = each["name"] if field_id is None else manifest_schemas.partition_label(field_id)
        name = each.get("iceberg-field-name", each["name"])
        found.append(StoredPartitionField(label, field_id, name, kind, _converter(kind)))
    return found


def _field_type(record: Any, field_id: int, name: str) -> Any:
    for each in record["fields"]:
        if each.get("field-id", None if each["name"] != name else field_id) == field_id:
            return each["type"]
    raise KeyError(name)


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    if not isinstance(kind, dict):
        return None
    match kind.get("logicalType"):
        case "decimal":
            scale = int(kind.get("scale", 0))
            return lambda data: values.from_unscaled(int.from_bytes(data, "big", signed=True), scale)
        case "uuid":
            return lambda data: uuid.UUID(bytes=data) if isinstance(data, bytes) else uuid.UUID(data)
        case _:
            return None
