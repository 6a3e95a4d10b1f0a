"""One try to get a lock: replies that are lost, sessions that end meanwhile, waiting and giving up."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import LockNotAcquired, LockUnavailable
from iceberg_hms.lock_waits import REPORT_SECONDS, LockWait, LockWaits
from iceberg_hms.zookeeper.attempt import LockAttempt
from iceberg_hms.zookeeper.faults import NoReply
from simulation.world.ensemble import Ensemble
from tests.metastore.runtimes import ByHand
from tests.polling import eventually
from tests.zookeeper.memory_session import FOLDER, NAME, remove


def attempt(writer: Any, wait_seconds: float = 10.0, closed: Any = None, wait: LockWait | None = None) -> LockAttempt:
    runtime = writer.runtime
    deadline = runtime.now() + wait_seconds
    return LockAttempt(
        writer.session,
        runtime,
        NAME,
        b"{}",
        deadline,
        closed or runtime.event(),
        wait=wait or LockWaits(runtime).begin(NAME),
        swap_seconds=600.0,
    )


def test_a_free_lock_costs_two_requests_and_counts_from_the_first(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    before = writer.runtime.read_clocks()
    node, sent = attempt(writer).run()
    assert writer.session.calls == ["create", "children"]
    assert before <= sent <= writer.runtime.read_clocks()
    assert list(ensemble.nodes) == [node.path]
    assert node.lost_prefix is None


@pytest.mark.parametrize("request_", ["create", "children"])
def test_after_a_lost_reply_there_is_one_node_with_the_lock(request_: str, writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    writer.session.lose_reply = [request_]
    before = writer.runtime.read_clocks()
    node, sent = attempt(writer).run()
    assert list(ensemble.nodes) == [node.path]
    # What was sent before the reply was lost proves nothing: the node was written again.
    assert writer.session.calls[-1] == "write"
    assert before < sent <= writer.runtime.read_clocks()


def test_a_lost_reply_to_that_write_is_another_round(writers: Any, ensemble: Ensemble) -> None:
    writer = writers()
    writer.session.lose_reply = ["create", "write"]
    node, _ = attempt(writer).run()
    assert writer.session.calls.count("write") == 2
    assert list(ensemble.nodes) == [node.path]


def test_a_node_that_was_not_seen_after_a_lost_reply_is_ours_all_the_same(writers: Any, ensemble: Ensemble) -> None:
    """The creation is not answered; the next server does not know of it yet, so another node is made behind it."""
    writer = writers()
    writer.session.lose_reply = ["create"]
    children = writer.session.children
    seen: list[list[str]] = []

    def late(folder: str) -> list[str]:
        seen.append(children(folder))
        return [] if len(seen) == 1 else seen[-1]

    writer.session.children = late
    node, _ = attempt(writer).run()
    assert (len(ensemble.nodes), min(ensemble.nodes)) == (2, node.path)
    assert node.lost_prefix is not None
    assert all(path.startswith(f"{FOLDER}/{node.lost_prefix}") for path in ensemble.nodes)


def test_a_session_that_ends_between_two_requests_leaves_nothing_that_blocks_its_own_waiter(
    writers: Any, ensemble: Ensemble
) -> None:
    """The node is made in the new session under the name of the old one, and no reply tells us."""
    writer = writers()
    create = writer.session.create

    def late(folder: str, prefix: str, data: bytes) -> str:
        writer.session.create = create
        writer.session.expire()
        writer.session.lose_reply = ["create"]
        return str(create(folder, prefix, data))

    writer.session.create = late
    node, _ = attempt(writer).run()
    assert list(ensemble.nodes) == [node.path]
    assert node.epoch == writer.session.epoch == 1


def test_a_waiter_watches_the_one_before_it_and_counts_from_when_it_is_the_first(
    writers: Any, ensemble: Ensemble
) -> None:
    holder, waiter = writers(), writers()
    held, _ = attempt(holder).run()
    got: list[Any] = []
    done = waiter.runtime.event()
    waiter.runtime.spawn("waiter", lambda: (got.append(attempt(waiter).run()), done.set())[0])
    assert eventually(lambda: waiter.session.calls[-1:] == ["watch"])
    released_at = waiter.runtime.read_clocks()
    remove(ensemble, held.path)
    assert done.wait(20)
    assert got[0][1] >= released_at


def test_a_waiter_that_an_operator_removes_asks_again(writers: Any, ensemble: Ensemble) -> None:
    holder, waiter = writers(), writers()
    held, _ = attempt(holder).run()
    done = waiter.runtime.event()
    waiter.runtime.spawn("waiter", lambda: (attempt(waiter).run(), done.set())[0])
    assert eventually(lambda: waiter.session.calls[-1:] == ["watch"])
    [own] = set(ensemble.nodes) - {held.path}
    remove(ensemble, own)
    remove(ensemble, held.path)
    assert done.wait(20)
    assert waiter.session.calls.count("create") == 2


def test_the_time_is_over_with_the_last_problem_or_with_none(writers: Any) -> None:
    attempt(writers()).run()
    with pytest.raises(LockNotAcquired, match=r"Timed out waiting for the lock on db\.t"):
        attempt(writers(), wait_seconds=0).run()
    unlucky = writers()
    unlucky.session.lose_reply = ["create"]
    with pytest.raises(NoReply, match="the reply was lost"):
        attempt(unlucky, wait_seconds=0).run()


def test_who_is_closed_waits_no_longer(writers: Any) -> None:
    attempt(writers()).run()
    waiter = writers()
    closed = waiter.runtime.event()
    closed.set()
    with pytest.raises(LockNotAcquired, match="closed"):
        attempt(waiter, wait_seconds=60, closed=closed).run()


def test_who_withdraws_leaves_nothing_and_who_never_asked_discards_nothing(writers: Any, ensemble: Ensemble) -> None:
    attempt(writers()).run()
    waiter = writers()
    trying = attempt(waiter, wait_seconds=0)
    trying.withdraw()
    with pytest.raises(LockNotAcquired):
        trying.run()
    assert len(ensemble.nodes) == 2
    trying.withdraw()
    assert len(ensemble.nodes) == 1


def test_no_connection_is_an_error_at_once(writers: Any) -> None:
    writer = writers()
    writer.session.suspend()
    with pytest.raises(LockUnavailable, match="out of reach"):
        attempt(writer, wait_seconds=60).run()


@pytest.mark.parametrize("may_overwrite", [True, False])
def test_who_follows_a_writer_whose_session_ended_in_a_move_waits_for_it(
    may_overwrite: bool, writers: Any, ensemble: Ensemble
) -> None:
    """whatever the follower knows of the metastores: the writer may have sent its swap to another"""
    dead = writers()
    dead.acquire().ensure_held()
    dead.session.close()
    impatient = attempt(writers(may_overwrite=may_overwrite), wait_seconds=0.2)
    with pytest.raises(LockNotAcquired):
        impatient.run()
    impatient.withdraw()
    [marker] = [path for path in ensemble.nodes if path.endswith("-swapping")]
    remove(ensemble, marker)
    attempt(writers(), wait_seconds=5).run()


@pytest.mark.parametrize("is_unread", [False, True])
def test_a_long_wait_looks_once_who_holds_the_lock_and_goes_on_if_it_cannot(
    is_unread: bool, writers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    holder, writer, clock = writers(), writers(), ByHand()
    held = holder.acquire()
    waits = LockWaits(clock)
    wait = waits.begin(NAME)
    clock.time += REPORT_SECONDS
    writer.session.lose_reply = ["read"] * is_unread
    waiting = attempt(writer, wait=wait)
    acquired: list[Any] = []
    writer.runtime.spawn("waiter", lambda: acquired.append(waiting.run()))
    assert eventually(lambda: writer.session.calls.count("watch") == 1)
    held.release()
    assert eventually(lambda: len(acquired) == 1)
    reports = [message for message in caplog.messages if "Waiting for the lock" in message]
    assert writer.session.calls.count("read") == 1
    assert len(reports) == 1 - is_unread
    if reports:
        assert reports[0].startswith("Waiting for the lock of db.t for 5 s: held by lock db.t/")
        assert " of ann on h1 (iceberg-hms/" in reports[0]
