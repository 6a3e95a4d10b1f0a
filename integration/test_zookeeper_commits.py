"""Commits under ZooKeeper on real servers: a metastore without transaction tables, lost sessions, restarts, marks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import iceberg_hms
from iceberg_hms.changes.clients.request import Client, from_request
from iceberg_hms.cli.main import app
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import EXCLUSIVE, LOCK_MARK, CommitPorts, SwapAnswer, TableName
from iceberg_hms.errors import LockLost, LockUnavailable, MetastoreUnavailable
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
from integration import interop
from integration.concurrent_writers import processes_lose_nothing
from integration.faults import SCHEMA
from integration.servers import make_namespace
from integration.zookeeper_sessions import expire, look_only_for, session_of
from tests.forking import said_by
from tests.polling import eventually

#: How long a writer looks for a server that it knows to be gone.
OUT_OF_REACH_MS = 500


@pytest.fixture(scope="module")
def lockless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    """A metastore whose lock API is broken: its schema was made without transaction tables."""
    with LocalMetastore(tmp_path_factory.mktemp("lockless metastore"), transaction_tables=False) as server:
        yield server


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:

        def make(server: LocalMetastore, **settings: Any) -> Any:
            given = {"metastore_uri": server.uri, "warehouse": server.warehouse, **settings}
            return stack.enter_context(iceberg_hms.connect(**given))

        yield make


def add_rows(catalog: Any, table: str, path: Path, ids: list[int]) -> Any:
    return catalog.load_table(table).append([f"file:{interop.small_parquet(path, ids)}"])


def locks(*arguments: str) -> Any:
    """`iceberg-hms locks`, as a user types it."""
    return CliRunner().invoke(app, ["locks", *arguments])


def location(catalog: Any, table: str) -> str:
    return str(catalog.pointer(table).metadata_location)


def test_an_unmarked_table_is_refused_with_what_to_do_and_nothing_is_changed(
    lockless: Any, zookeeper: Any, connect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.t"
    for settings in ({}, {"zookeeper": zookeeper.hosts}, {"zookeeper": zookeeper.hosts, "lock": "zookeeper"}):
        catalog = connect(lockless, **settings)
        if not catalog.table_exists(table):
            catalog.create_table(table, SCHEMA)
        before = location(catalog, table)
        with pytest.raises(LockUnavailable, match=f"iceberg-hms locks use zookeeper {table}"):
            add_rows(catalog, table, tmp_path / "a.parquet", [1])
        assert location(catalog, table) == before


def test_a_mark_is_set_while_the_lock_api_is_broken_and_opens_the_table_for_writers_with_zookeeper(
    lockless: Any, zookeeper: Any, connect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.t"
    catalog = connect(lockless, zookeeper=zookeeper.hosts)
    catalog.create_table(table, SCHEMA)
    catalog.locks.use(table, "zookeeper", wait_seconds=60)
    assert catalog.pointer(table).parameters[LOCK_MARK] == "zookeeper"
    add_rows(catalog, table, tmp_path / "a.parquet", [1])
    assert interop.pyiceberg_rows(lockless, table)
    listing = catalog.locks.list(table)
    assert listing.locks == ()
    assert listing.problems[0].startswith("hms: ")

    without = connect(lockless)
    with pytest.raises(LockUnavailable, match="no ZooKeeper is configured here"):
        add_rows(without, table, tmp_path / "b.parquet", [2])
    # Back to a lock that is unavailable: refused, or no writer could write to the table any more.
    with pytest.raises(LockUnavailable):
        catalog.locks.use(table, "hms", wait_seconds=10)
    add_rows(catalog, table, tmp_path / "c.parquet", [3])


def test_a_writer_set_to_zookeeper_marks_its_new_tables(
    lockless: Any, zookeeper: Any, connect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.t"
    catalog = connect(lockless, zookeeper=zookeeper.hosts, lock="zookeeper")
    catalog.create_table(table, SCHEMA)
    assert catalog.pointer(table).parameters[LOCK_MARK] == "zookeeper"
    add_rows(catalog, table, tmp_path / "a.parquet", [1])
    catalog.rename_table(table, f"{table}_2")
    catalog.drop_table(f"{table}_2")


#: Forks while the parent has a session, connections to the metastore, and the table's ZooKeeper lock.
FORKING = """
import os, signal, sys
import iceberg_hms
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifests.manifest import DataFile
from integration.zookeeper_sessions import session_of

