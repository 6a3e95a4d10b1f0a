from __future__ import annotations

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import CatalogCallKind


def test_a_new_table_is_renamed_away_and_another_one_gets_its_name_now_and_then() -> None:
    away = swapped = 0
    for seed in range(20):
        pool = WorkerPool()
        kinds = (CatalogCallKind.CREATE,)
        scenario = Scenario(
            "test", "", writers=0, catalog_callers=2, catalog_call_kinds=kinds, movers=1, waits=(300.0,)
        )
        schedule = Schedule(scenario, seed, pool)
        with quiet_logs():
            result = schedule.run()
        pool.close()
        assert result.failure is None, result
        lines = [line for line in schedule.wire.trace.lines() if "mover1" in line]
        away += any("moved1" in line for line in lines)
        swapped += any("rename db.t default.u" in line for line in lines)
        names = {str(name) for name in schedule.metastore.rows}
        assert not any("moved1" in line for line in lines) or any("moved1" in name for name in names)
    assert 3 < away < 20
    assert swapped
