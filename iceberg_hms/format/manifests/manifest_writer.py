"""Writing a manifest: entries in, an Avro file and its entry for the manifest list out.

The writer checks which values an entry must leave out to inherit them, and which it must have: no later commit can
repair a manifest with a wrong sequence number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import orjson

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds
from iceberg_hms.format.manifests.entry_bytes import data_file_record, encode_entry, layout_of, with_row_id
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, FieldSummary, ManifestContent, ManifestFile
from iceberg_hms.format.schema import uuid_order, values
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import UnknownTransform, Void
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, StructType, Type

#: Field 105, which v1 requires and nobody reads, with Java's value.
_BLOCK_SIZE_V1: Final = 64 * 1024 * 1024
#: How many schemas of manifests are cached: one for each partition type and format version in use.
_SCHEMAS_MAX: Final = 256
_STATUSES: Final = frozenset(EntryStatus)


#: What entries have in common that may share a manifest: their content, and the signs of the UUIDs of their partition.
EntryKind = tuple[ManifestContent, tuple[int, ...]]


class EntryKinds:
    """Which entries may share a manifest: data files or delete files, and partitions of UUIDs that all readers order
    alike (`format.schema.uuid_order`). Without that the manifest's partition bounds would mislead some of them, and
    without bounds all: a field that has none is null in all entries (spec: field_summary).

    partition_type: of the spec.
    """

    def __init__(self, partition_type: StructType) -> None:
        fields = partition_type.fields
        self._uuids = tuple(each.name for each in fields if values.kind_of(each.type) == uuid_order.KIND)

    def of(self, data_file: DataFile) -> EntryKind:
        """The kind of a file's entry; kinds have an order."""
        content = ManifestContent.DATA if data_file.content == FileContent.DATA else ManifestContent.DELETES
        return content, tuple([uuid_order.signs(data_file.partition.get(name)) for name in self._uuids])


