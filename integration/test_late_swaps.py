"""Two real metastores of 3.1.3 on one PostgreSQL, and a swap that reaches the first 75 s after it was sent.

3.1.3 takes the expected value of a swap and ignores it, so a late swap overwrites whatever was committed meanwhile.
Only the lock of the late writer can keep the others out until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException

from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.metastore.locks.lock_entries import LockEntry
from iceberg_hms.testing.faults.script import FREEZE, POSTPONE, Action
from iceberg_hms.testing.history import HistoryRule, check_table
from integration.concurrent_writers import AppendResult, ConcurrentWriters
from integration.engines.postgresql import postgresql
from integration.faults import LIMIT, Scene, Timing, in_background, until
from integration.old_metastores import HMS_3_1_3, STOCK_COLUMNS, OldMetastore

# The first test may wait for the download of the release.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HELD_SECONDS = 75.0
#: Shorter than that, so only heartbeats keep a lock so long; longer than a busy machine may delay one.
LEASE_SECONDS = 20
#: Seconds after which a caller gets CommitStateUnknown. The commit's other calls have to be answered in it too.
ORDINARY_SECONDS = 10.0
#: Commits of each of our other writers.
APPENDS = 4


@pytest.fixture(scope="module")
def metastores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OldMetastore, OldMetastore]]:
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        conf = {**database.conf, **STOCK_COLUMNS, "metastore.txn.timeout": f"{LEASE_SECONDS}s"}
        first, second = (
            OldMetastore(
                tmp_path_factory.mktemp(f"metastore {name}"),
                HMS_3_1_3,
                database="postgres",
                conf=conf,
                makes_schema=name == "A",
            )
            for name in "AB"
        )
        yield stack.enter_context(first), stack.enter_context(second)


@pytest.fixture
def scene(metastores: tuple[OldMetastore, OldMetastore], tmp_path: Path) -> Iterator[Scene]:
    """Its table was written before; its proxy stands before metastore A."""
    scene = Scene(metastores[0], tmp_path, Timing(0))
    scene.append("first")
    yield scene
    scene.close()


class Others:
    """Writers through another metastore, all at the same time: two processes of ours, which append a few times each,
    and PyIceberg, which locks and swaps blindly, and goes on until it is stopped."""

    def __init__(self, stack: ExitStack, scene: Scene, server: OldMetastore, appends: int) -> None:
        self._scene = scene
        self._uri = server.uri
        self._stopped = threading.Event()
        #: Those that PyIceberg committed.
        self.snapshots: list[int] = []
        writers = ConcurrentWriters(stack, str(scene.name), scene.folder / "others", appends=appends)
        for number in range(2):
            writers.process(f"ours-{number}", server.uri, server.warehouse)
        self._ours: Future[list[AppendResult]] = in_background(writers.run)
        self._theirs: Future[None] = in_background(self._append)
        stack.callback(self._stopped.set)

    def _append(self) -> None:
        while not self._stopped.is_set():
            # It gives a lock up that it does not get in a few seconds.
            with suppress(CommitFailedException):
                self.snapshots.append(self._scene.pyiceberg_append(self._uri))

    def acknowledged(self) -> list[int | str]:
        """Wait for all of them; none of ours may fail."""
        results = self._ours.result(240)
        self._stopped.set()
        self._theirs.result(LIMIT)
        assert [each for each in results if not each.acknowledged] == []
        return [*(item for each in results for item in each.items), *self.snapshots]


def _is_ours(entry: LockEntry) -> bool:
    return entry.agent_info.startswith("iceberg-hms/")


def hold_for(seconds: float, holds: Callable[[], bool]) -> None:
    """Check that a condition holds for the whole time."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < deadline:
        assert holds()
        pause.wait(0.5)


@pytest.mark.parametrize("action", [FREEZE, POSTPONE], ids=["held", "held with its connection broken"])
def test_a_swap_that_comes_75_seconds_late_loses_nothing(
    action: Action, metastores: tuple[OldMetastore, OldMetastore], scene: Scene
) -> None:
    """
    A  takes the lock, sends its swap, which the proxy keeps from its metastore (and hangs up, in one of two runs)
    B  and others wait for the lock, in other processes and through the other metastore; PyIceberg gives up and retries
    A  learns after the ordinary time that its state is unknown; its lock outlives its lease, though all locks are
       reaped that have no heartbeats
    A  its swap arrives after 75 s, and is made, whatever the table is
    A  finds it, and releases the lock; B and the others commit on top
    """
    second = metastores[1]
    writer = scene.catalog(socket_timeout_ms=int(ORDINARY_SECONDS * 1000))
    swap = scene.on_swap(action)
    with second.reaper(), ExitStack() as stack:
        held_append = in_background(lambda: scene.append("held", writer))
        assert swap.held(LIMIT)
        sent, before = time.monotonic(), scene.location()
        [held] = scene.lock_entries()
        assert held.acquired
        others = Others(stack, scene, second, APPENDS)
        with pytest.raises(CommitStateUnknown):
            held_append.result(ORDINARY_SECONDS + LIMIT / 4)
        waiting: dict[int, bool] = {}

        def nobody_commits() -> bool:
            entries = scene.lock_entries()
            waiting.update({each.lock_id: _is_ours(each) for each in entries if not each.acquired})
            acquired = [entry.lock_id for entry in entries if entry.acquired]
            return acquired == [held.lock_id] and scene.location() == before

        hold_for(HELD_SECONDS - (time.monotonic() - sent), nobody_commits)
        assert set(waiting.values()) == {True, False}, "the others came too late to show anything"
        assert others.snapshots == []
        swap.release()
        assert swap.done(LIMIT)
        scene.acknowledged += [f"file:{scene.folder}/held.parquet", *others.acknowledged()]
    until(lambda: not scene.lock_entries(), "no lock is left")
    scene.check_history(others=True)


def test_given_up_before_it_comes_it_overwrites_what_others_committed(
    metastores: tuple[OldMetastore, OldMetastore], scene: Scene
) -> None:
    """
    The same where A is set to give its swap up at once: its lock passes, the others commit, the swap arrives.

    It shows that the test above can see a lost commit, and why the setting exists.
    """
    second = metastores[1]
    writer = scene.catalog(socket_timeout_ms=int(ORDINARY_SECONDS * 1000), unanswered_swap_timeout_ms=1)
    swap = scene.on_swap(FREEZE)
    with second.reaper(), ExitStack() as stack:
        held_append = in_background(lambda: scene.append("held", writer))
        assert swap.held(LIMIT)
        others = Others(stack, scene, second, APPENDS)
        with pytest.raises(CommitStateUnknown):
            held_append.result(ORDINARY_SECONDS + LIMIT)
        acknowledged = others.acknowledged()
        swap.release()
        assert swap.done(LIMIT)
    report = check_table(scene.direct, scene.name, acknowledged=[*scene.acknowledged, *acknowledged])
    assert report.broken == {HistoryRule.LOST}
    assert len(report.findings) == len(acknowledged)
