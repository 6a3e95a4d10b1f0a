"""Stock PyIceberg programs beside a metastore that is stopped and started: none of them fails within the wait.

PyIceberg's REST client sends nothing again after a 429 or a 503, and its programs end with the first error that is no
conflict. Half of the loaders load their table anew for each append, half keep it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

import iceberg_hms
from integration.command_line import running
from integration.rest_clients import ALL
from integration.test_metastore_restarts import Metastores
from tests.polling import eventually

logger = logging.getLogger(__name__)

#: Beside what a commit waits of its own accord: a restart takes up to twenty seconds on a busy machine.
WAIT_MS = 90_000
TABLES = 4

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


@pytest.fixture
def metastores(tmp_path: Path) -> Iterator[Metastores]:
    with ExitStack() as stack:
        found = Metastores(tmp_path / "hms")
        stack.callback(found.stop)
        found.start()
        with iceberg_hms.connect(metastore_uri=found.uri, warehouse=found.warehouse) as catalog:
            catalog.create_namespace("db")
            for number in range(TABLES):
                catalog.create_table(f"db.t{number}", pa.schema([("n", pa.int64())]), properties=ALL)
        yield found


def run_loaders(loaders: int, connected: Callable[[], Catalog], metastores: Metastores, how: str) -> None:
    """Run loaders until the metastore was stopped and started twice. Each appended row is there once."""
    over = threading.Event()
    appended: list[list[int]] = [[] for _ in range(loaders)]
    failures: list[BaseException] = []
    slowest = [0.0] * loaders

    def load(number: int) -> None:
        try:
            catalog = connected()
            table = catalog.load_table(f"db.t{number % TABLES}")
            while not over.is_set():
                row = 1_000_000 * number + len(appended[number])
                began = time.monotonic()
                if number % 2:
                    table = catalog.load_table(f"db.t{number % TABLES}")
                table.append(pa.table({"n": [row]}))
                slowest[number] = max(slowest[number], time.monotonic() - began)
                appended[number].append(row)
        except BaseException as error:
            logger.exception("loader %d failed", number)
            failures.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(loaders)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            wait_for_appends(appended, failures, more=2)
            began = time.monotonic()
            getattr(metastores, how)()
            metastores.start()
            logger.info("the metastore was away for %.1f s", time.monotonic() - began)
        wait_for_appends(appended, failures, more=2)
    finally:
        over.set()
        for thread in threads:
            thread.join(120)
    logger.info("appends %s, the slowest %.1f s", sum(map(len, appended)), max(slowest))
    assert failures == []
    catalog = connected()
    found = [catalog.load_table(f"db.t{number}").scan().to_arrow()["n"].to_pylist() for number in range(TABLES)]
    assert sorted(row for rows in found for row in rows) == sorted(row for rows in appended for row in rows)


def wait_for_appends(appended: Sequence[Sequence[int]], failures: Sequence[BaseException], more: int) -> None:
    """Until each loader has made so many more, or one has failed."""
    wanted = [len(rows) + more for rows in appended]

    def is_over() -> bool:
        return bool(failures) or all(len(rows) >= count for rows, count in zip(appended, wanted, strict=True))

    assert eventually(is_over, 120), "the loaders made no progress"
    assert not failures


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_no_loader_over_rest_fails_beside_a_metastore_that_restarts(metastores: Metastores, how: str) -> None:
    """
    20 loaders append to 4 tables over REST
    the metastore is stopped, or killed, and started again, twice
    no loader fails, and each row is there once
    """
    where = ["--metastore-uri", metastores.uri, "--warehouse", metastores.warehouse, "--port", "0", "--no-auth"]
    with running("serve", *where, "--set", f"rest.commit-wait-ms={WAIT_MS}") as (_, event):

        def connected() -> Catalog:
            return load_catalog("served", type="rest", uri=event["uri"])

        run_loaders(20, connected, metastores, how)


def test_no_loader_in_process_fails_beside_a_metastore_that_restarts(metastores: Metastores) -> None:
    """
    4 loaders append to 4 tables through PyIceberg's interface in process
    the metastore is killed and started again, twice
    no loader fails, and each row is there once
    """
    catalogs: list[Any] = []

    def connected() -> Catalog:
        implementation = {"py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog"}
        catalogs.append(load_catalog("lake", **implementation, uri=metastores.uri, warehouse=metastores.warehouse))
        return catalogs[-1]

    try:
        run_loaders(4, connected, metastores, "kill")
    finally:
        for catalog in catalogs:
            catalog.close()
