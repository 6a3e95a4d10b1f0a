"""Writers of every kind on one table of one metastore: no commit that was acknowledged is lost.

PyIceberg's Hive catalog and Java's HiveCatalog take the metastore's lock and swap blindly under it, so beside them the
lock is what counts. Java without locks compares and swaps, so beside it the expected value counts. iceberg-hms always
does both.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.rest.server import RestServer
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE, delay
from iceberg_hms.testing.history import HistoryReport, HistoryRule, check_table
from integration import interop
from integration.concurrent_writers import AppendResult, ConcurrentWriters, summary
from integration.faults import ALTER, LIMIT, SCHEMA, in_background
from integration.rest_clients import catalog as catalog

logger = logging.getLogger(__name__)

#: Appends of each writer, in the short form and in the long one: MIXED_APPENDS=100 makes it longer.
SHORT = 3
LONG = int(os.environ.get("MIXED_APPENDS") or "30")
#: While a writer of PyIceberg sleeps between its looks at the lock, nobody behind it gets the lock: up to 14 s a time.
SECONDS_EACH = 15
#: How late the swaps of writers come that do not compare.
BLIND_SECONDS = 0.2

sizes = pytest.mark.parametrize(
    "appends", [SHORT, pytest.param(LONG, marks=[pytest.mark.slow, pytest.mark.timeout(120 + 2 * LONG * SECONDS_EACH)])]
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make_table(catalog: Any, name: str, **properties: str) -> str:
    # PyIceberg would set the mapping with its first added file, and leave all others with a new schema of properties.
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
    catalog.create_table(name, SCHEMA, properties={"schema.name-mapping.default": mapping, **properties})
    return name


def java_catalog(stack: ExitStack, spark: Any, implementation: str, **properties: str) -> Any:
    catalog = interop.java_catalog(spark, implementation, "mixed-writers", **properties)
    stack.callback(catalog.close)
    return catalog


def check_history(catalog: Any, table: str, results: Sequence[AppendResult]) -> HistoryReport:
    """Check the whole history against the results of all writers. An append with an unknown result may be in it."""
    logger.info("%s", summary(results))
    acknowledged = [item for each in results if each.acknowledged for item in each.items]
    refused = [item for each in results if each.refused for item in each.items]
    report = check_table(catalog, table, acknowledged=acknowledged, refused=refused)
    report.raise_if_broken()
    assert set(report.data_files) <= {each.path for each in results}
    return report


@sizes
def test_writers_of_all_kinds_on_one_table_lose_nothing(
    metastore: Any, spark: Any, catalog: Any, namespace: str, stack: ExitStack, tmp_path: Path, appends: int
) -> None:
    """
    three processes of the library, two stock REST clients of our server (PyIceberg's, Java's), Java's HiveCatalog in
    its default mode and PyIceberg's Hive catalog load an empty table
    all start: each appends file after file, with its own retries; the blind swaps of Java's and PyIceberg's Hive
    catalogs arrive late, so that they have time to overwrite other commits
    the test counts the appends of writers that give up; these are not in the table

    Every acknowledged append is in the table once: ours by lock and expected value, theirs because we wait for the lock
    that they hold. No reaper runs on this server, so no writer loses its lock to another one, and the foreign writers
    do not overwrite each other either. No process of the library gives up.
    """
    table = make_table(catalog, f"{namespace}.t")
    server = stack.enter_context(RestServer(catalog, "127.0.0.1", 0, None))
    theirs = stack.enter_context(FaultProxy(metastore.uri))
    theirs.on(ALTER, delay(BLIND_SECONDS), times=None)
    where = {"uri": theirs.uri, "warehouse": metastore.warehouse}
    writers = ConcurrentWriters(stack, table, tmp_path / "data", appends=appends, seconds=120 + appends * SECONDS_EACH)
    for _ in range(3):
        writers.process("library", metastore.uri, metastore.warehouse)
    writers.process("pyiceberg-rest", server.uri, metastore.warehouse, client="rest")
    writers.process("pyiceberg-hive", **where, client="hive")
    writers.java("java-rest", spark, java_catalog(stack, spark, interop.REST_CATALOG, uri=server.uri))
    writers.java("java-hive", spark, java_catalog(stack, spark, interop.HIVE_CATALOG, **where))
    results = writers.run()
    report = check_history(catalog, table, results)
    assert [each for each in results if each.writer == "library" and not each.acknowledged] == []
    heard = {each.writer for each in results if each.acknowledged}
    assert heard & {"pyiceberg-rest", "java-rest"}
    assert heard & {"pyiceberg-hive", "java-hive"}
    assert theirs.count("lock") >= theirs.count("unlock") >= 2 * appends
    made = Counter(each.operation for each in catalog.load_table(table).snapshots())
    assert made["append"] == len(report.data_files)
    assert made.keys() <= {"append", "replace"}, "the server merges manifests"


@sizes
def test_beside_java_without_locks_nothing_is_lost_on_either_side(
    metastore: Any, spark: Any, catalog: Any, namespace: str, stack: ExitStack, tmp_path: Path, appends: int
) -> None:
    """
    a table with engine.hive.lock-enabled=false
    two processes of the library as it is, one with lock=none, and two of Java's HiveCatalog load it
    all start: Java and lock=none take no lock, and swap by compare-and-swap alone

    Every acknowledged append is in the table once. A writer that loses too many conflicts may give up; its append is
    not in the table.
    """
    table = make_table(catalog, f"{namespace}.t", **{"engine.hive.lock-enabled": "false"})
    without, java = (stack.enter_context(FaultProxy(metastore.uri)) for _ in range(2))
    writers = ConcurrentWriters(stack, table, tmp_path / "data", appends=appends, seconds=120 + appends * SECONDS_EACH)
    for _ in range(2):
        writers.process("library", metastore.uri, metastore.warehouse)
    writers.process("library lock=none", without.uri, metastore.warehouse, ICEBERG_HMS_LOCK="none")
    for _ in range(2):
        other = java_catalog(stack, spark, interop.HIVE_CATALOG, uri=java.uri, warehouse=metastore.warehouse)
        writers.java("java-hive", spark, other)
    results = writers.run()
    report = check_history(catalog, table, results)
    assert {each.writer for each in results if each.acknowledged} == {"library", "library lock=none", "java-hive"}
    assert all(each.acknowledged or each.refused for each in results if each.writer != "java-hive")
    for proxy in (without, java):
        assert proxy.count("lock") == 0
        assert proxy.count(ALTER) >= appends
    assert report.snapshots == len(report.data_files)


class Delayed:
    """Writers of ours while a blind swap of PyIceberg, under the lock and on an older base, is held in a proxy."""

    def __init__(self, metastore: Any, table: str, stack: ExitStack, folder: Path, client: str) -> None:
        theirs = stack.enter_context(FaultProxy(metastore.uri))
        self.proxy = stack.enter_context(FaultProxy(metastore.uri))
        self._other = ConcurrentWriters(stack, table, folder / "theirs", appends=1)
        self._other.process("pyiceberg-hive", theirs.uri, metastore.warehouse, client="hive")
        self._ours_writers = ConcurrentWriters(stack, table, folder / "ours", appends=2)
        for _ in range(3):
            self._ours_writers.process(client, self.proxy.uri, metastore.warehouse, client=client)
        self._blind = theirs.on(ALTER, FREEZE)

    def start(self) -> None:
        """Returns when PyIceberg's swap is held, and ours have begun."""
        self._their_results = in_background(self._other.run)
        assert self._blind.held(LIMIT)
        self._ours = in_background(self._ours_writers.run)

    def ours(self) -> list[AppendResult]:
        results: list[AppendResult] = self._ours.result(LIMIT)
        assert all(each.acknowledged for each in results)
        return results

    def theirs(self) -> list[AppendResult]:
        self._blind.release()
        results: list[AppendResult] = self._their_results.result(LIMIT)
        assert all(each.acknowledged for each in results)
        return results


