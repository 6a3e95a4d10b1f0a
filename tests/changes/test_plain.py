"""Which appends are known to be plain."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.plain import ISOLATION_LEVELS, REBASE_APPENDS, mode, why_not_plain
from tests.changes.tables import table

METRICS = {"operation": "append", "added-data-files": "1", "total-records": "10", "manifests-kept": "3"}
SPARK = {
    **METRICS,
    "engine-name": "spark",
    "engine-version": "4.1.4",
    "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)",
    "app-id": "local-1",
    "app-name": "etl",
    "spark.app.id": "local-1",
}
JAVA = {**METRICS, "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)"}
PYICEBERG = "PyIceberg/0.12.0 0.14.1"


@pytest.mark.parametrize(
    ("summary", "client"),
    [
        (SPARK, ""),
        ({**SPARK, "engine-version": "4.2.0-SNAPSHOT", "iceberg-version": "Apache Iceberg 2.0.0"}, ""),
        (METRICS, PYICEBERG),
        ({**METRICS, "iceberg-hms.idempotency-key": "job-1"}, PYICEBERG),
        ({**METRICS, "trino_query_id": "q"}, PYICEBERG),
    ],
)
def test_known_senders_of_plain_appends(summary: dict[str, str], client: str) -> None:
    assert why_not_plain(table(), summary, client) is None


@pytest.mark.parametrize(
    "summary",
    [
        JAVA,
        METRICS,
        {**SPARK, "engine-version": "4.0.2"},
        {**SPARK, "engine-version": "3.5.6"},
        {**SPARK, "iceberg-version": "Apache Iceberg 1.10.1"},
        {**SPARK, "engine-version": "unknown"},
        {key: value for key, value in SPARK.items() if key != "iceberg-version"},
        {**SPARK, "engine-name": "flink"},
    ],
)
def test_an_unknown_sender_may_have_read_the_table(summary: dict[str, str]) -> None:
    reason = why_not_plain(table(), summary, "Apache-HttpClient/5.4")
    assert reason is not None
    assert f"{REBASE_APPENDS}=all" in reason


@pytest.mark.parametrize("client", ["PyIceberg/0.11.4 0.14.1", "PyIceberg/x", "pyiceberg", "MyPyIceberg 9"])
def test_an_older_pyiceberg_tells_its_caller_of_a_conflict_and_must_hear_of_it(client: str) -> None:
    assert why_not_plain(table(), METRICS, client) is not None
    assert why_not_plain(table(), METRICS, "PyIceberg/1.0.0 0.14.1") is None


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
    for client in ("", PYICEBERG):
        reason = why_not_plain(table(), {**SPARK, key: "1"}, client)
        assert reason is not None
        assert key in reason


def test_where_all_isolation_is_snapshot_an_append_has_nothing_to_validate() -> None:
    levels = dict.fromkeys(ISOLATION_LEVELS, "snapshot")
    assert why_not_plain(table(properties=levels), JAVA, "") is None
    assert why_not_plain(table(properties=levels), {**JAVA, "flink.job-id": "1"}, "") is not None
    for level in ISOLATION_LEVELS:
        for weaker in ({**levels, level: "serializable"}, {key: levels[key] for key in levels if key != level}):
            assert why_not_plain(table(properties=weaker), JAVA, "") is not None


@pytest.mark.parametrize(
    ("word", "found"),
    [(None, "plain"), ("plain", "plain"), (" ALL ", "all"), ("none", "none"), ("yes", "none"), ("", "none")],
)
def test_a_word_that_is_not_known_permits_nothing(word: str | None, found: str) -> None:
    assert mode(table(properties={} if word is None else {REBASE_APPENDS: word})) == found
