"""The files of a slice, described where a task runs: from footers to manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.datafiles.described_file import DescribedFile
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import parse
from iceberg_hms.format.manifests.manifest import EntryStatus, ManifestEntry
from iceberg_hms.migration.listing import counted, listed
from iceberg_hms.migration.problems import Problems, may_pass
from iceberg_hms.migration.progress import PartitionSlice, read_text
from iceberg_hms.migration.task import MigrationTask
from iceberg_hms.migration.work import (
    SLICE_FILES,
    Described,
    ListedPartitions,
    PartitionFiles,
    Slice,
    SourcePartition,
    Work,
)

#: Of a file: its record, nothing if it has no rows, or what is wrong with it.
_Result = DescribedFile | IcebergHmsError | None


def describe_slice(work: Work, slice_: Slice) -> Described:
    """Describe the files of a slice in manifests, unless an earlier run did.

    Without a problem it keeps a record, by which a later run finds the manifests. Raises StorageError if it cannot read
    the listing, or write. What is wrong with a file is a problem instead.
    """
    task = MigrationTask.of(work)
    parts = task.texts.decode(read_text(task.stores.files, slice_, task.key))
    found = task.records.find(slice_.fingerprint)
    if found is not None:
        return found
    problems = Problems()
    files = described(task, parts, problems)
    if problems.count and not work.skip_unreadable:
        return _summary((), files, problems)
    summary = _summary(_write(task, files), files, problems)
    if not problems.count:
        # A problem may be gone at the next run, also of a file that is as it was: a permission.
        task.records.put(slice_.fingerprint, summary)
    return summary


def list_and_describe(work: Work, partitions: Sequence[SourcePartition]) -> tuple[ListedPartitions, Described]:
    """List the files of some partitions and describe each, with nothing written: no slices, and no manifests. Raises as
    `list_partitions`."""
    task, in_listing, in_files = MigrationTask.of(work), Problems(), Problems()
    counts: list[PartitionFiles] = []
    count = records = size = 0
    for partition, files in listed(task, partitions, in_listing):
        counts.append(counted(partition, files))
        for start in range(0, len(files), SLICE_FILES):
            found = _summary((), described(task, [(partition, files[start : start + SLICE_FILES])], in_files), in_files)
            count, records, size = count + found.files, records + found.records, size + found.size
    return (
        ListedPartitions(tuple(counts), (), in_listing.named, in_listing.count),
        Described((), count, records, size, in_files.named, in_files.count),
    )


def described(task: MigrationTask, parts: Iterable[PartitionSlice], problems: Problems) -> list[DescribedFile]:
    """The files with rows and without a problem, in order. Adds to the problems."""
    found: list[DescribedFile] = []
    for partition, files in parts:
        reads = [partial(_described, task, partition, each) for each in files]
        for file, result in zip(files, _all(task, partition, reads), strict=True):
            if isinstance(result, DescribedFile):
                found.append(result)
            elif result is not None:
                problems.add(partition.name, file.location, result)
    return found


def _all(task: MigrationTask, partition: SourcePartition, reads: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """What calls return, in order. Files of local disks are read one after the other: on one processor, threads take
    longer."""
    if parse(partition.location).is_local:
        return [read() for read in reads]
    found: list[Any] = []
    width = task.work.settings.io_threads
    for start in range(0, len(reads), width):
        found += task.stores.runtime.gather(reads[start : start + width])
    return found


def _described(task: MigrationTask, partition: SourcePartition, file: ListedFile) -> _Result:
    """Raises StorageError for what is no fault of the file."""
    try:
        found = describe(
            file.location,
            # In another case Hive and Spark find nulls there.
            task.exact if partition.file_format == "avro" else task.table,
            task.stores.files.open,
            partition=partition.values,
            file_format=partition.file_format,
        )
        if found is not None:
            _check(file, found)
    except IcebergHmsError as error:
        if may_pass(file.location, error):
            raise
        return error
    return found


def _check(file: ListedFile, found: DescribedFile) -> None:
    """Raises InvalidInput for a file that readers of the table would not read as Hive does."""
    if found.data_file.file_size_in_bytes != file.length:
        raise InvalidInput(
            f"it had {file.length} bytes when it was listed, and has {found.data_file.file_size_in_bytes} now",
            next_step="stop what writes to the table, then start again",
        )
    if found.other_names:
        raise InvalidInput(
            f"its columns have field ids of another table, by which readers would take {', '.join(found.other_names)}",
            next_step="write the file without field ids",
        )
    if found.extra_columns:
        raise InvalidInput(
            f"it has columns that the table lacks: {', '.join(found.extra_columns)}; some readers skip them, and "
            "others cannot read the table",
            next_step="add them to the Hive table, or write the file without them",
        )
    if found.shifted:
        raise InvalidInput(
            f"it has days before October 15, 1582 in {', '.join(found.shifted)}, which its writer counted in the "
            "calendar of that time: Iceberg's readers would show other days",
            next_step="write it again in the proleptic calendar (ORC: orc.proleptic.gregorian), or copy the table's "
            "rows into a new Iceberg table",
        )
    if found.lineage:
        raise InvalidInput(
            "it carries row ids, which are those of another table", next_step="write the file without them"
        )


def _write(task: MigrationTask, files: Sequence[DescribedFile]) -> Sequence[Any]:
    metadata, work = task.metadata, task.work
    entries = (ManifestEntry(EntryStatus.ADDED, each.data_file) for each in files)
    return task.stores.manifests.write(
        work.manifest_folder, metadata, metadata.schema, metadata.spec, work.snapshot_id, entries
    )


def _summary(manifests: Sequence[Any], files: Sequence[DescribedFile], problems: Problems) -> Described:
    return Described(
        tuple(manifests),
        len(files),
        sum([each.data_file.record_count for each in files]),
        sum([each.data_file.file_size_in_bytes for each in files]),
        problems=problems.named,
        problem_count=problems.count,
        spellings=frozenset().union(*[each.spellings for each in files]),
    )
