from __future__ import annotations

from simulation.scenarios.table_users import TABLE_USER_SCENARIOS
from simulation.world.faults import FaultPlan


def test_manifests_are_merged_and_every_format_version_that_has_delete_files_is_there() -> None:
    for scenario in TABLE_USER_SCENARIOS:
        assert scenario.properties["commit.manifest.min-count-to-merge"] == "2"
        assert scenario.table_users * scenario.changes >= 10
    assert {scenario.properties.get("format-version", "2") for scenario in TABLE_USER_SCENARIOS} == {"2", "3"}


def test_one_scenario_has_no_faults_and_leaves_nothing_behind_and_one_expires_snapshots() -> None:
    assert any(scenario.tidy and scenario.faults == FaultPlan() for scenario in TABLE_USER_SCENARIOS)
    assert any(scenario.table_expirers for scenario in TABLE_USER_SCENARIOS)
