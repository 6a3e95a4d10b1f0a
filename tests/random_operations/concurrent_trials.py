"""Three operations that are planned on one state and committed without a look at each other: what is left is what those
that were acknowledged would leave one after the other, in some order."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import RequirementFailed
from tests.random_operations.independent_reader import require
from tests.random_operations.model import Model
from tests.random_operations.plans import Plan
from tests.random_operations.tested_table import TestedTable

OPERATIONS: Final = 3
#: Seconds within which a commit ends.
_ENDS_WITHIN: Final = 120.0


@dataclass
class _Attempt:
    """One operation. report: of its commit; error: why there is none."""

    plan: Plan
    table: Table
    report: Any = None
    error: BaseException | None = None

    def submit(self) -> None:
        try:
            self.report = self.plan.submit(self.table)
        except BaseException as error:  # noqa: BLE001 - `_settled` raises it
            self.error = error


def trial(table: TestedTable) -> None:
    """Three operations on the table as it is, one after the other or by threads at once. Raises Broken."""
    seen = table.now
    attempts = [_Attempt(table.plan(seen, is_stale=True), table.table(seen)) for _ in range(OPERATIONS)]
    at_once = table.choose.random() < 0.5
    table.log.append("at once:" if at_once else "in this order, none of which sees the others:")
    if at_once:
        _run_at_once(attempts)
    else:
        for each in attempts:
            each.submit()
    acknowledged = [each for each in attempts if _settled(each, table)]
    table.counts["trials"] += 1
    orders = itertools.permutations(acknowledged)
    table.bench.model = table.verify_outcome([partial(_model_after, table.model, order) for order in orders])


def _run_at_once(attempts: list[_Attempt]) -> None:
    ready = threading.Barrier(len(attempts))

    def run(attempt: _Attempt) -> None:
        ready.wait(_ENDS_WITHIN)
        attempt.submit()

    threads = [threading.Thread(target=run, args=(each,)) for each in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_ENDS_WITHIN)
    require(not any(thread.is_alive() for thread in threads), "a commit does not end")


def _settled(attempt: _Attempt, table: TestedTable) -> bool:
    """Whether it was acknowledged. Raises what is no proved refusal."""
    if isinstance(attempt.error, RequirementFailed):
        require(attempt.error.proved_failed, f"{attempt.error.name} leaves the outcome open")
        table.log.append(f"    {attempt.plan.what} -> refused: {attempt.error.name}")
        table.counts["refused"] += 1
        return False
    table.log.append(f"    {attempt.plan.what}")
    if attempt.error is not None:
        raise attempt.error
    table.counts["acknowledged"] += 1
    return True


def _model_after(model: Model, order: tuple[_Attempt, ...]) -> Model:
    """The model after some operations. Raises Broken if one of them must be refused there."""
    after = model.copy()
    for each in order:
        each.plan.apply(after, each.report.snapshot_ids)
    return after
