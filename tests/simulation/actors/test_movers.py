from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.actors.movers import NAMES, Mover
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.fault_plan import FaultPlan
from simulation.world.history import Answer, MoveKind


def ran(seed: int, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, "waits": (300.0,), **scenario}), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


def test_every_kind_of_move_is_made_and_refused() -> None:
    told: Counter[tuple[MoveKind, Answer]] = Counter()
    for seed in range(60):
        told.update((move.kind, move.told) for move in ran(seed, movers=5).history.moves)
    assert {kind for kind, answer in told if answer is Answer.COMMITTED} == set(MoveKind)
    assert {kind for kind, answer in told if answer is Answer.FAILED} == set(MoveKind)
    # Who lost the race for a name may have made the table that another one renamed.
    assert {kind for kind, answer in told if answer is Answer.UNKNOWN} <= {MoveKind.CREATE}


def test_a_renamed_table_has_its_other_name_and_its_file() -> None:
    for seed in range(10):
        schedule = ran(seed, movers=1, moves=(MoveKind.RENAME,))
        [move] = schedule.history.moves
        if move.told is Answer.COMMITTED:
            assert schedule.metastore.location(NAMES[1]).endswith("00000-first.metadata.json")
            return
    raise AssertionError("no rename was acknowledged")


def test_a_purge_leaves_no_file_of_the_table_and_a_drop_leaves_all() -> None:
    for kind, left in ((MoveKind.PURGE, False), (MoveKind.DROP, True)):
        for seed in range(10):
            schedule = ran(seed, movers=1, moves=(kind,))
            if schedule.history.moves[0].told is Answer.COMMITTED:
                assert schedule.storage.exists("file:/t/metadata/00000-first.metadata.json") == left
                break
        else:
            raise AssertionError("nothing was acknowledged")


def test_a_move_whose_answer_is_lost_for_good_is_unknown() -> None:
    told = set()
    for seed in range(60):
        moves = (MoveKind.RENAME, MoveKind.DROP)
        weather = FaultPlan(lost_requests=3, late_moves=3)
        told |= {move.told for move in ran(seed, movers=3, moves=moves, weather=weather).history.moves}
    assert Answer.UNKNOWN in told


def test_movers_are_of_the_seed() -> None:
    kinds = [[each.move.kind for each in ran(3, movers=4)._others if isinstance(each, Mover)] for _ in range(2)]
    assert kinds[0] == kinds[1]


def test_an_operator_breaks_heals_and_marks_and_at_the_audit_all_is_well() -> None:
    seen: set[str] = set()
    for seed in range(20):
        schedule = ran(
            seed, zookeeper=True, lease_seconds=20.0, acts=("break", "heal", "use zookeeper", "database hms")
        )
        seen |= {event.call for event in schedule.wire.trace.events if event.process == "operator"}
        assert schedule.metastore.lock_api_works
    assert {"break", "heal", "use zookeeper", "database hms"} <= seen
