"""Holders of a table's lock that are stopped, vanish, or sleep, on a real metastore with the stock lease of 300 s: how
long the next commit takes, and how the sleeper's commit ends.

`make frozen TIMES=20` repeats each as often, and prints the longest wait. Rounds that mostly wait run side by side.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
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
from integration.command_line import running
from integration.faults import ReapingMetastore, until

TIMES = int(os.environ.get("FROZEN") or "2")
#: The bound that docs promise for the next commit.
SECONDS = 30.0
#: How long anything else here may take.
LIMIT = 120.0
#: Rounds at the same time.
SIDE_BY_SIDE = 4

pytestmark = pytest.mark.timeout(200 + 60 * TIMES)

# A process that commits once, so that it has proof of compare-and-swap (not if it stops "unproven"), and then starts a
# commit or a drop, in which it stops or kills itself: before it sends the swap, or after the server answered. Then it
# prints the result.
SLEEPER = """
import signal, sys, threading
import iceberg_hms
from iceberg_hms.metastore.locks import holder_identity

uri, warehouse, table, when, how, key = sys.argv[1:]
if how == "elsewhere":
    holder_identity._boot_id = lambda *_: "f" * 32
catalog = iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse, **{"iceberg.hive.lock-timeout-ms": 60_000})
pointer = catalog.services.ports.pointer

def commit(key):
    update = {"action": "set-properties", "updates": {key: "yes"}}
    catalog.commit(table, requirements=[], updates=[update], wait_seconds=60)

if how != "unproven":
    commit("proven-" + key)
name = "drop" if when == "drop" else "swap"
original = getattr(pointer, name)

def sleep():
    setattr(pointer, name, original)
    # To this thread: a signal to the process may reach another thread first, and this one would go on for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGKILL if how == "elsewhere" else signal.SIGSTOP)

def replaced(*arguments, **options):
    if when != "after":
        sleep()
    answer = original(*arguments, **options)
    if when == "after":
        sleep()
    return answer

setattr(pointer, name, replaced)
try:
    catalog.drop_table(table) if when == "drop" else commit(key)
except Exception as error:
    print(type(error).__name__, error, flush=True)
else:
    print("done", flush=True)
"""


@contextmanager
def frozen_holder(server: Any, table: str, when: str, how: str, key: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the table's lock and was stopped or killed in a commit (or a drop)."""
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


def wake(process: subprocess.Popen[str]) -> str:
    """Let a stopped process go on; returns what it prints about its commit or drop."""
    process.send_signal(signal.SIGCONT)
    printed, _ = process.communicate(timeout=LIMIT)
    return printed.strip()


def schema() -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def catalog(metastore: Any, warehouse: str) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: Catalog, namespace: str) -> str:
    catalog.create_table(f"{namespace}.t", schema())
    return f"{namespace}.t"


def commit(catalog: Catalog, table: str, key: str) -> float:
    """Set a property; returns how many seconds that took."""
    update = {"action": "set-properties", "updates": {key: "yes"}}
    started = time.monotonic()
    catalog.commit(table, requirements=[], updates=[update], wait_seconds=LIMIT)
    return time.monotonic() - started


def committed(catalog: Catalog, table: str) -> set[str]:
    return {key for key, value in catalog.load_table(table).metadata.properties.items() if value == "yes"}


def lock_entries(pool: ClientPool, table: str) -> list[LockEntry]:
    return LockEntries(pool, "x").of(TableName(*table.split(".")))


def side_by_side(next_commit: Callable[[str, str], float], catalog: Catalog, namespace: str) -> list[float]:
    """Run one round on each of TIMES tables, half with a holder frozen before its swap and half after it. Returns how
    long the next commit of each took; seconds."""

    def one_round(number: int) -> float:
        table = f"{namespace}.t{number}"
        catalog.create_table(table, schema())
        return next_commit(table, ("before", "after")[number % 2])

    with ThreadPoolExecutor(SIDE_BY_SIDE) as rounds:
        return list(rounds.map(one_round, range(TIMES)))


def print_waits(what: str, waits: list[float]) -> None:
    print(f"\n{what}: {len(waits)} times, next commit after {min(waits):.1f} to {max(waits):.1f} s")  # noqa: T201


