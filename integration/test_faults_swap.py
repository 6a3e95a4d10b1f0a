"""Swaps whose answers are lost, late, repeated or untrue, on a real metastore. The rule: a writer reports committed
when that is true, failed on proof, unknown otherwise; and it deletes no file that the table may name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.testing.faults.script import (
    CUT_AFTER_SEND,
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    DUPLICATE,
    FREEZE_REPLY,
    POSTPONE,
    Action,
    FaultStep,
)
from iceberg_hms.testing.memory_lock import MemoryTableLock
from integration.faults import ALTER, LIMIT, Scene, Timing, in_background, until

#: As DUPLICATE, with a pause between the two.
REPEATED_LATE: Action = (FaultStep.SEND, FaultStep.HOLD, FaultStep.SEND, FaultStep.REPLY)


@pytest.fixture
def scene(metastore: LocalMetastore, tmp_path: Path, timing: Timing) -> Iterator[Scene]:
    scene = Scene(metastore, tmp_path, timing)
    scene.append("first")
    yield scene
    scene.close()


def unlocked(scene: Scene) -> Any:
    """A writer that takes no lock, and relies on compare-and-swap alone."""
    return scene.catalog(scene.server.uri, ports={"lock": lambda _: MemoryTableLock()})


@pytest.mark.parametrize("action", [CUT_BEFORE_REPLY, CUT_AFTER_SEND], ids=["reply-lost", "hung-up-on"])
def test_09_the_swap_is_made_and_its_reply_is_lost(scene: Scene, action: Action) -> None:
    """
    A  sends the swap; the metastore makes it; the connection ends without a reply
    A  checks the table, and finds its own file or snapshot
    A  reports: committed. A rerun of its job would have added the rows twice
    B  commits on top
    """
    lost = scene.on_swap(action)
    report = scene.append("a", scene.catalog())
    assert lost.done(LIMIT)
    assert report.metadata_location == scene.location()
    scene.append("b")
    scene.check_history()


@pytest.mark.parametrize("lost", ["probe", "swap"])
def test_09_the_swap_never_arrives(scene: Scene, lost: str) -> None:
    """
    A  sends the swap (or asks whether it is atomic); the connection ends, and the metastore never gets it
    A  cannot know that: it checks the table, and sends the swap again only where that is proven to be safe

    Committed, or unknown with every file kept. Never "failed".
    """
    (scene.on_swap if lost == "swap" else scene.on_probe)(CUT_BEFORE_SEND)
    before = scene.location()
    writer = scene.catalog()
    data_file = scene.data_file("a")
    try:
        report = writer.load_table(scene.name).append([data_file])
    except CommitStateUnknown:
        assert scene.location() == before
        scene.refused.append(data_file.file_path)
    else:
        assert report.metadata_location == scene.location()
        scene.acknowledged.append(data_file.file_path)
    scene.append("b")
    scene.check_history()


def test_10_a_swap_that_was_made_is_refused_when_something_repeats_it(scene: Scene) -> None:
    """
    A  sends the swap; something on the way sends it twice (HMS retries inside: apache/iceberg#11814, #11866)
    HMS makes the first, and refuses the second: "The table has been modified"
    A  gets only the refusal, checks the table, and finds its swap
    """
    twice = scene.on_swap(DUPLICATE)
    report = scene.append("a", scene.catalog())
    assert twice.done(LIMIT)
    assert (report.attempts, report.replays) == (1, 0)
    assert report.metadata_location == scene.location()
    scene.append("b")
    scene.check_history()


@pytest.mark.parametrize("kind", ["append", "properties"])
def test_11_as_10_and_the_metadata_log_has_moved_past_it(
    metastore: LocalMetastore, tmp_path: Path, timing: Timing, kind: str
) -> None:
    """
    table with write.metadata.previous-versions-max = 2
    A  sends the swap; it is made; its repetition is held
    B  a writer without the lock commits five times: no log names A's file any more
    A  gets "The table has been modified", follows the chain through the oldest log entries, and finds its swap

    Found by its snapshot, or, for a change without one, by the chain of files alone. Nothing is deleted.
    """
    scene = Scene(metastore, tmp_path, timing, **{"write.metadata.previous-versions-max": "2"})
    try:
        scene.append("first")
        repeated = scene.on_swap(REPEATED_LATE)
        writer = scene.catalog()
        if kind == "append":
            pending = in_background(lambda: scene.append("a", writer))
        else:
            updates = [{"action": "set-properties", "updates": {"owner": "a"}}]
            pending = in_background(lambda: writer.commit(scene.name, [], updates))
        assert repeated.held(LIMIT)
        other = unlocked(scene)
        for number in range(5):
            scene.append(f"other-{number}", other)
        repeated.release()
        report = pending.result(LIMIT)
        current = scene.direct.load(scene.name).metadata
        assert report.metadata_location not in [entry["metadata-file"] for entry in current.metadata_log]
        assert report.attempts == 1
        assert (current.properties.get("owner") == "a") == (kind == "properties")
        scene.check_history()
    finally:
        scene.close()


@pytest.mark.parametrize("second", ["arrives", "is lost too"])
def test_12_the_swap_is_still_queued_while_its_sender_looks(scene: Scene, second: str) -> None:
    """
    A  sends the swap; its connection ends; the request lies in a queue before the metastore
    A  checks the table, sees the old pointer, which proves nothing
    A  sends the swap again, which arrives or is lost too; reports committed or unknown; deletes nothing
    the queued request reaches the metastore: made, or refused because A's second one was made
    A's file is in the table, once
    """
    queued = scene.on_swap(POSTPONE)
    if second != "arrives":
        scene.on_swap(CUT_BEFORE_SEND, times=None)
    writer = scene.catalog()
    data_file = scene.data_file("a")
    known = True
    try:
        writer.load_table(scene.name).append([data_file])
    except CommitStateUnknown:
        known = False
    assert queued.held(LIMIT)
    between = scene.location()
    queued.release()
    assert queued.done(LIMIT)
    scene.acknowledged.append(data_file.file_path)
    assert (scene.location() == between) == known == (second == "arrives")
    scene.append("b")
    scene.check_history()


def test_12_another_writer_commits_before_the_queued_swap_arrives(scene: Scene) -> None:
    """
    A  sends the swap; its connection ends; the request lies in a queue before the metastore
    A  reports committed or unknown
    B  commits
    the queued request reaches the metastore, which refuses it: the table no longer has its expected value

    B's commit stays, whatever A reports.
    """
    queued = scene.on_swap(POSTPONE)
    writer = scene.catalog()
    data_file = scene.data_file("a")
    try:
        writer.load_table(scene.name).append([data_file])
    except CommitStateUnknown:
        scene.refused.append(data_file.file_path)
    else:
        scene.acknowledged.append(data_file.file_path)
    assert queued.held(LIMIT)
    scene.append("b")
    queued.release()
    assert queued.done(LIMIT)
    scene.check_history()


@pytest.mark.parametrize("action", [CUT_BEFORE_REPLY, CUT_BEFORE_SEND], ids=["made", "not-made"])
def test_13_the_metastore_fails_over_in_the_middle_of_a_swap(scene: Scene, action: Action) -> None:
    """
    two servers over one database
    A  sends the swap to the first, which dies before it sends the reply, or before it gets the request
    A  goes on with the second: checks the table or sends the swap again there, heartbeats and unlocks there
    """
    second = scene.another_proxy()
    writer = scene.catalog(f"{scene.proxy.uri},{second.uri}", connect_timeout_ms=2_000)
    cut = scene.on_swap((*action, FaultStep.HOLD))
    data_file = scene.data_file("a")
    pending = in_background(lambda: writer.load_table(scene.name).append([data_file]))
    assert cut.held(LIMIT)
    scene.proxy.refuse()
    cut.release()
    try:
        pending.result(LIMIT)
    except CommitStateUnknown:
        assert action is CUT_BEFORE_SEND
        scene.refused.append(data_file.file_path)
    else:
        scene.acknowledged.append(data_file.file_path)
    assert second.count("get_table_req") + second.count(ALTER) >= 1
    assert second.count("unlock") >= 1
    until(lambda: not scene.lock_entries(), "no lock is left")
    scene.append("b")
    scene.check_history()


def test_a_writer_waits_for_a_slow_reply(scene: Scene) -> None:
    """
    A  sends the swap; the reply is late, but within the socket's timeout and the lease
    A  reports: committed

    The control of the tests above: a slow reply is not a lost one.
    """
    slow = scene.on_swap(FREEZE_REPLY)
    pending = in_background(lambda: scene.append("a", scene.catalog()))
    assert slow.held(LIMIT)
    slow.release()
    assert pending.result(LIMIT).attempts == 1
    scene.check_history()
