"""What table properties may be, and what a value means that another writer set."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata import table_properties as known

GOOD = {
    "commit.manifest-merge.enabled": ("true", "FALSE"),
    "commit.manifest.min-count-to-merge": ("1", "+7", "2147483647"),
    "commit.manifest.target-size-bytes": ("1", "9223372036854775807"),
    "commit.retry.num-retries": ("0", "4"),
    "history.expire.max-snapshot-age-ms": ("-1", "432000000"),
    "gc.enabled": ("true", "False"),
    "write.metadata.previous-versions-max": ("0", "100"),
    "write.metadata.compression-codec": ("gzip", "NONE"),
    "write.metadata.metrics.default": ("none", "Counts", "full", "truncate(16)", "truncate(010)"),
    "write.metadata.metrics.column.a": ("none", "truncate(7)"),
    "schema.name-mapping.default": ("[]", '[{"field-id": 1, "names": ["a"]}]'),
    "iceberg-hms.lock": ("hms", "zookeeper"),
    "engine.hive.lock-enabled": ("TRUE", "false"),
    "iceberg-hms.rebase-appends": ("plain", "all", "none"),
    "anything.else": ("", "x"),
}
BAD = {
    "commit.manifest-merge.enabled": ("yes", "", " true"),
    "commit.manifest.min-count-to-merge": ("x", "", "0", "-1", "1.5", " 5", "1_000", "٣", "2147483648", "9" * 5_000),
    "commit.manifest.target-size-bytes": ("8MB", "9223372036854775808"),
    "commit.retry.num-retries": ("-1", "many"),
    "history.expire.min-snapshots-to-keep": ("five",),
    "gc.enabled": ("no",),
    "write.metadata.previous-versions-max": ("-1", "lots"),
    "write.metadata.compression-codec": ("zip",),
    "write.metadata.metrics.default": ("everything", "truncate(-1)", "truncate(0)", "truncate(00)", ""),
    "write.metadata.metrics.column.a": ("some",),
    "schema.name-mapping.default": ("no json", "{}", '[{"names": "a"}]'),
    "iceberg-hms.lock": ("ZooKeeper", "none"),
    "iceberg-hms.rebase-appends": ("ALL",),
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_what_a_property_may_be_is_accepted(name: str, text: str) -> None:
    known.check({name: text})


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_a_property_may_not_be_is_refused_by_name_and_the_next_step_is_said(name: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"Table property {name} ") as refused:
        known.check({"a": "b", name: text})
    assert len(refused.value.message) < 300
    if not name.startswith("write.metadata.metrics.column."):
        assert refused.value.next_step


def test_a_table_without_the_property_has_the_default() -> None:
    assert known.MANIFEST_MIN_COUNT.of({}) == known.MANIFEST_MIN_COUNT.require({}) == 100
    assert known.MANIFEST_MIN_COUNT.of({"commit.manifest.min-count-to-merge": "7"}) == 7


def test_a_value_that_means_nothing_is_the_default_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"commit.manifest.min-count-to-merge": "x"}
    assert known.MANIFEST_MIN_COUNT.of(properties) == 100
    assert "must be a whole number from 1 to 2147483647, but is 'x'; using the default, 100" in caplog.text
    with pytest.raises(InvalidInput) as refused:
        known.MANIFEST_MIN_COUNT.require(properties)
    assert refused.value.next_step == "set another value; without the property, 100 holds"


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("no", False), ("", False)]
)
def test_a_flag_is_true_only_where_it_says_so(text: str, value: bool) -> None:
    """Java: Boolean.parseBoolean."""
    assert known.is_true(known.GC_ENABLED, {"gc.enabled": text}) is value
    assert known.is_true(known.GC_ENABLED, {})
    assert not known.is_true(known.DELETE_AFTER_COMMIT, {})
