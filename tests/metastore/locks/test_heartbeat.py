from __future__ import annotations

import math
import threading
from collections.abc import Callable

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, MetastoreUnavailable
from iceberg_hms.metastore.locks.heartbeat import HmsHeldLock
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from tests.metastore.fake_hms import DropAfter, FakeHms, Running
from tests.metastore.runtimes import ByHand

NAME = TableName("db", "t")
Hold = Callable[..., HmsHeldLock]


@pytest.fixture
def runtime() -> ByHand:
    return ByHand()


@pytest.fixture
def released() -> list[bool | None]:
    return []


@pytest.fixture
def hold(entries: LockEntries, runtime: ByHand, released: list[bool | None]) -> Hold:
    def make(lease: float = 300.0, interval: float = 240.0) -> HmsHeldLock:
        return HmsHeldLock(
            entries,
            runtime,
            entries.enqueue(NAME, "agent"),
            sent=runtime.read_clocks(),
            behind_foreign_writer=False,
            require_cas=False,
            lease_seconds=lease,
            server_lease=lambda: math.inf,
            interval_seconds=interval,
            on_release=released.append,
            on_let_expire=lambda _: released.append(None),
        )

    return make


def test_a_renewal_covers_from_when_it_was_sent(hold: Hold, runtime: ByHand) -> None:
    held = hold()
    runtime.time += 100
    assert held.seconds_since_renewal() == 100
    held.renew()
    assert held.seconds_since_renewal() == 0


@pytest.mark.parametrize("clock", ["time", "suspended", "wall_ahead"])
def test_a_lock_that_was_not_renewed_for_its_lease_is_lost_by_any_clock_and_for_good(
    clock: str, hold: Hold, hms: FakeHms, runtime: ByHand
) -> None:
    held = hold(lease=10)
    setattr(runtime, clock, getattr(runtime, clock) + 10)
    assert held.seconds_since_renewal() == 10
    setattr(runtime, clock, getattr(runtime, clock) + 0.1)
    for question in (held.seconds_since_renewal, held.renew, held.ensure_held, held.seconds_since_renewal):
        with pytest.raises(LockLost, match="not renewed for its lease of 10 s"):
            question()
    assert "heartbeat" not in hms.calls
    assert len(hms.locks) == 1


def test_a_wall_clock_that_is_set_back_does_not_make_a_lease_younger(hold: Hold, runtime: ByHand) -> None:
    held = hold(lease=10)
    runtime.time += 9
    runtime.wall_ahead = -3_600
    assert held.seconds_since_renewal() == 9


def test_a_renewal_that_is_answered_after_the_lease_does_not_count(hold: Hold, hms: FakeHms, runtime: ByHand) -> None:
    """Sent in time, but a waiter that found the lock silent for its lease may have sent its removal already."""
    held = hold(lease=10)
    plain = hms.heartbeat

    def slow(ids: object) -> None:
        runtime.time += 5
        plain(ids)

    hms.heartbeat = slow  # type: ignore[method-assign]
    runtime.time += 6
    with pytest.raises(LockLost, match="not renewed for its lease of 10 s"):
        held.renew()
    with pytest.raises(LockLost):
        held.seconds_since_renewal()


def test_heartbeats_end_with_the_lease_though_the_entry_is_still_there(
    hold: Hold, hms: FakeHms, runtime: ByHand
) -> None:
    held = hold(lease=0.02)
    runtime.suspended = 1
    held.start()
    runtime.join()
    assert "heartbeat" not in hms.calls
    assert len(hms.locks) == 1


def test_a_lock_that_the_metastore_removed_stays_lost(hold: Hold, hms: FakeHms) -> None:
    held = hold()
    hms.locks.clear()
    with pytest.raises(LockLost):
        held.renew()
    with pytest.raises(LockLost, match="no longer in the metastore"):
        held.seconds_since_renewal()
    held.release()


