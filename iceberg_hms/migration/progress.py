"""The folder in which a migration keeps how far it is: listings, and a record of each slice that is described.

A listing is a run of compressed texts, one for each slice. A record is named by its slice's fingerprint, so that a
later run finds it if files and table are as they were.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from iceberg_hms.coordinator.files.cleanup import MIGRATION_PROGRESS, PUBLISHED_MAX, delete_files
from iceberg_hms.coordinator.ports import CommitPorts, Files, ListedFile, TableName
from iceberg_hms.errors import CorruptFile, FileAlreadyExists, IcebergHmsError
from iceberg_hms.format.locations import join
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import StructType
from iceberg_hms.migration.work import Described, Slice, SourcePartition, Work

#: Some files of a partition, or all.
PartitionSlice = tuple[SourcePartition, Sequence[ListedFile]]

#: Quick: a listing is read once.
_ZLIB_LEVEL: Final = 1


class SliceTexts:
    """The text of a slice and back: its partitions, each with its files by their paths from its folder.

    partition_type: of the spec whose values the partitions have.
    """

    def __init__(self, partition_type: StructType) -> None:
        self._types = {each.name: each.type for each in partition_type.fields}

    def encode(self, parts: Iterable[PartitionSlice]) -> bytes:
        """Equal slices have equal texts. Raises InvalidInput for a partition value of another type than its field."""
        return orjson.dumps(
            [
                {
                    "name": partition.name,
                    "location": partition.location,
                    "values": self._encoded(partition),
                    "format": partition.file_format,
                    "files": [
                        (each.location[len(folder_prefix(partition)) :], each.length, each.modified_ms)
                        for each in files
                    ],
                }
                for partition, files in parts
            ]
        )

    def decode(self, text: bytes) -> list[PartitionSlice]:
        """The inverse of `encode`."""
        found: list[PartitionSlice] = []
        for each in orjson.loads(text):
            given = each["values"]
            partition = SourcePartition(
                each["name"],
                each["location"],
                None if given is None else {name: self._value(name, stored) for name, stored in given.items()},
                each["format"],
            )
            above = folder_prefix(partition)
            found.append((partition, [ListedFile(above + path, *facts) for path, *facts in each["files"]]))
        return found

    def _encoded(self, partition: SourcePartition) -> dict[str, str | None] | None:
        if partition.values is None:
            return None
        return {
            name: None if value is None else values.to_bytes(self._types[name], value).hex()
            for name, value in partition.values.items()
        }

    def _value(self, name: str, stored: str | None) -> Any:
        return None if stored is None else values.from_bytes(self._types[name], bytes.fromhex(stored))


def folder_prefix(partition: SourcePartition) -> str:
    """How the locations of a partition's files begin."""
    return f"{partition.location.rstrip('/')}/"


def outcome_key(work: Work, metadata: TableMetadata) -> bytes:
    """What decides beside a slice's files what its manifests say."""
    parts = {
        "release": work.release,
        "adds_names": work.adds_names,
        "manifests": work.manifest_folder,
        "version": metadata.format_version,
        # Manifests of version 1 alone name their snapshot.
        "snapshot": work.snapshot_id if metadata.format_version == 1 else None,
        "schema": metadata.schema.raw,
        "columns": metadata.last_column_id,
        "spec": metadata.spec.raw,
        "order": [str(each) for each in metadata.sort_order.fields],
        "properties": dict(metadata.properties),
    }
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()


def fingerprint(key: bytes, text: bytes) -> str:
    """Of a slice. key: the run's `outcome_key`. text: the slice's."""
    return hashlib.sha256(key + text).hexdigest()


def packed(text: bytes) -> bytes:
    """A slice's text as a listing has it."""
    return zlib.compress(text, _ZLIB_LEVEL)


def read_text(files: Any, slice_: Slice, key: bytes) -> bytes:
    """The text of a slice. files: as `stores.Stores` has them. Raises MissingFile, StorageError; CorruptFile for one
    whose fingerprint is not the slice's."""
    with files.open(slice_.listing) as file:
        file.seek(slice_.start)
        data = bytes(file.read(slice_.stop - slice_.start))
    try:
        text = zlib.decompress(data)
    except zlib.error as error:
        raise CorruptFile(slice_.listing, f"it is no listing: {error}") from error
    if fingerprint(key, text) != slice_.fingerprint:
        raise CorruptFile(slice_.listing, "its files are not those that were listed")
    return text


class Records:
    """What is known of slices that were described. folder: of the progress."""

    def __init__(self, files: Files, folder: str, snapshot_id: int) -> None:
        self._files = files
        self._folder = folder
        self._snapshot_id = snapshot_id

    def find(self, fingerprint: str) -> Described | None:
        """What an earlier run described, as manifests of this run's snapshot; None if there is no record, if it cannot
        be read, or if a manifest of it is not there as it was written."""
        try:
            record = orjson.loads(self._files.read(self._location(fingerprint)))
            if record["fingerprint"] != fingerprint:
                return None
            manifests = tuple([self._manifest(each) for each in record["manifests"]])
            if any(self._files.length(each.manifest_path) != each.manifest_length for each in manifests):
                return None
            return Described(
                manifests,
                record["files"],
                record["records"],
                record["size"],
                spellings=frozenset([(field_id, name) for field_id, name in record["spellings"]]),
                reused=True,
            )
        except (IcebergHmsError, LookupError, TypeError, ValueError):
            return None

    def put(self, fingerprint: str, described: Described) -> None:
        """Keep what was described. Takes the place of a record that cannot be used. Raises StorageError."""
        location = self._location(fingerprint)
        record = {
            "fingerprint": fingerprint,
            "manifests": described.manifests,
            "files": described.files,
            "records": described.records,
            "size": described.size,
            "spellings": sorted(described.spellings),
        }
        data = orjson.dumps(record, default=bytes.hex)
        try:
            self._files.write(location, data)
        except FileAlreadyExists:
            self._files.delete(location)
            self._files.write(location, data)

    def _location(self, fingerprint: str) -> str:
        return join(self._folder, f"{fingerprint}.json")

    def _manifest(self, record: dict[str, Any]) -> ManifestFile:
        partitions = [
            FieldSummary(
                **each,
                lower_bound=None if lower is None else bytes.fromhex(lower),
                upper_bound=None if upper is None else bytes.fromhex(upper),
            )
            for each in record.pop("partitions")
            for lower, upper in [(each.pop("lower_bound"), each.pop("upper_bound"))]
        ]
        record["added_snapshot_id"] = self._snapshot_id
        return ManifestFile(**record, partitions=tuple(partitions))


def delete_progress(ports: CommitPorts, name: TableName, folder: str) -> int:
    """Delete what a migration of a table keeps of its progress; returns how many files that were. A file that cannot be
    deleted stays, as `delete_files` says. Raises StorageError if the folder cannot be listed."""
    deleted = 0
    listed = ports.files.list_files(folder)
    while some := [each.location for each in islice(listed, PUBLISHED_MAX)]:
        deleted += len(delete_files(ports, name, some, MIGRATION_PROGRESS).locations)
    return deleted
