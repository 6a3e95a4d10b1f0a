"""Scenarios in which tables are created, renamed, dropped, purged and registered while writers commit."""

from __future__ import annotations

from typing import Final

from simulation.actors.client_snapshots import CommitKind
from simulation.actors.clients import Clients
from simulation.scenarios.scenario import WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.history import CatalogCallKind
from simulation.world.metastore_handler import SwapSupport

#: Of a table that asks for ZooKeeper's lock.
_MARKED = {"iceberg-hms.lock": "zookeeper"}

CATALOG_OPERATION_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "operations",
        "tables are renamed, dropped, purged, created again, registered over and replaced while all write",
        WORST,
        catalog_callers=4,
    ),
    Scenario(
        "operations-network",
        "the same where calls are lost and refused, and processes sleep past their lease",
        FaultPlan(pauses=2, lost_replies=3, false_refusals=2, errors=1),
        writers=3,
        catalog_callers=5,
        proven=0.0,
    ),
    Scenario(
        "operations-ignored",
        "the same on a server that ignores expected values: the locks alone protect the tables",
        FaultPlan(crashes=1, lost_requests=1, lost_replies=2, false_refusals=1, errors=1),
        catalog_callers=4,
        swap_support=SwapSupport.IGNORED,
    ),
    Scenario(
        "drops",
        "tables that are dropped, purged and created again and again under the same names",
        FaultPlan(crashes=1, lost_replies=2, false_refusals=1, slow_files=2),
        writers=3,
        catalog_callers=9,
        catalog_call_kinds=(
            CatalogCallKind.DROP,
            CatalogCallKind.PURGE,
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.RENAME,
        ),
        waits=(300.0,),
    ),
    Scenario(
        "creations",
        "tables that are created and renamed to another database, while the metastore refuses creations that it made",
        FaultPlan(pauses=2, short_pauses=4, lost_replies=2, false_refusals=3),
        catalog_callers=10,
        catalog_call_kinds=(
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.RENAME,
            CatalogCallKind.RENAME,
            CatalogCallKind.DROP,
        ),
        waits=(300.0,),
    ),
    Scenario(
        "moves",
        "creations that arrive late or are refused although they were made, and a foreign process that renames the new "
        "tables, also while all databases are searched for them",
        FaultPlan(lost_replies=2, late_changes=2, false_refusals=4),
        writers=0,
        catalog_callers=10,
        catalog_call_kinds=(
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.DROP,
        ),
        movers=1,
        waits=(300.0,),
    ),
    Scenario(
        "doubtful-operations",
        "a metastore that answers creations, renames and drops with an error, and makes them later",
        FaultPlan(lost_replies=1, false_refusals=1, in_doubt_commits=4),
        catalog_callers=8,
        catalog_call_kinds=(
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.CREATE,
            CatalogCallKind.RENAME,
            CatalogCallKind.DROP,
            CatalogCallKind.PURGE,
        ),
        waits=(60.0, 300.0),
    ),
    Scenario(
        "lost-names",
        "commits that are resent after their table was renamed or dropped, or another was created under its name",
        FaultPlan(lost_replies=1, false_refusals=1),
        writers=0,
        servers=1,
        clients=Clients(
            count=3,
            commits=2,
            commit_kinds=(CommitKind.APPEND, CommitKind.DELETE),
            think=60.0,
            resent=0.5,
            resent_within=60.0,
        ),
        catalog_callers=5,
        catalog_call_kinds=(
            CatalogCallKind.RENAME,
            CatalogCallKind.RENAME,
            CatalogCallKind.DROP,
            CatalogCallKind.CREATE,
        ),
        waits=(300.0,),
    ),
    Scenario(
        "drops-asleep",
        "the same where processes sleep past their lease before they drop a table: a drop has no compare-and-swap",
        FaultPlan(pauses=3, lost_replies=1),
        writers=3,
        catalog_callers=9,
        catalog_call_kinds=(CatalogCallKind.PURGE, CatalogCallKind.CREATE, CatalogCallKind.RENAME),
        waits=(300.0,),
        lease_seconds=20.0,
    ),
    Scenario(
        "operations-zookeeper",
        "the same on tables that ZooKeeper locks",
        FaultPlan(pauses=1, lost_replies=1, false_refusals=1, partitions=2),
        catalog_callers=4,
        operator_actions=("break", "heal", "break"),
        zookeeper=True,
        lease_seconds=20.0,
        properties=_MARKED,
    ),
)
