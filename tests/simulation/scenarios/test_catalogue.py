from __future__ import annotations

from simulation.scenarios.catalogue import SCENARIOS, by_name
from simulation.world.history import WriterKind
from simulation.world.metastore_handler import SwapSupport


def test_a_scenario_is_found_by_its_name_and_all_by_all() -> None:
    assert [scenario.name for scenario in by_name("mixed")] == ["mixed"]
    assert by_name("all") == SCENARIOS
    assert by_name("nothing") == ()
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_every_scenario_has_at_least_three_writers_with_two_changes_each_or_clients_of_servers() -> None:
    for scenario in SCENARIOS:
        if scenario.clients is None:
            callers = scenario.catalog_callers if scenario.movers else 0
            assert scenario.writers + scenario.table_users + scenario.view_users + scenario.migrators + callers >= 3
            assert scenario.changes >= 2
        else:
            assert scenario.servers * scenario.clients.count >= 2


def test_every_kind_of_server_and_of_foreign_writer_is_there() -> None:
    assert {scenario.swap_support for scenario in SCENARIOS} == set(SwapSupport)
    assert {scenario.reaper for scenario in SCENARIOS} == {True, False}
    for count in ("lock_writers", "cas_writers", "lost_lock_writers"):
        assert any(getattr(scenario, count) for scenario in SCENARIOS)
    assert any(scenario.faults.crashes >= 2 and scenario.faults.pauses for scenario in SCENARIOS)


def test_our_changes_are_promised_to_be_kept_unless_a_writer_swaps_under_a_lost_lock() -> None:
    assert all(WriterKind.OURS in scenario.protected or scenario.lost_lock_writers for scenario in SCENARIOS)


def test_where_the_lock_alone_carries_it_nothing_outlives_the_lock() -> None:
    for scenario in SCENARIOS:
        if scenario.swap_support in (SwapSupport.IGNORED, SwapSupport.CHECKED):
            faults = scenario.faults
            # A late swap is outlasted by its lock; one that comes once more has been answered.
            assert not faults.repeated_changes
            assert not scenario.cas_writers
