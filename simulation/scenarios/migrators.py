"""Scenarios of processes that turn one table from Hive's into Iceberg's and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.metastore_handler import SwapSupport

_MIGRATORS: Final = Scenario("", "", writers=0, changes=6, migrators=3, hive_writers=1)

MIGRATOR_SCENARIOS: Final[tuple[Scenario, ...]] = (
    replace(
        _MIGRATORS,
        name="kinds",
        about="a table that several processes migrate, undo and commit to, beside a program of Hive's",
    ),
    replace(_MIGRATORS, name="kinds-worst", about="the same with all faults", faults=WORST),
    replace(
        _MIGRATORS,
        name="kinds-late",
        about="the same where changes arrive after their callers gave up",
        faults=FaultPlan(lost_requests=1, lost_replies=2, late_changes=3, repeated_changes=1, in_doubt_commits=1),
        proven=0.0,
    ),
    replace(
        _MIGRATORS,
        name="kinds-ignored",
        about="the same on a server that ignores expected values, without Hive's program: the locks alone protect it",
        faults=FaultPlan(crashes=1, lost_requests=2, lost_replies=2, false_refusals=1, errors=1, file_errors=1),
        hive_writers=0,
        swap_support=SwapSupport.IGNORED,
    ),
)
