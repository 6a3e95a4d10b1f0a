"""One answer of a plan: file scan tasks as JSON, as many as fit, and what is left as runs, which others answer.

    plan = all manifests --answer--> tasks, [run, run, run] --answer--> tasks, [run] --answer--> tasks

A run names manifests by their places in `ScanPlanner.manifests`, which are the same wherever the same snapshot and
filter are planned; `digest_of` proves it. So a run is a few numbers, and another process that has them needs nothing
else of the one that made them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.coordinator.locations.guarded_manifests import guarded
from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.errors import NoSuchPlanTask
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.gzip_parts import GzipStart
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.planning.planner import PlannedFiles, ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.planning.response_json import TasksJson

#: Bytes of a digest.
_DIGEST_BYTES: Final = 8
#: An answer ends after the manifest with which it has so many bytes.
BYTES_MAX: Final = 16 * 1024 * 1024
#: Statistics of so many columns take as much of an answer as the rest of a task.
_COLUMNS_PER_TASK: Final = 4


@dataclass(frozen=True, slots=True)
class Run:
    """Some manifests of a plan. first, end: their places. files: of the matching files of a single one those from the
    first number on, up to the second; the third is how many there are. None: all."""

    first: int
    end: int
    files: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """files: file scan tasks; an answer ends after the manifest with which it has so many. seconds: it ends after the
    manifest at which it took so long. runs: into which the rest is divided, at most."""

    files: int
    seconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class PlanJob:
    """What an answer is made of, besides the table's metadata. It can be sent to another process.

    request: names its snapshot, unless the table has none. schema_id: of the schema that was the current one when the
    scan was planned first. run, digest: of an answer before; None: all manifests. has_residuals: as for `TasksJson`.
    """

    request: ScanRequest
    schema_id: int
    bounds: AnswerBounds
    run: Run | None = None
    digest: str = ""
    has_residuals: bool = True


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """tasks: fields of a JSON object (`TasksJson.fields`); or, as gzip, the object up to them. count: of file scan
    tasks. rest: what is left. digest: of the plan's manifests."""

    tasks: bytes | GzipStart
    count: int
    rest: Sequence[Run]
    digest: str


def answer(
    metadata: TableMetadata,
    job: PlanJob,
    manifests: Manifests,
    columns: ManifestColumns,
    *,
    monotonic: Callable[[], float],
    guard: LocationGuard | None = None,
) -> PlanAnswer:
    """The answer to a job. monotonic: a clock, in seconds. guard: says which lists and manifests may be read for the
    client; None: all. Raises NoSuchPlanTask for a run of another plan; LocationNotAllowed; and as `ScanPlanner`."""
    seen = guarded(manifests, guard)
    planner = ScanPlanner(_with_schema(metadata, job.schema_id), job.request, seen, columns)
    digest = digest_of(planner.manifests)
    run = job.run or Run(0, len(planner.manifests))
    if job.run is not None and (job.digest != digest or run.end > len(planner.manifests)):
        raise NoSuchPlanTask("another release of the server made it, or the table's files were changed by hand")
    chosen = planner.manifests[run.first : run.end]
    if guard is not None and chosen:
        for each in (*chosen, *planner.delete_manifests):
            guard.check_read(each.manifest_path, "a manifest of the manifest list")
    tasks = TasksJson(planner.metadata, planner.stats_ids, planner, has_residuals=job.has_residuals)
    return _answer(planner, run, job.bounds, tasks, monotonic, digest)


def digest_of(manifests: Sequence[ManifestFile]) -> str:
    """Tells whether places in these manifests mean the same."""
    paths = "\n".join(each.manifest_path for each in manifests)
    return hashlib.blake2b(paths.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def _with_schema(metadata: TableMetadata, schema_id: int) -> TableMetadata:
    """The metadata as if this schema were still the current one: the names of a request are its names."""
    if metadata.current_schema_id == schema_id:
        return metadata
    if metadata.schema_by_id(schema_id) is None:
        raise NoSuchPlanTask(f"the table no longer has the schema {schema_id} with which the scan was planned")
    return metadata.replace(current_schema_id=schema_id)


def _answer(
    planner: ScanPlanner,
    run: Run,
    bounds: AnswerBounds,
    tasks: TasksJson,
    monotonic: Callable[[], float],
    digest: str,
) -> PlanAnswer:
    most = max(1, bounds.files * _COLUMNS_PER_TASK // (_COLUMNS_PER_TASK + len(planner.stats_ids)))
    until = monotonic() + bounds.seconds
    cut: list[Run] = []
    at = run.first
    for planned in planner.plan(planner.manifests[run.first : run.end]):
        at = run.first + planned.manifest + 1
        chosen, cut = _fitting(planned, replace(run, first=at - 1, end=at), most)
        tasks.add(chosen)
        if cut or tasks.count >= most or tasks.size >= BYTES_MAX or monotonic() >= until:
            break
    ends = at >= run.end or planner.has_enough
    rest = cut if ends else [*cut, *_shared_out(planner.manifests, Run(at, run.end), at - run.first, bounds.runs)]
    return PlanAnswer(tasks.fields(), tasks.count, rest, digest)


def _fitting(planned: PlannedFiles, run: Run, most: int) -> tuple[PlannedFiles, list[Run]]:
    """The files of a manifest that one answer takes, and the runs of the others. A manifest that fits into an answer is
    not divided: each run of it reads all of it."""
    columns = planned.columns
    number = columns.num_rows
    start, end = 0, number
    if run.files is not None:
        start, end, expected = run.files
        if expected != number:
            raise NoSuchPlanTask("another release of the server made it, or another table has its files")
    taken = min(end, start + most)
    cut = [replace(run, files=(each, min(end, each + most), number)) for each in range(taken, end, most)]
    return replace(planned, columns=columns.slice(start, taken - start)), cut


def _shared_out(manifests: Sequence[ManifestFile], run: Run, done: int, most: int) -> list[Run]:
    """A run divided so that each part has as many entries as the `done` manifests before it, which made an answer."""
    counts = [_entries(each) for each in manifests[run.first : run.end]]
    share = max(1, sum(map(_entries, manifests[run.first - done : run.first])), -(-sum(counts) // most))
    runs: list[Run] = []
    first, held = run.first, 0
    for at, count in enumerate(counts, run.first):
        if held and held + count > share and len(runs) + 1 < most:
            runs.append(Run(first, at))
            first, held = at, 0
        held += count
    return [*runs, Run(first, run.end)]


def _entries(manifest: ManifestFile) -> int:
    """Live ones, as far as the list says; at least one."""
    return max(1, (manifest.added_files_count or 0) + (manifest.existing_files_count or 0))
