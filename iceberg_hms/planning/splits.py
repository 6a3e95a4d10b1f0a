"""Files of a scan, split and packed into groups of about the same size, as Java packs them (TableScanUtil, BinPacking):
an engine that runs a task for each group does the same work for the same table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.manifests.manifest import DataFile, FileContent

#: Formats of which a part can be read (Java: FileFormat).
_SPLITTABLE: Final = frozenset({"PARQUET", "ORC", "AVRO"})


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file to read.

    path, format, rows, size: as the manifest has them; size in bytes. spec_id, partition: of its partition spec, and
    the values by field name. sequence_number: its data sequence number. first_row_id: of its first row (v3), else None.
    split_offsets: where readers may begin, as the manifest has them. deletes: the delete files to apply to it.
    residual: what is left of the scan's filter to apply to its rows.
    """

    path: str
    format: str
    rows: int
    size: int
    spec_id: int
    partition: Mapping[str, Any]
    sequence_number: int
    first_row_id: int | None
    split_offsets: Sequence[int] | None
    deletes: tuple[DataFile, ...]
    residual: Expression

    @property
    def delete_bytes(self) -> int:
        """Bytes to read of the delete files."""
        return sum(map(_content_size, self.deletes)) if self.deletes else 0


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A part of a data file: `length` bytes from `start` on. is_split: other parts of the file may be in other tasks,
    also if this is all of it."""

    file: ScanFile
    start: int
    length: int
    is_split: bool

    @property
    def size_bytes(self) -> int:
        """Bytes to read, with the delete files."""
        return self.length + self.file.delete_bytes

    @property
    def files_count(self) -> int:
        """Files to open."""
        return 1 + len(self.file.deletes)

    @property
    def estimated_rows(self) -> int:
        """The file's rows in proportion to the part."""
        offsets = _well_defined_offsets(self.file)
        whole = self.file.size - (offsets[0] if offsets else 0)
        return int(self.length / whole * self.file.rows) if whole else 0


@dataclass(frozen=True, slots=True)
class ScanTaskGroup:
    """What one task of an engine reads."""

    tasks: tuple[ScanTask, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes to read, with the delete files."""
        return sum(task.size_bytes for task in self.tasks)

    @property
    def files_count(self) -> int:
        """Files to open."""
        return sum(task.files_count for task in self.tasks)

    @property
    def estimated_rows(self) -> int:
        """About how many rows."""
        return sum(task.estimated_rows for task in self.tasks)


def pack(files: Iterable[ScanFile], split_size: int, lookback: int, open_cost: int) -> Iterator[ScanTaskGroup]:
    """Split files and pack the parts into groups, in one pass (Java: TableScanUtil.planTaskGroups).

    split_size: how many bytes a group has, at most; a part that is larger is a group of its own. lookback: into how
    many open groups a part may go. open_cost: bytes that each file counts as, at least, data and delete files alike.
    A file is split where the manifest says that readers may begin, at each such place, else by size. A file without
    bytes has no part, as in Java. Raises InvalidInput for numbers that cannot be."""
    for name, value, least in (("split_size", split_size, 1), ("lookback", lookback, 1), ("open_cost", open_cost, 0)):
        if value < least:
            raise InvalidInput(f"{name} must be {least} or more, but is {value}")
    return _pack(files, split_size, lookback, open_cost)


def _pack(files: Iterable[ScanFile], split_size: int, lookback: int, open_cost: int) -> Iterator[ScanTaskGroup]:
    bins: list[_Bin] = []
    for file in files:
        for task in _split(file, split_size):
            weight = max(task.size_bytes, task.files_count * open_cost)
            found = next((each for each in bins if each.weight + weight <= split_size), None)
            if found is not None:
                found.add(task, weight)
                continue
            bins.append(_Bin([task], weight))
            if len(bins) > lookback:
                largest = max(bins, key=lambda each: each.weight)
                bins.remove(largest)
                yield largest.group()
    for each in bins:
        yield each.group()


@dataclass(slots=True, eq=False)
class _Bin:
    tasks: list[ScanTask]
    weight: int

    def add(self, task: ScanTask, weight: int) -> None:
        self.tasks.append(task)
        self.weight += weight

    def group(self) -> ScanTaskGroup:
        """With neighbouring parts of a file as one."""
        merged: list[ScanTask] = []
        for task in self.tasks:
            last = merged[-1] if merged else None
            if last is not None and _continues(last, task):
                merged[-1] = ScanTask(last.file, last.start, last.length + task.length, is_split=True)
            else:
                merged.append(task)
        return ScanTaskGroup(tuple(merged))


def _continues(last: ScanTask, task: ScanTask) -> bool:
    return task.is_split and last.is_split and last.file is task.file and last.start + last.length == task.start


def _split(file: ScanFile, split_size: int) -> Iterator[ScanTask]:
    if file.format.upper() not in _SPLITTABLE:
        yield ScanTask(file, 0, file.size, is_split=False)
        return
    offsets = _well_defined_offsets(file)
    if offsets and all(one < next_ for one, next_ in pairwise(offsets)):
        for start, end in pairwise((*offsets, file.size)):
            yield ScanTask(file, start, end - start, is_split=True)
        return
    for start in range(0, file.size, split_size):
        yield ScanTask(file, start, min(split_size, file.size - start), is_split=True)


def _well_defined_offsets(file: ScanFile) -> Sequence[int]:
    """The split offsets; none if the last one is beyond the file (Java: BaseFile.splitOffsets)."""
    offsets = file.split_offsets or ()
    return offsets if offsets and offsets[-1] < file.size else ()


def _content_size(deletes: DataFile) -> int:
    if deletes.content != FileContent.DATA and deletes.is_deletion_vector:
        return deletes.content_size_in_bytes or 0
    return deletes.file_size_in_bytes
