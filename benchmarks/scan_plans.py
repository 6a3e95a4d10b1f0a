"""Plans of scans of the Atlas table, 2.7 million files: ours beside Java's and PyIceberg's planners.

    python -m benchmarks scan-plans [--tables clustered,spread] [--rounds 3] [--delay 20] [--without pyiceberg]
                                    [--folder build/atlas] [--out build/benchmarks]

The planners take turns at three filters: a partition filter (152 of 672 hours), the same and a name that one file of
each partition may have, and the name alone. Each plan has a process of its own, which has loaded the table, and whose
modules or JVM are up: seconds are those of the plan alone, until the last file was seen; no planner keeps the files.
Memory is the process's largest of its own pages (RssAnon), without those of mapped files.

    ours            cold: the first plan of a process
    ours, kept      with a cache folder: the plan that fills it; the first of another process; and the next one
    Java            the first plan of a JVM with its own compiler and collector settings; and the next one
    PyIceberg       a sample of the manifests, for it takes minutes: scaled by the manifests that a filter leaves

Other tables have many delete files: 100,000 deletion vectors (vectors), as many position deletes of partitions
(positions), 20,000 equality deletes (equality), for 100,000 data files. Their filters are one of 100 partitions, and
everything; and a task of the REST server is everything until there are 5,000 files.

With --delay the tables of Atlas are in a bucket of MinIO, too, each of whose answers is held back by so many
milliseconds. --folder keeps the tables. Figures are medians of the rounds. Ends with 1 if two planners count other
files.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

from benchmarks import instruments
from benchmarks.kept_tables import kept_table
from benchmarks.memory import peak_of
from benchmarks.object_store import far_from
from iceberg_hms.config import Settings
from iceberg_hms.expressions import parse
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.planning.planner import ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.spark.s3 import AWS_BUNDLE
from iceberg_hms.stores import open_stores
from integration import maven_packages
from integration.planning import atlas_table, deleted_rows_tables
from integration.planning.atlas_table import Atlas, name_in
from integration.planning.java_plans import java_planner
from integration.stores.java_s3 import java_properties
from integration.stores.minio import ObjectStore, local_object_store

#: PyIceberg plans one of so many manifests.
SAMPLE: Final = 27
BUCKET: Final = "lake"
#: The name of what a task of the REST server plans, and of how many files.
TASK: Final = "a task"
TASK_FILES: Final = 5_000
#: A JVM as it is without options: `JavaGateway` has those of one that starts often and runs for minutes.
JVM: Final = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
HEAP_MB: Final = 4_096


@dataclass(frozen=True)
class Place:
    """A table, and what opens its files. name: for people. filters: by name. sample: the metadata of the table that
    PyIceberg plans. scale: by filter, how many times as many manifests a plan of the whole table reads. java: as
    JavaPlanner's `io`."""

    name: str
    location: str
    filters: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    sample: str | None = None
    scale: Mapping[str, float] = field(default_factory=dict)
    java: tuple[str, Mapping[str, str]] | None = None
    #: By filter, after how many files a plan ends. Java's planner does not plan such.
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """seconds: wall. cpu: seconds of all threads. peak: MiB."""

    files: int
    seconds: float
    cpu: float
    peak: float


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--tables", default="clustered,spread")
    parser.add_argument("--files", type=int, default=atlas_table.PARTITIONS * atlas_table.FILES_EACH)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=int, default=None, help="milliseconds of each answer of a bucket")
    parser.add_argument("--without", default="", help="planners to leave out: java, pyiceberg; with a comma")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-plans-")))
        places = list(_places(arguments, folder, stack))
        plans = _measured(arguments, places, folder)
    findings = _findings(plans)
    instruments.print_table(
        ("table", "filter", "planner", "files", "seconds", "CPU seconds", "MiB"), list(_rows(places, plans))
    )
    results = [{"of": of, "plans": [vars(each) for each in found]} for of, found in plans.items()]
    instruments.keep(arguments.out, "scan-plans", vars(arguments), results)
    print("\n".join(findings))
    raise SystemExit(1 if findings else 0)


