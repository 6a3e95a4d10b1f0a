"""Several locks as one, and what a thread holds."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from iceberg_hms.catalog.held_locks import ChosenHeldLock, NoLock, Under
from iceberg_hms.catalog.lock_modes import LockMode
from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import LockLost

NAME = TableName("db", "t")
ROW = Pointer(NAME, "file:/x", None, {}, None)


class Part:
    """A HeldLock whose cover a test sets. log: what was done to it."""

    def __init__(self, name: str, log: list[str], *, since: float = 0.0, lease: float = 30.0) -> None:
        self.name = name
        self.log = log
        self.since = since
        self.lease_seconds = lease

    def covered_since(self) -> float:
        return self.since

    def renew(self) -> None:
        self.log.append(f"renew {self.name}")
        self.since = 100.0

    def release(self) -> None:
        self.log.append(f"release {self.name}")


class SessionPart(Part):
    lost = False

    def check_connected(self) -> None:
        if self.lost:
            raise LockLost(f"{self.name} is SUSPENDED")


def held(*parts: Any, on_release: Any = lambda lock: None) -> ChosenHeldLock:
    return ChosenHeldLock(parts, LockMode.ZOOKEEPER, on_release)


def test_all_parts_must_cover_and_the_weakest_decides() -> None:
    log: list[str] = []
    both = held(Part("a", log, since=5.0, lease=30.0), Part("b", log, since=3.0, lease=300.0))
    assert (both.lease_seconds, both.covered_since()) == (30.0, 3.0)
    both.renew()
    assert log == ["renew a", "renew b"]


def test_the_last_taken_is_given_back_first_and_it_is_told_before() -> None:
    log: list[str] = []
    held(Part("a", log), Part("b", log), on_release=lambda lock: log.append("told")).release()
    assert log == ["told", "release b", "release a"]


def test_a_swap_starts_under_a_fresh_cover_alone() -> None:
    log: list[str] = []
    lock = held(Part("a", log, since=10.0, lease=30.0), Part("b", log, since=10.0, lease=300.0))
    lock.check_before_swap(24.0)
    assert log == []
    lock.check_before_swap(26.0)
    assert log == ["renew a"]


def test_no_swap_starts_while_a_session_is_out_of_reach() -> None:
    part = SessionPart("a", [])
    held(part).check_before_swap(1.0)
    part.lost = True
    with pytest.raises(LockLost, match="SUSPENDED"):
        held(part).check_before_swap(1.0)


def test_no_lock_covers_always() -> None:
    runtime = ThreadRuntime()
    lock = NoLock(runtime)
    before = runtime.now()
    assert lock.covered_since() >= before
    assert runtime.now() - lock.covered_since() < lock.lease_seconds / 2
    lock.renew()
    lock.release()


def test_a_row_is_handed_on_once_and_to_the_thread_that_read_it() -> None:
    under = Under()
    lock = held(on_release=under.end)
    under.begin(NAME, lock, ROW)
    elsewhere: list[Any] = []
    thread = threading.Thread(target=lambda: elsewhere.append((under.held(NAME), under.take_row(NAME))))
    thread.start()
    thread.join()
    assert elsewhere == [(None, None)]
    assert under.held(NAME) is lock
    assert under.take_row(NAME) is ROW
    assert under.take_row(NAME) is None


def test_after_release_nothing_is_held_and_no_row_is_handed_on() -> None:
    under = Under()
    first = held(on_release=under.end)
    second = held(on_release=under.end)
    under.begin(NAME, first, ROW)
    under.begin(NAME, second, None)
    assert under.take_row(NAME) is None
    first.release()
    assert under.held(NAME) is second
    under.begin(NAME, second, ROW)
    second.release()
    assert under.held(NAME) is None
    assert under.take_row(NAME) is None
