"""What travels between the driver of a migration and its executors. Plain records: each is pickled.

No file travels to the driver by name: its memory does not grow with the number of files. An executor lists some
partitions into a *listing*, a file beside the table, of which the driver learns the *slices*; an executor describes the
files of a slice in a manifest, of which the driver learns the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.manifest_list import ManifestFile

Item = TypeVar("Item")
Result = TypeVar("Result")

#: What becomes of files in folders below a partition's own: taken, left out, or a problem.
RecursiveDirectory = Literal["true", "false", "fail"]

#: The most files of a slice: a slice under way is what a killed run loses.
SLICE_FILES: Final = 1_000
#: The most problems that one task names; it counts them all.
PROBLEMS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A folder whose files are to be taken over.

    name: as Hive writes it (`month=1/day=2`), for messages and reports; empty for a table without partitions.
    location: the folder. values: partition field -> value, as a manifest has them; None: footers and folders tell.
    file_format: `parquet`, `orc` or `avro`, which all its files must have; None: each file tells.
    """

    name: str
    location: str
    values: Mapping[str, Any] | None = None
    file_format: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What all tasks of a run have in common.

    metadata: of the Iceberg table that gets the files, as the JSON of its file. snapshot_id: of the snapshot that adds
    them. manifest_folder, progress_folder: where tasks write manifests, and what another run goes on from.
    skip_unreadable: whether files with a problem are left out; else they fail the run. dry_run: nothing is written.
    adds_names: whether the table's name mapping gets the names of files' columns that differ from its own by case.
    release: of this package on the driver: another one may describe files otherwise.
    """

    settings: Settings
    metadata: bytes
    snapshot_id: int
    manifest_folder: str
    progress_folder: str
    recursive_directory: RecursiveDirectory = "fail"
    skip_unreadable: bool = False
    dry_run: bool = False
    adds_names: bool = False
    release: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or folder that cannot be taken over. partition: its name. reason, next_step: as those of an error."""

    partition: str
    location: str
    reason: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """What a partition has: how many files, and their bytes."""

    name: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A run of files in a listing, which one task describes. listing: its location. start, stop: its bytes there.
    fingerprint: of these files (paths, sizes, times, partitions) and of how they are described: a slice with the same
    one was done before. files, size: how many, and their bytes."""

    listing: str
    start: int
    stop: int
    fingerprint: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class ListedPartitions:
    """What one task has listed. problem_count: of all, also those that are not named."""

    partitions: tuple[PartitionFiles, ...]
    slices: tuple[Slice, ...]
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0


@dataclass(frozen=True, slots=True)
class Described:
    """What one task has described.

    manifests: of the files without a problem; none if there are problems and files with one are not left out, and in a
    dry run. files, records, size: of the files without a problem; size in bytes. spellings: field id and name of their
    columns whose names differ from the table's by case. reused: whether an earlier run had done it.
    """

    manifests: tuple[ManifestFile, ...]
    files: int
    records: int
    size: int
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    spellings: frozenset[tuple[int, str]] = frozenset()
    reused: bool = False


class Executors(Protocol):
    """Where tasks run: Spark's executors, or the threads of a test."""

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], *, done: Callable[[Result], None]
    ) -> list[Result]:
        """What the function returns for each item, in their order. function: can be pickled, and may run twice for an
        item. done: called in this process as tasks end, in any order, perhaps late and not for all. Raises what the
        function raises, or EngineError with what that says."""
        ...

    def compare(self, left: Side, right: Side, *, wanted: Wanted, named: int) -> tuple[int, list[str]]:
        """The locations of the left side whose keys both sides have, or whose keys the right one lacks: how many, and
        the first `named` of them in order. A key that a side gives more than once counts once. Raises as `map`."""
        ...


#: What `Executors.compare` asks for.
Wanted = Literal["common", "missing"]


@dataclass(frozen=True, slots=True)
class Side:
    """Locations that tasks give. give: those of an item, each after its key; can be pickled."""

    give: Callable[[Any], Iterable[tuple[str, str]]]
    items: Sequence[Any]
