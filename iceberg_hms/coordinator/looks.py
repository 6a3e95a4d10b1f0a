"""How often, and how long, the table is looked at for a move that was not answered."""

from __future__ import annotations

from collections.abc import Iterator

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Runtime


def looks(runtime: Runtime, settings: Settings) -> Iterator[None]:
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
