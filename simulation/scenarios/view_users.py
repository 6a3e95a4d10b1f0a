"""Scenarios of processes that create, replace, rename and drop views."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.metastore_handler import SwapSupport

#: No client can prevent that a refused creation is carried out once more, when its name is free.
_WORST: Final = replace(WORST, repeated_changes=0)

VIEW_USER_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "views", "views that several processes create, replace, rename and drop", writers=0, changes=5, view_users=4
    ),
    Scenario("views-worst", "the same with all faults", _WORST, writers=0, changes=5, view_users=4),
    Scenario(
        "views-late",
        "the same where changes arrive after their callers gave up",
        FaultPlan(lost_requests=1, lost_replies=1, late_changes=4),
        writers=0,
        changes=5,
        view_users=4,
        proven=0.0,
    ),
    Scenario(
        "views-ignored",
        "the same on a server that ignores expected values: the locks alone protect the views",
        FaultPlan(crashes=1, lost_requests=2, lost_replies=2, errors=1, file_errors=1),
        writers=0,
        changes=5,
        view_users=4,
        swap_support=SwapSupport.IGNORED,
    ),
)
