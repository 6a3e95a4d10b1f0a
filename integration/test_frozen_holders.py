"""Holders of a table's lock that are stopped, vanish, or sleep, on a real metastore with the stock lease of 300 s: how
long the next commit takes, and what becomes of the sleeper's.

`make frozen TIMES=20` repeats each as often, and prints the longest wait.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from integration import interop
from integration.faults import ReapingMetastore
from integration.test_cli import running

TIMES = int(os.environ.get("FROZEN") or "2")
#: The bound that docs promise for the next commit.
SECONDS = 30.0
#: How long anything else here may take.
LIMIT = 120.0

pytestmark = pytest.mark.timeout(200 + 60 * TIMES)

# A process that commits once, so that its fence is proven, and then does one more move, in which it stops itself (or
# ends): before the swap is sent, or when it was answered. At the end it says what it heard.
SLEEPER = """
import signal, sys, threading
import iceberg_hms
from iceberg_hms.metastore.locks import holder_identity

uri, warehouse, table, when, how, key = sys.argv[1:]
if how == "elsewhere":
    holder_identity._boot_id = lambda: "f" * 32
catalog = iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse, **{"iceberg.hive.lock-timeout-ms": 60_000})
pointer = catalog.services.world.pointer

def commit(key):
    update = {"action": "set-properties", "updates": {key: "yes"}}
    catalog.commit(table, requirements=[], updates=[update], wait_seconds=60)

commit("proven-" + key)
name = "drop" if when == "drop" else "swap"
move = getattr(pointer, name)

def sleep():
    setattr(pointer, name, move)
    # To this thread: one for the process may meet another first, and this one goes on for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGKILL if how == "elsewhere" else signal.SIGSTOP)

def moved(*arguments, **options):
    if when != "after":
        sleep()
    answer = move(*arguments, **options)
    if when == "after":
        sleep()
    return answer

setattr(pointer, name, moved)
try:
    catalog.drop_table(table) if when == "drop" else commit(key)
except Exception as error:
    print(type(error).__name__, error, flush=True)
else:
    print("done", flush=True)
"""


@contextmanager
def sleeper(server: Any, table: str, when: str, how: str, key: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the table's lock and has stopped, or was killed, in the middle of its second move."""
    command = [sys.executable, "-c", SLEEPER, server.uri, server.warehouse, table, when, how, key]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_code == (os.CLD_KILLED if how == "elsewhere" else os.CLD_STOPPED), "it ended early"
        yield process
    finally:
        process.kill()
        process.communicate()


def woken(process: subprocess.Popen[str]) -> str:
    """What it hears of its move when it goes on."""
    process.send_signal(signal.SIGCONT)
    told, _ = process.communicate(timeout=LIMIT)
    return told.strip()


@pytest.fixture
def pool(metastore: Any) -> Iterator[ClientPool]:
    pool = ClientPool([metastore.uri])
    yield pool
    pool.close()


def schema() -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def catalog(metastore: Any, warehouse: str, namespace: str) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=warehouse) as catalog:
        catalog.create_table(f"{namespace}.t", schema())
        yield catalog


def commit(catalog: Catalog, table: str, key: str) -> float:
    """Set a property; the seconds that it took."""
    update = {"action": "set-properties", "updates": {key: "yes"}}
    started = time.monotonic()
    catalog.commit(table, requirements=[], updates=[update], wait_seconds=LIMIT)
    return time.monotonic() - started


def committed(catalog: Catalog, table: str) -> set[str]:
    return {key for key, value in catalog.load_table(table).metadata.properties.items() if value == "yes"}


def held(pool: ClientPool, table: str) -> list[LockEntry]:
    return LockEntries(pool, "x").of(TableName(*table.split(".")))


def told(what: str, waits: list[float]) -> None:
    print(f"\n{what}: {len(waits)} times, next commit after {min(waits):.1f} to {max(waits):.1f} s")  # noqa: T201


