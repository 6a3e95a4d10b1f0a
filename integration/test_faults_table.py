"""Changes of the table while a commit runs: other kinds of writers, clocks, torn files, snapshots that disappear,
another table of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from iceberg_hms.clock import SystemClock
from iceberg_hms.errors import CommitStateUnknown, CorruptFile, RequirementFailed, StorageError
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.pyarrow_driver import PyArrowDriver
from iceberg_hms.storage.retries import Retries
from iceberg_hms.testing.faults.script import FREEZE
from iceberg_hms.testing.history import HistoryRule, check_table
from iceberg_hms.testing.memory_lock import MemoryTableLock
from integration.faults import ALTER, LIMIT, SCHEMA, Scene, Timing, in_background, until

HOUR_MS = 3_600_000


@pytest.fixture
def scene(metastore: LocalMetastore, tmp_path: Path, timing: Timing) -> Iterator[Scene]:
    scene = Scene(metastore, tmp_path, timing)
    scene.append("first")
    yield scene
    scene.close()


def without_locks(scene: Scene, uri: str) -> Any:
    """A writer that swaps by compare-and-swap alone."""
    return scene.catalog(uri, ports={"lock": lambda _: MemoryTableLock()})


def test_16_beside_a_writer_that_only_compares_and_swaps(scene: Scene) -> None:
    """
    A  takes the lock; its swap is held
    C  without the lock: swaps, with the expected value
    A  its swap is refused; it replays on C's commit, still under its lock

    With the lock alone A would have overwritten C.
    """
    swap = scene.on_swap(FREEZE)
    ours = in_background(lambda: scene.append("a", scene.catalog()))
    assert swap.held(LIMIT)
    scene.append("c", without_locks(scene, scene.server.uri))
    swap.release()
    assert ours.result(LIMIT).attempts == 2
    scene.check_history()


def test_16_beside_a_writer_that_only_locks(scene: Scene) -> None:
    """
    P  PyIceberg takes the lock and reads the table; its blind swap is held
    A  waits for the lock
    P  swaps, unlocks
    A  replays on P's commit

    With compare-and-swap alone P would have overwritten A: see the control below.
    """
    theirs = scene.another_proxy()
    blind = theirs.on(ALTER, FREEZE)
    other = in_background(lambda: scene.pyiceberg_append(theirs.uri))
    assert blind.held(LIMIT)
    ours = in_background(lambda: scene.append("a", scene.catalog()))
    assert scene.proxy.wait_for("check_lock", 1, LIMIT)
    assert [entry.acquired for entry in scene.lock_entries()] == [True, False]
    blind.release()
    scene.acknowledged.append(other.result(LIMIT))
    assert ours.result(LIMIT).replays == 1
    scene.check_history(others=True)


def test_16_control_without_our_lock_a_commit_is_lost(scene: Scene) -> None:
    """
    P  PyIceberg takes the lock and reads the table; its blind swap is held
    A  with its lock switched off: swaps, reports: committed
    P  swaps over it

    A's commit is gone, and the checker says so. If this passes without a loss, the two tests above prove nothing.
    """
    theirs = scene.another_proxy()
    blind = theirs.on(ALTER, FREEZE)
    other = in_background(lambda: scene.pyiceberg_append(theirs.uri))
    assert blind.held(LIMIT)
    scene.append("a", without_locks(scene, scene.proxy.uri))
    blind.release()
    scene.acknowledged.append(other.result(LIMIT))
    report = check_table(scene.direct, scene.name, acknowledged=scene.acknowledged)
    assert HistoryRule.LOST in report.broken


class JumpingClock(SystemClock):
    """A wall clock that a test sets forward and back; the monotonic clock does not change."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


def test_20_the_clock_jumps_by_an_hour(scene: Scene) -> None:
    """
    A  commits an hour ahead; commits an hour behind
    A  takes the lock; while its swap is held, its clock is set forward by two hours, and back again
    A  reports: committed. Set forward by more than a lease its machine may have been suspended: it takes the lock again

    last-updated-ms and the snapshots' times never fall.
    """
    clock = JumpingClock()
    writer = scene.catalog(clock=clock)
    times = []
    for number, offset in enumerate((0, HOUR_MS, -HOUR_MS, 0)):
        clock.offset_ms = offset
        times.append(scene.append(f"jump-{number}", writer).metadata.last_updated_ms)
    assert times == sorted(times)
    for offset in (2 * HOUR_MS, -HOUR_MS):
        swap = scene.on_swap(FREEZE)
        pending = in_background(lambda offset=offset: scene.append(f"held-{offset}", writer))
        assert swap.held(LIMIT)
        clock.offset_ms = offset
        swap.release()
        report = pending.result(LIMIT)
        assert (report.attempts, report.replays) == (1, 0)
    assert scene.proxy.count("lock") == 7
    scene.check_history()


