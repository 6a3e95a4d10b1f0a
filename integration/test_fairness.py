"""A stock client's rewrites and deletes land beside busy appenders, although the server rebases only the appends; and
its appends that may not be rebased land beside a fast writer that is not behind the server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.interop import check_history
from integration.rest_clients import ALL, TOKEN
from integration.rest_clients import catalog as catalog
from integration.rest_clients import java as java
from integration.rest_clients import server as server
from tests.polling import eventually

APPENDERS = 4
TIMES = 8
NOT_REBASED = {"iceberg-hms.rebase-appends": "none"}


@contextmanager
def busy(spark: Any, catalogs: list[Any], table: str, folder: Path) -> Iterator[list[str]]:
    """Stock REST clients that append as fast as they can. Yields the paths that the server acknowledged so far."""
    ended, acknowledged, errors = threading.Event(), list[str](), list[str]()

    def write(writer: int) -> None:
        loaded = catalogs[writer].loadTable(interop.java_identifier(spark, table))
        number = 0
        while not ended.is_set():
            number += 1
            path = interop.small_parquet(folder / f"busy-{writer}-{number}.parquet", [number])
            append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, path))
            error = interop.java_error(append.commit)
            (errors if error else acknowledged).append(error or f"file:{path}")

    with ThreadPoolExecutor(len(catalogs)) as pool:
        futures = [pool.submit(write, writer) for writer in range(len(catalogs))]
        try:
            assert eventually(lambda: len(acknowledged) >= 2 * len(catalogs))
            yield acknowledged
        finally:
            ended.set()
        for future in futures:
            future.result(120)
    assert errors == []


def one_by_one(
    spark: Any, catalog: Any, catalogs: list[Any], table: str, folder: Path, operation: str
) -> tuple[list[str], list[str]]:
    """Rewrite or delete the table's first files, each in a commit of its own, beside busy appenders. Returns the errors
    and the files that must be in the table then."""
    catalog.create_table(table, SCHEMA, properties=ALL)
    own, *others = catalogs
    loaded = own.loadTable(interop.java_identifier(spark, table))
    old = []
    for number in range(TIMES):
        path = interop.small_parquet(folder / f"old-{number}.parquet", [number])
        old.append(interop.java_data_file(spark, loaded, path))
        loaded.newFastAppend().appendFile(old[-1]).commit()
    made: list[str] = []
    failed: list[str] = []
    with busy(spark, others, table, folder) as acknowledged:
        for number, data_file in enumerate(old):
            before = len(acknowledged)
            if operation == "delete":
                change = loaded.newDelete().deleteFile(data_file)
            else:
                path = interop.small_parquet(folder / f"new-{number}.parquet", [number])
                new = interop.java_data_file(spark, loaded, path)
                sets = spark._jvm.java.util.Collections
                change = loaded.newRewrite().rewriteFiles(sets.singleton(data_file), sets.singleton(new))
                made.append(f"file:{path}")
            error = interop.java_error(change.commit)
            if error:
                failed.append(error)
            assert eventually(lambda before=before: len(acknowledged) > before)
    return failed, [*acknowledged, *made]


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["rewrite", "delete"])
def test_rewrites_and_deletes_land_beside_busy_appenders(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path, operation: str
) -> None:
    table = f"{namespace}.t"
    failed, present = one_by_one(spark, catalog, java(1 + APPENDERS), table, tmp_path, operation)
    assert failed == []
    check_history(metastore, table, present)
    live = Counter(interop.live_paths(metastore, table))
    assert not {f"file:{tmp_path}/old-{number}.parquet" for number in range(TIMES)} & set(live)


@pytest.mark.slow
def test_without_retry_priority_deletes_starve(spark: Any, metastore: Any, namespace: str, tmp_path: Path) -> None:
    """The control: the same deletes, but the server holds no other commit back for them."""
    off = {"commit.retry-priority.max-wait-ms": 0}
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, **off) as catalog,
        RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
    ):
        catalogs = [
            interop.java_catalog(spark, interop.REST_CATALOG, f"off-{number}", uri=server.uri, token=TOKEN)
            for number in range(1 + APPENDERS)
        ]
        table = f"{namespace}.t"
        failed, present = one_by_one(spark, catalog, catalogs, table, tmp_path, "delete")
        for each in catalogs:
            each.close()
    assert len(failed) >= TIMES / 2
    check_history(metastore, table, present)


@pytest.mark.slow
def test_a_hive_catalog_writer_lands_beside_busy_rest_writers(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """Java's HiveCatalog in lock mode, at its default retries: the server pauses its own commits while Java waits."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=ALL)
    direct = interop.java_catalog(
        spark, interop.HIVE_CATALOG, "direct", uri=metastore.uri, warehouse=metastore.warehouse
    )
    loaded = direct.loadTable(interop.java_identifier(spark, table))
    landed, failed = list[str](), list[str]()
    with busy(spark, java(APPENDERS)[1:], table, tmp_path) as acknowledged:
        for number in range(10):
            path = interop.small_parquet(tmp_path / f"direct-{number}.parquet", [number])
            append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, path))
            error = interop.java_error(append.commit)
            (failed if error else landed).append(error or f"file:{path}")
    direct.close()
    assert len(landed) >= 8, failed
    check_history(metastore, table, [*acknowledged, *landed])