def test_a_stopped_holder_costs_the_next_commit_less_than_30_seconds_and_loses_nothing(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    table, waits = f"{namespace}.t", []
    for number in range(TIMES):
        when, key = ("before", "after")[number % 2], f"slept-{number}"
        with sleeper(metastore, table, when, "stops", key) as process:
            [entry] = held(pool, table)
            assert entry.acquired
            assert entry.agent_info.endswith("/cas-15")
            waits.append(commit(catalog, table, f"next-{number}"))
            # It finds its swap refused and takes the lock anew, or finds that its swap stands.
            assert woken(process) == "done"
        assert {key, f"next-{number}", f"proven-{key}"} <= committed(catalog, table)
        assert held(pool, table) == []
    told("stopped holders", waits)
    assert max(waits) < SECONDS


def test_a_holder_that_vanished_on_another_machine_costs_the_next_commit_less_than_30_seconds(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    table, waits = f"{namespace}.t", []
    for number in range(TIMES):
        with sleeper(metastore, table, ("before", "after")[number % 2], "elsewhere", f"killed-{number}"):
            [entry] = held(pool, table)
            assert f"/{'f' * 32}/" in entry.agent_info
            waits.append(commit(catalog, table, f"next-{number}"))
        assert held(pool, table) == []
    told("holders of another boot id", waits)
    assert max(waits) < SECONDS
    assert {f"next-{number}" for number in range(TIMES)} <= committed(catalog, table)
    # Those that were killed when they had swapped are in the table, though nobody heard of it.
    assert {f"killed-{number}" for number in range(1, TIMES, 2)} <= committed(catalog, table)


def test_a_drop_that_sleeps_keeps_its_lock_for_the_servers_lease(tmp_path: Path) -> None:
    """It carries no expected value, so nobody but the metastore takes its lock; and it is not sent once its lease has
    passed: it would remove what others committed meanwhile."""
    lease = 30
    with (
        ReapingMetastore(tmp_path / "lease of 30 s", conf={"hive.txn.timeout": f"{lease}s"}) as server,
        server.reaper(),
        iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog,
    ):
        catalog.create_namespace("db")
        catalog.create_table("db.t", schema())
        with sleeper(server, "db.t", "drop", "stops", "dropped") as process:
            pool = ClientPool([server.uri])
            [entry] = held(pool, "db.t")
            pool.close()
            assert entry.agent_info.endswith("/blind")
            assert commit(catalog, "db.t", "next") >= lease - 1
            assert woken(process).startswith("LockLost")
        assert catalog.load_table("db.t").metadata.properties["next"] == "yes"


@pytest.fixture
def java(spark: Any, metastore: Any) -> Any:
    """Java's HiveCatalog as it comes: it takes the metastore's lock, and swaps without an expected value."""
    return interop.java_catalog(spark, interop.HIVE_CATALOG, "hive", uri=metastore.uri, warehouse=metastore.warehouse)


def test_a_sleepers_late_swap_beside_javas_blind_writer_loses_nothing_that_was_acknowledged(
    spark: Any, java: Any, catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    """Sleeper, Java and we queue in this order. We remove the sleeper's entry, so Java has the lock, and the sleeper
    wakes just then: its swap comes before Java's or after it."""
    table, waits, outcomes = f"{namespace}.t", [], []

    def java_commits(key: str) -> None:
        loaded = java.loadTable(interop.java_identifier(spark, table))
        asked.set()
        loaded.updateProperties().set(key, "yes").commit()

    with ThreadPoolExecutor(2) as background:
        for number in range(TIMES):
            acknowledged, asked = {f"java-{number}", f"next-{number}"}, threading.Event()
            with sleeper(metastore, table, "before", "stops", f"slept-{number}") as process:
                theirs: Future[None] = background.submit(java_commits, f"java-{number}")
                until(lambda: len(held(pool, table)) == 2)
                ours = background.submit(commit, catalog, table, f"next-{number}")
                until(
                    lambda: not any(each.agent_info.endswith("/cas-15") and each.acquired for each in held(pool, table))
                )
                outcome = woken(process)
                theirs.result(LIMIT)
                waits.append(ours.result(LIMIT))
            if outcome == "done":
                acknowledged.add(f"slept-{number}")
            outcomes.append(outcome.split(" ")[0])
            assert acknowledged <= committed(catalog, table), outcome
    told(f"sleepers beside Java ({', '.join(sorted(set(outcomes)))})", waits)
    assert set(outcomes) <= {"done", "CommitStateUnknown"}


def until(holds: Any) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline


def test_a_rest_server_that_is_stopped_in_a_commit_holds_the_next_one_up_for_less_than_30_seconds(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool, tmp_path: Path
) -> None:
    """Two servers on one metastore; clients of the first go on all the time."""
    table, waits, done = f"{namespace}.t", [], threading.Event()
    acknowledged: list[str] = []

    def post(uri: str, key: str) -> int:
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: "yes"}}]}
        status = httpx.post(f"{uri}/v1/namespaces/{namespace}/tables/t", json=body, timeout=LIMIT).status_code
        if status == httpx.codes.OK:
            acknowledged.append(key)
        return status

    def busy(uri: str) -> None:
        for number in itertools.count():
            if done.is_set():
                return
            post(uri, f"busy-{number}")

    where = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--port", "0", "--no-auth"]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "serve.log").open("w"))
        first, told_first = stack.enter_context(running("serve", *where, stderr=log))
        _, told_second = stack.enter_context(running("serve", *where, stderr=log))
        background = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(done.set)
        client = background.submit(busy, str(told_first["uri"]))
        until(lambda: len(acknowledged) > 1)
        for number in range(TIMES):

            def stopped_with_the_lock() -> bool:
                first.send_signal(signal.SIGSTOP)
                if any(entry.acquired and entry.agent_info.endswith("/cas-15") for entry in held(pool, table)):
                    return True
                first.send_signal(signal.SIGCONT)
                return False

            until(stopped_with_the_lock)
            started = time.monotonic()
            assert post(str(told_second["uri"]), f"next-{number}") == httpx.codes.OK
            waits.append(time.monotonic() - started)
            first.send_signal(signal.SIGCONT)
            before = len(acknowledged)
            until(lambda before=before: len(acknowledged) > before)  # type: ignore[misc]
        done.set()
        client.result(LIMIT)
    told("stopped REST servers", waits)
    assert max(waits) < SECONDS
    assert set(acknowledged) <= committed(catalog, table)
