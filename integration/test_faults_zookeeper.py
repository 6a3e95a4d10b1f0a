"""Commits under ZooKeeper's lock while the metastore's lock API is broken, or ZooKeeper is cut off: on a real metastore
and a real ZooKeeper, each through a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import LOCK_MARK
from iceberg_hms.errors import CommitStateUnknown, LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.testing.faults.script import CUT_BEFORE_SEND, FREEZE, FREEZE_REPLY, PASS
from iceberg_hms.testing.faults.stream import StreamProxy
from iceberg_hms.zookeeper.session import SessionState
from integration.faults import ALTER, LIMIT, Scene, Timing, in_background, rewired, until
from integration.zookeeper_sessions import look_only_for, session_of

#: The shortest session that a server with a tick of two seconds grants.
SHORTEST_MS = 4_000
#: One that outlives a short partition on a busy machine.
LONG_MS = 40_000


@pytest.fixture(scope="module")
def lockless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    """A metastore whose lock API is broken: its schema was made without transaction tables."""
    with LocalMetastore(tmp_path_factory.mktemp("lockless metastore"), transaction_tables=False) as server:
        yield server


class KeeperScene(Scene):
    """A scene whose writers have ZooKeeper. `keeper` is the proxy before it; the checks ask it directly."""

    def __init__(
        self, server: LocalMetastore, zookeeper: LocalZooKeeper, folder: Path, timing: Timing, **properties: str
    ) -> None:
        self._hosts = zookeeper.hosts
        super().__init__(server, folder, timing, **properties)
        self.keeper = StreamProxy(zookeeper.hosts)
        self._closing.append(self.keeper.close)

    def catalog(self, uri: str = "", **settings: Any) -> Any:
        return super().catalog(uri, **{"zookeeper": self._hosts, "connect_timeout_ms": int(LIMIT * 1000), **settings})

    def behind_the_proxies(self, session_timeout_ms: int, **ports: Any) -> Any:
        """A writer that reaches both servers through the scene's proxies alone."""
        hosts = self.keeper.address
        return self.catalog(zookeeper=hosts, zookeeper_session_timeout_ms=session_timeout_ms, ports=ports)

    def keepers(self) -> list[tuple[str, str]]:
        """(keeper, state) of each lock of the table."""
        return [(lock.keeper, lock.state) for lock in self.direct.locks.list(self.name).locks]


@pytest.fixture
def make_scene(zookeeper: LocalZooKeeper, tmp_path: Path, timing: Timing) -> Iterator[Callable[..., KeeperScene]]:
    made: list[KeeperScene] = []

    def make(server: LocalMetastore, **properties: str) -> KeeperScene:
        made.append(KeeperScene(server, zookeeper, tmp_path, timing, **properties))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def test_17_the_lock_api_is_missing(lockless: LocalMetastore, make_scene: Callable[..., KeeperScene]) -> None:
    """
    the metastore has no HIVE_LOCKS: each lock call ends in an error, or in a dropped connection
    A  appends, with ZooKeeper at hand: refused, with what to do. No swap was sent, what it wrote is deleted
    an operator marks the table for ZooKeeper
    A  appends under ZooKeeper's lock alone; its swap is made, and the reply is held
    B  appends: it waits behind A in ZooKeeper
    A  the reply is lost; A sends the swap again, which its first swap makes fail; checks the table: committed
    B  commits on top of it

    No writer swaps under ZooKeeper unless an operator declared that all writers use it.
    """
    scene = make_scene(lockless)
    before = scene.metadata_files()
    writer = scene.catalog()
    refused = scene.data_file("unmarked")
    with pytest.raises(LockUnavailable, match=f"iceberg-hms locks use zookeeper {scene.name}"):
        writer.load_table(scene.name).append([refused])
    scene.refused.append(refused.file_path)
    assert scene.proxy.count(ALTER) == 0
    until(lambda: scene.metadata_files() == before, "what it wrote is deleted")

    scene.direct.locks.use(scene.name, "zookeeper", wait_seconds=LIMIT)
    swap = scene.on_swap(FREEZE_REPLY)
    ours = in_background(lambda: scene.append("a", writer))
    assert swap.held(LIMIT)
    other = in_background(lambda: scene.append("b", scene.catalog()))
    until(lambda: scene.keepers() == [("zookeeper", "ACQUIRED"), ("zookeeper", "WAITING")], "B waits behind A")
    swap.drop()
    assert ours.result(LIMIT).attempts == 1
    other.result(LIMIT)
    assert scene.keepers() == []
    scene.check_history()


