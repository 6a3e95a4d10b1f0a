"""The Atlas table: a month of files in partitions by hour and batch, as metadata alone; there are no data files.

Our own writer makes its manifests. At full size it has 2,698,752 files: 672 hours of 4 batches of 1,004 files each, in
269 manifests. Each file has bounds and counts of five columns. Most columns have neither nulls nor NaN; in one file of
sixteen `value` has nulls, in another one NaN, and now and then all that it or `name` has is null or NaN.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile, decode_list, encode_list
from iceberg_hms.format.manifests.manifest_writer import ManifestWriter
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.stores import open_files

HOURS: Final = 672
BATCHES: Final = 4
PARTITIONS: Final = HOURS * BATCHES
#: Of each partition, and of a manifest, at full size.
FILES_EACH: Final = 1_004
MANIFEST_ENTRIES: Final = 10_040
#: Microseconds; 2024-02-01, so that hours of a day and days of a month are easy to name.
START: Final = 1_706_745_600_000_000
HOUR: Final = 3_600_000_000
#: Names that a file has: each file of a partition has others than its neighbours.
NAMES_EACH: Final = 1_000
#: Fewer files are written by the process that asks for them.
_FEW_FILES: Final = 50_000
_VERSION: Final = 2
_COLUMNS: Final = (("hour", "int"), ("batch", "int"), ("time", "timestamptz"), ("name", "string"), ("value", "double"))
SCHEMA: Final = Schema.parse(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": at, "name": name, "type": kind, "required": False} for at, (name, kind) in enumerate(_COLUMNS, 1)
        ],
    }
)
SPEC: Final = PartitionSpec.parse(
    {
        "spec-id": 0,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "hour", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "batch", "transform": "identity"},
        ],
    }
)


@dataclass(frozen=True)
class Atlas:
    """Where the table is, and how large. location: its folder; settings: of the store that has it. files_each: of each
    partition. spread: whether a manifest has files of all partitions, not all files of some."""

    location: str
    files_each: int = FILES_EACH
    manifest_entries: int = MANIFEST_ENTRIES
    spread: bool = False
    settings: Mapping[str, Any] | None = None

    @property
    def files(self) -> int:
        return PARTITIONS * self.files_each

    @property
    def manifests(self) -> int:
        return -(-self.files // self.manifest_entries)

    def places(self, manifest: int) -> Iterator[tuple[int, int]]:
        """The files of a manifest, each by its partition and its number there."""
        first = manifest * self.manifest_entries
        for at in range(first, min(first + self.manifest_entries, self.files)):
            number, partition = divmod(at, PARTITIONS) if self.spread else divmod(at, self.files_each)[::-1]
            yield partition, number

    def open(self) -> Files:
        """The store."""
        return open_files(Settings.load({**(self.settings or {}), "storage_fsync": False}, environ={}))


def make(atlas: Atlas, processes: int = 2) -> str:
    """Write the table's metadata, a list and the manifests. Returns the location of the metadata. processes: how many
    write manifests of a large table."""
    snapshot_id, numbers = SYSTEM_CLOCK.snapshot_id(), range(atlas.manifests)
    write = partial(_write_manifest, atlas, snapshot_id)
    if atlas.files <= _FEW_FILES or processes < 2:
        manifests = list(map(write, numbers))
    else:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            manifests = list(pool.map(write, numbers))
    return _write_metadata(atlas, snapshot_id, manifests)


def sampled(atlas: Atlas, metadata_location: str, every: int) -> str:
    """Another table of one of so many manifests, which it shares. Returns the location of its metadata."""
    return _write_metadata(
        atlas, SYSTEM_CLOCK.snapshot_id(), manifests_of(atlas.open(), metadata_location)[every // 2 :: every]
    )


def copied(atlas: Atlas, metadata_location: str, to: Atlas) -> str:
    """The table in another store. Its data files, which are nowhere, keep their paths."""
    source, target = atlas.open(), to.open()
    manifests = []
    for each in manifests_of(source, metadata_location):
        location = f"{to.location}/metadata/{each.manifest_path.rpartition('/')[2]}"
        target.write(location, source.read(each.manifest_path))
        manifests.append(replace(each, manifest_path=location))
    return _write_metadata(to, SYSTEM_CLOCK.snapshot_id(), manifests)


def manifests_of(files: Files, metadata_location: str) -> Sequence[ManifestFile]:
    """Of the current snapshot of a table."""
    snapshot = metadata_file.decode(files.read(metadata_location), metadata_location).current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return decode_list(files.read(snapshot.manifest_list), snapshot.manifest_list)


def name_in(number: int, at: int = 500) -> str:
    """A name that no other file of a partition may have than the one with this number."""
    return f"name.{number * NAMES_EACH + at:010d}"


def data_file(atlas: Atlas, partition: int, number: int) -> DataFile:
    """One file, always with the same values. number: within its partition."""
    hour, batch = divmod(partition, BATCHES)
    noise = struct.unpack("<8I", hashlib.blake2b(b"%d/%d" % (partition, number), digest_size=32).digest())
    rows = 10_000 + noise[0] % 90_000
    nulls = {1: 0, 2: 0, 3: 0, 4: 0, 5: 0}
    nans = 0
    since = START + hour * HOUR + number * HOUR // atlas.files_each
    lower = {
        1: struct.pack("<i", hour),
        2: struct.pack("<i", batch),
        3: struct.pack("<q", since),
        4: name_in(number, 0).encode(),
        5: struct.pack("<d", -noise[1] / 2**32),
    }
    upper = {
        **lower,
        3: struct.pack("<q", since + HOUR // atlas.files_each - 1),
        4: name_in(number, NAMES_EACH - 1).encode(),
        5: struct.pack("<d", noise[2] / 2**32),
    }
    kind = noise[3] % 1024
    if kind % 16 == 1:
        nulls[5] = rows if kind < 128 else 1 + rows // 3
    elif kind % 16 == 2:
        nans = rows if kind < 128 else 1 + rows // 5
    elif kind in (3, 19):
        nulls[4] = rows
    for column, gone in ((4, nulls[4]), (5, nulls[5] + nans)):
        if gone == rows:
            del lower[column], upper[column]
    return DataFile(
        f"{atlas.location}/data/hour={hour}/batch={batch}/{number:05d}-{noise[4]:08x}{noise[5]:08x}.parquet",
        "PARQUET",
        rows,
        1_000_000 + noise[6] % 99_000_000,
        {"hour": hour, "batch": batch},
        column_sizes={column: 1_000 + (noise[7] >> column) % 1_000_000 for column in nulls},
        value_counts=dict.fromkeys(nulls, rows),
        null_value_counts=nulls,
        nan_value_counts={5: nans},
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=[4],
        sort_order_id=0,
    )


def _write_manifest(atlas: Atlas, snapshot_id: int, manifest: int) -> ManifestFile:
    writer = ManifestWriter(_VERSION, SCHEMA, SPEC, snapshot_id)
    for partition, number in atlas.places(manifest):
        writer.add(ManifestEntry(EntryStatus.ADDED, data_file(atlas, partition, number), snapshot_id))
    location = f"{atlas.location}/metadata/{snapshot_id}-m{manifest}.avro"
    data, file = writer.finish(location)
    atlas.open().write(location, data)
    return file


def _write_metadata(atlas: Atlas, snapshot_id: int, manifests: Sequence[ManifestFile]) -> str:
    now_ms = SYSTEM_CLOCK.now_ms()
    empty = new_table_metadata(
        SCHEMA,
        SPEC,
        None,
        atlas.location,
        {},
        format_version=_VERSION,
        uuid=SYSTEM_CLOCK.uuid(),
        now_ms=now_ms,
    )
    data, _ = encode_list(_VERSION, snapshot_id, None, empty.next_sequence_number, None, manifests)
    location = f"{atlas.location}/metadata/snap-{snapshot_id}.avro"
    rows = sum(each.added_rows_count or 0 for each in manifests)
    count = sum(each.added_files_count or 0 for each in manifests)
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": empty.next_sequence_number,
        "timestamp-ms": now_ms,
        "manifest-list": location,
        "schema-id": empty.current_schema_id,
        "summary": {
            "operation": "append",
            "added-data-files": str(count),
            "total-data-files": str(count),
            "added-records": str(rows),
            "total-records": str(rows),
            "total-delete-files": "0",
        },
    }
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    metadata = apply(empty, [{"action": "add-snapshot", "snapshot": snapshot}, head], now_ms=now_ms)
    files = atlas.open()
    files.write(location, data)
    metadata_location = metadata_file.new_location(metadata, None, SYSTEM_CLOCK.uuid())
    files.write(metadata_location, metadata_file.encode(metadata))
    return metadata_location
