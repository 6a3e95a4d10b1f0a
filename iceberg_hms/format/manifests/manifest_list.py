"""Manifest lists: which manifests make up a snapshot (spec: manifest lists).

Records first, then their Avro form. A list is read by field id, not by name: Java before 1.0 called field 504
`added_data_files_count`, later versions call it `added_files_count`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final

import orjson

from iceberg_hms.errors import CorruptFile, InvalidInput
from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds

#: The sequence number of a manifest that no list has numbered yet.
UNASSIGNED = -1

#: How many encoded list entries are cached, some hundred bytes each. A table's next list is this one plus a few
#: entries, so a commit rewrites almost only entries of the commit before.
_ENCODED_MAX: Final = 16_384
#: A block with this many records, about BLOCK_BYTES, is not merged with others.
_BLOCK_RECORDS_MAX: Final = 256
#: Errors for valid JSON or Avro that is not a manifest list. RecursionError: a schema is nested too deep.
_DAMAGED: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


#: So many manifests and summaries of partition fields are never out of proportion.
_FEW_VALUES: Final = 100_000


class ManifestContent(IntEnum):
    """Which kind of files a manifest tracks."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The values of one partition field over all entries of a manifest (spec: field_summary).

    lower_bound, upper_bound: binary form (spec appendix D) of the smallest and the largest value that is neither null
    nor NaN; None if there is none. contains_nan: None if the writer left it out.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One entry of a manifest list (spec: manifest_file).

    sequence_number, min_sequence_number: UNASSIGNED until a list assigns them; 0 in lists of v1 tables.
    Counts are None if an old v1 list lacks them. first_row_id: for v3 data manifests, else None.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    added_snapshot_id: int
    content: int = ManifestContent.DATA
    sequence_number: int = UNASSIGNED
    min_sequence_number: int = UNASSIGNED
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def files_count(self) -> int | None:
        """The number of entries of any status; None if the list lacks the counts."""
        added, existing, deleted = self.added_files_count, self.existing_files_count, self.deleted_files_count
        return None if added is None or existing is None or deleted is None else added + existing + deleted

    @property
    def has_live_files(self) -> bool:
        """Whether any entry is not DELETED; True if the list lacks the counts (spec: null counts)."""
        return self.added_files_count != 0 or self.existing_files_count != 0


def assign_numbers(
    files: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    sequence_number: int,
    first_row_id: int | None = None,
) -> tuple[tuple[ManifestFile, ...], int | None]:
    """Assign sequence numbers and row ids to the manifests of a new list.

    Unassigned manifests get the snapshot's sequence number, also as their lowest one unless they have older files. In
    v3, data manifests without a first_row_id get the next row id, which then advances by their added and existing rows
    (spec: first row id assignment). Returns the manifests and the table's next row id (None before v3).
    Raises InvalidInput: an unassigned manifest of another snapshot; v3 without first_row_id or row counts.
    """
    if format_version == 1:
        return tuple([_changed(file, sequence_number=0, min_sequence_number=0) for file in files]), None
    if format_version >= 3 and first_row_id is None:
        raise InvalidInput(f"Snapshot {snapshot_id} of a v{format_version} table has no first-row-id")
    numbered = []
    next_row_id = first_row_id if format_version >= 3 else None
    for file in files:
        new = _with_sequence_number(file, snapshot_id, sequence_number)
        if next_row_id is not None and new.content == ManifestContent.DATA and new.first_row_id is None:
            if new.added_rows_count is None or new.existing_rows_count is None:
                raise InvalidInput(f"Manifest {_name(new)} has no row counts, so it cannot be given row ids")
            new = _changed(new, first_row_id=next_row_id)
            next_row_id += (new.added_rows_count or 0) + (new.existing_rows_count or 0)
        numbered.append(new)
    return tuple(numbered), next_row_id


def _name(file: ManifestFile) -> str:
    """Without its folder: REST clients get these errors, and nothing of the server's folders."""
    return file.manifest_path.rpartition("/")[2]


