"""kill -9 of `iceberg-hms serve` with 64 commits in flight: every acknowledged commit is in the table once, and each
client of another one finds out by its snapshot id whether it landed.

    KILL_SEED=7 KILLS=50 python -m pytest integration/test_server_killed.py -k moment --log-cli-level=INFO

The seed decides after how many acknowledgements, and how long after that, the test kills the server; the machine
decides what the server is doing then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import iceberg_hms
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE, FREEZE_REPLY, Action
from iceberg_hms.testing.history import check_table
from integration.command_line import running
from integration.faults import ALTER, LIMIT, SCHEMA, until
from integration.load_generator import Body, Connection, append_bodies
from integration.rest_clients import ALL

logger = logging.getLogger(__name__)

IN_FLIGHT = 64
SEED = int(os.environ.get("KILL_SEED") or "1")
#: Of the long form.
KILLS = int(os.environ.get("KILLS") or "20")
#: A kill comes after at most so many acknowledgements: at once, which is when one that was given too early shows, or
#: every other time up to so many seconds later, which is longer than a group takes.
ACKNOWLEDGED_MAX = 160
LATER_MAX = 0.3
#: Enough bodies for the busiest clients until then.
BODIES = 800
#: The first commit after a restart may find a dead server's lock. A waiter looks at those every two seconds, takes
#: three looks with five seconds between them, and one more if the servers must first be proven to compare and swap; it
#: does not wait for the lease, which is 300 s.
NEXT_COMMIT_SECONDS = 25.0


@dataclass
class ClientResults:
    """The results of a server's clients before it was killed. unknown: sent, and the connection was cut."""

    acknowledged: list[Body] = field(default_factory=list)
    unknown: list[Body] = field(default_factory=list)
    #: One for each acknowledgement.
    acknowledgements: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))


class Table:
    """A new table with one snapshot, appends that clients made on that snapshot, and their expected results."""

    def __init__(
        self, catalog: Any, name: str, folder: Path, *, properties: Mapping[str, str] = ALL, bodies: int = BODIES
    ) -> None:
        self.name = name
        self._catalog = catalog
        namespace, _, table = name.partition(".")
        self._path = f"/v1/namespaces/{namespace}/tables/{table}"
        folder.mkdir()
        first, *files = (data_file(folder / f"{number}.parquet") for number in range(bodies + 2))
        catalog.create_table(name, SCHEMA, properties=properties)
        catalog.load_table(name).append([first])
        #: What is in the table, as far as it is certain.
        self.present = [first.file_path]
        self.next, *self._bodies = append_bodies(catalog, name, files)

    def pointer(self) -> str:
        return str(self._catalog.pointer(self.name).metadata_location)

    def locks(self) -> list[str]:
        """The states of its lock entries."""
        return [lock.state for lock in self._catalog.locks.list(self.name).locks]

    async def load(
        self, uri: str, moment: Callable[[ClientResults], Awaitable[object]], kill: Callable[[], None]
    ) -> ClientResults:
        """64 clients send one append after the other, until the moment comes and the server is killed."""
        results, waiting = ClientResults(), iter(self._bodies)
        async with asyncio.TaskGroup() as clients:
            for _ in range(IN_FLIGHT):
                clients.create_task(self._client(uri, waiting, results))
            await moment(results)
            kill()
        return results

    async def _client(self, uri: str, waiting: Iterator[Body], results: ClientResults) -> None:
        connection = Connection(uri)
        await connection.open()
        try:
            for body in waiting:
                try:
                    status, answer = await connection.post(self._path, body.data)
                except (OSError, EOFError):
                    results.unknown.append(body)
                    return
                assert status == 200, answer
                results.acknowledged.append(body)
                results.acknowledgements.release()
        finally:
            connection.close()

    def send(self, uri: str, bodies: Sequence[Body]) -> None:
        """Send bodies, all at once; each must be acknowledged by an answer that has its snapshot."""
        for body, (status, answer) in zip(bodies, asyncio.run(self.answers(uri, bodies)), strict=True):
            assert status == 200, answer
            assert body.snapshot_id in snapshot_ids(answer)

    async def answers(self, uri: str, bodies: Sequence[Body]) -> list[tuple[int, bytes]]:
        """Send bodies, all at once; the status and the answer of each. Status 0: the connection was cut."""

        async def send(body: Body) -> tuple[int, bytes]:
            connection = Connection(uri)
            await connection.open()
            try:
                return await connection.post(self._path, body.data)
            except (OSError, EOFError):
                return 0, b""
            finally:
                connection.close()

        return await asyncio.gather(*map(send, bodies))

    def contenders(self, count: int) -> list[Body]:
        """Appends that the first of them to land makes conflicts of all others."""
        return self._bodies[:count]

    def snapshot_ids(self, uri: str) -> set[int]:
        """The snapshot ids of the table, as a client reads them."""
        return snapshot_ids(httpx.get(uri + self._path, timeout=LIMIT).content)

    def check_history(self, present: Sequence[Body], absent: Sequence[Body] = ()) -> None:
        """Check that the table has each required append once and nothing else, and that every file that it names can be
        read."""
        report = check_table(
            self._catalog,
            self.name,
            acknowledged=[*self.present, *(item for body in present for item in (body.path, body.snapshot_id))],
            refused=[item for body in absent for item in (body.path, body.snapshot_id)],
        )
        report.raise_if_broken()
        assert list(report.data_files) == sorted([*self.present, *(body.path for body in present)])
        operations = Counter(each.operation for each in self._catalog.load_table(self.name).snapshots())
        assert operations.keys() <= {"append", "replace"}, "the server merges manifests"
        assert operations["append"] == len(report.data_files)


