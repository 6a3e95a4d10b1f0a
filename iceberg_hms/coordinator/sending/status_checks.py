"""How often, and for how long, to look at a table for a swap that was not answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Runtime

#: The longest time between two checks while a table's lock is kept for a swap that may still be made: nobody else can
#: commit meanwhile.
LONGEST_WAIT_SECONDS = 10.0


def status_checks(runtime: Runtime, settings: Settings) -> Iterator[None]:
    """Yields once for each check: the first at once, the others after waits that double, within
    `commit.status-check.*`."""
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
    """The same without a limit on their number, until a time by `Runtime.now()`; the last check is then."""
    wait = settings.status_check_min_wait_ms / 1000
    longest = min(settings.status_check_max_wait_ms / 1000, LONGEST_WAIT_SECONDS)
    while (remaining := deadline - runtime.now()) > 0:
        runtime.sleep(min(wait, remaining))
        yield
        wait = min(wait * 2, longest)


def status_checks_while_pending(
    runtime: Runtime, settings: Settings, waited_seconds: float, overdue: Callable[[], None]
) -> Iterator[None]:
    """Checks for a swap that only its lock protects, until it can hardly be made any more: those of `status_checks`;
    then calls `overdue`; then checks until `metastore.unanswered-swap-timeout-ms` have passed since the swap was sent.
    waited_seconds: how long the driver has waited for the answer already."""
    deadline = runtime.now() + settings.unanswered_swap_timeout_ms / 1000 - waited_seconds
    yield from status_checks(runtime, settings)
    overdue()
    yield from status_checks_until(runtime, settings, deadline)