class ManifestWriter:
    """Makes one manifest in memory.

    format_version: the table's. snapshot_id: the snapshot that adds it. content: DATA or DELETES, for all entries; the
    caller gives entries of one kind (`EntryKinds`). bounds: those of its readers.
    Raises UnsupportedFormat for versions other than 1 to 3, InvalidInput for delete manifests in v1, for specs with
    an unknown transform (spec: writers must not write with one) and for those whose schema no reader would take.
    """

    def __init__(
        self,
        format_version: int,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        content: ManifestContent = ManifestContent.DATA,
        bounds: FileBounds = DEFAULT_BOUNDS,
    ) -> None:
        if format_version == 1 and content != ManifestContent.DATA:
            raise InvalidInput("Cannot store delete files in a v1 table")
        for each in spec.fields:
            if isinstance(each.transform, UnknownTransform):
                raise InvalidInput(f"Cannot write with partition field {each.name}: unknown transform {each.transform}")
        self._version = format_version
        self._spec = spec
        self._snapshot_id = snapshot_id
        self._content = content
        self._partition_type = spec.partition_type(schema)
        self._optional_names = {each.name for each in spec.fields if isinstance(each.transform, Void)}
        avro_schema, coding_schema = _schemas(format_version, self._partition_type)
        if len(avro_schema) > avro_file.MAX_SCHEMA_BYTES:
            raise InvalidInput(
                f"The Avro schema of manifests with partition spec {spec.spec_id} would have {len(avro_schema)} bytes, "
                f"more than {avro_file.MAX_SCHEMA_BYTES}",
                next_step="give the partition fields shorter names",
            )
        metadata = {
            "schema": orjson.dumps(schema.raw).decode(),
            "schema-id": str(schema.schema_id),
            "partition-spec": orjson.dumps([each.to_json() for each in spec.fields]).decode(),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(format_version),
        }
        if format_version >= 2:
            metadata["content"] = content.name.lower()
        self._layout = _layout(format_version, self._partition_type)
        self._file = avro_file.AvroFileWriter(avro_schema, metadata, coding_schema=coding_schema, bounds=bounds)
        self._summary = ManifestSummary(self._partition_type)
        #: How many were added.
        self.entries = 0

    @property
    def size(self) -> int:
        """An upper estimate of the file's size so far, in bytes."""
        return self._file.size

    def add(self, entry: ManifestEntry) -> None:
        """Append an entry. Raises InvalidInput, with the manifest unchanged, for content of the other kind, partition
        values that do not match the spec, missing sequence numbers, and an entry that is larger than readers allow."""
        data_file = entry.data_file
        if (data_file.content == FileContent.DATA) != (self._content == ManifestContent.DATA):
            raise InvalidInput(f"{data_file.file_path} does not belong in a {self._content.name.lower()} manifest")
        written = as_written(entry, self._version, self._snapshot_id)
        encoded = self._copied(entry, written)
        partition = {} if encoded is not None else self._partition(data_file)
        try:
            if encoded is not None:
                self._file.add_encoded(encoded)
            else:
                self._file.add(_record(written, partition))
        except InvalidInput as error:
            what = f"Cannot write an entry for {data_file.file_path}: {error.message}"
            raise InvalidInput(what, next_step=error.next_step) from error
        self._summary.add(written)
        self.entries += 1

    def _copied(self, entry: ManifestEntry, written: ManifestEntry) -> bytes | None:
        """The record of an entry with the bytes of its data file as another manifest has them; None if that has another
        layout or lacks something."""
        encoded, data_file = entry.encoded, entry.data_file
        if encoded is None or encoded.data_file is not data_file or encoded.layout != self._layout:
            return None
        if self._version > 2 and data_file.first_row_id != written.data_file.first_row_id:
            return None
        record = data_file_record(encoded.entry)
        if encoded.lacks_row_id:
            referenced = (data_file.referenced_data_file, data_file.content_offset, data_file.content_size_in_bytes)
            if data_file.first_row_id is None or self._version < 3 or referenced != (None, None, None):
                return None
            record = with_row_id(record, data_file.first_row_id)
        numbers = (written.snapshot_id, written.sequence_number, written.file_sequence_number)
        return encode_entry(written.status, *numbers, record)

    def finish(self, location: str) -> tuple[bytes, ManifestFile]:
        """The Avro file, and its entry for a list, with an unassigned sequence number. `location` is where the caller
        will write it. Raises InvalidInput for one that is larger than readers allow."""
        data = self._file.finish()
        file = self._summary.manifest_file(location, len(data), self._spec.spec_id, self._snapshot_id, self._content)
        return data, file

    def _partition(self, data_file: DataFile) -> dict[str, Any]:
        given = data_file.partition
        names = {each.name for each in self._partition_type.fields}
        if given.keys() - names or names - given.keys() - self._optional_names:
            raise InvalidInput(
                f"{data_file.file_path} has partition values for {sorted(given)}, "
                f"but spec {self._spec.spec_id} has the fields {sorted(names)}"
            )
        return {
            manifest_schemas.partition_label(each.id): _stored(each, given.get(each.name), data_file)
            for each in self._partition_type.fields
        }


@lru_cache(maxsize=_SCHEMAS_MAX)
def _schemas(format_version: int, partition: StructType) -> tuple[bytes, Any]:
    """The schema of a manifest as JSON, and one of the same layout with the field names of records, parsed."""
    schema = manifest_schemas.manifest_entry(format_version, partition)
    parsed = avro_file.parse(manifest_schemas.relabel(schema, manifest_schemas.known_fields(schema)))
    return orjson.dumps(schema), parsed


@lru_cache(maxsize=_SCHEMAS_MAX)
def _layout(format_version: int, partition: StructType) -> str | None:
    """The layout of the records that can be copied from another manifest; None in version 1."""
    return None if format_version == 1 else layout_of(_schemas(format_version, partition)[0])


