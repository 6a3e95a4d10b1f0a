"""What every implementation of `coordinator.ports.EventListener` must do: it passes every event to every listener,
and no listener can harm a commit.

Each check takes the port, and a function that adds a listener to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import EventListener, TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import checks_of, expect_equal

Listener = Callable[[Mapping[str, Any]], None]
Check = Callable[[EventListener, Callable[[Listener], None]], None]

_NAME: Final = TableName("db", "t")
_EVENTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"event": "committed", "report": CommitReport(_NAME, "file:/m", TableMetadata({}), snapshot_ids=(7,))},
    {"event": "registered", "report": CommitReport(_NAME, "file:/m", TableMetadata({}))},
    {"event": "retry-priority-wait", "table": _NAME, "seconds": 0.5},
    {"event": "foreign-writer-backoff", "table": _NAME, "seconds": 0.5},
    {"event": "lock-kept", "table": _NAME, "seconds": 0.5},
    {"event": "overdue", "table": _NAME},
    {"event": "lock-left-to-expire", "table": _NAME, "seconds": 300.0},
    {"event": "metrics-report", "table": _NAME, "report": object()},
    {"event": "files-deleted", "table": _NAME, "why": "purge", "locations": ["file:/m"]},
    {"event": "files-left", "table": _NAME, "why": "own files", "locations": ["file:/m"]},
    {"event": "manifests-merged", "table": _NAME, "snapshot_id": 7, "outcome": "done"},
    {"event": "purged", "table": _NAME, "ended": True, "deleted": 1, "kept": 0, "failed": 0, "why": ""},
    {"event": "something-new"},
)


def listeners_get_events_in_order(events: EventListener, subscribe: Callable[[Listener], None]) -> None:
    received: list[Mapping[str, Any]] = []
    subscribe(received.append)
    for event in _EVENTS:
        events.publish(event)
    expect_equal(
        [event["event"] for event in received], [event["event"] for event in _EVENTS], "events that the listener got"
    )


def a_broken_listener_harms_no_other(events: EventListener, subscribe: Callable[[Listener], None]) -> None:
    def broken(_event: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    received: list[Mapping[str, Any]] = []
    subscribe(broken)
    subscribe(received.append)
    for event in _EVENTS:
        events.publish(event)
    expect_equal(len(received), len(_EVENTS), "events that the listener beside a broken one got")


def publishing_without_listeners_works(events: EventListener, _subscribe: Callable[[Listener], None]) -> None:
    for event in _EVENTS:
        events.publish(event)


CHECKS: Final[tuple[Check, ...]] = checks_of(globals())
