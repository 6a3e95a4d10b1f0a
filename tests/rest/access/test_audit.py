"""The trail line by line; tests/security/test_audit.py attacks it through the server."""

from __future__ import annotations

import json
import logging

import pytest

from iceberg_hms.rest.access.audit import LOGGER, AuditEntry, AuditTrail, RequestIds
from iceberg_hms.rest.access.authorization import Action
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


@pytest.mark.parametrize("action", [action for action in Action if action.level is Level.READ])
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


@pytest.mark.parametrize("text", ["ä", "\x7f", "\ud800"])
def test_a_line_has_only_ascii(caplog: pytest.LogCaptureFixture, text: str) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        AuditTrail(ByHand()).close(AuditEntry("an id", text, CALLER, Action.COMMIT), 403, "GET", "/")
    [line] = [record.getMessage() for record in caplog.records]
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["peer"] == text


def test_a_request_without_an_id_gets_a_new_one() -> None:
    ids = RequestIds(ByHand())
    assert ids.id_of("a-1") == "a-1"
    assert ids.id_of("a\n1") not in ("a\n1", ids.id_of(None))
    assert len({each.id_of(None) for each in (ids, ids, RequestIds(ByHand()))}) == 3
