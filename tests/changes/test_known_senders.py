"""Which engines' plain appends are known by their summaries; and that each row names a test that runs the engine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from iceberg_hms.changes.known_senders import KNOWN_SENDERS, KnownSender, is_known

ROOT = Path(__file__).parent.parent.parent

SPARK = {
    "operation": "append",
    "engine-name": "spark",
    "engine-version": "4.1.4",
    "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)",
    "app-id": "local-1",
    "app-name": "etl",
    "spark.app.id": "local-1",
}


@pytest.mark.parametrize(
    "summary",
    [SPARK, {**SPARK, "engine-version": "4.2.0-SNAPSHOT", "iceberg-version": "Apache Iceberg 2.0.0"}],
)
def test_an_insert_of_spark_is_known(summary: dict[str, str]) -> None:
    assert is_known(summary)


@pytest.mark.parametrize(
    "changes",
    [
        {"spark.app.id": None},
        {"spark.merge-into.num-target-rows-inserted": "1"},
        {"engine-version": "4.0.2"},
        {"engine-version": "3.5.6"},
        {"engine-version": "unknown"},
        {"iceberg-version": "Apache Iceberg 1.10.1"},
        {"iceberg-version": None},
        {"engine-name": "flink"},
        {"engine-name": None},
    ],
)
def test_what_lacks_a_mark_of_spark_s_insert_or_has_one_of_its_merge_is_not(changes: dict[str, str | None]) -> None:
    """Without spark.app.id it is a Java program in the driver of Spark, which has all other keys."""
    summary = {key: value for key, value in {**SPARK, **changes}.items() if value is not None}
    assert not is_known(summary)


@pytest.mark.parametrize("sender", KNOWN_SENDERS, ids=lambda sender: sender.engine)
def test_each_row_gives_its_reason_and_names_a_test_that_exists(sender: KnownSender) -> None:
    assert sender.why
    assert sender.source
    file, _, name = sender.test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