def test_a_blind_swap_that_is_late_overwrites_none_of_ours(
    metastore: Any, catalog: Any, namespace: str, stack: ExitStack, tmp_path: Path
) -> None:
    """
    P    PyIceberg takes the lock and reads the table; its blind swap is held
    A-C  three processes of the library append; all wait in the queue for the lock
    P    swaps, unlocks
    A-C  append on top of it
    """
    table = make_table(catalog, f"{namespace}.t")
    delayed = Delayed(metastore, table, stack, tmp_path, "library")
    delayed.start()
    assert delayed.proxy.wait_for("lock", 3, LIMIT)
    assert delayed.proxy.count(ALTER) == 0
    results = [*delayed.theirs(), *delayed.ours()]
    assert check_history(catalog, table, results).snapshots == len(results)


@pytest.mark.slow
def test_control_without_our_lock_the_late_blind_swap_overwrites_ours(
    metastore: Any, catalog: Any, namespace: str, stack: ExitStack, tmp_path: Path
) -> None:
    """
    P    PyIceberg takes the lock and reads the table; its blind swap is held
    A-C  the same three processes with their lock switched off: the metastore makes and acknowledges each append
    P    swaps over all of them

    Nothing else differs from the test above, and here the checker must find every append of ours lost. If it does not,
    this module proves nothing.
    """
    table = make_table(catalog, f"{namespace}.t")
    delayed = Delayed(metastore, table, stack, tmp_path, "unlocked")
    delayed.start()
    ours = delayed.ours()
    before = check_table(catalog, table, acknowledged=[item for each in ours for item in each.items])
    assert before.broken == frozenset()
    theirs = delayed.theirs()
    report = check_table(catalog, table, acknowledged=[item for each in [*ours, *theirs] for item in each.items])
    assert report.broken == {HistoryRule.LOST}
    assert list(report.data_files) == [each.path for each in theirs]
    lost = [str(item) for each in ours for item in each.items]
    assert len(report.findings) == len(lost) == 12
    assert all(any(item in finding.message for finding in report.findings) for item in lost)
