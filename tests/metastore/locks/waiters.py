"""What the tests of locks share: a table, settings with short waits, and runtimes whose time is made of sleeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.clock import ClockReading
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from tests.metastore.fake_hms import FakeHms
from tests.metastore.runtimes import Counted

NAME = TableName("db", "t")
SETTINGS = Settings.load(
    {
        "iceberg.hive.lock-creation-min-wait-ms": 1,
        "iceberg.hive.lock-check-min-wait-ms": 1,
        "iceberg.hive.lock-check-max-wait-ms": 5,
        "user": "ada",
    },
    environ={},
)


def taken_by_another(entries: LockEntries) -> LockEntry:
    return entries.enqueue(NAME, "another writer")


def lists_no_locks(hms: FakeHms) -> None:
    """show_locks fails from now on."""

    def fail(rqst: Any) -> Any:
        raise MetaException("busy")

    hms.show_locks = fail  # type: ignore[method-assign]


class Timed(Counted):
    """Its time is made of its sleeps alone."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    def jitter(self) -> float:
        return 0.5

    def now(self) -> float:
        return sum(self.sleeps)

    def read_clocks(self) -> ClockReading:
        return ClockReading(self.now(), self.now(), self.now())


class TimedWith(Timed):
    """The database's clock goes with it. paused: what a test lets happen before a sleep ends."""

    def __init__(self, hms: FakeHms) -> None:
        super().__init__()
        self._hms = hms
        self.awake: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._hms.now_ms += round(seconds * 1000)
        self.awake()
