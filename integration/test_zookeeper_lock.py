"""The ZooKeeper lock on a real server: the port's contract, lost sessions, restarts, and what is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.lease_check import HEARTBEATS_PER_LEASE
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.contracts.table_lock import Guard
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.nodes import ROOT
from iceberg_hms.zookeeper.session import SessionState, ZooKeeperSession
from integration.zookeeper_sessions import expire
from tests.polling import eventually

RUNTIME = ThreadRuntime()
#: The shortest session that a server with a tick of two seconds grants.
SHORTEST_MS = 4_000
WAIT = 60.0


class Writer:
    """A lock with a session of its own, as a process has it. may_overwrite: whether it knows of a metastore that
    does not compare and swap atomically."""

    def __init__(
        self,
        hosts: str,
        timeout_ms: int = SHORTEST_MS,
        connect_timeout_ms: int = 30_000,
        *,
        may_overwrite: bool = True,
        swap_seconds: float = 600.0,
    ) -> None:
        self.session = ZooKeeperSession(hosts, RUNTIME, timeout_ms=timeout_ms, connect_timeout_ms=connect_timeout_ms)
        self.lock = ZooKeeperTableLock(
            self.session,
            RUNTIME,
            agent_info=agent_info,
            user="ann",
            host="h1",
            may_overwrite=lambda _: may_overwrite,
            swap_seconds=swap_seconds,
        )

    def acquire(self, name: TableName, wait_seconds: float = WAIT) -> Any:
        return self.lock.acquire(name, wait_seconds=wait_seconds, request="r-1")


@pytest.fixture
def writers(zookeeper: LocalZooKeeper) -> Iterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def make(**options: Any) -> Writer:
        made.append(Writer(options.pop("hosts", zookeeper.hosts), **options))
        return made[-1]

    yield make
    for writer in made:
        writer.lock.close()


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, writers: Any) -> None:
    first, second = writers(), writers()
    name = TableName("contract", check.__name__)
    check(Guard(first.lock, second.lock, RUNTIME, name))
    assert first.lock.entries(name) == []


def test_the_lease_is_what_the_server_grants_and_not_what_was_asked_for(writers: Any) -> None:
    with_bounds = {1_000: 4.0, 10_000: 10.0, 100_000: 40.0}
    for asked, granted in with_bounds.items():
        held = writers(timeout_ms=asked).acquire(TableName("lease", f"t{asked}"))
        assert held.lease_seconds == granted
        held.release()


@pytest.mark.parametrize(("may_overwrite", "seconds"), [(False, 0.0), (True, 3.0)], ids=["atomic", "not atomic"])
def test_a_session_that_expires_takes_the_lock_and_the_next_writer_gets_it(
    may_overwrite: bool, seconds: float, writers: Any
) -> None:
    """At once; or, where compare-and-swap does not protect the table from the holder's last swap, after that swap's
    time."""
    name = TableName("expiry", f"t{seconds:.0f}")
    holder, other = writers(may_overwrite=may_overwrite, swap_seconds=seconds), writers(may_overwrite=False)
    held = holder.acquire(name)
    held.ensure_held()
    expire(holder.session)
    began = RUNTIME.now()
    next_held = other.acquire(name)
    assert RUNTIME.now() - began >= seconds
    assert eventually(lambda: holder.session.epoch == 1)
    for question in (held.seconds_since_renewal, held.ensure_held, held.renew):
        with pytest.raises(LockLost):
            question()
    held.release()
    next_held.renew()
    with pytest.raises(LockNotAcquired, match=r"held by lock expiry\.t\d/.* of ann on h1"):
        holder.acquire(name, wait_seconds=0.2)
    next_held.release()
    holder.acquire(name).release()


def test_a_long_wait_is_logged_once_with_its_holder(writers: Any, caplog: pytest.LogCaptureFixture) -> None:
    name = TableName("waits", "t")
    held = writers().acquire(name)
    with pytest.raises(LockNotAcquired, match=r"held by lock waits\.t/.* of ann on h1 .*, since \d{4}-.* UTC"):
        writers().acquire(name, wait_seconds=6.0)
    held.release()
    (report,) = [message for message in caplog.messages if "Waiting for the lock" in message]
    assert report.startswith("Waiting for the lock of waits.t for ")
    assert ": held by lock waits.t/" in report
    assert " of ann on h1 (iceberg-hms/" in report


def test_a_waiter_whose_session_expires_asks_again_and_leaves_one_node(writers: Any) -> None:
    name = TableName("expiry", "waiter")
    holder, waiter = writers(), writers()
    held = holder.acquire(name)
    done = RUNTIME.event()
    got: list[Any] = []

    def wait_for_it() -> None:
        got.append(waiter.acquire(name))
        done.set()

    RUNTIME.spawn("waiter", wait_for_it)
    assert eventually(lambda: len(holder.lock.entries(name)) == 2)
    before = holder.lock.entries(name)[1].lock_id
    expire(waiter.session)
    assert eventually(lambda: [entry.lock_id for entry in holder.lock.entries(name)[1:]] not in ([], [before]))
    assert len(holder.lock.entries(name)) == 2
    held.release()
    assert done.wait(WAIT)
    got[0].renew()
    got[0].release()
    assert holder.lock.entries(name) == []


def test_a_lock_that_an_operator_removed_is_lost(writers: Any) -> None:
    name = TableName("removed", "t")
    holder, operator = writers(), writers()
    held = holder.acquire(name)
    [entry] = operator.lock.entries(name)
    assert (entry.table, entry.state, entry.user) == (str(name), "ACQUIRED", "ann")
    operator.lock.remove(entry.lock_id)
    with pytest.raises(LockLost, match="removed"):
        held.renew()
    with pytest.raises(LockLost, match="removed"):
        held.seconds_since_renewal()
    held.release()


def test_odd_names_have_folders_of_their_own(writers: Any) -> None:
    writer = writers()
    names = [TableName("a.b", "c"), TableName("a", "b.c"), TableName("a/b", ".."), TableName("ü", "%2e")]
    held = [writer.acquire(name, wait_seconds=0) for name in names]
    shown = set(map(str, names))
    assert {entry.table for entry in writer.lock.entries()} >= shown
    for each in held:
        each.release()


def test_the_hosts_may_end_in_a_path_that_is_not_there_yet(zookeeper: LocalZooKeeper, writers: Any) -> None:
    inside = writers(hosts=f"{zookeeper.hosts}/some/where")
    held = inside.acquire(TableName("chroot", "t"))
    outside = writers().session
    outside.connected()
    assert outside.children(f"/some/where{ROOT}") == ["chroot.t"]
    held.release()


def test_no_server_is_an_error_after_the_connect_timeout(writers: Any) -> None:
    lonely = writers(hosts="127.0.0.1:1", connect_timeout_ms=300)
    with pytest.raises(LockUnavailable, match=r"127\.0\.0\.1:1 is out of reach"):
        lonely.acquire(TableName("nowhere", "t"))


def test_a_restart_suspends_the_session_and_the_lock_survives_it(tmp_path: Path, writers: Any) -> None:
    with LocalZooKeeper(tmp_path / "first") as server:
        port = server.port
        writer = writers(hosts=server.hosts, timeout_ms=40_000)
        held = writer.acquire(TableName("restart", "t"))
    assert eventually(lambda: writer.session.state is SessionState.SUSPENDED)
    # It may still be ours, and what was done under it was covered; but nothing new may begin.
    held.seconds_since_renewal()
    with pytest.raises(LockLost, match="SUSPENDED"):
        held.ensure_held()
    with LocalZooKeeper(tmp_path / "first", port=port):
        assert eventually(lambda: writer.session.state is SessionState.CONNECTED)
        held.renew()
        held.ensure_held()
        assert len(writer.lock.entries(TableName("restart", "t"))) == 1
        held.release()
        assert writer.lock.entries(TableName("restart", "t")) == []
        writer.lock.close()


def test_a_lock_released_while_no_server_is_there_is_removed_when_one_is(tmp_path: Path, writers: Any) -> None:
    name = TableName("restart", "released")
    with LocalZooKeeper(tmp_path / "second") as server:
        port = server.port
        writer = writers(hosts=server.hosts, timeout_ms=40_000)
        held = writer.acquire(name)
    assert eventually(lambda: writer.session.state is SessionState.SUSPENDED)
    released = RUNTIME.event()
    RUNTIME.spawn("release", lambda: (held.release(), released.set())[0])
    with LocalZooKeeper(tmp_path / "second", port=port) as server:
        other = writers(hosts=server.hosts)
        other.acquire(name).release()
        assert released.wait(WAIT)
        assert other.lock.entries(name) == []
        other.lock.close()
        writer.lock.close()


def test_a_lock_whose_session_is_closed_while_no_server_is_there_ends_at_once_and_says_nothing(
    tmp_path: Path, writers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """lock taken -> the server stops, heartbeats fail -> the session is closed -> the heartbeats' thread ends, and
    neither it nor kazoo writes to a log that may be closed by then."""
    name = TableName("closed", "t")
    with LocalZooKeeper(tmp_path / "third") as server:
        writer = writers(hosts=server.hosts, timeout_ms=40_000)
        before = set(threading.enumerate())
        held = writer.acquire(name)
    assert eventually(lambda: writer.session.state is SessionState.SUSPENDED)
    beats = [each for each in threading.enumerate() if each.name.startswith("heartbeat ") and each not in before]
    started = RUNTIME.now()
    writer.session.close()
    caplog.clear()
    for thread in beats:
        thread.join(WAIT)
    assert len(beats) == 1
    assert RUNTIME.now() - started < held.lease_seconds / HEARTBEATS_PER_LEASE
    with pytest.raises(LockLost, match="closed"):
        held.seconds_since_renewal()
    held.release()
    assert caplog.records == []
