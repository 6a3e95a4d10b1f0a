"""From folders to manifests: the two rounds of tasks that every migration consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.migration.describing import describe_slice, list_and_describe
from iceberg_hms.migration.listing import list_partitions, with_own_folders
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.progress_bar import progress_bar
from iceberg_hms.migration.work import (
    PROBLEMS_MAX,
    Described,
    Executors,
    ListedPartitions,
    PartitionFiles,
    Problem,
    SourcePartition,
    Work,
)

#: The most folders that one task lists: in an object store each costs a request.
_FOLDERS_MAX: Final = 64
#: With fewer tasks than this, the cores of a cluster have nothing to do; with many more, each has a few files, and so
#: has its manifest.
_TASKS_WANTED: Final = 32


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What is in the folders. manifests: of the files without a problem; none in a dry run. files, records, size: of
    those files. problems: the first ones of problem_count. reused: how many files an earlier run had described.
    names: the names of columns in those files that differ from the table's by case, by field id."""

    manifests: Sequence[ManifestFile]
    partitions: Sequence[PartitionFiles]
    files: int
    records: int
    size: int
    problems: Sequence[Problem]
    problem_count: int
    reused: int
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def filled_partitions(self) -> int:
        """How many have files."""
        return sum(each.files > 0 for each in self.partitions)


def nobody_listens(_stage: str) -> None:
    """For runs whose stages nobody asked for."""


def find_files(
    executors: Executors,
    work: Work,
    partitions: Sequence[SourcePartition],
    problems: Problems,
    *,
    progress: bool = True,
    on_stage: Callable[[str], None] = nobody_listens,
) -> FoundFiles:
    """List folders, and describe their files. problems: of partitions that are not among these. progress: whether to
    draw a bar. on_stage: hears `listed`, and `described` after each slice. Raises as the tasks do."""
    groups = folder_groups(with_own_folders(partitions, work.recursive_directory, problems))
    if work.dry_run:
        return _without_writing(executors, work, groups, problems, progress=progress)
    with progress_bar("Listing", None, shown=progress) as advance:
        listed: list[ListedPartitions] = executors.map(
            partial(list_partitions, work),
            groups,
            done=lambda each: advance(sum(partition.files for partition in each.partitions)),
        )
    on_stage("listed")
    slices = [each for one in listed for each in one.slices]

    def done(each: Described) -> None:
        advance(each.files)
        on_stage("described")

    with progress_bar("Describing", sum(each.files for each in slices), shown=progress) as advance:
        described: list[Described] = executors.map(partial(describe_slice, work), slices, done=done)
    return _summed(listed, described, problems)


def folder_groups(partitions: Sequence[SourcePartition]) -> list[tuple[SourcePartition, ...]]:
    """As many as one task lists. Their number is that of another run after a few partitions came, and on another
    cluster: a run finds only slices of equal groups again."""
    size = 1
    while size < _FOLDERS_MAX and size * _TASKS_WANTED < len(partitions):
        size *= 2
    return [tuple(partitions[at : at + size]) for at in range(0, len(partitions), size)]


def _without_writing(
    executors: Executors,
    work: Work,
    groups: Sequence[tuple[SourcePartition, ...]],
    problems: Problems,
    *,
    progress: bool,
) -> FoundFiles:
    with progress_bar("Looking at", None, shown=progress) as advance:
        both: list[tuple[ListedPartitions, Described]] = executors.map(
            partial(list_and_describe, work), groups, done=lambda each: advance(each[1].files)
        )
    return _summed([listed for listed, _ in both], [described for _, described in both], problems)


def _summed(listed: Sequence[ListedPartitions], described: Sequence[Described], known: Problems) -> FoundFiles:
    tasks: list[ListedPartitions | Described] = [*listed, *described]
    problems = [*known.named, *(each for task in tasks for each in task.problems)]
    names: dict[int, list[str]] = {}
    for field_id, name in sorted(frozenset[tuple[int, str]]().union(*[each.spellings for each in described])):
        names.setdefault(field_id, []).append(name)
    return FoundFiles(
        manifests=[each for task in described for each in task.manifests],
        partitions=[each for task in listed for each in task.partitions],
        files=sum(task.files for task in described),
        records=sum(task.records for task in described),
        size=sum(task.size for task in described),
        problems=problems[:PROBLEMS_MAX],
        problem_count=known.count + sum(task.problem_count for task in tasks),
        reused=sum(task.files for task in described if task.reused),
        names=names,
    )