class TornDisk:
    """As pyarrow's filesystem, but the end of each metadata file is missing: a partial PUT that nobody reports."""

    type_name = "torn"

    def __init__(self) -> None:
        self._disk = fs.LocalFileSystem()

    def open_output_stream(self, path: str) -> Any:
        stream = self._disk.open_output_stream(path)
        return TornStream(stream) if path.endswith(".metadata.json") else stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class TornStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        self._stream.write(data[:-7])

    def __enter__(self) -> TornStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def test_21_the_metadata_file_is_written_in_part(scene: Scene) -> None:
    """
    A  writes its metadata file; the store takes all but the last bytes, and says that all is well
    A  reads the length back, and stops before it takes a lock or swaps
    A  reports that it failed, and deletes what it wrote

    Readers keep the old state.
    """
    before, location = scene.metadata_files(), scene.location()
    writer = scene.catalog(
        ports={"files": RoutedFiles({"file": lambda: (PyArrowDriver(lambda _: TornDisk()), Retries())})}
    )
    data_file = scene.data_file("torn")
    with pytest.raises(StorageError, match="but it has"):
        writer.load_table(scene.name).append([data_file])
    scene.refused.append(data_file.file_path)
    assert scene.location() == location
    assert scene.proxy.count(ALTER) == 0
    until(lambda: scene.metadata_files() == before, "what it wrote is deleted")
    scene.check_history()
    scene.append("next", scene.catalog())
    scene.check_history()


def test_21_the_current_metadata_file_is_seen_in_part(scene: Scene) -> None:
    """
    the current metadata file is cut off, as a store shows it for a moment
    A  reads it, and stops: it builds nothing on part of the metadata
    the file is whole again
    A  commits
    """
    path = Path(scene.location().removeprefix("file:"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    writer = scene.catalog()
    with pytest.raises(CorruptFile):
        writer.load_table(scene.name)
    path.write_bytes(whole)
    scene.append("a", writer)
    scene.check_history()


@pytest.mark.parametrize("race", ["rollback", "expiry", "branch-drop"])
def test_27_snapshots_go_away_under_an_append(scene: Scene, race: str) -> None:
    """
    A  builds an append on the head; its lock call is held
    B  rolls main back to the first snapshot; or does that and expires the second; or drops A's branch
    A  gets the lock, sees that the table moved, and builds again on its current state

    A's parent is the head that B left. What B removed does not come back.
    """
    second = scene.append("second")
    branch = "audit" if race == "branch-drop" else "main"
    if race == "branch-drop":
        create = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch"}
        scene.direct.commit(scene.name, [], [{**create, "snapshot-id": second.snapshot_ids[0]}])
    first_id = scene.acknowledged[1]
    held = scene.proxy.on("lock", FREEZE)
    data_file = scene.data_file("a")
    writer = scene.catalog()
    pending = in_background(lambda: writer.load_table(scene.name).append([data_file], branch=branch))
    assert held.held(LIMIT)
    rollback = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first_id}
    updates: dict[str, list[dict[str, Any]]] = {
        "rollback": [rollback],
        "expiry": [rollback, {"action": "remove-snapshots", "snapshot-ids": list(second.snapshot_ids)}],
        "branch-drop": [{"action": "remove-snapshot-ref", "ref-name": "audit"}, rollback],
    }
    scene.direct.commit(scene.name, [], updates[race])
    held.release()
    report = pending.result(LIMIT)
    assert report.replays == 1
    snapshot = report.metadata.snapshot_by_id(report.snapshot_ids[0])
    assert snapshot is not None
    assert snapshot.parent_snapshot_id == first_id
    if race == "expiry":
        scene.refused += second.snapshot_ids
    acknowledged = [scene.acknowledged[0], first_id]
    check_table(
        scene.direct,
        scene.name,
        acknowledged=[*acknowledged, data_file.file_path, *report.snapshot_ids],
        refused=scene.refused,
        ref=branch,
    ).raise_if_broken()


def test_27_a_commit_that_asserts_its_head_is_refused_when_that_was_rolled_back(scene: Scene) -> None:
    """
    A  a commit that requires main to be at the second snapshot; its lock call is held
    B  rolls main back to the first
    A  is refused with the name of its broken requirement; it has sent no swap
    """
    second = scene.append("second")
    held = scene.proxy.on("lock", FREEZE)
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": second.snapshot_ids[0]}
    updates = [{"action": "set-properties", "updates": {"owner": "a"}}]
    writer = scene.catalog()
    pending = in_background(lambda: writer.commit(scene.name, [requirement], updates))
    assert held.held(LIMIT)
    rollback = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    scene.direct.commit(scene.name, [], [{**rollback, "snapshot-id": scene.acknowledged[1]}])
    held.release()
    with pytest.raises(RequirementFailed) as refused:
        pending.result(LIMIT)
    assert refused.value.name == "assert-ref-snapshot-id"
    assert scene.proxy.count(ALTER) == 0
    assert "owner" not in scene.direct.load(scene.name).metadata.properties


@pytest.mark.parametrize("held_at", ["lock", "swap"])
def test_28_the_table_is_dropped_and_made_anew(scene: Scene, held_at: str) -> None:
    """
    A  builds an append; its lock call, or its swap, is held
    B  drops the table and creates another one of the same name; during the swap it ignores A's lock
    A  sees another uuid and is refused; or its swap is refused, and it cannot know how a dropped table ended

    The new table has nothing of A.
    """
    held = scene.proxy.on("lock", FREEZE) if held_at == "lock" else scene.on_swap(FREEZE)
    data_file = scene.data_file("a")
    writer = scene.catalog()
    pending = in_background(lambda: writer.load_table(scene.name).append([data_file]))
    assert held.held(LIMIT)
    scene.drop_without_lock()
    scene.direct.create_table(scene.name, SCHEMA)
    held.release()
    expected = RequirementFailed if held_at == "lock" else (RequirementFailed, CommitStateUnknown)
    with pytest.raises(expected):
        pending.result(LIMIT)
    scene.acknowledged.clear()
    scene.refused.append(data_file.file_path)
    scene.check_history()
    until(lambda: not scene.lock_entries(), "no lock is left")
    scene.append("next", scene.catalog())
    scene.check_history()
