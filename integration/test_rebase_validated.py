"""Appends that only their client can validate, by clients that look like others which validate nothing: if another
commit lands first, the server answers with a conflict, and the client decides."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import EqualTo

from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.rest_clients import TOKEN, BeforeCommits, Together
from integration.rest_clients import catalog as catalog

DAYS = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string())])


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_of_two_overwrites_of_one_empty_day_by_pyiceberg_one_lands(
    catalog: Any, namespace: str, metastore: Any
) -> None:
    """Each sends one `append`, with the headers and the summary of a blind one, and validates after a conflict."""
    catalog.create_table(f"{namespace}.t", DAYS)
    rows = pa.table({"id": [1, 2, 3], "day": ["d1"] * 3}, schema=DAYS)
    together = Together(catalog, Barrier(2))
    with RestServer(together, host="127.0.0.1", port=0, token=TOKEN) as server:

        def overwrite(name: str) -> type[Exception] | None:
            table = load_catalog(name, type="rest", uri=server.uri, token=TOKEN).load_table(f"{namespace}.t")
            try:
                table.overwrite(rows, EqualTo("day", "d1"))
            except ValidationException as error:
                return type(error)
            return None

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(overwrite, ("a", "b")))
    assert together.gate is None, "they did not meet"
    assert sorted(map(str, outcomes)) == sorted(map(str, (None, ValidationException)))
    assert [row["id"] for row in interop.pyiceberg_rows(metastore, f"{namespace}.t")] == [1, 2, 3]


def test_a_java_program_in_the_driver_of_spark_has_the_keys_of_spark_and_is_not_taken_for_it(
    spark: Any, catalog: Any, namespace: str, tmp_path: Path
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={"commit.retry.num-retries": "0"})
    others: list[str] = []

    def overtake() -> None:
        others.append(f"file:{interop.small_parquet(tmp_path / f'other-{len(others)}.parquet', [len(others)])}")
        catalog.load_table(table).append(others[-1:])

    with RestServer(BeforeCommits(catalog, overtake), host="127.0.0.1", port=0, token=TOKEN) as server:
        # What a session of Spark does first; from then on every commit of this JVM says that Spark made it.
        place = interop.add_spark_catalog(spark, "driver", type="rest", uri=server.uri, token=TOKEN)
        spark.sql(f"SHOW TABLES IN {place}.{namespace}").collect()
        java = interop.java_catalog(spark, interop.REST_CATALOG, "in-driver", uri=server.uri, token=TOKEN)
        loaded = java.loadTable(interop.java_identifier(spark, table))
        file = interop.java_data_file(spark, loaded, interop.small_parquet(tmp_path / "mine.parquet", [1]))
        change = loaded.newRowDelta().addRows(file).validateNoConflictingDataFiles()
        said = spark._jvm.org.apache.iceberg.EnvironmentContext.get()
        assert (said["engine-name"], said["engine-version"]) == ("spark", spark.version)
        error = interop.java_error(change.commit)
        java.close()
    assert len(others) == 1
    assert error is not None
    assert "CommitFailedException" in error
    assert "iceberg-hms.rebase-appends=all" in error, "the message says what can be set"


def test_an_overwrite_of_nothing_by_spark_that_validates_is_not_taken_for_an_insert(
    spark: Any, catalog: Any, namespace: str, tmp_path: Path
) -> None:
    """A compare-and-append: its filter is false, so that it sends what INSERT sends, and it asks for validation."""
    from pyspark.sql.functions import lit

    table = f"{namespace}.t"
    first = catalog.create_table(table, SCHEMA).append([small(tmp_path, "first")])
    others: list[str] = []

    def overtake() -> None:
        if not others:
            others.append(small(tmp_path, "other"))
            catalog.load_table(table).append(others)

    with RestServer(BeforeCommits(catalog, overtake), host="127.0.0.1", port=0, token=TOKEN) as server:
        place = interop.add_spark_catalog(spark, "nothing", type="rest", uri=server.uri, token=TOKEN)
        write = spark.sql("SELECT 1L AS id, 'a' AS name").writeTo(f"{place}.{table}")
        write = write.option("isolation-level", "serializable")
        write = write.option("validate-from-snapshot-id", str(first.snapshot_ids[-1]))
        error = interop.java_error(lambda: write.overwrite(lit(False)))
    assert error is not None
    assert "ValidationException" in error
    assert len(catalog.load(table).metadata.snapshots) == 2


def small(folder: Path, name: str) -> str:
    return f"file:{interop.small_parquet(folder / f'{name}.parquet', [9])}"
