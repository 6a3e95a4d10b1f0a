"""Manifests decoded into Arrow columns: `layout` says which.

Two readers give the same: DataFusion's, which is forty times as quick on large manifests, and our own Avro reader for
all others: small ones, those that DataFusion cannot read, and where it is not installed. Frame, counts and what the
blocks inflate to are checked before, by the same code for both; `decode_manifest` and this refuse the same files, but
for a union's branch that its schema lacks, which DataFusion takes for the one that is not null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds
from iceberg_hms.format.manifests.manifest import StoredManifest, open_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.planning import arrow_avro, layout
from iceberg_hms.planning.flat_columns import PartitionColumn, flat_columns, partition_columns

#: Called with the bytes that decoding takes in all, before it takes them, and in the end with those that the columns
#: keep; raises to refuse them.
Admit = Callable[[int], object]

#: What decoding by our own reader takes, in times of the nested columns: these in parts and as one, and flat ones.
_TIMES_COLUMNS: Final = 3
#: Fewer entries are decoded by our own reader: DataFusion takes so long to begin. Measured: `python -m benchmarks
#: manifest-decoders`.
SMALL_ENTRIES: Final = 50
#: So many entries are held as Python objects, or fewer that have so many bytes: as objects they take up to fifty times
#: as many.
_ENTRIES_AT_A_TIME: Final = 1_024
_BYTES_AT_A_TIME: Final = 1024 * 1024
#: What is not an entry of a manifest: errors of pyarrow (ArrowInvalid is a ValueError), and of records without a field.
_DAMAGED: Final = (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, OverflowError)


def decode_columns(
    data: bytes,
    location: str,
    manifest_file: ManifestFile,
    bounds: FileBounds = DEFAULT_BOUNDS,
    stats: frozenset[int] | None = None,
    admit: Admit | None = None,
) -> pa.RecordBatch:
    """The live entries of a manifest as columns, with nothing inherited: see `layout`, and `inherit.inherited`.

    stats: ids of the table's columns whose bounds and counts are wanted; None: of all. admit: asked for the memory
    that decoding takes, in bytes, as it becomes known.
    Raises CorruptFile and FileBeyondLimit for a file that `decode_manifest` refuses, and what `admit` raises.
    """
    admit = admit or _any
    stored = open_manifest(data, location, manifest_file, bounds)
    try:
        partition = partition_columns(stored)
        nested = None
        if stored.container.record_count >= SMALL_ENTRIES:
            nested = arrow_avro.read(stored, partition, admit)
        if nested is None:
            nested = _read(stored, partition, admit, with_statistics=stats is None or bool(stats))
        found = flat_columns(nested, partition, stats)
    except _DAMAGED as error:
        raise CorruptFile(location, f"an entry is not a manifest's: {error}") from error
    admit(found.get_total_buffer_size())
    return found


def _any(size: int) -> None:
    """Any memory will do."""


def _read(
    stored: StoredManifest, partition: list[PartitionColumn], admit: Admit, *, with_statistics: bool
) -> Mapping[str, pa.Array]:
    """By our own reader: the fields of entries, of their files, and of their partition tuples."""
    records = stored.container.encoded_records(stored.parsed)
    types = {**layout.TYPES, **(layout.MAPS if with_statistics else {})}
    chunks = [chunk_of([], types, partition)]
    size = 0
    for part in _parts(records):
        chunk = chunk_of(part, types, partition)
        size += sum(column.nbytes for column in chunk.values())
        admit(_TIMES_COLUMNS * size)
        chunks.append(chunk)
    return {name: pa.concat_arrays([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _parts(records: Iterator[tuple[dict[str, Any], bytes]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for record, encoded in records:
        part.append(record)
        size += len(encoded)
        if len(part) == _ENTRIES_AT_A_TIME or size >= _BYTES_AT_A_TIME:
            yield part
            part, size = [], 0
    if part:
        yield part


def chunk_of(
    records: list[dict[str, Any]], types: Mapping[str, pa.DataType], partition: list[PartitionColumn]
) -> dict[str, pa.Array]:
    """Some records as nested columns."""
    files = [record["data_file"] for record in records]
    tuples = [file["partition"] for file in files]
    columns = {}
    for name, kind in types.items():
        found = [each.get(name) for each in (records if name in layout.ENTRY_FIELDS else files)]
        if name in layout.MAPS:
            _check_pairs(found)
        columns[name] = pa.array(found, kind)
    for field in partition:
        columns[field.label] = pa.array([each[field.label] for each in tuples], field.stored_type)
    return columns


def _check_pairs(maps: list[list[dict[str, Any]] | None]) -> None:
    """Raises KeyError for maps whose pairs lack their key or value: Arrow takes that for null. All have one schema, so
    that the first pair tells."""
    first = next((each[0] for each in maps if each), None)
    if first is not None:
        _ = first["key"], first["value"]
