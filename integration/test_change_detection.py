"""Watchers of new snapshots on a real metastore, beside writers at work."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.watching.head_moves import ChangeKind
from iceberg_hms.catalog.watching.new_snapshots import NewSnapshots, TableChange
from iceberg_hms.errors import MetastoreUnavailable
from integration import interop
from integration.concurrent_writers import ROOT, ConcurrentWriters
from integration.faults import SCHEMA
from integration.moved_tables import check_filters
from integration.rest_clients import catalog as catalog
from integration.test_metastore_restarts import Metastores

#: Of each table: what appends to it. The last is PyIceberg's own Hive catalog.
CLIENTS = ("library", "library", "library", "hive")
APPENDS = 10
#: How many watchers are killed while the writers run, each after so many changes.
KILLS = 3
CHANGES = 9
#: What a watcher of these tests does: prints each change and then its token, a line each.
PROGRAM = """
import sys
import iceberg_hms
uri, warehouse, watch, token = sys.argv[1:]
with iceberg_hms.connect(uri, warehouse) as catalog:
    for change in catalog.new_snapshots(watch.split(), token=token, poll_seconds=0.1):
        snapshot = change.snapshot
        print(f"{change.table} {change.kind} {snapshot and snapshot.snapshot_id}", flush=True)
        print(change.token, flush=True)
"""


@contextmanager
def watching(metastore: Any, watch: str, token: str) -> Iterator[Iterator[tuple[str, str]]]:
    """The lines and tokens of a watcher in a process of its own, which is killed at the end."""
    command = [sys.executable, "-c", PROGRAM, metastore.uri, metastore.warehouse, watch, token]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        try:
            yield zip(process.stdout, process.stdout, strict=False)
        finally:
            process.kill()


def test_each_acknowledged_append_is_seen_once_by_watchers_that_are_killed(
    metastore: Any, catalog: Any, namespace: str, tmp_path: Path
) -> None:
    tables = [f"{namespace}.t{each}" for each in range(2)]
    for name in tables:
        catalog.create_table(name, SCHEMA)
    started = catalog.new_snapshots([namespace])
    assert list(started.poll()) == []
    token, seen = started.token, list[str]()
    with ExitStack() as stack, ThreadPoolExecutor(len(tables)) as pool:
        appending = []
        for number, name in enumerate(tables):
            writers = ConcurrentWriters(stack, name, tmp_path / str(number), appends=APPENDS)
            for client in CLIENTS:
                writers.process(client, metastore.uri, metastore.warehouse, client=client)
            appending.append(pool.submit(writers.run))
        for _ in range(KILLS):
            with watching(metastore, namespace, token) as lines:
                # It is killed in the middle, perhaps after it printed what the token does not have.
                for line, next_token in islice(lines, CHANGES):
                    seen.append(line.strip())
                    token = next_token.strip()
        results = [each.result() for each in appending]
    assert len(seen) == KILLS * CHANGES
    seen += [
        f"{each.table} {each.kind} {each.snapshot.snapshot_id}" for each in last_changes(catalog, namespace, token)
    ]
    for name, result in zip(tables, results, strict=True):
        table = catalog.load_table(name)
        line = [each.snapshot_id for each in reversed(table.ancestors())]
        assert [each for each in seen if each.startswith(f"{name} ")] == [f"{name} snapshot {each}" for each in line]
        acknowledged = {each.path for each in result if each.acknowledged}
        assert acknowledged
        appended = [each.path for each in table.changes().appended()]
        assert len(appended) == len(set(appended))
        assert acknowledged <= set(appended)


def last_changes(catalog: Any, namespace: str, token: str) -> list[TableChange]:
    watcher = catalog.new_snapshots([namespace], token=token)
    found = list(watcher.poll())
    assert list(watcher.poll()) == []
    return found


def test_a_watcher_outlives_a_metastore_that_is_killed_and_started_again(tmp_path: Path) -> None:
    metastores = Metastores(tmp_path / "hms")
    metastores.start()
    seen: queue.Queue[tuple[str, int]] = queue.Queue()

    def watch(watcher: NewSnapshots) -> None:
        for change in watcher:
            assert change.snapshot is not None
            seen.put((change.kind, change.snapshot.snapshot_id))

    with (
        iceberg_hms.connect(metastores.uri, metastores.warehouse) as catalog,
        catalog.new_snapshots(["nyc"], poll_seconds=0.2) as watcher,
    ):
        catalog.create_namespace("nyc")
        table = catalog.create_table("nyc.flights", SCHEMA)
        assert list(watcher.poll()) == []
        thread = threading.Thread(target=watch, args=[watcher])
        thread.start()
        try:
            for number in range(2):
                path = f"file:{interop.small_parquet(tmp_path / f'{number}.parquet', [number])}"
                [snapshot] = table.append([path]).snapshot_ids
                assert seen.get(timeout=60) == (ChangeKind.SNAPSHOT, snapshot)
                if number == 0:
                    metastores.kill()
                    with pytest.raises(MetastoreUnavailable):
                        list(catalog.new_snapshots(["nyc"], token=watcher.token).poll())
                    metastores.start()
        finally:
            watcher.stop()
            thread.join()
            metastores.kill()
    assert seen.empty()


def test_filters_find_the_tables_that_moved(metastore: Any, namespace: str, tmp_path: Path) -> None:
    check_filters(metastore, namespace, tmp_path)


def test_what_other_clients_do_to_tables_is_seen(metastore: Any, catalog: Any, namespace: str, tmp_path: Path) -> None:
    name = f"{namespace}.events"
    catalog.create_table(name, SCHEMA)
    watcher = catalog.new_snapshots([namespace])
    assert list(watcher.poll()) == []
    peer = interop.pyiceberg_catalog(metastore)
    table = peer.load_table(name)
    table.add_files([f"file:{interop.small_parquet(tmp_path / 'a.parquet', [1])}"])
    [change] = watcher.poll()
    assert (change.kind, change.snapshot.snapshot_id) == (ChangeKind.SNAPSHOT, table.current_snapshot().snapshot_id)
    [added] = catalog.load_table(name).changes(change.snapshot.parent_snapshot_id, change.snapshot.snapshot_id)
    assert (added.operation, added.path) == ("added", f"file:{tmp_path}/a.parquet")
    peer.rename_table(name, f"{namespace}.renamed")
    [change] = watcher.poll()
    assert (change.kind, str(change.previous_name)) == (ChangeKind.RENAMED, name)
    peer.drop_table(f"{namespace}.renamed")
    assert [each.kind for each in watcher.poll()] == [ChangeKind.DROPPED]