def snapshot_ids(answer: bytes) -> set[int]:
    return {snapshot["snapshot-id"] for snapshot in orjson.loads(answer)["metadata"]["snapshots"]}


def data_file(path: Path) -> DataFile:
    path.write_bytes(b"two rows")
    return DataFile(f"file:{path}", "PARQUET", record_count=2, file_size_in_bytes=8)


class Servers:
    """Runs `iceberg-hms serve` several times; the stack ends the last one. log: the file for all their logs."""

    def __init__(self, stack: ExitStack, metastore: Any, log: Path) -> None:
        self._stack = stack
        self._warehouse = metastore.warehouse
        self._log = stack.enter_context(log.open("a"))

    def start(self, metastore_uri: str) -> None:
        arguments = ["--metastore-uri", metastore_uri, "--warehouse", self._warehouse, "--port", "0", "--no-auth"]
        self._process, event = self._stack.enter_context(running("serve", *arguments, stderr=self._log))
        self.uri = str(event["uri"])

    def kill(self) -> None:
        """kill -9, and wait until the server has ended."""
        self._process.kill()
        self._process.wait(LIMIT)


def after_the_kill(
    table: Table, results: ClientResults, uri: str, what: str, *, meanwhile: Callable[[], object] = lambda: None
) -> list[Body]:
    """Let the clients of the killed server continue with the next one. Returns the unknown commits that had landed.

    meanwhile: called once another writer has committed to the table.
    """
    assert len(results.unknown) == IN_FLIGHT, "the clients ran out of bodies, or were not cut off"
    left = table.locks()
    begun = time.perf_counter()
    table.send(uri, [table.next])
    seconds = time.perf_counter() - begun
    meanwhile()
    found = table.snapshot_ids(uri)
    landed = [body for body in results.unknown if body.snapshot_id in found]
    absent = [body for body in results.unknown if body.snapshot_id not in found]
    logger.info(
        "%s: %d acknowledged, %d unknown of which %d had landed and %d not; the next commit took %.2f s, with %s",
        what,
        len(results.acknowledged),
        len(results.unknown),
        len(landed),
        len(absent),
        seconds,
        f"a lock of the dead in its way ({left[0]})" if left else "no lock in its way",
    )
    assert seconds < NEXT_COMMIT_SECONDS
    certain = [*results.acknowledged, table.next]
    table.check_history([*certain, *landed], absent)
    # The same bodies again, some acknowledged ones among them: what is there is not added, what is not lands.
    table.send(uri, [*results.unknown, *results.acknowledged[-8:]])
    table.check_history([*certain, *results.unknown])
    # The server gives the lock back after its answers.
    until(lambda: table.locks() == [], "the lock is given back")
    return landed


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    """Makes the tables and the requests, and checks the results. It need not survive a power cut, so it skips fsync."""
    where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    with iceberg_hms.connect(**where, storage_fsync=False) as catalog:
        yield catalog


@pytest.fixture
def servers(metastore: Any, tmp_path: Path) -> Iterator[Servers]:
    log = tmp_path / "serve.log"
    with ExitStack() as stack:
        yield Servers(stack, metastore, log)
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=[pytest.mark.slow, pytest.mark.timeout(60 * KILLS)])])
def test_killed_at_any_moment_it_loses_nothing_that_it_acknowledged(
    metastore: Any, catalog: Any, servers: Servers, namespace: str, tmp_path: Path, kills: int
) -> None:
    """
    64 clients append to a new table
    the server is killed after some acknowledgements and perhaps some milliseconds, and started again
    another writer commits to the table
    each client that was cut off looks for its snapshot id, and sends the same body once more
    all over again, with the server that started last
    """
    logger.info("to be replayed with KILL_SEED=%d", SEED)
    chosen, counts = random.Random(SEED), Counter[str]()
    servers.start(metastore.uri)
    for kill in range(1, kills + 1):
        table = Table(catalog, f"{namespace}.t{kill}", tmp_path / str(kill))
        acknowledged, later = chosen.randint(1, ACKNOWLEDGED_MAX), chosen.uniform(0, LATER_MAX) * (kill % 2 == 0)

        async def moment(results: ClientResults, acknowledged: int = acknowledged, later: float = later) -> None:
            for _ in range(acknowledged):
                await results.acknowledgements.acquire()
            await asyncio.sleep(later)

        results = asyncio.run(table.load(servers.uri, moment, servers.kill))
        servers.start(metastore.uri)
        landed = after_the_kill(table, results, servers.uri, f"kill {kill} of {kills}")
        counts.update(acknowledged=len(results.acknowledged), unknown=len(results.unknown), landed=len(landed))
    logger.info("%d kills with KILL_SEED=%d: %s", kills, SEED, dict(counts))