@contextmanager
def writing_outside(metastore: Any, table: str, folder: Path) -> Iterator[list[str]]:
    """A Python API that appends as fast as it can, with a coordinator of its own. Yields the paths that it landed."""
    ended, landed = threading.Event(), list[str]()
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as outside:
        loaded = outside.load_table(table)

        def write() -> None:
            while not ended.is_set():
                path = interop.small_parquet(folder / f"outside-{len(landed)}.parquet", [len(landed)])
                loaded.append([f"file:{path}"])
                landed.append(f"file:{path}")

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(write)
            try:
                assert eventually(lambda: len(landed) >= 2)
                yield landed
            finally:
                ended.set()
            future.result(120)


def beside_a_writer_outside(
    spark: Any, metastore: Any, catalogs: list[Any], table: str, folder: Path
) -> tuple[list[str], list[str]]:
    """Stock REST clients append TIMES files each, while another process appends all the time. Checks that the table has
    what was acknowledged. Returns the paths that landed, and the errors."""
    landed, failed = list[str](), list[str]()

    def write(writer: int) -> None:
        loaded = catalogs[writer].loadTable(interop.java_identifier(spark, table))
        for number in range(TIMES):
            path = interop.small_parquet(folder / f"client-{writer}-{number}.parquet", [number])
            append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, path))
            error = interop.java_error(append.commit)
            (failed if error else landed).append(error or f"file:{path}")

    with (
        writing_outside(metastore, table, folder) as theirs,
        ThreadPoolExecutor(len(catalogs)) as pool,
    ):
        for future in [pool.submit(write, writer) for writer in range(len(catalogs))]:
            future.result(300)
    check_history(metastore, table, [*landed, *theirs])
    return landed, failed


@pytest.mark.slow
def test_stock_clients_land_beside_a_fast_writer_that_is_not_behind_the_server(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """The server keeps the table's lock for a client that lost, until its commit is back."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=NOT_REBASED)
    kept: list[Any] = []
    catalog.subscribe(lambda event: kept.append(event) if event["event"] == "lock-kept" else None)
    landed, failed = beside_a_writer_outside(spark, metastore, java(3), table, tmp_path)
    # A loser or two before the server knows of the writer outside; a lock that is late on a busy machine.
    assert len(landed) >= 2 * TIMES, failed
    assert kept


@pytest.mark.slow
def test_without_a_kept_lock_they_starve_there(spark: Any, metastore: Any, namespace: str, tmp_path: Path) -> None:
    """The control: the same clients, but the server keeps no lock, since none has a short lease."""
    off = {"lock.short-lease-ms": 0}
    table = f"{namespace}.t"
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, **off) as catalog,
        RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
    ):
        catalog.create_table(table, SCHEMA, properties=NOT_REBASED)
        catalogs = [
            interop.java_catalog(spark, interop.REST_CATALOG, f"starved-{number}", uri=server.uri, token=TOKEN)
            for number in range(3)
        ]
        landed, failed = beside_a_writer_outside(spark, metastore, catalogs, table, tmp_path)
        for each in catalogs:
            each.close()
    assert len(failed) > len(landed)
