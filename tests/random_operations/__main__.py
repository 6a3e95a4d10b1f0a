"""Random operations on tables of many shapes, each state of which must be what a model says.

    make outcomes STEPS=10000 SEED=7 JOBS=2 TRIALS=1000

Each state is read by the specification alone and by PyIceberg, the last state of each table by Spark too. With
--store all files lie in a bucket (`make outcomes-s3`). A difference is printed with its steps and the command that
brings it back.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from iceberg_hms.clock import SYSTEM_CLOCK
from simulation.schedule import quiet_logs
from tests.random_operations import spark_reader
from tests.random_operations.independent_reader import Broken
from tests.random_operations.runs import LastState, Run, outcomes, runs_of
from tests.random_operations.shapes import SHAPES
from tests.random_operations.tested_table import counted


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing differs, else 1."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.spark and given.store:
        parser.error("--spark reads local files alone, and --store has none")
    with quiet_logs(), tempfile.TemporaryDirectory(prefix="iceberg-hms-") as name:
        folder = Path(name).resolve() if given.spark else None
        steps = runs_of(given.steps, given.seed, shape=given.shape, folder=folder, store=given.store)
        trials = runs_of(given.trials, given.seed, trials=True, shape=given.shape, folder=folder, store=given.store)
        failures, left = 0, list[LastState]()
        for what, runs in (("steps", steps), ("trials", trials)):
            failed, last = _run(what, runs, given.jobs)
            failures += failed
            left += last
        if folder is not None:
            failures += _read_by_spark(left, folder)
    return 1 if failures else 0


def _run(what: str, runs: Sequence[Run], jobs: int) -> tuple[int, list[LastState]]:
    """How many runs failed, and what the others left."""
    if not runs:
        return 0, []
    started, failures, left = SYSTEM_CLOCK.monotonic(), 0, list[LastState]()
    counts, read, skipped = Counter[str](), 0, Counter[str]()
    for outcome in outcomes(runs, jobs):
        counts += outcome.counts
        read += outcome.read
        skipped += outcome.skipped
        if outcome.failure is not None:
            failures += 1
            sys.stdout.write(outcome.failure)
        if outcome.last is not None:
            left.append(outcome.last)
    seconds, done = SYSTEM_CLOCK.monotonic() - started, sum(run.count for run in runs)
    seeds = f"{runs[0].seed} to {runs[-1].seed}"
    sys.stdout.write(
        f"{done} {what} on {len(runs)} tables of {len({run.shape for run in runs})} shapes, seeds {seeds}: "
        f"{f'{failures} tables differ' if failures else 'no difference'}; {done / seconds:.1f} {what}/s\n"
        f"operations: {counted(counts)}\n"
        f"branches of states that PyIceberg read: {read}; that it cannot read: {counted(skipped)}\n"
    )
    return failures, left


def _read_by_spark(left: Sequence[LastState], folder: Path) -> int:
    """How many tables Spark reads otherwise than the model says."""
    spark, failures, branches = spark_reader.session(), 0, 0
    try:
        for number, last in enumerate(left):
            try:
                branches += spark_reader.compare(spark, last, folder / f"spark-{number}")
            except Broken as error:
                failures += 1
                sys.stdout.write(f"{error}\n")
    finally:
        spark.stop()
    sys.stdout.write(f"Spark read {branches} branches of the last states of {len(left)} tables: {failures} differ\n")
    return failures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.random_operations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="shapes: " + ", ".join(shape.name for shape in SHAPES),
    )
    parser.add_argument("--steps", type=int, default=10_000, help="operations one after the other (%(default)s)")
    parser.add_argument("--trials", type=int, default=0, help="times three operations at once (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first table of each shape (%(default)s)")
    parser.add_argument("--shape", choices=[shape.name for shape in SHAPES], metavar="NAME", help="this shape alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work (%(default)s)")
    parser.add_argument(
        "--store", metavar="http://HOST:PORT/BUCKET", help="of S3, for all files; the keys are AWS's two variables"
    )
    parser.add_argument("--spark", action="store_true", help="let Spark read the last state of each table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
