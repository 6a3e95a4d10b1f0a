"""The files of partitions, listed where a task runs, and cut into slices for the tasks that describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.datafiles.folder_names import FolderNames, Readers
from iceberg_hms.errors import IcebergHmsError, InvalidInput, MissingFile
from iceberg_hms.format.locations import file_key, join
from iceberg_hms.migration.problems import Problems, may_pass
from iceberg_hms.migration.progress import PartitionSlice, fingerprint, folder_prefix, packed
from iceberg_hms.migration.task import MigrationTask
from iceberg_hms.migration.work import (
    SLICE_FILES,
    ListedPartitions,
    PartitionFiles,
    RecursiveDirectory,
    Slice,
    SourcePartition,
    Work,
)

_NO_PARTITIONS: Final = FolderNames()


def list_partitions(work: Work, partitions: Sequence[SourcePartition]) -> ListedPartitions:
    """List the files of some partitions into a listing in the progress folder, in a fixed order.

    Raises StorageError if the listing cannot be written, and InvalidInput for partition values that are none of the
    table's. What is wrong with a partition or a folder is a problem instead.
    """
    task, problems = MigrationTask.of(work), Problems()
    counts: list[PartitionFiles] = []
    slices: list[Slice] = []
    texts, stored = task.texts, list[bytes]()
    listing, at = join(work.progress_folder, f"{task.stores.runtime.uuid()}.listing"), 0
    for parts in slices_of(_counted(counts, listed(task, partitions, problems))):
        text = texts.encode(parts)
        stored.append(packed(text))
        stop = at + len(stored[-1])
        found = [each for _, files in parts for each in files]
        size = sum([each.length for each in found])
        slices.append(Slice(listing, at, stop, fingerprint(task.key, text), len(found), size))
        at = stop
    if stored:
        task.stores.files.write(listing, b"".join(stored))
    return ListedPartitions(tuple(counts), tuple(slices), problems.named, problems.count)


def _counted(counts: list[PartitionFiles], found: Iterable[PartitionSlice]) -> Iterator[PartitionSlice]:
    for partition, files in found:
        counts.append(counted(partition, files))
        yield partition, files


def counted(partition: SourcePartition, files: Sequence[ListedFile]) -> PartitionFiles:
    """What a partition has, for reports."""
    return PartitionFiles(partition.name, len(files), sum([each.length for each in files]))


def locations_in(work: Work, partitions: Sequence[SourcePartition]) -> Iterator[str]:
    """The files of some partitions, as they are listed, and the links, which are not; none of a folder that is gone.
    Raises InvalidInput, StorageError."""
    task = MigrationTask.of(work)
    for partition in partitions:
        with suppress(MissingFile):
            yield from map(_location, _files_of(task, partition, Problems()))
            yield from _links_in(task, partition)


def listed(task: MigrationTask, partitions: Sequence[SourcePartition], problems: Problems) -> Iterator[PartitionSlice]:
    """Each partition with its files in order, none if it cannot be listed. Adds to the problems."""
    for partition in partitions:
        files: list[ListedFile] = []
        try:
            files = _files_of(task, partition, problems)
        except IcebergHmsError as error:
            if may_pass(partition.location, error):
                raise
            is_gone = isinstance(error, MissingFile)
            problems.add(partition.name, partition.location, _gone() if is_gone else error)
        yield partition, files


def _gone() -> InvalidInput:
    return InvalidInput(
        "its folder is gone", next_step="drop the partition in Hive, or put the folder back where it was"
    )


def with_own_folders(
    partitions: Iterable[SourcePartition], recursive: RecursiveDirectory, problems: Problems
) -> list[SourcePartition]:
    """The partitions whose files are no other one's too; adds the rest to the problems. Those share a folder with an
    earlier one, or, if files of nested folders are taken, lie in another one's. For all partitions of a run at once."""
    given = list(partitions)
    by_folder = sorted([(f"{file_key(each.location).rstrip('/')}/", at) for at, each in enumerate(given)])
    above, owner = "", None
    shared = set()
    for folder, at in by_folder:
        if owner is not None and (folder == above or (recursive == "true" and folder.startswith(above))):
            shared.add(at)
            problems.add(given[at].name, given[at].location, _shared(owner))
        else:
            above, owner = folder, given[at]
    return [each for at, each in enumerate(given) if at not in shared]


def _shared(owner: SourcePartition) -> InvalidInput:
    return InvalidInput(
        f"its folder is that of partition {owner.name or owner.location}, or below it, and a file has one partition",
        next_step="drop one of the partitions in Hive, or give it a folder of its own",
    )


def _files_of(task: MigrationTask, partition: SourcePartition, problems: Problems) -> list[ListedFile]:
    """Raises MissingFile if the folder is gone; InvalidInput, StorageError."""
    store, recursive, readers = task.stores.files, task.work.recursive_directory, _names(task, partition).readers
    above, found, nested, is_empty = len(folder_prefix(partition)), [], set[str](), True
    for each in store.list_files(partition.location):
        is_empty = False
        path = each.location[above:]
        if not each.length or (who := readers(path)) is Readers.NEITHER:
            continue
        if "/" in path and recursive != "true":
            nested.add(each.location.rpartition("/")[0])
        elif who is Readers.ONE:
            problems.add(partition.name, each.location, _disputed())
        elif not path.isascii() and not _is_text(path):
            problems.add(partition.name, ascii(each.location), InvalidInput("its name is not UTF-8"))
        else:
            found.append(each)
    for link in _links_in(task, partition):
        problems.add(partition.name, link, _link())
    if is_empty and store.folder_exists(partition.location) is False:
        raise MissingFile(partition.location)
    if recursive == "fail":
        for folder in sorted(nested):
            problems.add(partition.name, folder, _nested())
    return sorted(found, key=_location)


def _names(task: MigrationTask, partition: SourcePartition) -> FolderNames:
    """The folder of a partition has no others in it."""
    return task.names if partition.values is None else _NO_PARTITIONS


def _links_in(task: MigrationTask, partition: SourcePartition) -> list[str]:
    above, names = len(folder_prefix(partition)), _names(task, partition)
    links = task.stores.files.list_links(partition.location)
    return sorted(each for each in links if names.readers(each[above:]) is not Readers.NEITHER)


def _location(file: ListedFile) -> str:
    return file.location


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _link() -> InvalidInput:
    return InvalidInput(
        "it is a symbolic link, and links are not followed", next_step="put the file itself in the link's place"
    )


def _disputed() -> InvalidInput:
    return InvalidInput(
        "by its name or its folder's, one of Hive and Spark reads it, and the other leaves it out",
        next_step="rename it if its rows are the table's, or remove it: names that begin with `_` or `.`, or end with "
        "`._COPYING_`",
    )


def _nested() -> InvalidInput:
    return InvalidInput(
        "it lies in a partition's folder and has files",
        next_step='choose whether files of nested folders are taken: recursive_directory="true" or "false"',
    )


def slices_of(found: Iterable[PartitionSlice]) -> Iterator[list[PartitionSlice]]:
    """Slices of at most `SLICE_FILES` files: of whole partitions, or of one that has more."""
    parts: list[Any] = []
    count = 0
    for partition, files in found:
        if count and count + len(files) > SLICE_FILES:
            yield parts
            parts, count = [], 0
        for start in range(0, len(files), SLICE_FILES):
            some = files[start : start + SLICE_FILES]
            parts.append((partition, some))
            count += len(some)
            if count == SLICE_FILES:
                yield parts
                parts, count = [], 0
    if parts:
        yield parts
