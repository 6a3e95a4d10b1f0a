from __future__ import annotations

import logging

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.lock_waits import KNOWN_SECONDS, REMEMBERED_MAX, REPORT_SECONDS, LockWaits
from tests.metastore.locks.waiters import Timed

NAME = TableName("db", "t")
HOLDER = LockRecord("7", "hms", "db.t", "ACQUIRED", "EXCLUSIVE", "ann", "h1", "", 1_617_271_200_000, 1_617_271_260_000)


@pytest.fixture
def runtime() -> Timed:
    return Timed()


@pytest.fixture
def waits(runtime: Timed) -> LockWaits:
    return LockWaits(runtime)


def test_a_long_wait_is_logged_once_with_the_holder_and_what_frees_the_table(
    waits: LockWaits, runtime: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    wait = waits.begin(NAME)
    runtime.sleep(REPORT_SECONDS - 0.1)
    wait.saw(HOLDER)
    assert not wait.is_due
    assert caplog.messages == []
    for _ in range(3):
        runtime.sleep(0.1)
        wait.saw(HOLDER)
    assert caplog.messages == [
        "Waiting for the lock of db.t for 5 s: held by lock 7 of ann on h1 (no agentInfo), since 2021-04-01 "
        "10:00:00.000 UTC, last heartbeat 2021-04-01 10:01:00.000 UTC. `iceberg-hms locks list db.t` lists the "
        "holder and those that wait. If the holder is gone, `iceberg-hms locks break 7 --yes` removes its lock"
    ]
    assert caplog.records[0].levelno == logging.WARNING
    again = waits.begin(NAME)
    runtime.sleep(REPORT_SECONDS)
    again.saw(HOLDER)
    assert len(caplog.messages) == 2


def test_a_long_wait_for_an_unknown_holder_is_logged_too(
    waits: LockWaits, runtime: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    wait = waits.begin(NAME)
    runtime.sleep(REPORT_SECONDS)
    wait.saw(None)
    assert caplog.messages == ["Waiting for the lock of db.t for 5 s; its holder is not known"]
    assert waits.held_by(NAME) == ""


def test_a_holder_is_known_until_the_lock_is_acquired_or_nobody_saw_it_for_long(
    waits: LockWaits, runtime: Timed
) -> None:
    assert waits.held_by(NAME) == ""
    wait = waits.begin(NAME)
    wait.saw(HOLDER)
    runtime.sleep(KNOWN_SECONDS)
    assert waits.held_by(NAME).startswith("held by lock 7 of ann on h1")
    runtime.sleep(0.1)
    assert waits.held_by(NAME) == ""
    wait.saw(HOLDER)
    wait.ended()
    assert waits.held_by(NAME) == ""


def test_what_is_remembered_is_bounded(waits: LockWaits) -> None:
    for number in range(REMEMBERED_MAX + 1):
        waits.saw(TableName("db", f"t{number}"), HOLDER)
    assert waits.held_by(TableName("db", "t0")) == ""
    assert waits.held_by(TableName("db", f"t{REMEMBERED_MAX}")) != ""
