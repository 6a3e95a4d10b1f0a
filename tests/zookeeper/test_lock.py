"""The ZooKeeper lock over an ensemble in memory; the real one passes the same contract in integration/."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired, LockUnavailable
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.contracts.table_lock import Guard
from iceberg_hms.zookeeper import lock as module
from simulation.world.ensemble import Ensemble, Folder
from tests.polling import eventually
from tests.zookeeper.memory_session import FOLDER, NAME


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, writers: Any, ensemble: Ensemble) -> None:
    first, second = writers(), writers()
    check(Guard(first.lock, second.lock, first.runtime, NAME))
    assert ensemble.nodes == {}


def test_a_free_lock_costs_two_requests_and_its_release_one(writers: Any) -> None:
    # No heartbeat comes in between.
    writer = writers(lease_seconds=3_000)
    held = writer.acquire()
    assert writer.session.calls == ["create", "children"]
    held.release()
    assert writer.session.calls == ["create", "children", "delete"]


def test_who_gives_up_while_suspended_removes_its_node_as_soon_as_it_can(writers: Any, ensemble: Ensemble) -> None:
    holder, waiter = writers(), writers()
    held = holder.acquire()
    problems: list[Exception] = []
    done = waiter.runtime.event()

    def wait_until_it_fails() -> None:
        try:
            waiter.acquire(wait_seconds=20)
        except LockUnavailable as error:
            problems.append(error)
        done.set()

    waiter.runtime.spawn("waiter", wait_until_it_fails)
    assert eventually(lambda: len(ensemble.nodes) == 2 and waiter.session.calls[-1] == "watch")
    waiter.session.suspend()
    held.release()
    assert done.wait(20)
    assert len(problems) == len(ensemble.nodes) == 1
    waiter.session.resume()
    assert ensemble.nodes == {}


def test_a_lock_whose_heartbeats_cannot_begin_is_not_kept(
    writers: Any, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    writer = writers()
    monkeypatch.setattr(writer.runtime, "spawn", no_thread)
    with pytest.raises(KeyboardInterrupt):
        writer.acquire()
    assert ensemble.nodes == {}


def test_a_malformed_request_is_refused_before_anything_is_asked(writers: Any) -> None:
    writer = writers()
    with pytest.raises(InvalidInput):
        writer.lock.acquire(NAME, wait_seconds=0, request="A/b")
    assert writer.session.calls == []


def test_a_lock_that_an_operator_removes_is_lost(writers: Any) -> None:
    holder, operator = writers(), writers()
    held = holder.acquire()
    [entry] = operator.lock.entries(NAME)
    assert (entry.table, entry.state, entry.since_ms) == (str(NAME), "ACQUIRED", 1_000)
    assert (entry.user, entry.host) == ("ann", "h1")
    assert entry.agent_info.startswith("iceberg-hms/")
    operator.lock.remove(entry.lock_id)
    with pytest.raises(LockLost, match="removed"):
        held.renew()


def test_the_error_of_a_writer_that_timed_out_names_the_holder(writers: Any, ensemble: Ensemble) -> None:
    ensemble.folders[FOLDER] = Folder(number=9_999_999_998)
    held = writers().acquire()
    with pytest.raises(LockNotAcquired, match=r"held by lock db\.t/.*-9999999998 of ann on h1"):
        writers().acquire(wait_seconds=0)
    held.release()


def test_what_is_no_lock_of_ours_is_neither_shown_nor_waited_for(writers: Any, ensemble: Ensemble) -> None:
    writer, other = writers(), writers()
    other.session.mark(f"{FOLDER}/notes", b"")
    other.session.create(FOLDER, "0-0-lock-", b"not JSON")
    with pytest.raises(LockNotAcquired, match=r"of \? on \? \(no agentInfo\)"):
        writer.acquire(wait_seconds=0)
    writer.lock.remove("db.t/0-0-lock-0000000000")
    writer.acquire(wait_seconds=0)
    assert [entry.user for entry in writer.lock.entries()] == ["ann"]


def test_the_locks_of_all_tables_are_listed_whatever_their_names(writers: Any) -> None:
    names = [TableName("a.b", "c"), TableName("a", "b.c"), TableName("a/b", ".."), TableName("ü", "%2e")]
    writer = writers()
    for name in names:
        writer.acquire(wait_seconds=0, name=name)
    assert {entry.table for entry in writer.lock.entries()} == set(map(str, names))


def test_closing_waits_for_who_holds_a_lock_and_lets_waiters_give_up(writers: Any) -> None:
    other, writer = writers(), writers()
    theirs = other.acquire()
    held = writer.acquire(name=TableName("db", "mine"))
    problems: list[Exception] = []
    given_up, closed = writer.runtime.event(), writer.runtime.event()

    def wait_until_it_fails() -> None:
        try:
            writer.acquire(wait_seconds=60)
        except LockNotAcquired as error:
            problems.append(error)
        given_up.set()

    writer.runtime.spawn("waiter", wait_until_it_fails)
    assert eventually(lambda: writer.session.calls[-1] == "watch")
    writer.runtime.spawn("closer", lambda: (writer.lock.close(), closed.set())[0])
    assert given_up.wait(20)
    assert "closed" in str(problems[0])
    assert not writer.session.closed
    held.renew()
    held.release()
    assert closed.wait(20)
    assert writer.session.closed
    theirs.renew()
    with pytest.raises(LockUnavailable, match="closed"):
        writer.acquire()


def test_closing_does_not_wait_for_ever_and_ends_what_is_still_held(
    writers: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)
    writer = writers()
    held = writer.acquire()
    writer.lock.close()
    assert writer.session.closed
    with pytest.raises(LockLost, match="closed"):
        held.seconds_since_renewal()
    held.release()
    assert caplog.records == []
