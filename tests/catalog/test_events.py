import asyncio
import logging

import pytest

from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata

REPORT = CommitReport(TableName("db", "t"), "file:/m1", TableMetadata({}), snapshot_ids=(7, 8), attempts=2, replays=1)


def test_a_commit_is_one_line_in_the_log(caplog):
    with caplog.at_level(logging.INFO):
        LoggedEvents().publish({"event": "committed", "report": REPORT})
    assert len(caplog.messages) == 1
    assert "committed table=db.t location=file:/m1 snapshots=7,8 attempts=2 replays=1" in caplog.messages[0]


@pytest.mark.parametrize("defect", [ZeroDivisionError, SystemExit, asyncio.CancelledError])
def test_listeners_get_every_event_and_cannot_break_each_other(caplog, defect):
    events, heard = LoggedEvents(), []

    def broken(event):
        raise defect

    events.subscribe(broken)
    events.subscribe(heard.append)
    events.publish({"event": "committed", "report": REPORT})
    events.publish({"event": "other"})
    assert [event["event"] for event in heard] == ["committed", "other"]
    assert caplog.text.count("a listener for the event") == 2
