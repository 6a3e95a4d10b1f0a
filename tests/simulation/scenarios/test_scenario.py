from __future__ import annotations

from simulation.scenarios.scenario import BAD_NETWORK, OURS, OURS_AND_LOCKED, WORST, Scenario
from simulation.world.history import WriterKind


def test_a_scenario_keeps_our_changes_and_promises_no_more_unless_it_says_so() -> None:
    scenario = Scenario("x", "")
    assert scenario.protected == OURS
    assert (scenario.all_commit, scenario.in_order, scenario.tidy) == (False, False, False)
    assert {WriterKind.LOCKED} == OURS_AND_LOCKED - OURS


def test_a_bad_network_delays_no_move_and_the_worst_weather_has_it_all() -> None:
    assert (BAD_NETWORK.late_changes, BAD_NETWORK.repeated_changes, BAD_NETWORK.pauses) == (0, 0, 0)
    assert min(WORST.crashes, WORST.pauses, WORST.late_changes, WORST.repeated_changes) > 0
