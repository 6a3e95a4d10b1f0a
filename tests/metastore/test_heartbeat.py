from __future__ import annotations

from collections.abc import Callable

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, MetastoreUnavailable
from iceberg_hms.metastore.entries import LockEntries
from iceberg_hms.metastore.heartbeat import HmsHeldLock
from tests.metastore.fake_hms import DropAfter, FakeHms, Running
from tests.metastore.runtimes import ByHand

NAME = TableName("db", "t")
Hold = Callable[..., HmsHeldLock]


@pytest.fixture
def runtime() -> ByHand:
    return ByHand()


@pytest.fixture
def released() -> list[bool]:
    return []


@pytest.fixture
def hold(entries: LockEntries, runtime: ByHand, released: list[bool]) -> Hold:
    def make(lease: float = 300.0, interval: float = 240.0) -> HmsHeldLock:
        return HmsHeldLock(
            entries,
            runtime,
            entries.enqueue(NAME, "agent"),
            sent_at=runtime.now(),
            behind_foreign=False,
            lease_seconds=lease,
            interval_seconds=interval,
            on_release=released.append,
        )

    return make


def test_a_renewal_covers_from_when_it_was_sent(hold: Hold, runtime: ByHand) -> None:
    held = hold()
    runtime.time += 100
    assert held.covered_since() == 1_000
    held.renew()
    assert held.covered_since() == 1_100


def test_a_lock_that_was_not_renewed_for_its_lease_counts_as_lost(hold: Hold, runtime: ByHand) -> None:
    held = hold(lease=10)
    runtime.time += 10
    held.covered_since()
    runtime.time += 0.1
    with pytest.raises(LockLost, match="lease of 10 s"):
        held.covered_since()
    held.renew()
    held.covered_since()


def test_a_lock_that_the_metastore_removed_stays_lost(hold: Hold, hms: FakeHms) -> None:
    held = hold()
    hms.locks.clear()
    with pytest.raises(LockLost):
        held.renew()
    with pytest.raises(LockLost, match="no longer in the metastore"):
        held.covered_since()
    held.release()


def test_a_renewal_that_fails_otherwise_loses_nothing(hold: Hold, hms: FakeHms) -> None:
    held = hold()
    hms.misbehave["heartbeat"].append(MetaException("deadlock"))
    with pytest.raises(MetastoreUnavailable):
        held.renew()
    hms.misbehave["heartbeat"] += [DropAfter(), DropAfter()]
    with pytest.raises(MetastoreUnavailable):
        held.renew()
    assert held.covered_since() == 1_000


def test_heartbeats_go_on_by_themselves_until_release(hold: Hold, hms: FakeHms, runtime: ByHand) -> None:
    beaten = runtime.event()
    plain = hms.heartbeat

    def heartbeat(ids: object) -> None:
        if hms.calls.count("heartbeat") >= 3:
            beaten.set()
        plain(ids)

    hms.heartbeat = heartbeat  # type: ignore[method-assign]
    hms.misbehave["heartbeat"].append(MetaException("deadlock"))
    held = hold(lease=0.02)
    held.start()
    assert beaten.wait(10), "no third heartbeat"
    held.release()


def test_the_interval_is_a_tenth_of_the_lease_at_most(hold: Hold) -> None:
    assert hold(lease=300, interval=240)._interval_seconds == 30
    assert hold(lease=300, interval=5)._interval_seconds == 5


def test_release_gives_the_entry_back_once_and_says_so(hold: Hold, hms: FakeHms, released: list[bool]) -> None:
    held = hold()
    held.release()
    held.release()
    assert hms.locks == {}
    assert released == [True]
    assert hms.calls.count("unlock") == 1
    with pytest.raises(LockLost, match="released"):
        held.renew()


def test_a_release_that_is_interrupted_says_that_the_entry_may_be_left(
    hold: Hold, entries: LockEntries, released: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(entry: object) -> None:
        raise KeyboardInterrupt

    held = hold()
    monkeypatch.setattr(entries, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        held.release()
    assert released == [False]


@pytest.mark.parametrize("broken", ["fault", "no answer", "gone"])
def test_release_never_raises(broken: str, hold: Hold, hms: FakeHms, server: Running, released: list[bool]) -> None:
    held = hold()
    if broken == "fault":
        hms.misbehave["unlock"].append(MetaException("deadlock"))
    elif broken == "no answer":
        hms.misbehave["unlock"] += [DropAfter(), DropAfter()]
    else:
        server.stop()
    held.release()
    assert released == [False]