def as_written(entry: ManifestEntry, format_version: int, snapshot_id: int) -> ManifestEntry:
    """The entry as a manifest of this snapshot stores it: without inherited values, and without those that version 1
    lacks. Raises InvalidInput if a value is missing that cannot be inherited."""
    path = entry.data_file.file_path
    if entry.status not in _STATUSES:
        raise InvalidInput(f"Unknown entry status {entry.status} for {path}")
    numbers = (entry.data_file.record_count, entry.data_file.file_size_in_bytes)
    if [number for number in numbers if not isinstance(number, int) or number < 0]:
        raise InvalidInput(f"Record count and file size of {path} must be whole and not negative: {numbers}")
    added = entry.status == EntryStatus.ADDED
    if added:
        foreign = entry.snapshot_id not in (None, snapshot_id)
        if foreign and format_version > 1 and entry.sequence_number is None:
            raise InvalidInput(
                f"Found unassigned sequence number for an entry from snapshot: {entry.snapshot_id} ({path})"
            )
    else:
        if entry.snapshot_id is None:
            raise InvalidInput(f"Only added entries may leave out the snapshot id: {path}")
        if format_version > 1 and (entry.sequence_number is None or entry.file_sequence_number is None):
            raise InvalidInput(f"Only added entries may leave out their sequence numbers: {path}")
    # New files get row ids when the list is numbered; older ones keep theirs (spec: first row id inheritance).
    keeps_row_id = format_version > 2 and not added and entry.data_file.content == FileContent.DATA
    data_file = entry.data_file
    if data_file.first_row_id is not None and not keeps_row_id:
        data_file = replace(data_file, first_row_id=None)
    return ManifestEntry(
        status=entry.status,
        data_file=data_file,
        snapshot_id=snapshot_id if entry.snapshot_id is None and format_version == 1 else entry.snapshot_id,
        sequence_number=None if format_version == 1 else entry.sequence_number,
        # An added file's own number is that of its snapshot, which is unknown before the commit.
        file_sequence_number=None if added or format_version == 1 else entry.file_sequence_number,
    )


def _record(entry: ManifestEntry, partition: Mapping[str, Any]) -> dict[str, Any]:
    data_file = entry.data_file
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": {
            "content": int(data_file.content),
            "file_path": data_file.file_path,
            "file_format": data_file.file_format.upper(),
            "partition": partition,
            "record_count": data_file.record_count,
            "file_size_in_bytes": data_file.file_size_in_bytes,
            "block_size_in_bytes": _BLOCK_SIZE_V1,
            "column_sizes": _pairs(data_file.column_sizes),
            "value_counts": _pairs(data_file.value_counts),
            "null_value_counts": _pairs(data_file.null_value_counts),
            "nan_value_counts": _pairs(data_file.nan_value_counts),
            "lower_bounds": _pairs(data_file.lower_bounds),
            "upper_bounds": _pairs(data_file.upper_bounds),
            "key_metadata": data_file.key_metadata,
            "split_offsets": None if data_file.split_offsets is None else list(data_file.split_offsets),
            "equality_ids": None if data_file.equality_ids is None else list(data_file.equality_ids),
            "sort_order_id": data_file.sort_order_id,
            "first_row_id": data_file.first_row_id,
            "referenced_data_file": data_file.referenced_data_file,
            "content_offset": data_file.content_offset,
            "content_size_in_bytes": data_file.content_size_in_bytes,
        },
    }


def _pairs(values_by_id: Mapping[int, Any] | None) -> list[dict[str, Any]] | None:
    return None if values_by_id is None else [{"key": key, "value": value} for key, value in values_by_id.items()]


def _stored(field: NestedField, value: Any, data_file: DataFile) -> Any:
    """A partition value as Avro stores it: decimals and uuids as bytes, others unchanged."""
    if value is None:
        return None
    of = field.type
    try:
        return _checked(of, value)
    except (InvalidInput, OverflowError) as error:
        raise InvalidInput(
            f"Cannot store partition value {value!r} of {field.name} as {of}, for {data_file.file_path}: {error}"
        ) from error