def append(number):
    file = DataFile(f"{warehouse}/{number}.parquet", "PARQUET", partition={}, record_count=1, file_size_in_bytes=1)
    return table.append([file])

uri, warehouse, hosts, name = sys.argv[1:]
catalog = iceberg_hms.connect(uri, warehouse, zookeeper=hosts)
table = catalog.load_table(name)
append(1)
session = session_of(catalog)
epoch = session.epoch
held = catalog.services.ports.lock.acquire(TableName(*name.split(".")), wait_seconds=30, request="r")
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os.write(writer, b"x")
    append(2)
    catalog.close()
    os._exit(0)
os.read(reader, 1)
held.ensure_held()
held.release()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
append(3)
print(code, session.epoch == epoch, len(table.snapshots()), len(catalog.locks.list(name).locks))
catalog.close()
"""


def test_a_forked_child_commits_in_a_session_of_its_own_and_its_parent_keeps_its_locks(
    metastore: Any, zookeeper: Any, connect: Any, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(metastore, request)}.forked"
    connect(metastore, zookeeper=zookeeper.hosts, lock="zookeeper").create_table(table, SCHEMA)
    assert said_by(FORKING, metastore.uri, metastore.warehouse, zookeeper.hosts, table) == "0 True 3 0\n"


def test_four_processes_under_zookeeper_alone_lose_nothing_and_none_fails(
    lockless: Any, zookeeper: Any, connect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.many"
    catalog = connect(lockless, zookeeper=zookeeper.hosts, lock="zookeeper")
    catalog.create_table(table, SCHEMA)
    environ = {"ICEBERG_HMS_ZOOKEEPER_HOSTS": zookeeper.hosts}
    paths = processes_lose_nothing(lockless, catalog, table, tmp_path, processes=4, appends=10, **environ)
    assert len(interop.check_history(lockless, table, paths, single_files=True)) == len(paths)


class AfterLock:
    """A TableLock that calls a function as soon as the lock is held."""

    def __init__(self, lock: Any, happens: Callable[[], None]) -> None:
        self._lock = lock
        self._happens = happens

    def acquire(self, name: TableName, **options: Any) -> Any:
        held = self._lock.acquire(name, **options)
        self._happens()
        return held


class AroundSwap:
    """A TablePointer that calls one function before each swap, and another after it."""

    def __init__(self, pointer: Any, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._pointer = pointer
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pointer, name)

    def swap(self, *arguments: Any, **options: Any) -> SwapAnswer:
        self._before()
        answer: SwapAnswer = self._pointer.swap(*arguments, **options)
        self._after()
        return answer


def once(action: Callable[[], None]) -> Callable[[], None]:
    left = [action]
    return lambda: left.pop()() if left else None


def commit(catalog: Any, ports: CommitPorts, table: str, key: str) -> Any:
    """Commit through other ports than the catalog's own."""
    change = from_request([], [{"action": "set-properties", "updates": {key: "1"}}], Client())
    name = TableName(*table.split("."))
    return Coordinator(ports, catalog.settings).commit(name, change, wait_seconds=60)


def stop_for(catalog: Any, server: LocalZooKeeper) -> None:
    """Stop a ZooKeeper, and wait until a catalog has noticed; the catalog then does not try long to reach it."""
    server.stop()
    wait_for_connection(catalog, there=False)
    look_only_for(session_of(catalog), OUT_OF_REACH_MS / 1000)


def wait_for_connection(catalog: Any, *, there: bool) -> None:
    """Wait until a catalog has a connection to ZooKeeper, or has none."""
    session = session_of(catalog)
    assert eventually(lambda: (session.state == "CONNECTED") is there)


def expire_session(catalog: Any) -> None:
    """End a catalog's session, and wait until the catalog has noticed."""
    session = session_of(catalog)
    epoch = session.epoch
    expire(session)
    assert eventually(lambda: session.epoch != epoch)


