"""Writers that die or fall asleep in the middle of a commit, on a real metastore with a lease of three seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_hms.testing.faults.script import FREEZE
from integration.faults import GET, LIMIT, ReapingMetastore, Scene, Timing, in_background, until


@pytest.fixture
def scene(quick_lease: ReapingMetastore, tmp_path: Path, timing: Timing) -> Iterator[Scene]:
    scene = Scene(quick_lease, tmp_path, timing)
    scene.append("first")
    yield scene
    scene.close()


def next_writer_gets_through(scene: Scene, server: ReapingMetastore) -> None:
    """It waits for the dead writer's lock no longer than the lease, if a reaper runs."""
    with server.reaper():
        appended = in_background(lambda: scene.append("next", scene.catalog()))
        appended.result(LIMIT)
    assert scene.lock_entries() == []


def test_01_killed_before_the_metadata_write(scene: Scene, quick_lease: ReapingMetastore) -> None:
    """
    A  loads, asks for the lock while it writes its manifest, stops itself before it writes the metadata file
    A  kill -9
    B  waits for A's lock, if A has it by then, which the metastore reaps after the lease
    B  commits

    Nothing of A is visible; its files are in the metadata folder, and no metadata names them.
    """
    before = scene.metadata_files()
    location = scene.location()
    writer = scene.writer("dead", stop_at="metadata-write")
    writer.go()
    writer.stopped()
    writer.kill()
    orphans = scene.metadata_files() - before
    # Files are written under other names first, and a process that stops may get as far as that.
    assert any(name.endswith(".avro") for name in orphans)
    assert not any(name.endswith("metadata.json") for name in orphans)
    assert scene.location() == location
    scene.refused.append(writer.path)
    next_writer_gets_through(scene, quick_lease)
    scene.check_history()


@pytest.mark.parametrize("killed_at", ["probe", "swap"])
def test_02_killed_between_metadata_write_and_swap(scene: Scene, quick_lease: ReapingMetastore, killed_at: str) -> None:
    """
    A  loads, writes all files, takes the lock, sends the swap (or asks whether it is atomic): held in the proxy
    A  kill -9; what it sent never arrives
    B  waits for A's lock, which the metastore reaps after the lease
    B  commits

    The table is as it was before A.
    """
    swap = scene.on_swap(FREEZE) if killed_at == "swap" else scene.on_probe(FREEZE)
    location = scene.location()
    writer = scene.writer("dead")
    writer.go()
    assert swap.held(LIMIT)
    writer.kill()
    swap.drop()
    assert scene.location() == location
    assert [entry.acquired for entry in scene.lock_entries()] == [True]
    scene.refused.append(writer.path)
    next_writer_gets_through(scene, quick_lease)
    scene.check_history()


def test_03_killed_between_swap_and_unlock(scene: Scene, quick_lease: ReapingMetastore) -> None:
    """
    A  commits; its unlock is held in the proxy
    A  kill -9; the unlock never arrives
    B  waits for A's lock, which the metastore reaps after the lease
    B  commits on top of A's commit
    """
    unlock = scene.proxy.on("unlock", FREEZE)
    writer = scene.writer("dead")
    writer.go()
    assert unlock.held(LIMIT)
    writer.kill()
    unlock.drop()
    assert [entry.acquired for entry in scene.lock_entries()] == [True]
    scene.acknowledged.append(writer.path)
    next_writer_gets_through(scene, quick_lease)
    scene.check_history()


@pytest.mark.parametrize("asleep_at", ["reload", "swap"])
def test_07_asleep_past_its_lease(scene: Scene, quick_lease: ReapingMetastore, asleep_at: str) -> None:
    """
    A  takes the lock; its reload under the lock, or its swap, is held in the proxy
    A  SIGSTOP: no heartbeats; the metastore reaps its lock
    B  takes the lock, commits, releases
    A  SIGCONT: what it read before is stale; if it swaps on it, compare-and-swap refuses the swap
    A  takes the lock again and replays on B's commit

    Both are there once, A on top of B.
    """
    sleeper = scene.writer("sleeper")
    # The read under the lock is the first one after the lock was asked for.
    reload = {"only": lambda _: scene.proxy.count("lock") > 0}
    held = scene.proxy.on(GET, FREEZE, **reload) if asleep_at == "reload" else scene.on_swap(FREEZE)
    sleeper.go()
    assert held.held(LIMIT)
    assert [entry.acquired for entry in scene.lock_entries()] == [True]
    sleeper.pause()
    if asleep_at == "reload":
        # What it finds when it wakes was read while the lock was still its own.
        held.release()
        assert held.done(LIMIT)
    with quick_lease.reaper():
        until(lambda: not scene.lock_entries(), "the sleeper's lock is reaped")
    between = scene.append("between")
    held.release()
    scene.wake_and_check_parent(sleeper, between)
    until(lambda: not scene.lock_entries(), "no lock is left")
