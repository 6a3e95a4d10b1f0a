"""Reads manifests as columns: several at once, from a cache if there is one, with what they inherit filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.memory_budget import HeldMemory, MemoryBudget
from iceberg_hms.planning import layout
from iceberg_hms.planning.decode import Admit, decode_columns

Result = TypeVar("Result")

#: So many manifests are looked up in the cache at a time.
_LOOKED_UP: Final = 256


class ManifestReader(Protocol):
    """Reads manifests, and decodes them in parallel: `storage.manifests.ManifestStore`."""

    @property
    def bounds(self) -> FileBounds: ...

    @property
    def memory(self) -> MemoryBudget: ...

    def decode_each(
        self, files: Iterable[ManifestFile], decode: Callable[[ManifestFile, bytes, Admit], Result]
    ) -> Iterator[Result]:
        """What `decode` makes of each manifest and its bytes, in the order of `files`, some of them ahead of the
        caller. Raises StorageError, CorruptFile, ResourceExhausted, and what `decode` raises."""
        ...


class KeptColumns(Protocol):
    """A cache of decoded manifests, which never change. Safe for threads."""

    def get(self, file: ManifestFile) -> pa.RecordBatch | None:
        """The columns that `put` kept, with all statistics and nothing inherited. None if there are none, or they
        cannot be read: never raises for what is wrong with the cache."""
        ...

    def put(self, file: ManifestFile, columns: pa.RecordBatch) -> None:
        """Keep columns, if that is possible: never raises for what is wrong with the cache."""
        ...


class ManifestColumns:
    """Safe for threads. kept: where decoded manifests are kept; None: nowhere."""

    def __init__(self, reader: ManifestReader, kept: KeptColumns | None = None) -> None:
        self._reader = reader
        self._kept = kept

    def uncached(self) -> ManifestColumns:
        """A reader that never asks the cache: for callers that delete the files which no manifest names."""
        return ManifestColumns(self._reader)

    def share_of_memory(self) -> HeldMemory:
        """A new share of the memory budget, for a caller that keeps columns: `read` counts those of a manifest only
        until the caller takes the next ones."""
        return self._reader.memory.share()

    def read(self, files: Sequence[ManifestFile], stats: frozenset[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The live entries of each manifest as it stores them (see `layout`; `inherit.inherited` fills in the rest), in
        the order of `files`. Manifests are read and decoded some megabytes ahead; an iteration that ends early stops
        that.

        stats: ids of the table's columns whose bounds and counts are wanted; None: of all. Raises StorageError,
        CorruptFile and ResourceExhausted, which name the manifest."""
        if self._kept is None:
            return self._reader.decode_each(files, partial(self._decoded, stats))
        return self._read_kept(iter(files), self._kept, _names_of(stats))

    def _read_kept(
        self, files: Iterator[ManifestFile], kept: KeptColumns, statistics: frozenset[str] | None
    ) -> Iterator[pa.RecordBatch]:
        while some := list(islice(files, _LOOKED_UP)):
            found = [kept.get(file) for file in some]
            missing = [file for file, columns in zip(some, found, strict=True) if columns is None]
            decoded = self._reader.decode_each(missing, partial(self._kept_now, kept))
            for columns in found:
                whole = next(decoded) if columns is None else columns
                # Filtering the others would take longer than all else.
                yield whole if statistics is None else _without_others(whole, statistics)

    def _decoded(self, stats: frozenset[int] | None, file: ManifestFile, data: bytes, admit: Admit) -> pa.RecordBatch:
        return decode_columns(data, file.manifest_path, file, self._reader.bounds, stats, admit)

    def _kept_now(self, kept: KeptColumns, file: ManifestFile, data: bytes, admit: Admit) -> pa.RecordBatch:
        columns = self._decoded(None, file, data, admit)
        kept.put(file, columns)
        return columns


def _names_of(stats: frozenset[int] | None) -> frozenset[str] | None:
    if stats is None:
        return None
    return frozenset(layout.statistic(name, each) for name in layout.STATISTICS for each in stats)


def _without_others(columns: pa.RecordBatch, statistics: frozenset[str]) -> pa.RecordBatch:
    """Columns without the statistics that are not among these."""
    return columns.select(
        [
            name
            for name in columns.schema.names
            if name in layout.TYPES or name in statistics or not layout.is_statistic(name)
        ]
    )