@pytest.fixture
def marked(lockless: Any, zookeeper: Any, connect: Any, request: pytest.FixtureRequest) -> tuple[Any, str]:
    """A catalog, and a table that it commits to under ZooKeeper alone."""
    table = f"{make_namespace(lockless, request)}.t"
    catalog = connect(lockless, zookeeper=zookeeper.hosts, lock="zookeeper")
    catalog.create_table(table, SCHEMA)
    return catalog, table


def test_a_session_that_expires_before_the_swap_stops_it(marked: Any) -> None:
    """lock taken -> session expires -> no swap is sent under it -> the lock is taken again, and the swap sent once."""
    catalog, table = marked
    world = catalog.services.ports
    acquired: list[str] = []
    swapped: list[str] = []
    expire_once = once(lambda: expire_session(catalog))
    lock = AfterLock(world.lock, lambda: (acquired.append("lock"), expire_once())[1])
    pointer = AroundSwap(world.pointer, lambda: swapped.append("swap"), lambda: None)
    commit(catalog, replace(world, lock=lock, pointer=pointer), table, "a")
    assert (len(acquired), len(swapped)) == (2, 1)
    assert catalog.load(table).metadata.properties["a"] == "1"
    assert catalog.locks.list(table).locks == ()


def test_a_session_that_expires_after_the_swap_leaves_no_false_answer(marked: Any) -> None:
    """swap sent and made -> session expires, another writer commits -> the lock is taken again, the writer finds its
    swap in the table: committed."""
    catalog, table = marked
    world = catalog.services.ports

    def lose_it() -> None:
        expire_session(catalog)
        commit(catalog, world, table, "other")

    losing = replace(world, pointer=AroundSwap(world.pointer, lambda: None, once(lose_it)))
    commit(catalog, losing, table, "mine")
    properties = catalog.load(table).metadata.properties
    assert (properties["mine"], properties["other"]) == ("1", "1")


def test_a_writer_that_wakes_without_its_session_does_not_overwrite(marked: Any) -> None:
    """lock taken -> session expires, another writer commits -> the first wakes in the middle of its swap, past every
    check: compare-and-swap refuses it, and what it sends next is built on the other's commit, under a new lock."""
    catalog, table = marked
    world = catalog.services.ports
    # Of a process that has not swapped yet nobody knows whether its swap is atomic: the others would wait.
    commit(catalog, world, table, "before")
    others: list[str] = []

    def lose_it() -> None:
        expire_session(catalog)
        others.append(commit(catalog, world, table, "other").metadata_location)

    zombie = replace(world, pointer=AroundSwap(world.pointer, once(lose_it), lambda: None))
    report = commit(catalog, zombie, table, "zombie")
    assert report.previous_metadata_location == others[0]
    properties = catalog.load(table).metadata.properties
    assert (properties["zombie"], properties["other"]) == ("1", "1")