def _checked(of: Type, value: Any) -> Any:
    # fastavro would accept a float for a date.
    data = values.to_bytes(of, value)
    match of:
        case PrimitiveType(kind="decimal"):
            size = manifest_schemas.decimal_size(of.precision)
            return values.unscaled(value, of.scale).to_bytes(size, "big", signed=True)
        case PrimitiveType(kind="fixed"):
            # Java writes and expects a length prefix, against its own schema (apache/iceberg#17501).
            raise InvalidInput("Java cannot read a fixed partition value; partition by binary or bucket instead")
        case PrimitiveType(kind="uuid"):
            return data
        case _:
            return value


class ManifestSummary:
    """Counts, rows and partition bounds of a manifest's entries, collected one by one.

    partition_type: of the spec; None leaves out the partition bounds.
    """

    def __init__(self, partition_type: StructType | None) -> None:
        self.files: dict[int, int] = dict.fromkeys(EntryStatus, 0)
        self.rows: dict[int, int] = dict.fromkeys(EntryStatus, 0)
        #: The lowest explicit data sequence number of live files; UNASSIGNED if all inherit theirs.
        self.min_sequence_number = UNASSIGNED
        fields = None if partition_type is None else partition_type.fields
        self._fields = None if fields is None else [(each.name, _FieldValues(each.type)) for each in fields]

    def add(self, entry: ManifestEntry) -> None:
        status = entry.status
        self.files[status] += 1
        self.rows[status] += entry.data_file.record_count
        number = entry.sequence_number
        if entry.is_live and number is not None:
            unset = self.min_sequence_number == UNASSIGNED
            self.min_sequence_number = number if unset else min(self.min_sequence_number, number)
        for name, field_values in self._fields or ():
            field_values.add(entry.data_file.partition.get(name))

    def manifest_file(
        self,
        location: str,
        length: int,
        spec_id: int,
        snapshot_id: int,
        content: ManifestContent = ManifestContent.DATA,
    ) -> ManifestFile:
        """The manifest's entry for a list, not yet numbered. location, length: of the manifest file."""
        return ManifestFile(
            manifest_path=location,
            manifest_length=length,
            partition_spec_id=spec_id,
            added_snapshot_id=snapshot_id,
            content=content,
            sequence_number=UNASSIGNED,
            min_sequence_number=self.min_sequence_number,
            added_files_count=self.files[EntryStatus.ADDED],
            existing_files_count=self.files[EntryStatus.EXISTING],
            deleted_files_count=self.files[EntryStatus.DELETED],
            added_rows_count=self.rows[EntryStatus.ADDED],
            existing_rows_count=self.rows[EntryStatus.EXISTING],
            deleted_rows_count=self.rows[EntryStatus.DELETED],
            partitions=None if self._fields is None else tuple(each.summary() for _, each in self._fields),
        )


class _FieldValues:
    def __init__(self, of: Type) -> None:
        self._type = of
        self._contains_null = False
        self._contains_nan = False
        self._lowest: Any = None
        self._highest: Any = None

    def add(self, value: Any) -> None:
        if value is None:
            self._contains_null = True
        elif isinstance(value, float) and math.isnan(value):
            self._contains_nan = True
        elif self._lowest is None:
            self._lowest = self._highest = value
        elif _order(value) < _order(self._lowest):
            self._lowest = value
        elif _order(self._highest) < _order(value):
            self._highest = value

    def summary(self) -> FieldSummary:
        return FieldSummary(
            contains_null=self._contains_null,
            contains_nan=self._contains_nan,
            lower_bound=None if self._lowest is None else values.to_bytes(self._type, self._lowest),
            upper_bound=None if self._highest is None else values.to_bytes(self._type, self._highest),
        )


def _order(value: Any) -> Any:
    """The sort key of a value: -0.0 comes before 0.0 (spec: field_summary, note 2)."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value