def test_17_the_lock_api_is_out_of_reach_for_one_writer_alone(
    metastore: LocalMetastore, make_scene: Callable[..., KeeperScene]
) -> None:
    """
    a table that is marked for ZooKeeper, on a metastore whose lock API works
    B  takes both locks; its swap is held
    A  none of its lock calls arrives, all other calls do: it cannot know whether the API works for others, and is
       refused. No swap was sent, what it wrote is deleted
    B  swaps, releases both
    A  its lock calls arrive again: it commits on top of B

    Under ZooKeeper's lock alone A would swap beside writers that take the metastore's alone.
    """
    scene = make_scene(metastore, **{LOCK_MARK: "zookeeper"})
    theirs = scene.another_proxy()
    writer = scene.catalog(theirs.uri)
    scene.append("first", writer)
    swap = scene.on_swap(FREEZE, proxy=theirs)
    other = in_background(lambda: scene.append("b", writer))
    assert swap.held(LIMIT)
    assert scene.keepers() == [("hms", "ACQUIRED"), ("zookeeper", "ACQUIRED")]
    scene.proxy.on("lock", CUT_BEFORE_SEND, times=None)
    cut_off = scene.catalog()
    # On a busy machine the first time may be over before a lock call was made; each is waited out.
    for seconds in (5.0, LIMIT):
        refused = scene.data_file(f"cut-off-{seconds:g}")
        with pytest.raises((MetastoreUnavailable, LockNotAcquired)) as caught:
            cut_off.load_table(scene.name).append([refused], wait_seconds=seconds)
        scene.refused.append(refused.file_path)
        if isinstance(caught.value, MetastoreUnavailable):
            break
    assert isinstance(caught.value, MetastoreUnavailable), caught.value
    assert scene.proxy.count("lock") > 0
    assert scene.proxy.count(ALTER) == 0
    swap.release()
    assert other.result(LIMIT).replays == 0
    scene.proxy.clear()
    scene.append("a", cut_off)
    assert scene.keepers() == []
    scene.check_history()


