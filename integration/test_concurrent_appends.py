"""Many writers on one table: every acknowledged file is there once, and history is one chain."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

import iceberg_hms
from iceberg_hms.rest.server import Server
from integration import interop

WRITERS = 8
APPENDS = 20
TOKEN = "a-token-for-tests-alone"
ROOT = Path(__file__).parent.parent
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: Any, namespace: str) -> str:
    """An empty table of our making."""
    name = f"{namespace}.many_writers"
    catalog.create_table(name, SCHEMA)
    return name


@contextmanager
def appenders(metastore: Any, table: str, folder: Path, writers: int) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Writer processes that are ready to start. The function that is given starts all and returns what each append
    came to."""
    with ExitStack() as stack:
        processes = []
        for writer in range(writers):
            arguments = [metastore.uri, metastore.warehouse, table, str(folder), str(writer), str(APPENDS)]
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "integration.appender", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

        def run() -> list[dict[str, Any]]:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            with ThreadPoolExecutor(writers) as pool:
                outputs = list(pool.map(lambda process: process.communicate(timeout=240)[0], processes))
            assert [process.returncode for process in processes] == [0] * writers
            return [json.loads(line) for output in outputs for line in output.splitlines()]

        yield run


def java_appends(spark: Any, catalogs: list[Any], table: str, folder: Path) -> list[tuple[str, str | None]]:
    """Each catalog on a thread of its own appends files by newFastAppend. Returns (path, error or None) of each."""
    start = Barrier(len(catalogs))

    def write(writer: int) -> list[tuple[str, str | None]]:
        loaded = catalogs[writer].loadTable(interop.java_identifier(spark, table))
        start.wait(60)
        outcomes: list[tuple[str, str | None]] = []
        for number in range(APPENDS):
            path = interop.small_parquet(folder / f"java-{writer}-{number}.parquet", [writer * 1000 + number])
            data_file = interop.java_data_file(spark, loaded, path)
            outcomes.append((f"file:{path}", _commit(loaded.newFastAppend().appendFile(data_file))))
        return outcomes

    with ThreadPoolExecutor(len(catalogs)) as pool:
        return [outcome for outcomes in pool.map(write, range(len(catalogs))) for outcome in outcomes]


def _commit(append: Any) -> str | None:
    from py4j.protocol import Py4JJavaError

    try:
        append.commit()
    except Py4JJavaError as error:
        return str(error.java_exception.toString())
    return None


def check_history(metastore: Any, table: str, acknowledged: list[str]) -> None:
    """Every acknowledged file is live exactly once, and each snapshot stands on the one before it."""
    live = Counter(interop.live_paths(metastore, table))
    assert set(live.values()) <= {1}
    assert set(acknowledged) <= set(live)
    snapshots = interop.chain(metastore, table)
    assert len(snapshots) == len(live)
    numbers = [snapshot.sequence_number for snapshot in snapshots]
    assert numbers == list(range(1, len(snapshots) + 1))
    assert int(snapshots[-1].summary["total-data-files"]) == len(live)


def test_eight_processes_of_the_python_api_lose_nothing_and_none_fails(
    metastore: Any, table: str, tmp_path: Path
) -> None:
    with appenders(metastore, table, tmp_path, WRITERS) as run:
        outcomes = run()
    assert [outcome for outcome in outcomes if outcome["error"]] == []
    assert len(outcomes) == WRITERS * APPENDS
    acknowledged = [outcome["path"] for outcome in outcomes]
    check_history(metastore, table, acknowledged)
    assert sorted(interop.live_paths(metastore, table)) == sorted(acknowledged)
    assert len(interop.pyiceberg_rows(metastore, table)) == WRITERS * APPENDS


def test_eight_stock_java_rest_clients_lose_nothing_that_was_acknowledged(
    spark: Any, metastore: Any, catalog: Any, table: str, tmp_path: Path
) -> None:
    with Server(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        catalogs = [
            interop.java_catalog(spark, interop.REST_CATALOG, f"rest-{number}", uri=server.uri, token=TOKEN)
            for number in range(WRITERS)
        ]
        outcomes = java_appends(spark, catalogs, table, tmp_path)
        for each in catalogs:
            each.close()
    acknowledged = [path for path, error in outcomes if error is None]
    assert acknowledged
    check_history(metastore, table, acknowledged)
    live = set(interop.live_paths(metastore, table))
    for path, error in outcomes:
        if error is not None:
            # The client may give up after its own bounded retries, but then nothing of it may be in the table.
            assert "CommitFailedException" in error
            assert path not in live


@pytest.mark.slow
def test_our_processes_beside_java_hive_catalogs_lose_nothing(
    spark: Any, metastore: Any, table: str, tmp_path: Path
) -> None:
    # Java's default is lock mode: it swaps blindly under the metastore's lock, so only the lock keeps us apart.
    catalogs = [
        interop.java_catalog(
            spark, interop.HIVE_CATALOG, f"hive-{number}", uri=metastore.uri, warehouse=metastore.warehouse
        )
        for number in range(WRITERS // 2)
    ]
    with appenders(metastore, table, tmp_path, WRITERS // 2) as run, ThreadPoolExecutor(1) as pool:
        java = pool.submit(java_appends, spark, catalogs, table, tmp_path)
        ours = run()
        outcomes = java.result(timeout=240)
    assert [outcome for outcome in ours if outcome["error"]] == []
    acknowledged = [outcome["path"] for outcome in ours] + [path for path, error in outcomes if error is None]
    assert len(acknowledged) > len(ours)
    check_history(metastore, table, acknowledged)
