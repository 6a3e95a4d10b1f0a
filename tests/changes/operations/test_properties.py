"""Setting and removing properties, the location, and upgrades of the format version."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.properties import ChangeProperties, SetLocation, UpgradeFormatVersion
from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from iceberg_hms.format.updates.table import RESERVED_PROPERTIES
from tests.changes.operations.columns import committed, evolve, wide_table
from tests.changes.tables import with_main

METRICS = "write.metadata.metrics.column."


def test_properties_are_set_and_removed_and_others_stay() -> None:
    base = wide_table(properties={"a": "1", "b": "2", "c": "3"})
    new = committed(base, ChangeProperties(base, {"a": "9", "d": "4"}, ["b", "none"]))
    assert new.properties == {"a": "9", "c": "3", "d": "4"}
    assert ChangeProperties(base, {}, ["none"]).updates(base) == []


def test_the_last_writer_decides() -> None:
    base = wide_table()
    first, second = ChangeProperties(base, {"a": "1", "b": "1"}), ChangeProperties(base, {"a": "2"})
    assert committed(committed(base, first), second).properties == {"a": "2", "b": "1"}


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"reserved table properties: {name}"):
        ChangeProperties(wide_table(), {name: "3"})
    with pytest.raises(InvalidInput, match=f"reserved table properties: {name}"):
        ChangeProperties(wide_table(), {}, [name])


@pytest.mark.parametrize(
    ("changed", "removed", "why"),
    [
        ({"a": 1}, (), "value of a property is text, found 1 for a"),
        ({"": "1"}, (), "name of a property is text"),
        ({1: "1"}, (), "name of a property is text"),
        ({}, (None,), "name of a property is text"),
        ({"a": "1"}, ("a",), "Cannot remove and update the same key: a"),
        ({"commit.retry.num-retries": "many"}, (), "commit.retry.num-retries must be a whole number from 0"),
        ({"write.metadata.compression-codec": "zip"}, (), "must be none or gzip"),
        ({"commit.manifest.min-count-to-merge": "x"}, (), "min-count-to-merge must be a whole number from 1"),
        ({METRICS + "none": "full"}, (), "could not find column none"),
    ],
)
def test_bad_properties_are_refused(changed: Any, removed: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        ChangeProperties(wide_table(), changed, removed)


def test_an_encryption_key_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        ChangeProperties(wide_table(), {"encryption.key-id": "k"})


def test_metrics_of_a_column_that_is_gone_meanwhile_are_refused() -> None:
    base = wide_table()
    change = ChangeProperties(base, {METRICS + "level": "full"})
    assert committed(base, change).properties == {METRICS + "level": "full"}
    with pytest.raises(RequirementFailed, match="could not find column level"):
        committed(evolve(base, lambda draft: draft.delete_column("level")), change)


def test_a_location_is_set_and_known_before_it_is_staged() -> None:
    base = wide_table()
    change = SetLocation(base, "file:/elsewhere/events/")
    assert change.identity.location == "file:/elsewhere/events/"
    assert committed(base, change).location == "file:/elsewhere/events"


@pytest.mark.parametrize("location", ["", "relative/path", "events", None, 5, "file:/a\0b"])
def test_a_location_that_is_none_is_refused(location: Any) -> None:
    with pytest.raises(InvalidInput):
        SetLocation(wide_table(), location)


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
def test_a_table_is_upgraded(old: int, new: int) -> None:
    base = wide_table(old)
    upgraded = committed(base, UpgradeFormatVersion(base, new))
    assert (upgraded.format_version, upgraded.next_row_id) == (new, 0)
    assert ("next-row-id" in upgraded.raw) == (new == 3)
    assert upgraded.schema.same_as(base.schema)


def test_snapshots_and_refs_stay() -> None:
    base = with_main()
    upgraded = committed(base, UpgradeFormatVersion(base, 3))
    assert (upgraded.current_snapshot_id, len(upgraded.snapshots)) == (7, 1)


def test_the_same_version_changes_nothing() -> None:
    base = wide_table(3)
    assert committed(base, UpgradeFormatVersion(base, 3)) is base


@pytest.mark.parametrize("version", [1, 0, -1, "3", 2.0, True, None])
def test_what_is_no_upgrade_is_refused(version: Any) -> None:
    with pytest.raises(InvalidInput):
        UpgradeFormatVersion(wide_table(2), version)


def test_version_four_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        UpgradeFormatVersion(wide_table(2), 4)


def test_an_upgrade_that_came_too_late_is_refused() -> None:
    base = wide_table(1)
    late = UpgradeFormatVersion(base, 2)
    with pytest.raises(RequirementFailed, match="Cannot downgrade v3 table to v2"):
        committed(committed(base, UpgradeFormatVersion(base, 3)), late)
