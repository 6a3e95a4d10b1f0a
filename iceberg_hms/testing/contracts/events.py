"""What every implementation of `coordinator.ports.EventListener` must do: a listener is told, and cannot harm a commit.

Each check takes the port, and a function that adds a listener to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from iceberg_hms.coordinator.ports import EventListener, TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import expect_equal

Listener = Callable[[Mapping[str, Any]], None]
Check = Callable[[EventListener, Callable[[Listener], None]], None]

_NAME: Final = TableName("db", "t")
_EVENTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"event": "committed", "report": CommitReport(_NAME, "file:/m", TableMetadata({}), snapshot_ids=(7,))},
    {"event": "retry-priority-wait", "table": _NAME, "seconds": 0.5},
    {"event": "foreign-writer-backoff", "table": _NAME, "seconds": 0.5},
    {"event": "overdue", "table": _NAME},
    {"event": "lock-left-to-expire", "table": _NAME, "seconds": 300.0},
    {"event": "something-new"},
)


def listeners_are_told_in_order(events: EventListener, subscribe: Callable[[Listener], None]) -> None:
    heard: list[Mapping[str, Any]] = []
    subscribe(heard.append)
    for event in _EVENTS:
        events.publish(event)
    expect_equal([event["event"] for event in heard], [event["event"] for event in _EVENTS], "what was heard")


def a_listener_that_breaks_harms_nobody(events: EventListener, subscribe: Callable[[Listener], None]) -> None:
    def broken(_event: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    heard: list[Mapping[str, Any]] = []
    subscribe(broken)
    subscribe(heard.append)
    for event in _EVENTS:
        events.publish(event)
    expect_equal(len(heard), len(_EVENTS), "events that were heard beside a broken listener")


def nobody_needs_to_listen(events: EventListener, _subscribe: Callable[[Listener], None]) -> None:
    for event in _EVENTS:
        events.publish(event)


CHECKS: Final[tuple[Check, ...]] = (
    listeners_are_told_in_order,
    a_listener_that_breaks_harms_nobody,
    nobody_needs_to_listen,
)
