"""Scenarios of writers with a coordinator each: faults, servers, foreign writers, rebased appends."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulation.scenarios.scenario import BAD_NETWORK, OURS_AND_LOCKED, WORST, Scenario
from simulation.world.faults import FaultPlan
from simulation.world.metastore import SwapSupport

#: Seconds: no client can know of a swap that is carried out later than `metastore.unanswered-swap-timeout-ms`.
_IN_TIME = 590.0

WRITER_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "calm",
        "four equal writers and nothing goes wrong: with default settings none of them fails",
        writers=4,
        waits=(300.0,),
        all_commit=True,
    ),
    Scenario(
        "impatient", "clients that hardly wait: they are withdrawn, or wait for the outcome", waits=(0.02, 0.2, 1.0)
    ),
    Scenario("crashes", "two crashes anywhere, and reruns of what they cut off", FaultPlan(crashes=2)),
    Scenario("network", "calls that do not arrive or are not answered, refusals of what was committed", BAD_NETWORK),
    Scenario(
        "late",
        "swaps that arrive when nobody waits for them, or twice",
        FaultPlan(lost_requests=1, late_changes=3, repeated_changes=1),
    ),
    Scenario(
        "pauses",
        "processes that sleep past their lease, beside a writer with the lock and a blind swap",
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
        "a metastore that stands still for longer than such a lease, and machines that were cloned: no lock is taken "
        "from who lives",
        FaultPlan(stalls=3),
        writers=4,
        changes=3,
        lease_seconds=600.0,
        reaper=False,
        proven=1.0,
        cloned_machines=True,
        live_locks_kept=True,
        waits=(600.0,),
    ),
    Scenario(
        "resent",
        "changes sent again while their first swap is still under way, beside writers with the lock and a blind swap",
        FaultPlan(crashes=1, lost_requests=6, late_changes=3, pauses=1),
        lock_writers=5,
        proven=0.0,
        waits=(300.0,),
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "again",
        "changes sent again while their first swap is still under way, in groups with others",
        FaultPlan(late_changes=4, pauses=3),
        writers=3,
        changes=6,
        starts_within=300.0,
        waits=(300.0,),
    ),
    Scenario(
        "same-files",
        "writers that add the same files at the same time, without keys, in bad weather: each file is there once",
        FaultPlan(crashes=1, pauses=1, lost_requests=1, lost_replies=2, late_changes=2, false_refusals=1, errors=2),
        shared=2,
        starts_within=1.0,
        waits=(0.2, 5.0, 60.0),
    ),
    Scenario("worst", "all of it at once", WORST),
    Scenario(
        "mixed",
        "all of it at once, beside foreign writers of both kinds",
        WORST,
        lock_writers=1,
        cas_writers=1,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "short-log",
        "a metadata log of one entry whose old files are deleted: proofs must walk, or say that they cannot",
        FaultPlan(crashes=1, pauses=2, lost_replies=2, false_refusals=2, late_changes=1),
        writers=4,
        cas_writers=1,
        properties={
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        },
    ),
    Scenario(
        "long-walk",
        "a metadata log of one entry whose old files stay",
        FaultPlan(lost_replies=2, false_refusals=1, late_changes=1),
        cas_writers=2,
        properties={"write.metadata.previous-versions-max": "1"},
    ),
    Scenario(
        "ignored",
        "a server that ignores expected values: the lock alone carries it",
        FaultPlan(crashes=2, lost_requests=2, lost_replies=2, slow_replies=2, errors=1, file_errors=1),
        lock_writers=1,
        swap_support=SwapSupport.IGNORED,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "checked",
        "a server that compares, and then swaps: the lock carries it",
        FaultPlan(crashes=2, lost_requests=2, lost_replies=2, false_refusals=1, errors=1, file_errors=1),
        lock_writers=1,
        swap_support=SwapSupport.CHECKED,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "broken",
        "a server that fails every swap with an expected value: the lock carries it",
        FaultPlan(crashes=1, lost_requests=1, lost_replies=1, errors=1),
        lock_writers=1,
        swap_support=SwapSupport.BROKEN,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "bad-database",
        "a database that fails at swaps now and then, and handlers that lose it: the fence stays on",
        FaultPlan(pauses=3, late_changes=2, sql_errors=5, lost_stores=4),
        cas_writers=1,
        lease_seconds=20.0,
    ),
    *(
        Scenario(
            f"doubtful-{swap_support.value}",
            "a database that makes what the metastore has answered with an error, minutes later",
            FaultPlan(short_pauses=1, lost_replies=1, sql_errors=1, in_doubt_commits=doubts),
            lock_writers=1,
            swap_support=swap_support,
            other_servers=others,
            proven=0.5,
            starts_within=60.0,
            waits=(5.0, 60.0, 300.0),
            protected=OURS_AND_LOCKED,
        )
        # Two on end may take away what was acknowledged, where swaps are not compared.
        for swap_support, others, doubts in (
            (SwapSupport.ATOMIC, (), 3),
            (SwapSupport.IGNORED, (SwapSupport.CHECKED,), 1),
        )
    ),
    Scenario(
        "mixed-servers",
        "three servers of which one ignores expected values and one compares first: the lock carries it",
        FaultPlan(crashes=2, lost_requests=3, lost_replies=2, errors=1, file_errors=1),
        lock_writers=1,
        other_servers=(SwapSupport.IGNORED, SwapSupport.CHECKED),
        proven=0.3,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "atomic-servers",
        "two atomic servers without a reaper, in bad weather: the locks of the dead are removed where that is safe",
        replace(WORST, crashes=3, late_changes=2),
        cas_writers=1,
        other_servers=(SwapSupport.ATOMIC,),
        reaper=False,
    ),
    *(
        Scenario(
            f"late-{swap_support.value}",
            "the same where swaps arrive when their writers gave them up: the lock outlasts them",
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
        "nobody removes the locks of the dead: writers give up in time, and nothing is lost",
        FaultPlan(crashes=2, lost_replies=1),
        reaper=False,
        recovers=False,
    ),
    Scenario(
        "sleepers",
        "a server that ignores expected values and has no reaper: nobody takes the lock of one who sleeps",
        FaultPlan(pauses=3, lost_replies=1),
        lock_writers=1,
        swap_support=SwapSupport.IGNORED,
        reaper=False,
        protected=OURS_AND_LOCKED,
    ),
    Scenario(
        "lost-locks",
        "lock calls that are lost, doubled and late where no reaper runs and nothing is compared: none is left behind",
        FaultPlan(lost_requests=4, lost_replies=4),
        swap_support=SwapSupport.IGNORED,
        reaper=False,
        waits=(60.0, 300.0),
        # A lock under which an unanswered swap may still be made is the operator's to break.
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
        "no-lock-checked",
        "lock=none where the server compares, and then swaps: nothing is swapped",
        FaultPlan(lost_replies=1),
        swap_support=SwapSupport.CHECKED,
        lock="none",
        properties={"iceberg-hms.exclusive": "true"},
        recovers=False,
    ),
    Scenario(
        "stray",
        "a foreign writer that sleeps past its lease and swaps blindly over whatever is there",
        FaultPlan(pauses=3, lost_replies=1),
        lost_lock_writers=1,
        protected=frozenset(),
    ),
    Scenario(
        "rebase-calm",
        "stock clients whose appends overtake each other, and nothing goes wrong: none of them fails",
        writers=4,
        changes=3,
        rest=0.8,
        waits=(300.0,),
        all_commit=True,
    ),
    Scenario(
        "rebase",
        "the same on a table of version 3 in bad weather, beside foreign writers of both kinds",
        WORST,
        writers=4,
        rest=0.8,
        lock_writers=1,
        cas_writers=1,
        properties={"format-version": "3"},
        protected=OURS_AND_LOCKED,
    ),
)
