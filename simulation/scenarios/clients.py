"""Scenarios in which many clients commit through one server: groups, renumbering, rebase, turns and rests."""

from __future__ import annotations

from typing import Final

from simulation.actors.clients import Clients
from simulation.actors.shipments import Doing
from simulation.scenarios.scenario import BAD_NETWORK, OURS_AND_LOCKED, Scenario
from simulation.world.fault_plan import FaultPlan

_ADDS = (Doing.APPEND, Doing.APPEND, Doing.MERGE, Doing.CLUMSY)
_ALL = (Doing.APPEND, Doing.APPEND, Doing.MERGE, Doing.VALIDATED, Doing.DELETE, Doing.MASK, Doing.REWRITE)
_BRANCHES = ("main", "main", "audit")
_REBASE = "iceberg-hms.rebase-appends"
_VERSION = "format-version"
#: Nobody is withdrawn.
_PATIENT = (300.0,)
#: A little of everything that goes wrong with servers and their calls.
_ROUGH = FaultPlan(crashes=1, pauses=1, lost_requests=1, lost_replies=2, refused_own=1, late_moves=1, errors=1)

CLIENT_SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "groups",
        "one server, small groups, clumsy clients among the others: who comes first is served first, nothing is left",
        writers=0,
        servers=1,
        clients=Clients(each=5, commits=1, doings=_ADDS),
        settings={"group_max_changes": 2},
        waits=_PATIENT,
        all_commit=True,
        in_order=True,
        tidy=True,
    ),
    Scenario(
        "contested",
        "two servers without locks, whose swaps are refused for each other's: what those carried is left, and no more",
        writers=0,
        servers=2,
        clients=Clients(each=3, commits=2, doings=_ADDS),
        lock="none",
        properties={"iceberg-hms.exclusive": "true"},
        waits=_PATIENT,
        tidy=True,
    ),
    Scenario(
        "branches",
        "commits of every kind to two branches of a table of version 3: numbers and row ids go stale",
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=3, doings=(*_ALL, Doing.CLUMSY), branches=_BRANCHES),
        properties={_VERSION: "3"},
        waits=_PATIENT,
        tidy=True,
    ),
    Scenario(
        "branches-network",
        "the same through two servers, on version 2, where calls are lost and refused",
        BAD_NETWORK,
        writers=0,
        servers=2,
        clients=Clients(each=2, commits=2, doings=_ALL, branches=_BRANCHES),
    ),
    Scenario(
        "rewrites",
        "rewrites beside appends and deletes, through two servers that crash and sleep, and beside a foreign writer",
        _ROUGH,
        writers=0,
        servers=2,
        clients=Clients(each=3, commits=2, doings=(*_ALL, Doing.REWRITE, Doing.REWRITE), retries=2),
        lock_writers=1,
        kept=OURS_AND_LOCKED,
    ),
    Scenario(
        "overwritten",
        "servers that sleep past their lease and wake beside a foreign writer that has their lock, and swaps blindly",
        FaultPlan(pauses=4, lost_replies=1, refused_own=1),
        writers=0,
        servers=1,
        clients=Clients(
            each=4, commits=2, doings=(Doing.APPEND, Doing.VALIDATED, Doing.DELETE, Doing.REWRITE), retries=3
        ),
        lock_writers=5,
        waits=_PATIENT,
        kept=OURS_AND_LOCKED,
    ),
    Scenario(
        "rebase-all",
        "the operator's word that all appends may be rebased, on version 1",
        writers=0,
        servers=1,
        clients=Clients(each=4, commits=2, doings=_ALL, gives_up=0.2),
        properties={_VERSION: "1", _REBASE: "all"},
        waits=_PATIENT,
        tidy=True,
    ),
    Scenario(
        "rebase-none",
        "the operator's word that nothing is rebased",
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=2, doings=_ALL),
        properties={_REBASE: "none"},
        waits=_PATIENT,
        tidy=True,
    ),
    Scenario(
        "rebase-namespace",
        "the same word of the namespace, read when a place was lost, through two servers, where calls are lost",
        BAD_NETWORK,
        writers=0,
        servers=2,
        clients=Clients(each=3, commits=2, doings=_ALL),
        namespace={_REBASE: "none"},
        settings={"rebase_appends_max_age_ms": 100},
    ),
    Scenario(
        "turns",
        "a delete beside busy appenders: when it has lost its place it gets a turn, and lands with it",
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=3, firm=(Doing.DELETE,), retries=1),
        waits=_PATIENT,
        all_commit=True,
        in_order=True,
    ),
    Scenario(
        "turns-appenders",
        "stock appenders that nobody rebases, at the retries and waits of Java and PyIceberg: each lands in the end",
        writers=0,
        servers=1,
        clients=Clients(each=8, commits=2, retries=4, backoff=0.1),
        properties={_REBASE: "none"},
        waits=_PATIENT,
        all_commit=True,
        in_order=True,
    ),
    Scenario(
        "turns-given-up",
        "the same where some who lost do not come back, or come too late, and the queue has little room",
        writers=0,
        servers=1,
        clients=Clients(
            each=2, commits=3, firm=(Doing.DELETE, Doing.MASK, Doing.VALIDATED), gives_up=0.4, back_within=2.0
        ),
        waits=_PATIENT,
        settings={"queue_max_changes": 2},
        in_order=True,
    ),
    Scenario(
        "leftovers",
        "lists that clients leave are deleted when their time is over, and not before",
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=3, think=3.0, leaves=0.8),
        settings={"replaced_list_age_ms": 1_000},
        waits=_PATIENT,
        all_commit=True,
        tidy=True,
    ),
    Scenario(
        "litter",
        "what clients leave of attempts that were refused goes when its time is over, but for what is named then",
        writers=0,
        servers=1,
        clients=Clients(
            each=3, commits=3, doings=(Doing.MERGE, Doing.MERGE, Doing.DELETE, Doing.APPEND), think=3.0, litters=0.8
        ),
        properties={_REBASE: "none"},
        settings={"replaced_list_age_ms": 1_000},
        waits=_PATIENT,
        tidy=True,
    ),
    Scenario(
        "litter-network",
        "the same through two servers that crash and sleep, where calls are lost and a foreign writer swaps blindly",
        _ROUGH,
        writers=0,
        servers=2,
        clients=Clients(each=2, commits=3, doings=_ALL, think=3.0, litters=0.8),
        settings={"replaced_list_age_ms": 1_000},
        lock_writers=1,
        kept=OURS_AND_LOCKED,
    ),
    Scenario(
        "expired",
        "commits of every kind whose answer is lost, and which come again when their snapshots have expired",
        writers=0,
        servers=1,
        clients=Clients(each=4, commits=2, doings=(*_ALL, Doing.DELETE), think=0.1, resent=0.5),
        expiries=3,
        waits=_PATIENT,
    ),
    Scenario(
        "expired-network",
        "the same on two branches of version 3, through two servers, where calls are lost and old metadata is deleted",
        BAD_NETWORK,
        writers=0,
        servers=2,
        clients=Clients(each=2, commits=2, doings=_ALL, branches=_BRANCHES, think=3.0, resent=0.5),
        expiries=5,
        properties={
            _VERSION: "3",
            "write.metadata.previous-versions-max": "2",
            "write.metadata.delete-after-commit.enabled": "true",
        },
    ),
    Scenario(
        "expired-unnumbered",
        "the same on version 1, where snapshots have no numbers, and everything is rebased that may be",
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=2, doings=_ALL, think=3.0, resent=0.5),
        expiries=5,
        properties={_VERSION: "1", _REBASE: "all"},
        waits=_PATIENT,
    ),
    Scenario(
        "rests",
        "a busy server beside foreign writers that read before they lock: the table rests for them",
        writers=0,
        servers=1,
        clients=Clients(each=2, commits=4, think=0.1),
        java_writers=2,
        settings={"foreign_writer_check_interval_ms": 10},
        waits=_PATIENT,
        kept=OURS_AND_LOCKED,
    ),
    Scenario(
        "defects",
        "what no port names is raised where files are deleted and listeners are told: nobody waits for ever",
        FaultPlan(defects=20),
        writers=0,
        servers=1,
        clients=Clients(each=3, commits=3, firm=(Doing.DELETE,), retries=1),
        waits=_PATIENT,
        all_commit=True,
    ),
    Scenario(
        "refusals",
        "the metastore refuses a group again and again: it is sent in parts, and everybody has an answer",
        FaultPlan(refusals=20, crashes=1, lost_replies=1),
        writers=0,
        servers=1,
        clients=Clients(each=6, commits=2, doings=_ADDS),
        settings={"refusal_max_swaps": 3},
    ),
)