class AfterLock:
    """coordinator.ports.TableLock under which something happens as soon as it was first taken. calls: of `acquire`."""

    def __init__(self, lock: Any, happens: Callable[[], None]) -> None:
        self._lock = lock
        self._happens = happens
        self.calls = 0

    def acquire(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        held = self._lock.acquire(*arguments, **options)
        if self.calls == 1:
            self._happens()
        return held


def note_swaps(scene: KeeperScene) -> list[bytes]:
    """Record all true swaps that pass the scene's proxy from now on."""
    seen: list[bytes] = []

    def note(request: bytes) -> bool:
        if PROBE_KEY.encode() not in request:
            seen.append(request)
        return False

    scene.proxy.on(ALTER, PASS, only=note)
    return seen


def suspend(scene: KeeperScene, session: Any) -> None:
    scene.keeper.refuse()
    until(lambda: session.state is SessionState.SUSPENDED, "the session is suspended")


@pytest.fixture
def marked(lockless: LocalMetastore, make_scene: Callable[..., KeeperScene]) -> KeeperScene:
    """A table that is locked through ZooKeeper alone, with one append."""
    scene = make_scene(lockless, **{LOCK_MARK: "zookeeper"})
    scene.append("first")
    return scene


def test_19_suspended_between_the_lock_and_the_swap(marked: KeeperScene) -> None:
    """
    A  takes the lock; then it cannot reach ZooKeeper: SUSPENDED
    A  sends no swap: it gives up its lock, and asks for it again
    A  reaches ZooKeeper again, before its session is over: CONNECTED, the same session
    A  removes its old node, takes the lock, and commits
    """
    writer = marked.behind_the_proxies(LONG_MS)
    session = session_of(writer)
    marked.append("a", writer)
    swaps = note_swaps(marked)
    locks: list[AfterLock] = []

    def around(lock: Any) -> AfterLock:
        locks.append(AfterLock(lock, lambda: suspend(marked, session)))
        return locks[-1]

    again = rewired(writer, lock=around)
    pending = in_background(lambda: marked.append("b", again))
    until(lambda: locks[0].calls == 2, "A asks for the lock again")
    assert swaps == []
    assert marked.keepers() == [("zookeeper", "ACQUIRED")]
    marked.keeper.accept()
    assert pending.result(LIMIT).replays == 0
    assert session.epoch == 0
    assert len(swaps) == 1
    until(lambda: not marked.keepers(), "no node is left")
    marked.check_history()


def test_19_suspended_in_the_middle_of_the_swap(marked: KeeperScene) -> None:
    """
    A  takes the lock and sends the swap, which is held; then it cannot reach ZooKeeper: SUSPENDED
    B  appends: it waits behind A's node, which outlives the partition
    A  reaches ZooKeeper again, before its session is over: CONNECTED, the same session and node
    A  its swap arrives, and is made; the lock covered it: committed, at the first attempt
    B  commits on top of it
    """
    writer = marked.behind_the_proxies(LONG_MS)
    marked.append("a", writer)
    session = session_of(writer)
    swap = marked.on_swap(FREEZE)
    ours = in_background(lambda: marked.append("b", writer))
    assert swap.held(LIMIT)
    suspend(marked, session)
    other = in_background(lambda: marked.append("c"))
    until(lambda: marked.keepers() == [("zookeeper", "ACQUIRED"), ("zookeeper", "WAITING")], "B waits behind A")
    marked.keeper.accept()
    until(lambda: session.state is SessionState.CONNECTED, "the session is connected again")
    assert session.epoch == 0
    swap.release()
    report = ours.result(LIMIT)
    assert (report.attempts, report.replays) == (1, 0)
    assert other.result(LIMIT).replays == 1
    marked.check_history()


class BothBelieve:
    """A and B: each has sent a swap with the same expected value, and believes that it holds the lock.

    The servers have ended A's session, since they heard nothing from A; but nothing reaches A, so it cannot know.
    """

    def __init__(self, scene: KeeperScene) -> None:
        self.writer = scene.behind_the_proxies(SHORTEST_MS)
        scene.append("warm", self.writer)
        self.session = session_of(self.writer)
        self.path = scene.data_file("ours").file_path
        self.swap = scene.on_swap(FREEZE)
        self.ours = in_background(
            lambda: self.writer.load_table(scene.name).append([scene.data_file("ours")], wait_seconds=LIMIT)
        )
        assert self.swap.held(LIMIT)
        scene.keeper.partition()
        theirs = scene.another_proxy()
        other = scene.catalog(theirs.uri)
        self.other_swap = scene.on_swap(FREEZE, proxy=theirs)
        self.other = in_background(lambda: scene.append("theirs", other))
        assert self.other_swap.held(LIMIT)
        assert self.session.epoch == 0
        assert scene.keepers() == [("zookeeper", "ACQUIRED")]

    def arrive(self, first: str) -> None:
        """Both swaps arrive, in this order."""
        for swap in (self.swap, self.other_swap) if first == "A" else (self.other_swap, self.swap):
            swap.release()
            assert swap.done(LIMIT)


@pytest.mark.parametrize("first", ["A", "B"])
def test_19_the_partition_outlives_the_session_and_both_believe_that_they_hold_the_lock(
    marked: KeeperScene, first: str
) -> None:
    """
    A  takes the lock and sends the swap, which is held; nothing passes between A and ZooKeeper any more
    the servers end A's session after its timeout
    B  takes the lock, and sends its swap on the same base, which is held
    the partition ends; A learns that its session is LOST
    both swaps arrive, A's first or B's first: compare-and-swap makes one of them, and refuses the other
    the writer that was refused builds again on the other's commit; A only under a new lock

    Both report committed, and neither has overwritten the other.
    """
    both = BothBelieve(marked)
    marked.keeper.heal()
    until(lambda: both.session.epoch == 1 and both.session.state is SessionState.CONNECTED, "A hears of its loss")
    both.arrive(first)
    ours, theirs = both.ours.result(LIMIT), both.other.result(LIMIT)
    loser = theirs if first == "A" else ours
    assert [report.replays for report in (ours, theirs)] == [int(report is loser) for report in (ours, theirs)]
    assert loser.metadata_location == marked.location()
    marked.acknowledged += [both.path, *ours.snapshot_ids]
    marked.check_history()
    until(lambda: not marked.keepers(), "no node is left")


@pytest.mark.parametrize("first", ["A", "B"])
def test_19_the_partition_goes_on_when_the_swaps_are_answered(marked: KeeperScene, first: str) -> None:
    """
    as above, but A still cannot reach ZooKeeper when its answer comes

    A first: "done", but A cannot prove that it held the lock, nor wait for the new holder: unknown, never "committed"
    B first: refused, and proved absent; A gets no new lock, and reports that nothing of it is in the table
    B: committed in both cases
    """
    both = BothBelieve(marked)
    # ZooKeeper stays away: to look for it any longer would only make the test long.
    look_only_for(both.session, 2.0)
    both.arrive(first)
    both.other.result(LIMIT)
    with pytest.raises(CommitStateUnknown if first == "A" else LockUnavailable):
        both.ours.result(LIMIT)
    (marked.acknowledged if first == "A" else marked.refused).append(both.path)
    marked.check_history()
    marked.keeper.heal()
    until(lambda: both.session.state is SessionState.CONNECTED, "A reaches ZooKeeper again")
    marked.append("next", both.writer)
    marked.check_history()


def test_19_the_metastores_lock_outlives_the_session(
    metastore: LocalMetastore, make_scene: Callable[..., KeeperScene]
) -> None:
    """
    a marked table on a metastore whose lock API works
    A  takes both locks and sends the swap, which is held; nothing passes between A and ZooKeeper any more
    the servers end A's session; B gets ZooKeeper's lock, and waits for A's in the metastore
    the partition ends; A's swap arrives, and is made; but one of its locks is LOST: it releases the other
    B  commits on top of it
    A  takes both locks again, checks the table, and reports: committed
    """
    scene = make_scene(metastore, **{LOCK_MARK: "zookeeper"})
    writer = scene.behind_the_proxies(SHORTEST_MS)
    scene.append("warm", writer)
    session = session_of(writer)
    swap = scene.on_swap(FREEZE)
    ours = in_background(lambda: scene.append("a", writer))
    assert swap.held(LIMIT)
    scene.keeper.partition()
    theirs = scene.another_proxy()
    other = in_background(lambda: scene.append("b", scene.catalog(theirs.uri)))
    assert theirs.wait_for("check_lock", 1, LIMIT)
    assert sorted(scene.keepers()) == [("hms", "ACQUIRED"), ("hms", "WAITING"), ("zookeeper", "ACQUIRED")]
    scene.keeper.heal()
    until(lambda: session.epoch == 1 and session.state is SessionState.CONNECTED, "A hears of its loss")
    swap.release()
    assert ours.result(LIMIT).attempts == 1
    assert other.result(LIMIT).replays == 1
    scene.check_history()
    until(lambda: not scene.keepers(), "no lock is left")