def _places(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> Iterator[Place]:
    kept = (arguments.folder or folder / "tables").absolute()
    store, endpoint = None, ""
    if arguments.delay is not None:
        maven_packages.fetch(folder, AWS_BUNDLE)
        store = stack.enter_context(local_object_store(folder))
        store.make_bucket(BUCKET)
        endpoint = stack.enter_context(far_from(store.endpoint, arguments.delay / 1_000))
    for name in arguments.tables.split(","):
        if name in deleted_rows_tables.KINDS:
            yield _with_deletes(name, kept)
            continue
        each = max(1, arguments.files // atlas_table.PARTITIONS)
        atlas = Atlas(f"file:{kept}/{name}-{each}", each, spread=name == "spread")
        location = kept_table(Path(atlas.location.removeprefix("file:")), partial(atlas_table.make, atlas))
        sample = None
        if "pyiceberg" not in arguments.without:
            sample = atlas_table.sampled(atlas, location, min(SAMPLE, atlas.manifests))
        place = Place(name, location, _filters(atlas), sample=sample)
        yield place if sample is None else replace(place, scale=_scale(place, sample))
        if store is not None:
            yield _far(arguments.delay, atlas, place, store, endpoint)


def _filters(atlas: Atlas) -> Mapping[str, str]:
    name = f"name = '{name_in(atlas.files_each // 2)}'"
    return {"partition": "hour < 152", "partition and bounds": f"hour < 152 and {name}", "bounds": name}


def _with_deletes(kind: str, kept: Path) -> Place:
    folder = kept / kind
    location = kept_table(folder, lambda: deleted_rows_tables.make(folder, kind))
    filters = {"partition": "day = 17", "everything": "true", TASK: "true"}
    return Place(kind, location, filters, limits={TASK: TASK_FILES})


def _far(delay: int, atlas: Atlas, place: Place, store: ObjectStore, endpoint: str) -> Place:
    """The table in a bucket."""
    copy = Atlas(f"s3://{BUCKET}/{Path(atlas.location).name}", settings=store.settings())
    location = atlas_table.copied(atlas, place.location, copy)
    java = "org.apache.iceberg.aws.s3.S3FileIO", java_properties(store, endpoint=endpoint)
    settings = store.settings(endpoint=endpoint)
    return Place(f"{place.name}, {delay} ms", location, place.filters, settings, java=java)


def _scale(place: Place, sample: str) -> dict[str, float]:
    found = {}
    for name, where in place.filters.items():
        locations = (place.location, sample)
        whole, part = (len(_planners({"location": each, "where": where})().manifests) for each in locations)
        found[name] = whole / max(1, part)
    return found


# The turns


def _measured(
    arguments: argparse.Namespace, places: Sequence[Place], folder: Path
) -> Mapping[tuple[str, ...], list[Plan]]:
    """By table, filter and planner."""
    found: dict[tuple[str, ...], list[Plan]] = defaultdict(list)

    def note(place: Place, filter_: str, planner: str, plan: Plan) -> None:
        found[place.name, filter_, planner].append(plan)
        print(place.name, filter_, planner, plan, flush=True)

    for round_ in range(arguments.rounds):
        for place in places:
            for name, where in place.filters.items():
                job: dict[str, Any] = {"location": place.location, "where": where, "limit": place.limits.get(name)}
                job["settings"] = dict(place.settings)
                [plan] = _ours(job, 1)
                note(place, name, "ours", plan)
                if "java" not in arguments.without and name not in place.limits:
                    for planner, plan in zip(("Java", "Java, again"), _java(place, where, folder), strict=True):
                        note(place, name, planner, plan)
                if place.sample is not None:
                    [plan] = _plans("pyiceberg", {"location": place.sample, "where": where}, 1)
                    note(place, name, "PyIceberg, sample", plan)
            cache = folder / f"kept-{round_}"
            for name, where in place.filters.items():
                job = {"location": place.location, "where": where, "limit": place.limits.get(name)}
                job["settings"] = {**place.settings, "planning_cache_dir": str(cache / place.name / name)}
                (cache / place.name).mkdir(parents=True, exist_ok=True)
                [plan] = _ours(job, 1)
                note(place, name, "ours, fills the cache", plan)
                for planner, plan in zip(("ours, kept", "ours, kept, again"), _ours(job, 2), strict=True):
                    note(place, name, planner, plan)
                shutil.rmtree(cache / place.name)
    return found


def _ours(job: Mapping[str, Any], times: int) -> list[Plan]:
    return _plans("ours", job, times)


def _plans(engine: str, job: Mapping[str, Any], times: int) -> list[Plan]:
    """Plans of a new process, one after the other."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "benchmarks", "scan-planner", json.dumps({"engine": engine, **job})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=instruments.ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    plans = []
    try:
        assert process.stdout.readline().strip() == "ready"
        for _ in range(times):
            with peak_of(process.pid) as peak:
                process.stdin.write("\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
            plans.append(Plan(**answer, peak=peak()))
    finally:
        process.communicate(timeout=instruments.END_SECONDS)
    return plans


def run_scan_planner() -> None:
    """A process: load a table, and plan a scan for each line of the input. `python -m benchmarks scan-planner JOB`."""
    job = json.loads(sys.argv[1])
    plan = {"ours": _our_plan, "pyiceberg": _pyiceberg_plan}[job["engine"]](job)
    print("ready", flush=True)
    for _ in sys.stdin:
        started, cpu = perf_counter(), process_time()
        files = plan()
        answer = {"files": files, "seconds": perf_counter() - started, "cpu": process_time() - cpu}
        print(json.dumps(answer), flush=True)


def _our_plan(job: Mapping[str, Any]) -> Callable[[], int]:
    make, limit = _planners(job), job["limit"]

    def plan() -> int:
        files = 0
        for each in make().plan():
            files += each.columns.num_rows
            if limit is not None and files >= limit:
                break
        return files

    return plan


def _planners(job: Mapping[str, Any]) -> Callable[[], ScanPlanner]:
    """What makes a planner of a loaded table."""
    stores = open_stores(Settings.load(job.get("settings") or {}, environ={}))
    location = job["location"]
    metadata = metadata_file.decode(stores.files.read(location), location)
    request = ScanRequest(filter=parse(job["where"]))
    return lambda: ScanPlanner(metadata, request, stores.manifests.open(), stores.manifest_columns)


def _pyiceberg_plan(job: Mapping[str, Any]) -> Callable[[], int]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(job["location"])
    return lambda: sum(1 for _ in table.scan(row_filter=job["where"]).plan_files())


def _java(place: Place, where: str, folder: Path) -> Iterator[Plan]:
    """The first plan of a JVM, and the second."""
    home = Path(tempfile.mkdtemp(dir=folder))
    with java_planner(home, heap_mb=HEAP_MB, options=JVM, io=place.java) as (java, pid):
        table = java.load(place.location)
        for _ in range(2):
            scan = java.filtered(java.scan(table), parse(where))
            with peak_of(pid) as peak:
                cpu, started = instruments.cpu_seconds(pid), perf_counter()
                files = java.count(scan)
                seconds = perf_counter() - started
            yield Plan(files, seconds, instruments.cpu_seconds(pid) - cpu, peak())
    shutil.rmtree(home)


# The report


def _findings(plans: Mapping[tuple[str, ...], Sequence[Plan]]) -> list[str]:
    counts: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for (table, filter_, planner), found in plans.items():
        if "sample" not in planner:
            counts[table, filter_] |= {each.files for each in found}
    return [f"{' / '.join(of)}: {sorted(found)} files" for of, found in counts.items() if len(found) > 1]


def _rows(places: Sequence[Place], plans: Mapping[tuple[str, ...], Sequence[Plan]]) -> Iterator[Sequence[object]]:
    scales = {place.name: place.scale for place in places}
    for (table, filter_, planner), found in plans.items():
        times = scales[table][filter_] if "sample" in planner else 1.0
        name = f"PyIceberg, x {times:.1f}" if "sample" in planner else planner
        seconds, cpu = (median(getattr(each, key) for each in found) * times for key in ("seconds", "cpu"))
        peak = f"{median(each.peak for each in found):.0f}"
        yield table, filter_, name, found[0].files, f"{seconds:.2f}", f"{cpu:.2f}", peak
