"""Which appends are known to be blind."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.clients.blind_append import (
    ISOLATION_LEVELS,
    REBASE_APPENDS,
    RebasePolicy,
    default_policy,
    policy_for,
    why_not_blind,
)
from tests.changes.clients.test_known_senders import SPARK as KEYS_OF_SPARK
from tests.changes.clients.test_known_senders import TRINO as KEYS_OF_TRINO
from tests.changes.tables import SNAPSHOT_ISOLATION, table

METRICS = {"operation": "append", "added-data-files": "1", "total-records": "10", "manifests-kept": "3"}
SPARK = {**METRICS, **KEYS_OF_SPARK}
JAVA = {**METRICS, "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123abc)"}
#: A Trino of versions whose source nobody has checked.
TRINO = {**METRICS, **KEYS_OF_TRINO, "engine-version": "9000"}


def test_a_known_sender_s_append_is_blind_unless_a_key_may_mean_an_assumption() -> None:
    assert why_not_blind(table(), {**METRICS, **KEYS_OF_TRINO}) is None
    assert why_not_blind(table(), {**METRICS, **KEYS_OF_TRINO, "something-new": "1"}) is not None


@pytest.mark.parametrize("summary", [METRICS, JAVA, SPARK, TRINO, {**METRICS, "iceberg-hms.idempotency-key": "job-1"}])
def test_an_unknown_sender_may_have_read_the_table(summary: dict[str, str]) -> None:
    """A bare summary is PyIceberg's: of an append, and of an overwrite whose delete matched nothing."""
    reason = why_not_blind(table(), summary)
    assert reason is not None
    assert f"{REBASE_APPENDS}=all on the table or its namespace" in reason
    assert "rebase-appends=all on the server" in reason
    assert "can both insert the same rows" in reason, "what it gives up"
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
def test_an_error_names_a_summary_key_that_may_mean_an_assumption(key: str) -> None:
    for properties in ({}, SNAPSHOT_ISOLATION):
        reason = why_not_blind(table(properties=properties), {**SPARK, key: "1"})
        assert reason is not None
        assert key in reason
        assert "isolation-level" not in reason, "they would not help"


@pytest.mark.parametrize("summary", [METRICS, JAVA, SPARK, TRINO])
def test_an_append_is_blind_if_all_isolation_levels_are_snapshot(summary: dict[str, str]) -> None:
    levels = SNAPSHOT_ISOLATION
    assert why_not_blind(table(properties=levels), summary) is None
    for level in ISOLATION_LEVELS:
        for weaker in ({**levels, level: "serializable"}, {key: levels[key] for key in levels if key != level}):
            assert why_not_blind(table(properties=weaker), summary) is not None


@pytest.mark.parametrize(
    ("text", "found"), [("plain", "plain"), (" ALL ", "all"), ("none", "none"), ("yes", "none"), ("", "none")]
)
def test_the_table_s_property_decides_and_an_unknown_value_permits_nothing(text: str, found: str) -> None:
    def asked() -> RebasePolicy:
        raise AssertionError("the table has a word of its own")

    word = policy_for(table(properties={REBASE_APPENDS: text}), asked)
    assert (word.mode, word.stated_by) == (found, f"the table says {REBASE_APPENDS}={text}")


def test_a_table_without_the_property_uses_the_default_policy() -> None:
    others = RebasePolicy("all", "the server says so")
    assert policy_for(table(), lambda: others) is others
    assert policy_for(table(), default_policy).mode == "plain"
