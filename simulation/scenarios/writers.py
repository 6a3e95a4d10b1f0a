"""Scenarios of writers with a coordinator each: faults, servers, foreign writers, rebased appends."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import BAD_NETWORK, OURS_AND_LOCKED, WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.metastore_handler import SwapSupport

#: Seconds: no client can know of a swap that is carried out later than `metastore.unanswered-swap-timeout-ms`.
_IN_TIME = 590.0

WRITER_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "calm",
        "four equal writers without faults: with default settings none of them fails",
        writers=4,
        waits=(300.0,),
        all_commit=True,
    ),
    Scenario(
        "impatient",
        "short timeouts: changes are withdrawn, or clients wait for the outcome",
        waits=(0.02, 0.2, 1.0),
    ),
    Scenario("crashes", "two crashes anywhere, and reruns of the interrupted jobs", FaultPlan(crashes=2)),
    Scenario("network", "lost calls and lost answers, and refusals of committed changes", BAD_NETWORK),
    Scenario(
        "late",
        "swaps that arrive after their callers gave up, or twice",
        FaultPlan(lost_requests=1, late_changes=3, repeated_changes=1),
    ),
    Scenario(
        "pauses",
        "processes that sleep past their lease, beside a foreign writer that holds the lock and swaps blindly",
        FaultPlan(pauses=2, lost_replies=1, false_refusals=1),
        lock_writers=3,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "frozen",
        "holders that sleep, with their machines or alone, past a lease of their own that is much shorter than the "
        "server's, beside writers with the lock and a blind swap",
        FaultPlan(pauses=2, suspends=2, lost_replies=1),
        lock_writers=3,
        lease_seconds=600.0,
        reaper=False,
        proven=1.0,
        waits=(600.0,),
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "stalls",
        "a metastore that stalls for longer than such a lease: no lock is removed from a living process",
        FaultPlan(stalls=3),
        writers=4,
        changes=3,
        lease_seconds=600.0,
        reaper=False,
        proven=0.3,
        live_locks_kept=True,
        waits=(600.0,),
    ),
    Scenario(
        "sleeping-holders",
        "holders that sleep while the metastore stalls and files are slow, beside writers with the lock and a blind "
        "swap",
        FaultPlan(stalls=3, short_pauses=3, slow_files=2),
        writers=3,
        changes=2,
        lock_writers=2,
        lease_seconds=300.0,
        reaper=False,
        proven=0.3,
        waits=(600.0,),
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "resent",
        "changes sent again while their first swap is still on its way, beside writers with the lock and a blind swap",
        FaultPlan(crashes=1, lost_requests=6, late_changes=3, pauses=1),
        lock_writers=5,
        proven=0.0,
        waits=(300.0,),
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "again",
        "changes sent again while their first swap is still on its way, in groups with others",
        FaultPlan(late_changes=4, pauses=3),
        writers=3,
        changes=6,
        starts_within=300.0,
        waits=(300.0,),
    ),
    Scenario(
        "same-files",
        "writers that add the same files at the same time, without keys, with many faults: each file is there once",
        FaultPlan(crashes=1, pauses=1, lost_requests=1, lost_replies=2, late_changes=2, false_refusals=1, errors=2),
        shared=2,
        starts_within=1.0,
        waits=(0.2, 5.0, 60.0),
    ),
    Scenario("worst", "all of these faults", WORST),
    Scenario(
        "mixed",
        "all of these faults, beside foreign writers of both kinds",
        WORST,
        lock_writers=1,
        cas_writers=1,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "short-log",
        "a metadata log of one entry whose old files are deleted: status checks read the chain, or answer unknown",
        FaultPlan(crashes=1, pauses=2, lost_replies=2, false_refusals=2, late_changes=1),
        writers=4,
        cas_writers=1,
        properties={
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        },
    ),
    Scenario(
        "long-chain",
        "a metadata log of one entry whose old files stay",
        FaultPlan(lost_replies=2, false_refusals=1, late_changes=1),
        cas_writers=2,
        properties={"write.metadata.previous-versions-max": "1"},
    ),
    Scenario(
        "ignored",
        "a server that ignores expected values: the lock alone protects the table",
        FaultPlan(crashes=2, lost_requests=2, lost_replies=2, slow_replies=2, errors=1, file_errors=1),
        lock_writers=1,
        swap_support=SwapSupport.IGNORED,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "checked",
        "a server that compares, and then swaps: the lock protects the table",
        FaultPlan(crashes=2, lost_requests=2, lost_replies=2, false_refusals=1, errors=1, file_errors=1),
        lock_writers=1,
        swap_support=SwapSupport.CHECKED,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "broken",
        "a server that fails every swap with an expected value: the lock protects the table",
        FaultPlan(crashes=1, lost_requests=1, lost_replies=1, errors=1),
        lock_writers=1,
        swap_support=SwapSupport.BROKEN,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "bad-database",
        "a database that fails some swaps, and handlers that lose it: compare-and-swap stays on",
        FaultPlan(pauses=3, late_changes=2, sql_errors=5, lost_stores=4),
        cas_writers=1,
        lease_seconds=20.0,
    ),
    *(
        Scenario(
            f"doubtful-{swap_support.value}",
            "a database that commits minutes after the metastore has answered with an error",
            FaultPlan(short_pauses=1, lost_replies=1, sql_errors=1, in_doubt_commits=doubts),
            lock_writers=1,
            swap_support=swap_support,
            other_servers=others,
            proven=0.5,
            starts_within=60.0,
            waits=(5.0, 60.0, 300.0),
            protected=OURS_AND_LOCKED,
        )
        # Without compare-and-swap, two in a row may remove an acknowledged change.
        for swap_support, others, doubts in (
            (SwapSupport.ATOMIC, (), 3),
            (SwapSupport.IGNORED, (SwapSupport.CHECKED,), 1),
        )
    ),
    Scenario(
        "mixed-servers",
        "three servers of which one ignores expected values and one compares first: the lock protects the table",
        FaultPlan(crashes=2, lost_requests=3, lost_replies=2, errors=1, file_errors=1),
        lock_writers=1,
        other_servers=(SwapSupport.IGNORED, SwapSupport.CHECKED),
        proven=0.3,
        protected=OURS_AND_LOCKED,
    ),
    *(
        Scenario(
            f"balanced-{other.value}",
            "an atomic server and one of another version behind one address: the lock protects the table",
            FaultPlan(crashes=1, pauses=1, lost_requests=2, lost_replies=4, errors=1),
            lock_writers=2,
            other_servers=(other,),
            balanced=True,
            proven=0.0,
            starts_within=60.0,
            protected=OURS_AND_LOCKED,
        )
        for other in (SwapSupport.IGNORED, SwapSupport.CHECKED)
    ),
    Scenario(
        "atomic-servers",
        "two atomic servers without a reaper, with many faults: dead locks are removed where that is safe",
        replace(WORST, crashes=3, late_changes=2),
        cas_writers=1,
        other_servers=(SwapSupport.ATOMIC,),
        reaper=False,
    ),
    *(
        Scenario(
            f"late-{swap_support.value}",
            "the same where swaps arrive after their writers gave up: the lock outlasts them",
            FaultPlan(pauses=2, lost_requests=1, lost_replies=1, late_changes=3),
            lock_writers=1,
            latest=_IN_TIME,
            swap_support=swap_support,
            waits=(5.0, 300.0, 900.0),
            protected=OURS_AND_LOCKED,
        )
        for swap_support in (SwapSupport.IGNORED, SwapSupport.CHECKED, SwapSupport.BROKEN)
    ),
    Scenario(
        "no-reaper",
        "no reaper removes dead locks: writers give up in time, and nothing is lost",
        FaultPlan(crashes=2, lost_replies=1),
        reaper=False,
        recovers=False,
    ),
    Scenario(
        "sleepers",
        "a server that ignores expected values and has no reaper: no waiter removes the lock of a sleeping holder",
        FaultPlan(pauses=3, lost_replies=1),
        lock_writers=1,
        swap_support=SwapSupport.IGNORED,
        reaper=False,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "lost-locks",
        "lost answers to lock calls without a reaper and without compare-and-swap: no entry is left behind",
        FaultPlan(lost_replies=8),
        swap_support=SwapSupport.IGNORED,
        reaper=False,
        waits=(60.0, 300.0),
        # An operator must break a lock under which an unanswered swap may still arrive.
        recovers=False,
    ),
    Scenario(
        "slow-calls",
        "answers that take half a lease and longer, beside a writer with the lock and a blind swap",
        FaultPlan(slow_replies=8, slow_files=4, short_pauses=4),
        lock_writers=4,
        protected=OURS_AND_LOCKED,
        waits=(300.0,),
    ),
    Scenario(
        "slow-heartbeats",
        "heartbeats whose answers take most of a lease, and holders that sleep then, where the lock alone protects",
        FaultPlan(slow_heartbeats=6, slow_files=6),
        lock_writers=4,
        swap_support=SwapSupport.IGNORED,
        protected=OURS_AND_LOCKED,
        waits=(300.0,),
    ),
    Scenario(
        "slow-removals",
        "holders that sleep past their lease and wake just before their lock is removed, beside writers with the lock "
        "and a blind swap",
        FaultPlan(pauses=4, slow_files=5, slow_removals=4),
        lock_writers=5,
        reaper=False,
        proven=1.0,
        waits=(600.0,),
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "no-lock-checked",
        "lock=none where the server compares, and then swaps: nothing is swapped",
        FaultPlan(lost_replies=1),
        swap_support=SwapSupport.CHECKED,
        lock="none",
        properties={"iceberg-hms.exclusive": "true"},
        recovers=False,
    ),
    Scenario(
        "lost-lock-writer",
        "a foreign writer that sleeps past its lease and swaps blindly over any change",
        FaultPlan(pauses=3, lost_replies=1),
        lost_lock_writers=1,
        protected=frozenset(),
    ),
    Scenario(
        "rebase-calm",
        "stock clients whose appends overtake each other, without faults: none of them fails",
        writers=4,
        changes=3,
        rest=0.8,
        waits=(300.0,),
        all_commit=True,
    ),
    Scenario(
        "rebase",
        "the same on a table of version 3 with many faults, beside foreign writers of both kinds",
        WORST,
        writers=4,
        rest=0.8,
        lock_writers=1,
        cas_writers=1,
        properties={"format-version": "3"},
        protected=OURS_AND_LOCKED,
    ),
)
