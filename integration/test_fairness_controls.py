"""The control of test_fairness.py: without the backoff setting a foreign writer starves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from integration import interop
from integration.faults import SCHEMA
from integration.interop import check_history
from integration.rest_clients import ALL
from integration.rest_clients import java as java
from integration.rest_clients import server as server
from integration.test_fairness import busy

APPENDERS = 3
#: With pauses at most a fifth of all appends may fail. The test stops when more have failed, or after TIMES.
STARVED = 5
TIMES = 20


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    """The catalog of `server`: it never pauses its commits for a foreign writer."""
    off = {"commit.foreign-writer-backoff.max-wait-ms": 0}
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, **off) as catalog:
        yield catalog


@pytest.mark.slow
def test_without_backoff_a_hive_catalog_writer_starves(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """Java's HiveCatalog in lock mode, at its default retries, beside busy REST writers whose server waits for
    nobody."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=ALL)
    direct = interop.java_catalog(
        spark, interop.HIVE_CATALOG, "direct", uri=metastore.uri, warehouse=metastore.warehouse
    )
    loaded = direct.loadTable(interop.java_identifier(spark, table))
    landed, failed = list[str](), list[str]()
    with busy(spark, java(APPENDERS), table, tmp_path) as acknowledged:
        while len(failed) < STARVED and len(landed) + len(failed) < TIMES:
            number = len(landed) + len(failed)
            path = interop.small_parquet(tmp_path / f"direct-{number}.parquet", [number])
            append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, path))
            error = interop.java_error(append.commit)
            (failed if error else landed).append(error or f"file:{path}")
    direct.close()
    assert len(failed) == STARVED, landed
    check_history(metastore, table, [*acknowledged, *landed])
