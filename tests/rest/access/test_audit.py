"""The trail line by line; tests/security/test_audit.py attacks it through the server."""

from __future__ import annotations

import logging

import pytest

from iceberg_hms.rest.access.audit import LOGGER, AuditEntry, AuditTrail, request_id
from iceberg_hms.rest.access.authorization import LEVELS, Action
from iceberg_hms.rest.access.scopes import EVERYTHING, Caller, Level
from tests.security.callers import ByHand

CALLER = Caller("etl", EVERYTHING)


@pytest.mark.parametrize(
    ("status", "begun", "outcome"),
    [
        (200, True, "done"),
        (409, True, "refused"),
        (413, False, "refused"),
        (499, True, "unknown"),
        (500, True, "unknown"),
        (503, True, "unknown"),
        (499, False, None),
    ],
)
def test_the_status_and_whether_it_began_say_what_came_of_a_change(
    caplog: pytest.LogCaptureFixture, status: int, begun: bool, outcome: str | None
) -> None:
    entry = AuditEntry("an id", "10.0.0.7", CALLER, Action.COMMIT, begun=begun)
    with caplog.at_level(logging.INFO, LOGGER):
        AuditTrail(ByHand()).close(entry, status, "POST", "/")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (outcome is not None)
    assert outcome is None or f'"outcome": "{outcome}"' in lines[0]


@pytest.mark.parametrize("action", [action for action in Action if LEVELS[action] is Level.READ])
def test_reads_get_a_line_only_if_they_are_refused(caplog: pytest.LogCaptureFixture, action: Action) -> None:
    trail = AuditTrail(ByHand())
    with caplog.at_level(logging.INFO, LOGGER):
        for status in (200, 304, 404, 500):
            trail.close(AuditEntry("an id", "", CALLER, action, begun=True), status, "GET", "/")
        assert caplog.records == []
        trail.close(AuditEntry("an id", "", CALLER, action), 403, "GET", "/")
    assert len(caplog.records) == 1


def test_a_log_that_wants_no_lines_gets_none(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        AuditTrail(ByHand()).close(AuditEntry("an id", "", CALLER, Action.COMMIT), 403, "GET", "/")
    assert caplog.records == []


def test_a_request_without_an_id_gets_a_new_one() -> None:
    assert request_id("a-1", ByHand()) == "a-1"
    assert request_id(None, ByHand()) != request_id(None, ByHand())
