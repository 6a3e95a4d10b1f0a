"""An engine's blind append is recognized by its summary; and each row names an existing test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from iceberg_hms.changes.clients.known_senders import KNOWN_SENDERS, KnownSender, is_known_sender

ROOT = Path(__file__).parent.parent.parent.parent

ENGINE = KnownSender(
    engine="engine",
    engine_versions=((4, 1), (4, 3)),
    iceberg_versions=((1, 9), (1, 9)),
    required_keys=("query-id",),
    why="",
    source="",
    test="",
)
SUMMARY = {
    "operation": "append",
    "engine-name": "engine",
    "engine-version": "4.1.4",
    "iceberg-version": "Apache Iceberg 1.9.1 (commit 0123abc)",
    "query-id": "q",
}
#: Spark 4.1 with Iceberg 1.11 sends this for an INSERT, and for an overwrite of `false` that validates.
SPARK = {
    "operation": "append",
    "engine-name": "spark",
    "engine-version": "4.1.4",
    "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)",
    "app-id": "local-1",
    "app-name": "etl",
    "spark.app.id": "local-1",
}


@pytest.mark.parametrize("version", ["4.1.4", "4.1", "4.3.9"])
def test_a_summary_with_all_required_values_is_known(version: str) -> None:
    assert is_known_sender({**SUMMARY, "engine-version": version}, [ENGINE])
    assert not is_known_sender({**SUMMARY, "engine-version": version}, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"query-id": None},
        {"engine-version": "4.0.9"},
        {"engine-version": "4.4.0"},
        {"engine-version": "4.2.0-SNAPSHOT"},
        {"engine-version": "4.2-e.1"},
        {"engine-version": "4"},
        {"engine-version": "5"},
        {"engine-version": "unknown"},
        {"engine-version": None},
        {"iceberg-version": "Apache Iceberg 1.8.1"},
        {"iceberg-version": "Apache Iceberg 1.10.0"},
        {"iceberg-version": "Apache Iceberg unknown"},
        {"iceberg-version": None},
        {"engine-name": "other"},
        {"engine-name": None},
    ],
)
def test_a_summary_that_lacks_one_required_value_is_not_known(changes: dict[str, str | None]) -> None:
    summary = {key: value for key, value in {**SUMMARY, **changes}.items() if value is not None}
    assert not is_known_sender(summary, [ENGINE])


def test_spark_is_not_known() -> None:
    assert not is_known_sender(SPARK)


TRINO = {
    "operation": "append",
    "trino_query_id": "20261122_030500_00001_abcde",
    "trino_user": "etl",
    "engine-name": "trino",
    "engine-version": "476",
    "iceberg-version": "Apache Iceberg 1.9.1 (commit f40208ae6fb2f33e578c2637d3dea1db18739f31)",
}


def test_trino_476_is_known_since_its_merges_are_not_appends() -> None:
    assert is_known_sender(TRINO)
    assert not is_known_sender({**TRINO, "engine-version": "477"})
    assert not is_known_sender({**TRINO, "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)"})
    for key in ("trino_query_id", "trino_user"):
        assert not is_known_sender({name: value for name, value in TRINO.items() if name != key}), (
            "that is its add_files"
        )


def test_each_row_gives_its_reason_and_names_a_test_that_exists() -> None:
    for sender in KNOWN_SENDERS:
        assert sender.why
        assert sender.source
        assert names_a_test(sender.test), f"{sender.test} is not there"


def names_a_test(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_row_that_names_no_existing_test_is_found() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert names_a_test(f"{here}::test_spark_is_not_known")
    assert not names_a_test(f"{here}::test_nothing")
    assert not names_a_test("tests/changes/nothing.py::test_nothing")
