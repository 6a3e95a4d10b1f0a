"""Upgrades of the format version."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.format_version import UpgradeFormatVersion
from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from tests.changes.operations.columns import committed, wide_table
from tests.changes.tables import with_main


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
