"""A lock that is held: what covers it, how it is lost, and what is left when it is given back or its session closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.clock import ClockReading, SystemClock
from iceberg_hms.coordinator.ports import HeldLock
from iceberg_hms.errors import LockLost, LockUnavailable
from iceberg_hms.zookeeper.held import ZooKeeperHeldLock
from iceberg_hms.zookeeper.nodes import OwnNode
from simulation.world.ensemble import Ensemble
from tests.polling import eventually
from tests.zookeeper.memory_session import FOLDER, remove

LEASE = 30.0


class LateClock(SystemClock):
    """It stands still but for what a test adds to it. suspended: what the monotonic clock does not count."""

    def __init__(self) -> None:
        self.late = 0.0
        self.suspended = 0.0

    def monotonic(self) -> float:
        return 1_000.0 + self.late

    def read_clocks(self) -> ClockReading:
        now = self.monotonic()
        return ClockReading(now, now + self.suspended, now + self.suspended)


def take(writer: Any, on_release: Callable[[], object] = bool) -> ZooKeeperHeldLock:
    """A held lock without heartbeats. on_release: as ZooKeeperHeldLock has it."""
    prefix = "me-0-lock-"
    name = writer.session.create(FOLDER, prefix, b"{}")
    node = OwnNode(FOLDER, name, b"{}", writer.session.epoch, lost_prefix=prefix)
    return ZooKeeperHeldLock(
        writer.session,
        writer.runtime,
        node,
        sent=writer.runtime.read_clocks(),
        on_release=on_release,
        may_overwrite=lambda: writer.may_overwrite,
        swap_seconds=600.0,
    )


def beating() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat me-")]


def test_a_new_lock_has_no_row_and_does_not_require_cas(writers: Any) -> None:
    held: HeldLock = take(writers())
    assert (held.row, held.require_cas, held.lease_seconds) == (None, False, LEASE)


def test_a_session_that_ends_takes_the_lock_with_it(writers: Any) -> None:
    writer = writers()
    held = take(writer)
    writer.session.expire()
    for question in (held.seconds_since_renewal, held.ensure_held, held.renew):
        with pytest.raises(LockLost, match=r"lock db\.t/me-0-lock-0000000000 ended with its ZooKeeper session"):
            question()
    held.release()


def test_a_suspended_session_stops_a_move_from_starting_but_what_was_covered_stays_so(writers: Any) -> None:
    clock = LateClock()
    writer = writers(clock=clock)
    held = take(writer)
    writer.session.suspend()
    clock.late = 1
    assert held.seconds_since_renewal() == 1
    with pytest.raises(LockLost, match="SUSPENDED"):
        held.ensure_held()
    with pytest.raises(LockUnavailable):
        held.renew()
    writer.session.resume()
    held.renew()
    held.ensure_held()
    assert held.seconds_since_renewal() == 0


def test_before_a_move_a_lock_is_renewed_when_half_of_its_lease_is_over(writers: Any) -> None:
    clock = LateClock()
    writer = writers(clock=clock)
    held = take(writer)
    clock.late = LEASE / 2 - 1
    held.ensure_held()
    assert "write" not in writer.session.calls
    clock.late = LEASE / 2 + 1
    held.ensure_held()
    assert writer.session.calls[-1] == "write"
    assert held.seconds_since_renewal() == 0


def test_no_move_starts_under_a_lock_that_cannot_be_renewed(writers: Any) -> None:
    clock = LateClock()
    writer = writers(clock=clock)
    held = take(writer)
    clock.late = LEASE / 2 + 1
    writer.session.lose_reply = ["write"]
    with pytest.raises(LockLost, match=r"could not be renewed: .*the reply was lost"):
        held.ensure_held()
    held.ensure_held()


def test_a_lease_that_has_passed_is_the_end_even_if_no_server_said_so(writers: Any) -> None:
    clock = LateClock()
    writer = writers(clock=clock)
    held = take(writer)
    writer.session.suspend()
    clock.late = LEASE - 1
    held.seconds_since_renewal()
    clock.late = LEASE + 1
    for question in (held.seconds_since_renewal, held.ensure_held, held.renew):
        with pytest.raises(LockLost, match="not renewed for its lease of 30 s"):
            question()
    assert "write" not in writer.session.calls


def test_a_lease_passes_while_the_machine_is_suspended(writers: Any) -> None:
    clock = LateClock()
    writer = writers(clock=clock)
    held = take(writer)
    clock.suspended = LEASE + 1
    for question in (held.ensure_held, held.renew, held.seconds_since_renewal):
        with pytest.raises(LockLost, match="not renewed for its lease of 30 s"):
            question()
    assert "write" not in writer.session.calls


def test_a_lock_that_is_removed_is_lost_for_good(writers: Any, ensemble: Ensemble) -> None:
    held = take(writers())
    remove(ensemble, f"{FOLDER}/me-0-lock-0000000000")
    for question in (held.renew, held.seconds_since_renewal, held.ensure_held, held.renew):
        with pytest.raises(LockLost, match="removed"):
            question()


def test_a_release_takes_one_request_removes_stray_nodes_and_reports_once(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    released: list[str] = []
    held = take(writer, lambda: released.append("released"))
    writer.session.create(FOLDER, "me-0-lock-", b"{}")
    held.release()
    held.release()
    assert ensemble.nodes == {}
    assert released == ["released"]
    assert writer.session.calls.count("delete") == 1
    with pytest.raises(LockLost, match="released"):
        held.renew()


def test_a_lost_reply_to_the_release_is_no_error_and_leaves_nothing(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    held = take(writer)
    writer.session.lose_reply = ["delete"]
    held.release()
    assert ensemble.nodes == {}


def test_a_release_that_is_interrupted_leaves_nothing(
    writers: Any, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    writer = writers()
    held = writer.acquire()
    monkeypatch.setattr(writer.session, "delete", interrupted)
    with pytest.raises(KeyboardInterrupt):
        held.release()
    assert ensemble.nodes == {}
    monkeypatch.setattr(writer.runtime, "sleep", lambda seconds: pytest.fail("close waits for a lock that is gone"))
    writer.lock.close()


def test_a_lock_released_while_suspended_is_removed_as_soon_as_it_can_be(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    held = take(writer)
    writer.session.suspend()
    held.release()
    assert len(ensemble.nodes) == 1
    writer.session.resume()
    assert ensemble.nodes == {}


def test_heartbeats_renew_the_lock_until_it_is_released(writers: Any) -> None:
    writer = writers(lease_seconds=1.0)
    held = take(writer)
    held.start()
    assert eventually(lambda: writer.session.calls.count("write") >= 3)
    held.release()
    assert eventually(lambda: not beating())
    deleted = writer.session.calls.index("delete")
    assert writer.session.calls[deleted:].count("write") <= 1


@pytest.mark.parametrize(("age", "first"), [(0.0, 3.0), (2.0, 1.0), (29.0, 0.0)])
def test_the_first_heartbeat_counts_from_when_the_node_was_written(
    age: float, first: float, writers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder slept between that write and its answer."""
    clock = LateClock()
    writer = writers(clock=clock)
    waits: list[float | None] = []

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return len(waits) == 2

    monkeypatch.setattr(writer.runtime, "event", Waits)
    held = take(writer)
    clock.late += age
    held.start()
    assert eventually(lambda: len(waits) == 2)
    assert waits == [first, 3.0]


