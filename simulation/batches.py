"""Runs many schedules in batches, which several processes can share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from simulation.scenarios.catalogue import by_name
from simulation.schedule import Result, run_schedules

#: How many schedules a process runs before it reports their totals.
_BATCH = 50


@dataclass(frozen=True)
class Batch:
    """Some schedules of a run.

    scenario: a name, or `all`. first, end: which schedules of the run. stops: after the first that fails.
    """

    scenario: str
    seed: int
    first: int
    end: int
    trace: bool
    stops: bool = False


@dataclass
class RunTotals:
    """answers: how many attempts were answered so. failures: the failed schedules. text: the traces, if wanted."""

    schedules: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    text: str = ""
    failures: list[Result] = field(default_factory=list)


def run_batch(batch: Batch) -> RunTotals:
    """Run a batch in this process."""
    totals = RunTotals()
    scenarios = by_name(batch.scenario)
    for result in run_schedules(scenarios, batch.end, batch.seed, skipped=batch.first, traces=batch.trace):
        totals.schedules += 1
        totals.answers.update(committed=result.committed, failed=result.failed, unknown=result.unknown)
        if result.failure is not None:
            totals.failures.append(result)
            if batch.stops:
                break
        if batch.trace:
            totals.text += "\n".join((f"{result.scenario}, seed {result.seed}", *result.trace, "", ""))
    return totals


def run_in_batches(run: Batch, jobs: int, *, size: int = _BATCH) -> Iterator[RunTotals]:
    """Run batches in several processes. Totals come in the order of the seeds, so that the first failure is the same
    for any number of processes."""
    batches = [replace(run, first=first, end=min(first + size, run.end)) for first in range(run.first, run.end, size)]
    if jobs == 1:
        yield from map(run_batch, batches)
        return
    executor = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        yield from executor.map(run_batch, batches)
    finally:
        executor.shutdown(cancel_futures=True)
