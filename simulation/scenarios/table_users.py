"""Scenarios of processes that call the operations of the Python API, planned on states that others leave behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import BAD_NETWORK, OURS_AND_LOCKED, WORST, Scenario

#: Manifests are merged at once, so that each operation replaces some of others.
_MERGING: Final = {"commit.manifest.min-count-to-merge": "2"}
_USERS = Scenario("", "", writers=0, changes=5, table_users=3, properties=_MERGING)

TABLE_USER_SCENARIOS: Final[tuple[Scenario, ...]] = (
    replace(
        _USERS,
        name="users-calm",
        about="operations that replay on each other or are refused, without faults: no file is left over",
        waits=(300.0,),
        tidy=True,
    ),
    replace(_USERS, name="users", about="the same with all faults, beside appending writers", faults=WORST, writers=1),
    replace(
        _USERS,
        name="users-expiring",
        about="the same while snapshots expire, and their files are deleted",
        faults=BAD_NETWORK,
        table_expirers=2,
    ),
    replace(
        _USERS,
        name="users-mixed",
        about="the same on a table of version 3, beside foreign writers of both kinds and stock clients' appends",
        faults=WORST,
        writers=2,
        rest=0.8,
        lock_writers=1,
        cas_writers=1,
        properties={**_MERGING, "format-version": "3"},
        protected=OURS_AND_LOCKED,
    ),
)
