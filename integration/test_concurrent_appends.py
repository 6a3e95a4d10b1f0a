"""Many writers on one table: every acknowledged file is there once, and history is one chain."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from integration import interop
from integration.concurrent_writers import ConcurrentWriters, processes_lose_nothing
from integration.faults import SCHEMA
from integration.interop import check_history
from integration.rest_clients import catalog as catalog
from integration.rest_clients import java as java
from integration.rest_clients import server as server

WRITERS = 8
APPENDS = 20


@pytest.fixture
def table(catalog: Any, namespace: str) -> str:
    """An empty table of our making."""
    name = f"{namespace}.many_writers"
    catalog.create_table(name, SCHEMA)
    return name


def test_eight_processes_of_the_python_api_lose_nothing_and_none_fails(
    metastore: Any, catalog: Any, table: str, tmp_path: Path
) -> None:
    paths = processes_lose_nothing(metastore, catalog, table, tmp_path, processes=WRITERS, appends=APPENDS)
    check_history(metastore, table, paths, single_files=True)
    assert sorted(interop.live_paths(metastore, table)) == paths
    assert len(interop.pyiceberg_rows(metastore, table)) == WRITERS * APPENDS


def test_of_processes_that_append_the_same_files_at_once_one_adds_each_and_the_others_are_refused(
    metastore: Any, catalog: Any, table: str, tmp_path: Path
) -> None:
    for number in range(APPENDS):
        interop.small_parquet(tmp_path / f"{number}.parquet", [number])
    with ExitStack() as stack:
        writers = ConcurrentWriters(stack, table, tmp_path, appends=APPENDS)
        for _ in range(3):
            writers.process("library", metastore.uri, metastore.warehouse, client="same")
        results = writers.run()
    assert len(results) == 3 * APPENDS
    for number in range(APPENDS):
        path = f"file:{tmp_path}/{number}.parquet"
        of_path = [each for each in results if each.path == path]
        (added,) = [each for each in of_path if each.acknowledged]
        for each in of_path:
            if each is not added:
                assert each.refused
                assert f"main has 1 of the files already: {path} (snapshot {added.snapshot_id})" in str(each.error)
    assert sorted(interop.live_paths(metastore, table)) == sorted({each.path for each in results})
    assert len(interop.pyiceberg_rows(metastore, table)) == APPENDS


def test_eight_stock_java_rest_clients_lose_nothing_that_was_acknowledged(
    spark: Any, metastore: Any, java: Any, table: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        writers = ConcurrentWriters(stack, table, tmp_path, appends=APPENDS)
        for each in java(WRITERS):
            writers.java("java-rest", spark, each)
        results = writers.run()
    acknowledged = [each.path for each in results if each.acknowledged]
    assert acknowledged
    check_history(metastore, table, acknowledged, single_files=True)
    live = set(interop.live_paths(metastore, table))
    for each in results:
        if not each.acknowledged:
            # The client may give up after its own bounded retries, but then nothing of it may be in the table.
            assert each.refused, each.error
            assert each.path not in live


@pytest.mark.slow
def test_our_processes_beside_java_hive_catalogs_lose_nothing(
    spark: Any, metastore: Any, table: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        writers = ConcurrentWriters(stack, table, tmp_path, appends=APPENDS)
        for number in range(WRITERS // 2):
            writers.process("library", metastore.uri, metastore.warehouse)
            # Java's default is lock mode: it swaps blindly under the metastore's lock, so only the lock keeps us apart.
            where = {"uri": metastore.uri, "warehouse": metastore.warehouse}
            writers.java(
                "java-hive", spark, interop.java_catalog(spark, interop.HIVE_CATALOG, f"hive-{number}", **where)
            )
        results = writers.run()
    ours = [each for each in results if each.writer == "library"]
    assert [each for each in ours if not each.acknowledged] == []
    acknowledged = [each.path for each in results if each.acknowledged]
    assert len(acknowledged) > len(ours)
    check_history(metastore, table, acknowledged, single_files=True)