@dataclass(frozen=True)
class Fate:
    """The fate of a swap whose sender is killed while it waits for the answer. lands: whether the metastore makes it.

    released: whether the proxy lets it go, before the next commit or (late) after it; else the proxy drops it.
    """

    action: Action
    lands: bool
    released: bool = False
    late: bool = False


FATES = {
    "never arrives": Fate(FREEZE, lands=False),
    "arrives": Fate(FREEZE, lands=True, released=True),
    "was made": Fate(FREEZE_REPLY, lands=True),
    "arrives after the next commit": Fate(FREEZE, lands=False, released=True, late=True),
}


#: The others take a fifth of a minute each: `make test-all` runs them.
QUICK = ("arrives after the next commit",)


@pytest.mark.parametrize(
    "fate",
    [pytest.param(fate, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, fate in FATES.items()],
)
def test_killed_in_the_middle_of_a_swap_it_has_acknowledged_nothing_of_it(
    metastore: Any, catalog: Any, servers: Servers, namespace: str, tmp_path: Path, fate: Fate
) -> None:
    """
    64 clients append to a new table; the fourth swap of the server is held on its way, or its answer is
    the server is killed, and its lock stays
    the swap is dropped, or let go before another writer commits to the table, or after it, and is refused then
    each client that was cut off looks for its snapshot id, and sends the same body once more
    """
    table = Table(catalog, f"{namespace}.t", tmp_path / "data")
    with FaultProxy(metastore.uri) as proxy:
        servers.start(proxy.uri)
        swap = proxy.on(ALTER, fate.action, nth=4, only=lambda request: PROBE_KEY.encode() not in request)

        async def moment(_: ClientResults) -> None:
            assert await asyncio.to_thread(swap.held, LIMIT)

        results = asyncio.run(table.load(servers.uri, moment, servers.kill))
        assert table.locks() == ["ACQUIRED"]
        before = table.pointer()

        def end() -> None:
            (swap.release if fate.released else swap.drop)()
            assert swap.done(LIMIT)

        if not fate.late:
            end()
            assert (table.pointer() != before) is (fate.lands and fate.released)
        servers.start(metastore.uri)
        what = next(name for name, each in FATES.items() if each is fate)
        landed = after_the_kill(table, results, servers.uri, what, meanwhile=end if fate.late else lambda: None)
    assert bool(landed) is fate.lands


CONTENDERS = 16


@pytest.mark.parametrize("moved", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_after_a_restart_clients_hear_of_a_conflict_and_not_that_nobody_knows(
    metastore: Any, catalog: Any, servers: Servers, namespace: str, tmp_path: Path, moved: bool
) -> None:
    """
    16 clients send appends that may not be rebased; the swap of the first one is held on its way
    the server is killed, and started again; perhaps another writer moves the table
    all clients send the same appends again: at most one can land, and the server refuses all others
    the first swap arrives: the metastore refuses it
    """
    none = {"iceberg-hms.rebase-appends": "none"}
    table = Table(catalog, f"{namespace}.t", tmp_path / "data", properties=none, bodies=CONTENDERS)
    bodies = table.contenders(CONTENDERS)
    with FaultProxy(metastore.uri) as proxy:
        servers.start(proxy.uri)
        swap = proxy.on(ALTER, FREEZE, only=lambda request: PROBE_KEY.encode() not in request)

        async def cut_off() -> list[tuple[int, bytes]]:
            async with asyncio.TaskGroup() as clients:
                sent = clients.create_task(table.answers(servers.uri, bodies))
                assert await asyncio.to_thread(swap.held, LIMIT)
                await asyncio.to_thread(servers.kill)
            return sent.result()

        before = Counter(status for status, _ in asyncio.run(cut_off()))
        servers.start(metastore.uri)
        if moved:
            catalog.load_table(table.name).append([data_file(tmp_path / "another.parquet")])
        begun, base = time.perf_counter(), table.pointer()
        answers = Counter(status for status, _ in asyncio.run(table.answers(servers.uri, bodies)))
        seconds, left = time.perf_counter() - begun, table.pointer()
        logger.info("moved=%s: %s before, %s after the restart, in %.2f s", moved, dict(before), dict(answers), seconds)
        swap.release()
        assert swap.done(LIMIT)
    assert answers == ({409: CONTENDERS} if moved else {200: 1, 409: CONTENDERS - 1})
    assert table.pointer() == left != base
