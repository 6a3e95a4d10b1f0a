from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simulation.actors.catalog_callers import NAMES
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.faults import FaultPlan
from simulation.world.history import Answer, CatalogCallKind
from simulation.world.metastore_handler import SwapSupport


def ran(seed: int, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, "waits": (300.0,), **scenario}), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


@pytest.mark.parametrize("support", SwapSupport)
def test_every_kind_of_move_is_made_and_refused(support: SwapSupport) -> None:
    answer: Counter[tuple[CatalogCallKind, Answer]] = Counter()
    for seed in range(60):
        schedule = ran(seed, catalog_callers=5, swap_support=support)
        answer.update((call.kind, call.answer) for call in schedule.history.catalog_calls)
    assert {kind for kind, answer in answer if answer is Answer.COMMITTED} == set(CatalogCallKind)
    assert {kind for kind, answer in answer if answer is Answer.FAILED} == set(CatalogCallKind)
    # A creation that lost the race for a name may have made the table that another caller renamed.
    assert {kind for kind, answer in answer if answer is Answer.UNKNOWN} <= {CatalogCallKind.CREATE}


def test_a_renamed_table_has_its_other_name_and_its_file() -> None:
    for seed in range(10):
        schedule = ran(seed, catalog_callers=1, catalog_call_kinds=(CatalogCallKind.RENAME,))
        [call] = schedule.history.catalog_calls
        if call.answer is Answer.COMMITTED:
            assert schedule.metastore.location(NAMES[1]).endswith("00000-first.metadata.json")
            return
    raise AssertionError("no rename was acknowledged")


def test_a_purge_leaves_no_file_of_the_table_and_a_drop_leaves_all() -> None:
    for kind, left in ((CatalogCallKind.PURGE, False), (CatalogCallKind.DROP, True)):
        for seed in range(10):
            schedule = ran(seed, catalog_callers=1, catalog_call_kinds=(kind,))
            if schedule.history.catalog_calls[0].answer is Answer.COMMITTED:
                assert schedule.storage.exists("file:/t/metadata/00000-first.metadata.json") == left
                break
        else:
            raise AssertionError("nothing was acknowledged")


def test_a_move_whose_answer_is_lost_for_good_is_unknown() -> None:
    answer = set()
    for seed in range(60):
        catalog_calls = (CatalogCallKind.RENAME, CatalogCallKind.DROP)
        faults = FaultPlan(lost_requests=3, late_changes=3)
        answer |= {
            call.answer
            for call in ran(
                seed, catalog_callers=3, catalog_call_kinds=catalog_calls, faults=faults
            ).history.catalog_calls
        }
    assert Answer.UNKNOWN in answer


def test_the_seed_decides_who_calls_what() -> None:
    kinds = [[call.kind for call in ran(3, catalog_callers=4).history.catalog_calls] for _ in range(2)]
    assert kinds[0] == kinds[1]


def test_an_operator_breaks_heals_and_marks_and_at_the_audit_all_is_well() -> None:
    seen: set[str] = set()
    for seed in range(20):
        schedule = ran(
            seed,
            zookeeper=True,
            lease_seconds=20.0,
            operator_actions=("break", "heal", "outage", "use zookeeper"),
        )
        seen |= {event.call for event in schedule.wire.trace.events if event.process == "operator1"}
        assert schedule.metastore.lock_api_works
    assert {"break", "heal", "outage", "use zookeeper"} <= seen
