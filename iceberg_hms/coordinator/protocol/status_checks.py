"""How often, and how long, the table is looked at for a move that was not answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Runtime

#: Between two looks while a table's lock is kept for a move that may still be carried out: nobody else commits.
LONGEST_WAIT_SECONDS = 10.0


def status_checks(runtime: Runtime, settings: Settings) -> Iterator[None]:
    """One turn a look: the first at once, the others after waits that double, within `commit.status-check.*`."""
    deadline = runtime.now() + settings.status_check_total_timeout_ms / 1000
    wait = settings.status_check_min_wait_ms / 1000
    yield
    for _ in range(settings.status_check_num_retries):
        if runtime.now() + wait > deadline:
            return
        runtime.sleep(wait)
        yield
        wait = min(wait * 2, settings.status_check_max_wait_ms / 1000)


def status_checks_until(runtime: Runtime, settings: Settings, deadline: float) -> Iterator[None]:
    """The same until a time by `Runtime.now()`, however many they are, and the last one then."""
    wait = settings.status_check_min_wait_ms / 1000
    longest = min(settings.status_check_max_wait_ms / 1000, LONGEST_WAIT_SECONDS)
    while (remaining := deadline - runtime.now()) > 0:
        runtime.sleep(min(wait, remaining))
        yield
        wait = min(wait * 2, longest)


def status_checks_while_pending(
    runtime: Runtime, settings: Settings, waited_seconds: float, overdue: Callable[[], None]
) -> Iterator[None]:
    """One turn a look for a move that nothing but its lock fences, until it can hardly be made any more: those of
    `looks`, then `overdue` is called, and then those until `metastore.unanswered-swap-timeout-ms` are over. waited: how
    long the driver waited for the answer, which counts."""
    deadline = runtime.now() + settings.unanswered_swap_timeout_ms / 1000 - waited_seconds
    yield from status_checks(runtime, settings)
    overdue()
    yield from status_checks_until(runtime, settings, deadline)
