"""Lock calls that fail, get lost or come too late, on a real metastore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_hms.errors import CommitStateUnknown, LockNotAcquired
from iceberg_hms.testing.faults.script import (
    CUT_AFTER_SEND,
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    FREEZE,
    FREEZE_REPLY,
    Action,
    FaultStep,
    Wait,
)
from integration.faults import (
    ALTER,
    LEASE_SECONDS,
    LIMIT,
    ReapingMetastore,
    Scene,
    Timing,
    in_background,
    methods,
    until,
)


@pytest.fixture
def scene(quick_lease: ReapingMetastore, tmp_path: Path, timing: Timing) -> Iterator[Scene]:
    scene = Scene(quick_lease, tmp_path, timing)
    scene.append("first")
    yield scene
    scene.close()


@pytest.mark.parametrize("action", [CUT_BEFORE_SEND, CUT_BEFORE_REPLY], ids=["not-sent", "no-reply"])
def test_04_the_unlock_fails_after_a_good_commit(scene: Scene, action: Action) -> None:
    """
    A  commits; its unlock is cut, and so is the one that repeats it
    A  reports: committed
    A  finds its entry by agentInfo in the background and removes it
    B  commits, and waits for that removal alone

    A good commit is never reported as an error, and leaves no lock behind.
    """
    scene.proxy.on("unlock", action, times=2)
    report = scene.append("a", scene.catalog())
    assert report.attempts == 1
    until(lambda: not scene.lock_entries(), "the entry of the failed unlock is removed")
    scene.append("b")
    scene.check_history()


@pytest.mark.parametrize(
    "action", [CUT_BEFORE_SEND, CUT_AFTER_SEND, CUT_BEFORE_REPLY], ids=["not-sent", "after-send", "before-reply"]
)
def test_05_the_reply_of_the_lock_call_is_lost(scene: Scene, action: Action) -> None:
    """
    A  asks for the lock; the metastore makes the entry (or never gets the call), the reply is lost
    A  finds its entry by agentInfo and uses it, or asks again
    A  commits and releases the lock

    A sends one lock call or two; it leaves no entry, and no writer waits for a lease.
    """
    lost = scene.proxy.on("lock", action)
    scene.append("a", scene.catalog())
    assert lost.done(LIMIT)
    assert "show_locks" in methods(scene.proxy.calls)
    until(lambda: not scene.lock_entries(), "no entry is left")
    scene.append("b")
    scene.check_history()


def test_06_the_wait_for_the_lock_is_over(scene: Scene) -> None:
    """
    B  holds the lock for longer than A waits
    A  asks, waits, gives up: LockNotAcquired
    A  removes its entry, which would block the entries behind it
    C  gets the lock as soon as B releases it

    Nothing of A is in the table, and what it wrote is deleted.
    """
    before = scene.metadata_files()
    holder = scene.locks.enqueue(scene.name, "another writer")
    writer = scene.catalog()
    data_file = scene.data_file("late")
    with pytest.raises(LockNotAcquired):
        writer.load_table(scene.name).append([data_file], wait_seconds=0.5)
    scene.refused.append(data_file.file_path)
    until(lambda: [entry.lock_id for entry in scene.lock_entries()] == [holder.lock_id], "the waiter's entry is gone")
    until(lambda: scene.metadata_files() == before, "its files are deleted")
    third = in_background(lambda: scene.append("third", scene.catalog()))
    assert scene.proxy.wait_for("lock", 2, LIMIT)
    scene.locks.remove(holder)
    third.result(LIMIT)
    scene.check_history()


def test_08_heartbeats_fail_while_the_swap_is_under_way(scene: Scene, quick_lease: ReapingMetastore) -> None:
    """
    A  takes the lock and sends the swap; the metastore makes it, the reply is held
    A  none of its heartbeats arrives; its lease passes and the metastore reaps the lock
    A  gets the reply "done", but the lock did not cover the swap
    A  takes the lock again and checks the table: the pointer names its file
    A  reports: committed, not "unknown"
    """
    swap = scene.on_swap(FREEZE_REPLY)
    beats = scene.proxy.on("heartbeat", CUT_BEFORE_SEND, times=None)
    appended = in_background(lambda: scene.append("a", scene.catalog()))
    assert swap.held(LIMIT)
    assert beats.done(LIMIT)
    with quick_lease.reaper():
        until(lambda: not scene.lock_entries(), "the lock is reaped")
        swap.release()
        report = appended.result(LIMIT)
    assert report.metadata_location == scene.location()
    assert scene.proxy.count("lock") == 2
    scene.check_history()


def test_08_a_writer_does_not_wait_for_its_own_lock_that_it_could_not_renew(scene: Scene) -> None:
    """
    A  takes the lock and sends the swap; the metastore makes it, the reply comes when the lease has passed
    A  none of its heartbeats arrives; no reaper runs, so its entry stays
    A  gets the reply "done", but the lock did not cover the swap
    A  takes the lock again and checks the table

    Its own old entry must not block it: a writer that gives up a lock releases it.
    """
    late = scene.on_swap((FaultStep.SEND, Wait(LEASE_SECONDS * 1.2), FaultStep.REPLY))
    scene.proxy.on("heartbeat", CUT_BEFORE_SEND, times=None)
    report = scene.append("a", scene.catalog())
    assert late.done(LIMIT)
    assert report.metadata_location == scene.location()
    until(lambda: not scene.lock_entries(), "no entry is left")
    scene.check_history()


def test_08_a_blind_writer_with_the_lost_lock_overwrites_the_swap(scene: Scene, quick_lease: ReapingMetastore) -> None:
    """
    A  takes the lock and sends the swap, which is held; its heartbeats are lost, and the metastore reaps the lock
    P  PyIceberg takes the lock and reads the table; its blind swap is held
    A  its swap arrives, and the metastore makes it, since the pointer has not moved. It answers "done"
    P  swaps over it
    A  does not trust the answer, since no lock covered it; waits for P, checks the table, and does not find its swap
    A  reports: unknown. "Committed" would be wrong, and "failed" would let it delete files that P may use

    So the answer "done" is not enough, and compare-and-swap without a lock protects nothing.
    """
    theirs = scene.another_proxy()
    swap = scene.on_swap(FREEZE)
    scene.proxy.on("heartbeat", CUT_BEFORE_SEND, times=None)
    data_file = scene.data_file("overwritten")
    writer = scene.catalog()
    ours = in_background(lambda: writer.load_table(scene.name).append([data_file]))
    assert swap.held(LIMIT)
    with quick_lease.reaper():
        until(lambda: not scene.lock_entries(), "the lock is reaped")
    blind = theirs.on(ALTER, FREEZE)
    other = in_background(lambda: scene.pyiceberg_append(theirs.uri))
    assert blind.held(LIMIT)
    swap.release()
    assert swap.done(LIMIT)
    # It asks for the lock again, behind P.
    assert scene.proxy.wait_for("lock", 2, LIMIT)
    blind.release()
    scene.acknowledged.append(other.result(LIMIT))
    with pytest.raises(CommitStateUnknown):
        ours.result(LIMIT)
    scene.refused.append(data_file.file_path)
    report = scene.check_history(others=True)
    assert report.snapshots == 2


@pytest.mark.slow
def test_14_the_metastore_restarts_while_a_writer_waits_for_the_lock(
    tmp_path: Path, timing: Timing, quick_lease: ReapingMetastore
) -> None:
    """
    B  holds the lock
    A  asks, and waits: WAITING
    the metastore is stopped and started on the same port and folder; its lock table is in its database
    A  goes on with its entry, and makes no second one
    B  releases the lock
    A  commits
    """
    server = ReapingMetastore(tmp_path / "restarted", conf={"hive.txn.timeout": "300s"}).start()
    scene = Scene(server, tmp_path, timing)
    try:
        scene.append("first")
        holder = scene.locks.enqueue(scene.name, "another writer")
        checked = scene.proxy.on("check_lock", FREEZE)
        appended = in_background(lambda: scene.append("a", scene.catalog(connect_timeout_ms=2_000)))
        assert checked.held(LIMIT)
        server.stop()
        checked.drop()
        restarted = ReapingMetastore(tmp_path / "restarted", port=server.port, conf={"hive.txn.timeout": "300s"})
        with restarted:
            entries = scene.lock_entries()
            assert [entry.acquired for entry in entries] == [True, False]
            assert entries[0].lock_id == holder.lock_id
            seen = scene.proxy.count("check_lock")
            assert scene.proxy.wait_for("check_lock", seen + 2, LIMIT)
            assert [entry.lock_id for entry in scene.lock_entries()] == [entry.lock_id for entry in entries]
            scene.locks.remove(holder)
            appended.result(LIMIT)
            until(lambda: not scene.lock_entries(), "no entry is left")
            assert scene.proxy.count("lock") == 1
            scene.check_history()
    finally:
        scene.close()
        server.stop()


def test_a_writer_that_waits_does_not_take_the_lock_from_its_holder(scene: Scene) -> None:
    """
    A  holds the lock; its swap is held in the proxy for more than a lease, its heartbeats go through
    B  waits all that time
    A  commits, then B

    The control of the tests above: without a fault no writer loses a lock.
    """
    swap = scene.on_swap(FREEZE)
    slow = in_background(lambda: scene.append("slow", scene.catalog()))
    assert swap.held(LIMIT)
    other = scene.another_proxy()
    waiting = in_background(lambda: scene.append("waiting", scene.catalog(other.uri)))
    assert other.wait_for("lock", 1, LIMIT)
    # A lease has ten heartbeats.
    assert scene.proxy.wait_for("heartbeat", 12, LIMIT)
    assert [entry.acquired for entry in scene.lock_entries()] == [True, False]
    swap.release()
    assert slow.result(LIMIT).attempts == 1
    assert waiting.result(LIMIT).replays == 1
    scene.check_history()
