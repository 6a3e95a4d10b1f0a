"""The ZooKeeper lock over an ensemble in memory; the real one passes the same contract in integration/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable
from iceberg_hms.metastore.identity import agent_info
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.contracts.table_lock import Guard
from iceberg_hms.zookeeper.lock import ROOT, ZooKeeperTableLock
from tests.zookeeper.ensemble import Ensemble, MemorySession

NAME = TableName("db", "t")
FOLDER = f"{ROOT}/db.t"


class LateClock(SystemClock):
    """The real clock, and the hours that a test adds to it."""

    def __init__(self) -> None:
        self.late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Writer:
    def __init__(self, ensemble: Ensemble, lease_seconds: float = 30.0, clock: Any = None) -> None:
        self.session = MemorySession(ensemble, lease_seconds)
        self.runtime = ThreadRuntime(clock or SystemClock())
        self.lock = ZooKeeperTableLock(self.session, self.runtime, agent_info=agent_info, user="ann", host="h1")

    def acquire(self, wait_seconds: float = 10.0, name: TableName = NAME) -> Any:
        return self.lock.acquire(name, wait_seconds=wait_seconds, request="r-1")


def wait_until(condition: Callable[[], bool]) -> None:
    runtime = ThreadRuntime()
    deadline = runtime.now() + 20
    while not condition():
        assert runtime.now() < deadline, "it did not happen in time"
        runtime.event().wait(0.002)


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check) -> None:
    ensemble = Ensemble()
    first, second = Writer(ensemble), Writer(ensemble)
    check(Guard(first.lock, second.lock, first.runtime, NAME))
    assert ensemble.nodes == {}


def test_a_free_lock_costs_two_requests_and_its_release_one() -> None:
    writer = Writer(Ensemble())
    held = writer.acquire()
    assert writer.session.calls == ["create", "children"]
    held.release()
    assert writer.session.calls == ["create", "children", "delete"]


@pytest.mark.parametrize("request_", ["create", "children"])
def test_a_lost_reply_leaves_one_node_and_the_lock_is_had(request_: str) -> None:
    ensemble = Ensemble()
    writer = Writer(ensemble)
    writer.session.lose_reply = [request_]
    before = writer.runtime.now()
    held = writer.acquire()
    assert len(ensemble.nodes) == 1
    # What was sent before the reply was lost proves nothing: the node was written again.
    assert writer.session.calls[-1] == "write"
    assert before < held.covered_since() <= writer.runtime.now()
    held.release()
    assert ensemble.nodes == {}


def test_a_node_that_was_not_seen_after_a_lost_reply_is_ours_all_the_same_and_goes_with_the_other() -> None:
    """The creation is not answered; the next server does not know of it yet, so another node is made behind it."""
    ensemble = Ensemble()
    writer = Writer(ensemble)
    writer.session.lose_reply = ["create"]
    children = writer.session.children
    seen: list[list[str]] = []

    def late(folder: str) -> list[str]:
        seen.append(children(folder))
        return [] if len(seen) == 1 else seen[-1]

    writer.session.children = late  # type: ignore[method-assign]
    held = writer.acquire()
    held.renew()
    assert len(ensemble.nodes) == 2
    held.release()
    assert ensemble.nodes == {}


def test_a_lost_reply_to_a_delete_is_no_error_and_leaves_nothing() -> None:
    ensemble = Ensemble()
    writer = Writer(ensemble)
    held = writer.acquire()
    writer.session.lose_reply = ["delete"]
    held.release()
    assert ensemble.nodes == {}


def test_a_session_that_ends_takes_the_lock_with_it() -> None:
    writer, other = (Writer(ensemble) for ensemble in [Ensemble()] * 2)
    held = writer.acquire()
    writer.session.expire()
    taken = other.acquire(wait_seconds=0)
    for question in (held.covered_since, held.check_connected, held.renew):
        with pytest.raises(LockLost, match="session"):
            question()
    held.release()
    taken.renew()


def test_a_session_that_ends_between_two_requests_leaves_nothing_that_blocks_its_own_waiter() -> None:
    """The node is made in the new session under the name of the old one, and no reply tells us."""
    ensemble = Ensemble()
    writer = Writer(ensemble)
    create = writer.session.create

    def late(folder: str, prefix: str, data: bytes) -> str:
        writer.session.create = create  # type: ignore[method-assign]
        writer.session.expire()
        writer.session.lose_reply = ["create"]
        return create(folder, prefix, data)

    writer.session.create = late  # type: ignore[method-assign]
    held = writer.acquire()
    held.renew()
    assert len(ensemble.nodes) == 1
    held.release()


def test_a_suspended_session_stops_a_swap_from_starting_but_what_was_covered_stays_so() -> None:
    writer = Writer(Ensemble())
    held = writer.acquire()
    since = held.covered_since()
    writer.session.suspend()
    assert held.covered_since() == since
    with pytest.raises(LockLost, match="SUSPENDED"):
        held.check_connected()
    with pytest.raises(LockUnavailable):
        held.renew()
    writer.session.resume()
    held.renew()
    held.check_connected()
    assert held.covered_since() > since


def test_a_lease_that_has_passed_is_the_end_even_if_no_server_said_so() -> None:
    clock = LateClock()
    writer = Writer(Ensemble(), clock=clock)
    held = writer.acquire()
    writer.session.suspend()
    clock.late = 29.0
    held.covered_since()
    clock.late = 31.0
    with pytest.raises(LockLost, match="not renewed for its lease of 30 s"):
        held.covered_since()


def test_heartbeats_renew_the_lock_until_it_is_released() -> None:
    writer = Writer(Ensemble(), lease_seconds=0.05)
    held = writer.acquire()
    wait_until(lambda: writer.session.calls.count("write") >= 3)
    held.covered_since()
    held.release()
    deleted = writer.session.calls.index("delete")
    assert writer.session.calls[deleted:].count("write") <= 1


def test_who_gives_up_while_suspended_removes_its_node_as_soon_as_it_can() -> None:
    ensemble = Ensemble()
    holder, waiter = Writer(ensemble), Writer(ensemble)
    held = holder.acquire()
    problems: list[Exception] = []
    done = waiter.runtime.event()

    def wait_in_vain() -> None:
        try:
            waiter.acquire(wait_seconds=20)
        except LockUnavailable as error:
            problems.append(error)
        done.set()

    waiter.runtime.spawn("waiter", wait_in_vain)
    wait_until(lambda: len(ensemble.nodes) == 2 and waiter.session.calls[-1] == "watch")
    waiter.session.suspend()
    held.release()
    assert done.wait(20)
    assert len(problems) == len(ensemble.nodes) == 1
    waiter.session.resume()
    assert ensemble.nodes == {}


def test_a_lock_released_while_suspended_is_removed_as_soon_as_it_can_be() -> None:
    ensemble = Ensemble()
    writer = Writer(ensemble)
    held = writer.acquire()
    writer.session.suspend()
    held.release()
    assert len(ensemble.nodes) == 1
    writer.session.resume()
    assert ensemble.nodes == {}


def test_a_waiter_s_cover_begins_when_it_got_the_lock_and_not_when_it_asked() -> None:
    ensemble = Ensemble()
    holder, waiter = Writer(ensemble), Writer(ensemble)
    held = holder.acquire()
    got: list[Any] = []
    done = waiter.runtime.event()
    waiter.runtime.spawn("waiter", lambda: (got.append(waiter.acquire()), done.set())[0])
    wait_until(lambda: waiter.session.calls[-1:] == ["watch"])
    released_at = waiter.runtime.now()
    held.release()
    assert done.wait(20)
    assert got[0].covered_since() >= released_at


def test_a_lock_that_an_operator_removes_is_lost_and_a_waiter_asks_again() -> None:
    ensemble = Ensemble()
    holder, operator = Writer(ensemble), Writer(ensemble)
    held = holder.acquire()
    [entry] = operator.lock.entries(NAME)
    assert (entry.table, entry.acquired, entry.user, entry.host, entry.since_ms) == (NAME, True, "ann", "h1", 1_000)
    assert entry.agent_info.startswith("iceberg-hms/")
    operator.lock.remove(entry.lock_id)
    with pytest.raises(LockLost, match="removed"):
        held.renew()
    with pytest.raises(LockLost, match="removed"):
        held.covered_since()


def test_the_order_is_that_of_the_numbers_and_only_the_first_holds() -> None:
    ensemble = Ensemble()
    ensemble.numbers[FOLDER] = 9_999_999_998
    writers = [Writer(ensemble) for _ in range(2)]
    held = writers[0].acquire()
    with pytest.raises(LockNotAcquired, match=r"held by lock db\.t/.*-9999999998 of ann on h1"):
        writers[1].acquire(wait_seconds=0)
    held.release()


def test_a_counter_that_went_below_zero_counts_on() -> None:
    ensemble = Ensemble()
    ensemble.nodes[f"{FOLDER}/0-0-lock-2147483647"] = (None, b"{}")
    ensemble.nodes[f"{FOLDER}/0-0-lock--2147483648"] = (None, b"{}")
    ensemble.nodes[f"{FOLDER}/0-0-lock--000000007"] = (None, b"{}")
    found = [entry.lock_id[-10:] for entry in Writer(ensemble).lock.entries(NAME)]
    assert found == ["2147483647", "2147483648", "-000000007"]


def test_what_is_no_lock_of_ours_is_neither_shown_nor_waited_for() -> None:
    ensemble = Ensemble()
    ensemble.nodes[f"{FOLDER}/notes"] = (None, b"")
    ensemble.nodes[f"{FOLDER}/0-0-lock-0000000000"] = (None, b"not JSON")
    ensemble.numbers[FOLDER] = 1
    writer = Writer(ensemble)
    with pytest.raises(LockNotAcquired, match=r"of \? on \? \(no agentInfo\)"):
        writer.acquire(wait_seconds=0)
    writer.lock.remove("db.t/0-0-lock-0000000000")
    writer.acquire(wait_seconds=0)
    assert [entry.user for entry in writer.lock.entries()] == ["ann"]


def test_names_of_tables_never_share_a_folder() -> None:
    names = [TableName("a.b", "c"), TableName("a", "b.c"), TableName("a/b", ".."), TableName("ü", "%2e")]
    writer = Writer(Ensemble())
    for name in names:
        writer.acquire(wait_seconds=0, name=name)
    assert {entry.table for entry in writer.lock.entries()} == set(names)


def test_closing_waits_for_who_holds_a_lock_and_lets_waiters_give_up() -> None:
    ensemble = Ensemble()
    other, writer = Writer(ensemble), Writer(ensemble)
    theirs = other.acquire()
    held = writer.acquire(name=TableName("db", "mine"))
    problems: list[Exception] = []
    given_up, closed = writer.runtime.event(), writer.runtime.event()

    def wait_in_vain() -> None:
        try:
            writer.acquire(wait_seconds=60)
        except LockNotAcquired as error:
            problems.append(error)
        given_up.set()

    writer.runtime.spawn("waiter", wait_in_vain)
    wait_until(lambda: writer.session.calls[-1] == "watch")
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