@pytest.mark.parametrize(
    ("how", "said"), [("stops", "cas-15"), pytest.param("unproven", "unproven-15", marks=pytest.mark.slow)]
)
def test_a_stopped_holder_costs_the_next_commit_less_than_30_seconds_and_loses_nothing(
    how: str, said: str, catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    def next_commit(table: str, when: str) -> float:
        with frozen_holder(metastore, table, when, how, "slept") as process:
            [entry] = lock_entries(pool, table)
            assert entry.acquired
            assert entry.agent_info.endswith(f"/{said}")
            seconds = commit(catalog, table, "next")
            # It finds its swap refused and takes the lock anew, or finds that its swap stands.
            assert wake(process) == "done"
        assert {"slept", "next", *(["proven-slept"] if how == "stops" else [])} <= committed(catalog, table)
        assert lock_entries(pool, table) == []
        return seconds

    waits = side_by_side(next_commit, catalog, namespace)
    print_waits(f"stopped holders ({said})", waits)
    assert max(waits) < SECONDS


@pytest.mark.slow
def test_a_holder_that_vanished_on_another_machine_costs_the_next_commit_less_than_30_seconds(
    catalog: Catalog, metastore: Any, namespace: str, pool: ClientPool
) -> None:
    def next_commit(table: str, when: str) -> float:
        with frozen_holder(metastore, table, when, "elsewhere", "killed"):
            [entry] = lock_entries(pool, table)
            assert f"/{'f' * 32}/" in entry.agent_info
            seconds = commit(catalog, table, "next")
        assert lock_entries(pool, table) == []
        # A holder that was killed after its swap has committed, though it reported that to nobody.
        assert {"next", *(["killed"] if when == "after" else [])} <= committed(catalog, table)
        return seconds

    waits = side_by_side(next_commit, catalog, namespace)
    print_waits("holders of another boot id", waits)
    assert max(waits) < SECONDS


@pytest.mark.slow
def test_a_drop_that_sleeps_keeps_its_lock_for_the_servers_lease(tmp_path: Path) -> None:
    """A drop carries no expected value, so only the metastore removes its lock. The sleeper does not send the drop once
    its lease has passed: it would remove what others committed meanwhile."""
    lease = 10
    with (
        ReapingMetastore(tmp_path / "own lease", conf={"hive.txn.timeout": f"{lease}s"}) as server,
        server.reaper(),
        iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog,
    ):
        catalog.create_namespace("db")
        catalog.create_table("db.t", schema())
        with frozen_holder(server, "db.t", "drop", "stops", "dropped") as process:
            pool = ClientPool([server.uri])
            [entry] = lock_entries(pool, "db.t")
            pool.close()
            assert entry.agent_info.endswith("/blind")
            assert commit(catalog, "db.t", "next") >= lease - 1
            assert wake(process).startswith("LockLost")
        assert catalog.load_table("db.t").metadata.properties["next"] == "yes"


@pytest.fixture
def java(spark: Any, metastore: Any) -> Any:
    """Java's HiveCatalog at its defaults: it takes the metastore's lock, and swaps without an expected value."""
    return interop.java_catalog(spark, interop.HIVE_CATALOG, "hive", uri=metastore.uri, warehouse=metastore.warehouse)


@pytest.mark.slow
def test_a_sleepers_late_swap_beside_javas_blind_writer_loses_nothing_that_was_acknowledged(
    spark: Any, java: Any, catalog: Catalog, metastore: Any, table: str, pool: ClientPool
) -> None:
    """The sleeper, Java and we queue in this order. We remove the sleeper's entry, so Java has the lock, and the
    sleeper wakes just then: its swap comes before Java's or after it."""
    waits, outcomes = [], []

    def java_commits(key: str) -> None:
        java.loadTable(interop.java_identifier(spark, table)).updateProperties().set(key, "yes").commit()

    def sleeper_has_the_lock() -> bool:
        return any(each.agent_info.endswith("/cas-15") and each.acquired for each in lock_entries(pool, table))

    with ThreadPoolExecutor(2) as background:
        for number in range(TIMES):
            acknowledged = {f"java-{number}", f"next-{number}"}
            with frozen_holder(metastore, table, "before", "stops", f"slept-{number}") as process:
                theirs: Future[None] = background.submit(java_commits, f"java-{number}")
                until(lambda: len(lock_entries(pool, table)) == 2, "Java waits")
                ours = background.submit(commit, catalog, table, f"next-{number}")
                until(lambda: not sleeper_has_the_lock(), "the sleeper's entry is removed")
                outcome = wake(process)
                theirs.result(LIMIT)
                waits.append(ours.result(LIMIT))
            if outcome == "done":
                acknowledged.add(f"slept-{number}")
            outcomes.append(outcome.split(" ")[0])
            assert acknowledged <= committed(catalog, table), outcome
    print_waits(f"sleepers beside Java ({', '.join(sorted(set(outcomes)))})", waits)
    assert set(outcomes) <= {"done", "CommitStateUnknown"}


@pytest.mark.slow
def test_a_rest_server_that_is_stopped_in_a_commit_holds_the_next_one_up_for_less_than_30_seconds(
    catalog: Catalog, metastore: Any, namespace: str, table: str, pool: ClientPool, tmp_path: Path
) -> None:
    """Two servers on one metastore; clients of the first go on all the time."""
    waits, done = [], threading.Event()
    acknowledged: list[str] = []

    def post(uri: str, key: str) -> int:
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: "yes"}}]}
        status = httpx.post(f"{uri}/v1/namespaces/{namespace}/tables/t", json=body, timeout=LIMIT).status_code
        if status == httpx.codes.OK:
            acknowledged.append(key)
        return status

    def commit_until_done(uri: str) -> None:
        for number in itertools.count():
            if done.is_set():
                return
            post(uri, f"busy-{number}")

    where = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--port", "0", "--no-auth"]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "serve.log").open("w"))
        first, first_started = stack.enter_context(running("serve", *where, stderr=log))
        _, second_started = stack.enter_context(running("serve", *where, stderr=log))
        background = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(done.set)
        client = background.submit(commit_until_done, str(first_started["uri"]))
        until(lambda: len(acknowledged) > 1, "the first server commits")

        def stopped_with_the_lock() -> bool:
            first.send_signal(signal.SIGSTOP)
            if any(entry.acquired and entry.agent_info.endswith("/cas-15") for entry in lock_entries(pool, table)):
                return True
            first.send_signal(signal.SIGCONT)
            return False

        for number in range(TIMES):
            until(stopped_with_the_lock, "the first server stops with the lock")
            started = time.monotonic()
            assert post(str(second_started["uri"]), f"next-{number}") == httpx.codes.OK
            waits.append(time.monotonic() - started)
            first.send_signal(signal.SIGCONT)
            before = len(acknowledged)
            until(lambda before=before: len(acknowledged) > before, "the first server commits again")
        done.set()
        client.result(LIMIT)
    print_waits("stopped REST servers", waits)
    assert max(waits) < SECONDS
    assert set(acknowledged) <= committed(catalog, table)