def test_a_renewal_that_fails_otherwise_loses_nothing(hold: Hold, hms: FakeHms, runtime: ByHand) -> None:
    held = hold()
    hms.misbehave["heartbeat"] += [MetaException("deadlock")] * 2
    with pytest.raises(MetastoreUnavailable):
        held.renew()
    hms.misbehave["heartbeat"] += [DropAfter(), DropAfter()]
    with pytest.raises(MetastoreUnavailable):
        held.renew()
    runtime.time += 1
    assert held.seconds_since_renewal() == 1


def test_heartbeats_go_on_by_themselves_until_release(hold: Hold, hms: FakeHms, runtime: ByHand) -> None:
    beaten = runtime.event()
    plain = hms.heartbeat

    def heartbeat(ids: object) -> None:
        if hms.calls.count("heartbeat") >= 3:
            beaten.set()
        plain(ids)

    hms.heartbeat = heartbeat  # type: ignore[method-assign]
    hms.misbehave["heartbeat"] += [MetaException("deadlock")] * 2
    held = hold(lease=0.02)
    held.start()
    assert beaten.wait(10), "no third heartbeat"
    held.release()


@pytest.mark.parametrize(("age", "first"), [(0, 5), (3, 2), (290, 0)])
def test_the_first_heartbeat_counts_from_when_the_lock_was_asked_for(
    age: int, first: int, hold: Hold, hms: FakeHms, runtime: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that sleeps twice, each time for less than half of the lease, before the lock is answered and after the
    swap was sent, has used up nearly all of the lease when its heartbeats begin."""
    waits: list[float | None] = []

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return len(waits) == 3

    monkeypatch.setattr(runtime, "event", Waits)
    held = hold(lease=300)
    runtime.time += age
    held.start()
    runtime.join()
    assert waits == [first, 5, 5]
    assert hms.calls.count("heartbeat") == 2


def test_the_interval_is_a_tenth_of_the_lease_at_most_and_never_long(hold: Hold) -> None:
    assert hold(lease=15, interval=240).interval_seconds == 1.5
    assert hold(lease=300, interval=240).interval_seconds == 5
    assert hold(lease=300, interval=3).interval_seconds == 3


def test_release_gives_the_entry_back_once_and_says_so(hold: Hold, hms: FakeHms, released: list[bool | None]) -> None:
    held = hold()
    held.release()
    held.release()
    assert hms.locks == {}
    assert released == [True]
    assert hms.calls.count("unlock") == 1
    with pytest.raises(LockLost, match="released"):
        held.renew()


def test_a_release_that_is_interrupted_says_that_the_entry_may_be_left(
    hold: Hold, entries: LockEntries, released: list[bool | None]
) -> None:
    def interrupted(entry: object) -> None:
        raise KeyboardInterrupt

    held = hold()
    entries.remove = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        held.release()
    assert released == [False]


@pytest.mark.parametrize("broken", ["fault", "no answer", "gone"])
def test_release_never_raises(
    broken: str, hold: Hold, hms: FakeHms, server: Running, released: list[bool | None]
) -> None:
    held = hold()
    if broken == "fault":
        hms.misbehave["unlock"] += [MetaException("deadlock")] * 2
    elif broken == "no answer":
        hms.misbehave["unlock"] += [DropAfter(), DropAfter()]
    else:
        server.stop()
    held.release()
    assert released == [False]


def test_a_lock_that_is_left_to_expire_stays_and_is_renewed_no_more(
    hold: Hold, hms: FakeHms, released: list[bool | None], caplog: pytest.LogCaptureFixture
) -> None:
    held = hold()
    held.let_expire()
    held.release()
    held.let_expire()
    assert released == [None]
    assert list(hms.locks) == [held.lock_id]
    assert caplog.records == [], "the coordinator logs it once for all locks of the table"
    with pytest.raises(LockLost, match="released"):
        held.renew()