def _with_sequence_number(file: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    if file.sequence_number != UNASSIGNED:
        return file
    if file.added_snapshot_id != snapshot_id:
        raise InvalidInput(
            f"Found unassigned sequence number for a manifest from snapshot: {file.added_snapshot_id} ({_name(file)})"
        )
    lowest = sequence_number if file.min_sequence_number == UNASSIGNED else file.min_sequence_number
    return _changed(file, sequence_number=sequence_number, min_sequence_number=lowest)


@dataclass(frozen=True, slots=True)
class EncodedList:
    """An encoded manifest list, which the next snapshot's list can reuse without encoding it again.

    files: the list's manifests, numbered by `assign_numbers`. blocks: their records, in the same order. size: of its
    file, in bytes.
    """

    format_version: int
    files: tuple[ManifestFile, ...]
    blocks: tuple[avro_file.AvroBlock, ...]
    size: int

    def is_carried_by(self, format_version: int, files: Sequence[ManifestFile]) -> bool:
        """Whether a list of `files` in this format version ends with this one's manifests."""
        if self.format_version != format_version or not self.files:
            return False
        return tuple(files[len(files) - len(self.files) :]) == self.files


def encode_list(
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
    files: Sequence[ManifestFile],
    *,
    carried: EncodedList | None = None,
    bounds: FileBounds = DEFAULT_BOUNDS,
) -> tuple[bytes, EncodedList]:
    """The Avro file of a new snapshot's manifest list, and its content; `assign_numbers` numbers the manifests.

    carried: the parent's list. If `files` ends with it, its encoded records are reused. bounds: those of its readers.
    Raises InvalidInput as `assign_numbers` does, for delete manifests in a v1 table, for manifests without counts in a
    v2 or v3 table, and for more or larger ones than readers allow; UnsupportedFormat for versions other than 1, 2
    and 3."""
    if len(files) > bounds.manifests.value:
        raise bounds.manifests.refused(
            f"A manifest list would have {len(files)} manifests, more than {bounds.manifests.value}",
            "call rewrite_manifests() first",
        )
    if carried is not None and not carried.is_carried_by(format_version, files):
        carried = None
    own = files if carried is None else files[: len(files) - len(carried.files)]
    numbered, _ = assign_numbers(
        own,
        format_version=format_version,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )
    metadata = {
        "snapshot-id": str(snapshot_id),
        # Java writes the word null, and its reader requires the key.
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        metadata["first-row-id"] = str(first_row_id)
    schemas = _schemas(format_version)
    writer = avro_file.AvroFileWriter(schemas.text, metadata, coding_schema=schemas.parsed, bounds=bounds)
    blocks = _blocks([_within(bounds, _encoded(format_version, file), file) for file in numbered], bounds)
    if carried is not None:
        blocks = _joined((*blocks, *carried.blocks), bounds)
        numbered = (*numbered, *carried.files)
    writer.add_blocks(blocks)
    data = writer.finish()
    return data, EncodedList(format_version, numbered, blocks, len(data))


def _within(bounds: FileBounds, record: bytes, file: ManifestFile) -> bytes:
    """The record of a manifest. Raises InvalidInput for one that is larger than readers allow."""
    try:
        avro_file.check_record_size(len(record), bounds.record_bytes)
    except InvalidInput as error:
        what = f"Cannot list the manifest {_name(file)}: {error.message}"
        raise InvalidInput(what, next_step=error.next_step) from error
    return record


def _blocks(records: Sequence[bytes], bounds: FileBounds) -> tuple[avro_file.AvroBlock, ...]:
    """The records in blocks of about BLOCK_BYTES."""
    blocks: list[avro_file.AvroBlock] = []
    waiting: list[bytes] = []
    size = 0
    for number, record in enumerate(records, 1):
        waiting.append(record)
        size += len(record)
        if size >= avro_file.BLOCK_BYTES or number == len(records):
            blocks.append((len(waiting), avro_file.compress(b"".join(waiting), bounds)))
            waiting, size = [], 0
    return tuple(blocks)


def _joined(blocks: Sequence[avro_file.AvroBlock], bounds: FileBounds) -> tuple[avro_file.AvroBlock, ...]:
    """The same records in fewer blocks. A commit adds a block in front; while it has at least as many records as the
    next one, the two are merged. So a list of n manifests has about log n blocks, and each record is compressed about
    log n times in all, not once for each commit. Blocks of large records stay apart, since readers bound a block."""
    count, merged = blocks[0][0] if blocks else 0, 1
    size = len(blocks[0][1]) if blocks else 0
    while merged < len(blocks) and blocks[merged][0] <= count < _BLOCK_RECORDS_MAX:
        size += len(blocks[merged][1])
        if size > avro_file.BLOCK_BYTES:
            break
        count += blocks[merged][0]
        merged += 1
    if merged < 2:
        return tuple(blocks)
    return (avro_file.join_blocks(blocks[:merged], bounds), *blocks[merged:])


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The schema of a list: as JSON, parsed, and the names of its required fields."""

    text: bytes
    parsed: Any
    required: tuple[str, ...]


@cache
def _schemas(format_version: int) -> _Schemas:
    schema = manifest_schemas.manifest_file(format_version)
    required = tuple(field["name"] for field in schema["fields"] if not isinstance(field["type"], list))
    return _Schemas(orjson.dumps(schema), avro_file.parse(schema), required)


@lru_cache(maxsize=_ENCODED_MAX)
def _encoded(format_version: int, file: ManifestFile) -> bytes:
    """A numbered manifest as a record of a list. Raises InvalidInput if a list of this version cannot hold it."""
    if format_version == 1 and file.content != ManifestContent.DATA:
        raise InvalidInput(f"Cannot store delete manifests in a v1 table: {_name(file)}")
    schemas = _schemas(format_version)
    record = _record(file)
    missing = [name for name in schemas.required if record[name] is None]
    if missing:
        raise InvalidInput(f"Manifest {_name(file)} has no {', '.join(missing)}; rewrite the table's manifests")
    return avro_file.encode_record(schemas.parsed, record)


def decode_list(data: bytes, location: str, bounds: FileBounds = DEFAULT_BOUNDS) -> tuple[ManifestFile, ...]:
    """The manifests of a list, in its order. Raises CorruptFile."""
    return tuple(read_list(data, location, bounds))


def read_list(data: bytes, location: str, bounds: FileBounds = DEFAULT_BOUNDS) -> Iterator[ManifestFile]:
    """The manifests of a list, in its order, decoded one by one, so that a caller can stop early. Raises CorruptFile at
    the first damaged record."""
    container = avro_file.decode(data, location, bounds)
    avro_file.check_count(container, bounds.manifests)
    try:
        missing, schema = _reading_schema(container.schema_text)
    except _DAMAGED as error:
        raise CorruptFile(location, f"its Avro schema cannot be used: {error!r}") from error
    if missing:
        raise CorruptFile(location, f"it is not a manifest list: no fields with ids {list(missing)}")
    values = 0
    for record in container.records(schema):
        # A summary of a partition field takes as much memory as a manifest, and four bytes.
        values += 1 + len(record.get("partitions") or ())
        if values > _FEW_VALUES:
            avro_file.check_proportion(container, values)
        try:
            yield _from_record(record)
        except _DAMAGED as error:
            raise CorruptFile(location, f"it is not a manifest list: {error!r}") from error


def leading_added_manifests(
    files: Iterable[ManifestFile], snapshot_id: int, count: int
) -> tuple[ManifestFile, ...] | None:
    """The manifests that a snapshot added, if they come first in its list and hold exactly `count` added data files and
    nothing else. None: read the whole list."""
    found: list[ManifestFile] = []
    for file in files:
        if (
            file.added_snapshot_id != snapshot_id
            or file.content != ManifestContent.DATA
            or file.added_files_count is None
            or file.existing_files_count != 0
            or file.deleted_files_count != 0
        ):
            return None
        found.append(file)
        count -= file.added_files_count
        if count <= 0:
            return tuple(found) if count == 0 else None
    return None


@lru_cache(maxsize=64)
def _reading_schema(schema_text: bytes) -> tuple[tuple[int, ...], Any]:
    """The ids of required fields that this schema lacks; the schema with today's names, parsed if it can be. Cached,
    since writers have few schemas."""
    schema = orjson.loads(schema_text)
    missing = {500, 501, 502, 503} - manifest_schemas.top_level_ids(schema)
    if missing:
        return tuple(sorted(missing)), None
    known = manifest_schemas.known_fields(manifest_schemas.manifest_file(3))
    return (), avro_file.parsed_if_possible(manifest_schemas.relabel(schema, known))


_FIELDS: Final = tuple([each.name for each in fields(ManifestFile)])
_SUMMARY_FIELDS: Final = tuple([each.name for each in fields(FieldSummary)])
_values: Final = attrgetter(*_FIELDS)
_summary_values: Final = attrgetter(*_SUMMARY_FIELDS)
#: What lists of format version 1 lack; there it is 0.
_SINCE_V2: Final = ("content", "sequence_number", "min_sequence_number")


def _changed(file: ManifestFile, **changes: int) -> ManifestFile:
    """As `dataclasses.replace`, which makes a call for each field."""
    values: dict[str, Any] = dict(zip(_FIELDS, _values(file), strict=True)) | changes
    return ManifestFile(**values)


def _record(file: ManifestFile) -> dict[str, Any]:
    record = dict(zip(_FIELDS, _values(file), strict=True))
    record["content"] = int(file.content)
    if file.partitions is not None:
        record["partitions"] = [
            dict(zip(_SUMMARY_FIELDS, _summary_values(each), strict=True)) for each in file.partitions
        ]
    return record


def _from_record(record: Mapping[str, Any]) -> ManifestFile:
    found = {name: record[name] for name in _FIELDS if name in record}
    for name in _SINCE_V2:
        found[name] = found.get(name) or 0
    found["content"] = ManifestContent(found["content"])
    if found.get("partitions") is not None:
        found["partitions"] = tuple([_summary(each) for each in found["partitions"]])
    return ManifestFile(**found)


def _summary(record: Mapping[str, Any]) -> FieldSummary:
    return FieldSummary(
        contains_null=record["contains_null"],
        contains_nan=record.get("contains_nan"),
        lower_bound=record.get("lower_bound"),
        upper_bound=record.get("upper_bound"),
    )
