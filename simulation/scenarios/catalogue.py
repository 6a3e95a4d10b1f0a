"""All scenarios, in the order in which a run takes turns with them."""

from __future__ import annotations

from typing import Final

from simulation.scenarios.catalog_operations import CATALOG_OPERATION_SCENARIOS
from simulation.scenarios.clients import CLIENT_SCENARIOS
from simulation.scenarios.locks import LOCK_SCENARIOS
from simulation.scenarios.migrators import MIGRATOR_SCENARIOS
from simulation.scenarios.scenario import Scenario
from simulation.scenarios.table_users import TABLE_USER_SCENARIOS
from simulation.scenarios.view_users import VIEW_USER_SCENARIOS
from simulation.scenarios.writers import WRITER_SCENARIOS

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *WRITER_SCENARIOS,
    *LOCK_SCENARIOS,
    *CATALOG_OPERATION_SCENARIOS,
    *CLIENT_SCENARIOS,
    *TABLE_USER_SCENARIOS,
    *VIEW_USER_SCENARIOS,
    *MIGRATOR_SCENARIOS,
)


def by_name(name: str) -> tuple[Scenario, ...]:
    """The scenario of this name, or all of them for `all`; empty if there is none."""
    return SCENARIOS if name == "all" else tuple(each for each in SCENARIOS if each.name == name)