def test_heartbeats_go_on_after_one_that_failed(writers: Any, caplog: pytest.LogCaptureFixture) -> None:
    writer = writers(lease_seconds=1.0)
    held = take(writer)
    writer.session.lose_reply = ["write"]
    held.start()
    assert eventually(lambda: writer.session.calls.count("write") >= 3)
    assert [record.getMessage() for record in caplog.records] == [
        "A heartbeat of lock db.t/me-0-lock-0000000000 failed: write: the reply was lost"
    ]


def test_heartbeats_end_with_the_lock_and_say_so(writers: Any, caplog: pytest.LogCaptureFixture) -> None:
    writer = writers(lease_seconds=0.05)
    held = take(writer)
    # Before the first heartbeat: one that is under way may find the node gone, and says so in other words.
    writer.session.expire()
    held.start()
    assert eventually(lambda: not beating())
    assert "was lost" in caplog.text


def test_a_session_that_is_closed_ends_the_lock_at_once_and_without_a_word(
    writers: Any, ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    """held, minutes to the next heartbeat -> its session is closed -> the thread ends now, nothing is logged, and
    nothing is asked of the session any more."""
    writer = writers(lease_seconds=3_000)
    released = writer.runtime.event()
    held = take(writer, released.set)
    held.start()
    assert eventually(lambda: len(beating()) == 1)
    writer.session.close()
    assert eventually(lambda: not beating())
    for question in (held.seconds_since_renewal, held.ensure_held, held.renew):
        with pytest.raises(LockLost, match="closed"):
            question()
    calls = list(writer.session.calls)
    held.release()
    assert released.is_set()
    assert writer.session.calls == calls
    assert caplog.records == []
    assert ensemble.nodes == {}


def test_a_heartbeat_under_way_when_its_session_is_closed_says_nothing(
    writers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # A machine under load must not let the lease pass before the first heartbeat.
    writer = writers(lease_seconds=3.0)
    held = take(writer)
    write = writer.session.write

    def closed_meanwhile(path: str, data: bytes) -> None:
        writer.session.close()
        write(path, data)

    writer.session.write = closed_meanwhile
    held.start()
    assert eventually(lambda: writer.session.closed and not beating())
    assert caplog.records == []


def test_a_lock_that_is_got_while_the_session_is_being_closed_never_beats(writers: Any) -> None:
    writer = writers(lease_seconds=0.05)
    held = take(writer)
    writer.session.close()
    held.start()
    assert eventually(lambda: not beating())
    assert "write" not in writer.session.calls


def test_a_released_lock_asks_its_session_for_no_call_when_it_closes(writers: Any) -> None:
    writer = writers()
    held = take(writer)
    held.start()
    held.release()
    assert writer.session.close_calls == []


def marker(ensemble: Ensemble) -> list[str]:
    return [path for path in ensemble.nodes if path.endswith("-swapping")]


def test_a_swap_that_only_the_lock_protects_is_marked_until_the_lock_is_released(
    writers: Any, ensemble: Ensemble
) -> None:
    writer = writers()
    held = take(writer)
    assert marker(ensemble) == []
    held.ensure_held()
    held.ensure_held()
    assert marker(ensemble) == [f"{FOLDER}/me-0-lock-0000000000-swapping"]
    assert writer.session.calls.count("mark") == 1
    held.release()
    assert ensemble.nodes == {}


def test_the_mark_outlives_the_session_of_its_writer_until_the_writer_takes_it_back(
    writers: Any, ensemble: Ensemble
) -> None:
    writer = writers()
    held = take(writer)
    held.ensure_held()
    writer.session.expire()
    assert list(ensemble.nodes) == marker(ensemble)
    held.release()
    assert ensemble.nodes == {}


@pytest.mark.parametrize("blind", [False, True])
def test_where_no_server_is_known_to_overwrite_only_what_is_blind_is_marked(
    blind: bool, writers: Any, ensemble: Ensemble
) -> None:
    held = take(writers(may_overwrite=False))
    held.ensure_held(blind=blind)
    assert len(marker(ensemble)) == blind
    assert held.require_cas is not blind
    held.release()


def test_what_is_not_marked_may_go_only_to_a_server_that_is_atomic(writers: Any, ensemble: Ensemble) -> None:
    """The swap may meet a connection that is not, after it was decided that nothing need be said."""
    writer = writers(may_overwrite=False)
    held = take(writer)
    held.ensure_held()
    assert (held.require_cas, marker(ensemble)) == (True, [])
    writer.may_overwrite = True
    assert held.require_cas
    held.ensure_held()
    assert (held.require_cas, len(marker(ensemble))) == (False, 1)
    held.release()


def test_a_lock_that_is_released_while_a_swap_is_marked_leaves_no_marker(writers: Any, ensemble: Ensemble) -> None:
    """its last caller leaves just before the marker is made"""
    writer = writers()
    held = take(writer)
    mark = writer.session.mark

    def late(*arguments: Any) -> None:
        held.release()
        mark(*arguments)

    writer.session.mark = late
    with pytest.raises(LockLost, match="was released"):
        held.ensure_held()
    assert list(ensemble.nodes) == []


def test_no_swap_starts_without_its_marker(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    held = take(writer)
    writer.session.lose_reply = ["mark"]
    with pytest.raises(LockLost, match="could not be marked before a swap"):
        held.ensure_held()
    held.release()
    assert ensemble.nodes == {}


def test_a_lock_that_is_left_stays_for_its_lease(writers: Any, ensemble: Ensemble) -> None:
    writer = writers(lease_seconds=0.3)
    released = writer.runtime.event()
    held = take(writer, released.set)
    held.ensure_held()
    held.let_expire()
    assert released.is_set()
    held.release()
    assert len(ensemble.nodes) == 2
    assert eventually(lambda: ensemble.nodes == {})


def test_a_lock_that_no_thread_can_remove_later_stays_as_long_as_its_session(
    writers: Any, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writers(lease_seconds=0.1)
    held = take(writer)
    held.ensure_held()

    def spawn(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(writer.runtime, "spawn", spawn)
    held.let_expire()
    assert len(ensemble.nodes) == 2
    writer.session.close()
    assert list(ensemble.nodes) == marker(ensemble)


def test_a_left_lock_is_no_longer_waited_for_when_the_session_is_closed(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    held = take(writer)
    held.ensure_held()
    held.let_expire()
    writer.session.close()
    assert list(ensemble.nodes) == marker(ensemble)
    assert eventually(lambda: not any(thread.name.startswith("left me-") for thread in threading.enumerate()))
