"""Which appends are known to be plain."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.plain import ISOLATION_LEVELS, REBASE_APPENDS, mode, why_not_plain
from tests.changes.tables import SNAPSHOT_ISOLATION, table
from tests.changes.test_known_senders import SPARK as KEYS_OF_SPARK

METRICS = {"operation": "append", "added-data-files": "1", "total-records": "10", "manifests-kept": "3"}
SPARK = {**METRICS, **KEYS_OF_SPARK}
JAVA = {**METRICS, "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)"}
TRINO = {**METRICS, "trino_query_id": "20261122_030500_00001_abcde", "trino_user": "etl"}


@pytest.mark.parametrize("summary", [METRICS, JAVA, SPARK, {**METRICS, "iceberg-hms.idempotency-key": "job-1"}])
def test_an_unknown_sender_may_have_read_the_table(summary: dict[str, str]) -> None:
    """A bare summary is PyIceberg's: of an append, and of an overwrite whose delete matched nothing."""
    reason = why_not_plain(table(), summary)
    assert reason is not None
    assert f"{REBASE_APPENDS}=all" in reason
    assert all(level in reason for level in ISOLATION_LEVELS)


@pytest.mark.parametrize(
    "key",
    [
        "spark.merge-into.num-target-rows-inserted",
        "source-snapshot-id",
        "published-wap-id",
        "wap.id",
        "replace-partitions",
        "flink.job-id",
        "flink.max-committed-checkpoint-id",
        "kafka.connect.offsets",
        "something-new",
    ],
)
def test_a_key_that_may_mean_something_is_named(key: str) -> None:
    for properties in ({}, SNAPSHOT_ISOLATION):
        reason = why_not_plain(table(properties=properties), {**SPARK, key: "1"})
        assert reason is not None
        assert key in reason
        assert "isolation-level" not in reason, "they would not help"


@pytest.mark.parametrize("summary", [METRICS, JAVA, SPARK, TRINO])
def test_where_all_isolation_is_snapshot_an_append_has_nothing_to_validate(summary: dict[str, str]) -> None:
    levels = SNAPSHOT_ISOLATION
    assert why_not_plain(table(properties=levels), summary) is None
    for level in ISOLATION_LEVELS:
        for weaker in ({**levels, level: "serializable"}, {key: levels[key] for key in levels if key != level}):
            assert why_not_plain(table(properties=weaker), summary) is not None


@pytest.mark.parametrize(
    ("word", "found"),
    [(None, "plain"), ("plain", "plain"), (" ALL ", "all"), ("none", "none"), ("yes", "none"), ("", "none")],
)
def test_a_word_that_is_not_known_permits_nothing(word: str | None, found: str) -> None:
    assert mode(table(properties={} if word is None else {REBASE_APPENDS: word})) == found