def test_no_swap_starts_while_zookeeper_is_out_of_reach_and_commits_go_on_after_its_restart(
    lockless: Any, connect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.t"
    server = LocalZooKeeper(tmp_path / "keeper").start()
    try:
        catalog = connect(lockless, zookeeper=server.hosts, lock="zookeeper")
        catalog.create_table(table, SCHEMA)
        world = catalog.services.ports

        stop = once(lambda: stop_for(catalog, server))
        with pytest.raises(LockUnavailable, match="out of reach"):
            commit(catalog, replace(world, lock=AfterLock(world.lock, stop)), table, "a")
        with pytest.raises(LockUnavailable, match="out of reach"):
            commit(catalog, world, table, "b")
        assert {"a", "b"}.isdisjoint(catalog.load(table).metadata.properties)
        server = LocalZooKeeper(tmp_path / "keeper", port=server.port).start()
        wait_for_connection(catalog, there=True)
        commit(catalog, world, table, "c")
        assert catalog.locks.list(table).locks == ()
    finally:
        server.stop()


def test_an_operator_moves_a_table_to_zookeeper_and_breaks_a_lock_there(
    lockless: Any, zookeeper: Any, connect: Any, request: pytest.FixtureRequest
) -> None:
    table = f"{make_namespace(lockless, request)}.t"
    catalog = connect(lockless, zookeeper=zookeeper.hosts)
    catalog.create_table(table, SCHEMA)

    where = ["--metastore-uri", lockless.uri, "--zookeeper", zookeeper.hosts, "--json"]
    assert json.loads(locks("use", "zookeeper", table, *where).stdout) == {"name": table, "lock": "zookeeper"}
    held = catalog.services.ports.lock.acquire(TableName(*table.split(".")), wait_seconds=60, request="r-1")
    listed = locks("list", table, *where)
    assert "not listed: hms: " in listed.stderr
    [lock] = json.loads(listed.stdout)
    assert (lock["keeper"], lock["table"], lock["state"]) == ("zookeeper", table, "ACQUIRED")
    assert locks("break", lock["lock_id"], *where).exit_code == 2
    assert json.loads(locks("break", lock["lock_id"], "--yes", *where).stdout) == lock
    with pytest.raises(LockLost):
        held.renew()
    held.release()
    commit(catalog, catalog.services.ports, table, "a")


def test_a_table_whose_zookeeper_is_gone_for_good_is_brought_back_by_force(
    metastore: Any, connect: Any, namespace: str, tmp_path: Path
) -> None:
    """marked, and committed to under both locks -> ZooKeeper stops for ever -> commits are refused, the way back too ->
    it is forced -> commits go on under the metastore's lock, also of the writer that still asks for ZooKeeper."""
    table = f"{namespace}.t"
    with LocalZooKeeper(tmp_path / "keeper") as server:
        catalog = connect(metastore, zookeeper=server.hosts)
        catalog.create_table(table, SCHEMA)
        where = [table, "--metastore-uri", metastore.uri, "--zookeeper", server.hosts]
        assert locks("use", "zookeeper", *where).exit_code == 0
        commit(catalog, catalog.services.ports, table, "a")
        stop_for(catalog, server)
    where += ["--set", f"metastore.connect-timeout-ms={OUT_OF_REACH_MS}"]
    with pytest.raises(LockUnavailable, match="out of reach"):
        commit(catalog, catalog.services.ports, table, "b")
    refused = locks("use", "hms", *where)
    assert refused.exit_code == 1
    assert f"iceberg-hms locks use hms {table} --force" in refused.stderr
    assert catalog.pointer(table).parameters[LOCK_MARK] == "zookeeper"

    assert locks("use", "hms", *where, "--force").exit_code == 0
    assert catalog.pointer(table).parameters[LOCK_MARK] == "hms"
    commit(catalog, catalog.services.ports, table, "c")
    without = connect(metastore)
    commit(without, without.services.ports, table, "d")
    properties = catalog.load(table).metadata.properties
    assert {"a", "b", "c", "d"} & set(properties) == {"a", "c", "d"}
    assert without.locks.list(table).locks == ()


def test_both_locks_are_taken_where_both_are_available(
    metastore: Any, zookeeper: Any, connect: Any, namespace: str
) -> None:
    table = f"{namespace}.t"
    catalog = connect(metastore, zookeeper=zookeeper.hosts)
    catalog.create_table(table, SCHEMA)
    world = catalog.services.ports
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([lock.keeper for lock in catalog.locks.list(table).locks if lock.state == "ACQUIRED"])

    looking = replace(world, lock=AfterLock(world.lock, look))
    commit(catalog, looking, table, "a")
    catalog.locks.use(table, "zookeeper", wait_seconds=60)
    commit(catalog, looking, table, "b")
    catalog.locks.use(table, "hms", wait_seconds=60)
    commit(catalog, looking, table, "c")
    assert seen == [["hms"], ["hms", "zookeeper"], ["hms"]]
    assert catalog.locks.list(table).locks == ()


def test_without_a_lock_only_declared_tables_are_written(
    metastore: Any, lockless: Any, connect: Any, namespace: str, request: pytest.FixtureRequest
) -> None:
    for server, database in ((metastore, namespace), (lockless, make_namespace(lockless, request))):
        catalog = connect(server, lock="none")
        catalog.create_table(f"{database}.t", SCHEMA)
        with pytest.raises(LockUnavailable, match="not declared for it"):
            commit(catalog, catalog.services.ports, f"{database}.t", "a")
        catalog.create_table(f"{database}.own", SCHEMA, properties={EXCLUSIVE: "true"})
        try:
            commit(catalog, catalog.services.ports, f"{database}.own", "a")
        except MetastoreUnavailable as error:
            pytest.fail(str(error))
        assert catalog.load(f"{database}.own").metadata.properties["a"] == "1"
