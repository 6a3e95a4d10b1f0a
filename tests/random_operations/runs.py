"""Runs: how many tables of which shapes, with which seeds, in how many processes; and what came of them."""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.random_operations.concurrent_trials import trial
from tests.random_operations.places import place
from tests.random_operations.shapes import SHAPES, Shape, by_name
from tests.random_operations.tested_table import TestedTable, steps_of

#: Of one table, before the next one begins.
STEPS_A_TABLE: Final = 50
TRIALS_A_TABLE: Final = 10
#: Steps before the trials, so that there is something to operate on.
_STEPS_BEFORE_TRIALS: Final = 8


@dataclass(frozen=True)
class Run:
    """One table. trials: whether operations are made three at once, else one after the other. folder: where its files
    stay; None: they go. store: the URL of a bucket, where they lie; None: they are local."""

    shape: str
    seed: int
    count: int
    trials: bool = False
    folder: str | None = None
    store: str | None = None

    @property
    def again(self) -> str:
        """The command that does the same."""
        what = "--steps 0 --trials" if self.trials else "--steps"
        where = "" if self.store is None else f" --store {self.store}"
        return f"python -m tests.random_operations --seed {self.seed} --shape {self.shape} {what} {self.count}{where}"


@dataclass(frozen=True)
class LastState:
    """What a reader must find in a table that is left. branches: name -> rows, each the values of `columns`, which are
    ids, names and types."""

    location: str
    columns: Sequence[tuple[int, str, str]]
    branches: dict[str, list[tuple[Any, ...]]]


@dataclass
class Outcome:
    """counts: of operations, by what came of them. read: how many branches of states PyIceberg read. skipped: of those
    that it cannot read, by the reason. failure: what differed, and the steps that led there. last: None if there was a
    failure."""

    run: Run
    counts: Counter[str] = field(default_factory=Counter)
    read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failure: str | None = None
    last: LastState | None = None


def runs_of(
    steps: int,
    seed: int,
    *,
    trials: bool = False,
    shape: str | None = None,
    folder: Path | None = None,
    store: str | None = None,
) -> list[Run]:
    """As many tables as it takes, of all shapes in turn or of one; each next round has the next seed."""
    shapes: Sequence[Shape] = SHAPES if shape is None else (by_name(shape),)
    each = TRIALS_A_TABLE if trials else STEPS_A_TABLE
    counts = [min(each, steps - done) for done in range(0, steps, each)]
    return [
        Run(
            shapes[at % len(shapes)].name,
            seed + at // len(shapes),
            count,
            trials,
            None if folder is None else str(folder / f"{'trials' if trials else 'steps'}-{at}"),
            store,
        )
        for at, count in enumerate(counts)
    ]


def outcomes(runs: Sequence[Run], jobs: int) -> Iterator[Outcome]:
    """Of all runs, in their order. jobs: how many processes share them; 1: this one alone."""
    if jobs == 1:
        yield from map(outcome, runs)
        return
    # A fork would copy the threads of readers only in part.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _quiet) as pool:
        yield from pool.map(outcome, runs)


def outcome(run: Run) -> Outcome:
    """Make one run."""
    if run.folder is not None:
        folder = Path(run.folder)
        folder.mkdir(parents=True)
        return _outcome_in(run, folder)
    with tempfile.TemporaryDirectory(prefix="iceberg-hms-") as name:
        return _outcome_in(run, Path(name).resolve())


def _outcome_in(run: Run, folder: Path) -> Outcome:
    found = Outcome(run)
    shape = by_name(run.shape)
    table = TestedTable(shape, run.seed, place(folder, shape, run.store))
    try:
        for _ in range(_STEPS_BEFORE_TRIALS if run.trials else run.count):
            table.step()
        for _ in range(run.count if run.trials else 0):
            trial(table)
        table.verify_from_scratch()
        found.last = _last(table)
    except Exception as error:  # noqa: BLE001 - whatever it is, the steps that led to it are wanted
        trace = "".join(traceback.format_exception(error)[-4:])
        found.failure = f"{run.shape}, seed {run.seed}:\n{steps_of(table)}\n{trace}again: {run.again}\n"
    finally:
        found.counts, found.read, found.skipped = table.counts, table.pyiceberg.read, table.pyiceberg.skipped
        table.close()
    return found


def _last(table: TestedTable) -> LastState:
    model = table.model
    columns = [(each.id, each.name, each.type) for each in model.columns]
    ids = [each.id for each in model.columns]
    branches = {
        name: [model.expected(id_, ids) for id_ in sorted(id_ for rows in model.files(name).values() for id_ in rows)]
        for name in model.refs
        if name not in model.tags
    }
    return LastState(table.now.location, columns, branches)


def _quiet() -> None:
    logging.disable(logging.CRITICAL)
