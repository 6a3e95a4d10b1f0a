"""Spark's MERGE and other appends that only their client can validate: the server does not take them for blind ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.rest_clients import ALL, SNAPSHOT_ISOLATION, TOKEN, BeforeCommits, Together
from integration.rest_clients import catalog as catalog

MERGE = """
    MERGE INTO {table} t USING (SELECT 1L AS id, '{name}' AS name) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET t.name = s.name
    WHEN NOT MATCHED THEN INSERT *
"""


def both(statements: list[Callable[[], Any]]) -> list[str | None]:
    """Run statements at the same time; returns what each threw, or None."""

    def run(statement: Callable[[], Any]) -> str | None:
        try:
            statement()
        except Exception as error:  # noqa: BLE001 - the error is the result
            return str(error)
        return None

    with ThreadPoolExecutor(len(statements)) as pool:
        return list(pool.map(run, statements))


@pytest.fixture
def merged(spark: Any, catalog: Any, namespace: str) -> Any:
    """Runs two MERGEs of one new key on a new table, both made on the same snapshot. Returns their errors and the
    rows."""

    def run(name: str, properties: dict[str, str]) -> tuple[list[str | None], list[Any]]:
        together = Together(catalog)
        with RestServer(together, host="127.0.0.1", port=0, token=TOKEN) as server:
            place = interop.add_spark_catalog(spark, name, type="rest", uri=server.uri, token=TOKEN)
            catalog.create_table(f"{namespace}.t", SCHEMA, properties=properties)
            table = f"{place}.{namespace}.t"
            spark.sql(f"INSERT INTO {table} VALUES (7, 'old')")
            together.gate = Barrier(2)
            errors = both(
                [lambda each=each: spark.sql(MERGE.format(table=table, name=each)).collect() for each in ("a", "b")]
            )
            assert together.gate is None, "they did not meet"
            return errors, spark.sql(f"SELECT * FROM {table} WHERE id = 1").collect()

    return run


@pytest.mark.parametrize("mode", ["copy-on-write", pytest.param("merge-on-read", marks=pytest.mark.slow)])
def test_of_two_merges_of_one_new_key_exactly_one_lands(merged: Any, mode: str) -> None:
    errors, rows = merged(f"plain_{mode.replace('-', '_')}", {"write.merge.mode": mode})
    assert len(rows) == 1
    [refused] = [error for error in errors if error]
    assert "ValidationException" in refused or "CommitFailedException" in refused


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_where_the_operator_says_that_nobody_validates_both_land(merged: Any, mode: str) -> None:
    """The control: what `iceberg-hms.rebase-appends=all` means."""
    errors, rows = merged(f"all_{mode.replace('-', '_')}", {**ALL, "write.merge.mode": mode})
    assert errors == [None, None]
    assert sorted(row["name"] for row in rows) == ["a", "b"]


@pytest.mark.parametrize("key", [None, "flink.job-id", "wap.id"])
def test_an_append_that_says_more_than_metrics_is_refused_when_it_was_overtaken(
    spark: Any, catalog: Any, namespace: str, tmp_path: Path, key: str | None
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={**SNAPSHOT_ISOLATION, "commit.retry.num-retries": "0"})
    others: list[str] = []

    def overtake() -> None:
        others.append(f"file:{interop.small_parquet(tmp_path / f'other-{len(others)}.parquet', [len(others)])}")
        catalog.load_table(table).append(others[-1:])

    with RestServer(BeforeCommits(catalog, overtake), host="127.0.0.1", port=0, token=TOKEN) as server:
        java = interop.java_catalog(spark, interop.REST_CATALOG, "exactly-once", uri=server.uri, token=TOKEN)
        loaded = java.loadTable(interop.java_identifier(spark, table))
        path = interop.small_parquet(tmp_path / "a.parquet", [1])
        append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, path))
        interop.says(spark, append, {} if key is None else {key: "1"})
        error = interop.java_error(append.commit)
        java.close()
    assert len(others) == 1
    if key is None:
        assert error is None, "the control: without the key it is a blind append"
    else:
        assert error is not None
        assert "CommitFailedException" in error
        assert f"its summary has {key}" in error
