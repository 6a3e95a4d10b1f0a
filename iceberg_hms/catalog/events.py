"""Events of commits, for the log and for listeners in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.outcome.outcome import CommitReport

logger = logging.getLogger(__name__)

Listener = Callable[[Mapping[str, Any]], None]


class LoggedEvents:
    """Implements `coordinator.ports.EventListener`: one log line an event, then each listener."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(event)` for every event, on the thread that published it; it should return at once."""
        self._listeners = (*self._listeners, listener)

    def publish(self, event: Mapping[str, Any]) -> None:
        report = event.get("report")
        if isinstance(report, CommitReport):
            logger.info(
                "%s table=%s location=%s snapshots=%s attempts=%d replays=%d group=%d rebased=%s"
                " queue_wait_ms=%.1f lock_wait_ms=%.1f swap_ms=%.1f total_ms=%.1f metastore_calls=%d bytes_written=%d",
                event["event"],
                report.table,
                report.metadata_location,
                ",".join(map(str, report.snapshot_ids)),
                report.attempts,
                report.replays,
                report.group_size,
                report.rebased,
                report.queue_wait_ms,
                report.lock_wait_ms,
                report.swap_ms,
                report.total_ms,
                report.metastore_calls,
                report.bytes_written,
            )
        # The commit is made: a listener's defect must not fail it.
        anyhow = log_and_continue(f"a listener for the event {event.get('event')}", REPORT)
        for listener in self._listeners:
            with anyhow:
                listener(event)
