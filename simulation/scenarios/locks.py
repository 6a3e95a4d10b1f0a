"""Scenarios of the choice of locks: ZooKeeper's, none, and tables whose lock changes meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import BAD_NETWORK, OURS_AND_LOCKED, WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.history import WriterKind
from simulation.world.metastore_handler import SwapSupport

#: Seconds: no client can know of a swap that is carried out later than `metastore.unanswered-swap-timeout-ms`.
_IN_TIME = 590.0
#: Of a table that asks for ZooKeeper's lock.
_MARKED = {"iceberg-hms.lock": "zookeeper"}

LOCK_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "zookeeper",
        "a table on ZooKeeper: both locks, a lock API that breaks and heals, and all faults",
        replace(WORST, partitions=2, silences=1),
        operator_actions=("break", "heal"),
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=30.0,
        properties=_MARKED,
    ),
    Scenario(
        "zookeeper-alone",
        "no lock API, and a server that ignores expected values: ZooKeeper's lock alone protects the table",
        replace(BAD_NETWORK, false_refusals=0, crashes=2, partitions=3, silences=1, slow_files=1),
        writers=4,
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lock_api_works=False,
        lease_seconds=20.0,
        starts_within=10.0,
        properties=_MARKED,
    ),
    Scenario(
        "late-zookeeper-alone",
        "the same where swaps arrive after their writers died, or after their sessions ended",
        FaultPlan(crashes=2, late_changes=3, lost_replies=1, partitions=3, silences=1),
        writers=4,
        latest=_IN_TIME,
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lock_api_works=False,
        lease_seconds=20.0,
        starts_within=10.0,
        waits=(5.0, 300.0, 900.0),
        properties=_MARKED,
    ),
    Scenario(
        "late-zookeeper-mixed",
        "the same with two servers of one database, of which one compares atomically; each process has one of them",
        FaultPlan(crashes=2, late_changes=5, partitions=4, silences=2),
        writers=4,
        latest=_IN_TIME,
        other_servers=(SwapSupport.IGNORED,),
        own_servers=True,
        proven=1.0,
        zookeeper=True,
        lock_api_works=False,
        lease_seconds=20.0,
        starts_within=10.0,
        waits=(5.0, 300.0, 900.0),
        properties=_MARKED,
    ),
    Scenario(
        "hasty",
        "the same with servers that end sessions soon after their connection broke, and slow files",
        FaultPlan(partitions=6, slow_files=10),
        writers=4,
        changes=3,
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lock_api_works=False,
        ends_sessions_early=True,
        lease_seconds=20.0,
        starts_within=10.0,
        properties=_MARKED,
    ),
    Scenario(
        "marked-beside-locks",
        "a table on ZooKeeper beside a foreign writer that takes the metastore's lock only, and swaps blindly",
        replace(BAD_NETWORK, false_refusals=0, crashes=1, partitions=2),
        lock_writers=2,
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=30.0,
        properties=_MARKED,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "marking",
        "an operator who moves the table to ZooKeeper and back while others write, and servers without a lock "
        "API: the locks alone protect the table",
        replace(BAD_NETWORK, false_refusals=0, crashes=1, partitions=1, slow_files=3),
        writers=4,
        without_lock_api=2,
        operator_actions=("use zookeeper", "use hms"),
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=30.0,
    ),
    Scenario(
        "marking-alone",
        "an operator who moves the table to ZooKeeper when the lock API breaks, while others still hold its locks",
        FaultPlan(short_pauses=3, late_changes=2),
        writers=4,
        latest=_IN_TIME,
        operator_actions=("use zookeeper", "break"),
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=30.0,
        recovers=False,
    ),
    Scenario(
        "marking-healed",
        "two operators who move the table while the lock API comes and goes, and writers that come all the while",
        FaultPlan(short_pauses=3, slow_files=20),
        writers=6,
        changes=6,
        operators=2,
        operator_actions=("use zookeeper", "use zookeeper", "use hms", "outage"),
        swap_support=SwapSupport.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=1_000.0,
    ),
    Scenario(
        "marking-broken",
        "the same on an atomic server with all faults",
        replace(WORST, partitions=1),
        operator_actions=("use zookeeper", "use hms", "break", "heal"),
        zookeeper=True,
        lease_seconds=20.0,
        starts_within=60.0,
    ),
    Scenario(
        "no-lock",
        "lock=none on a table that is declared for it: an atomic server alone protects it, also beside foreign writers",
        WORST,
        cas_writers=2,
        lock="none",
        properties={"engine.hive.lock-enabled": "false"},
        protected=frozenset((WriterKind.OURS, WriterKind.SWAPPED)),
    ),
    Scenario(
        "no-lock-refused",
        "lock=none where the server is not atomic: nothing is swapped",
        BAD_NETWORK,
        swap_support=SwapSupport.IGNORED,
        lock="none",
        properties={"iceberg-hms.exclusive": "true"},
        recovers=False,
    ),
)
