"""What a scenario is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simulation.actors.clients import Clients
from simulation.world.faults import FaultPlan
from simulation.world.history import CatalogCallKind, WriterKind
from simulation.world.metastore import SwapSupport

OURS: Final = frozenset((WriterKind.OURS,))
OURS_AND_LOCKED: Final = frozenset((WriterKind.OURS, WriterKind.LOCKED))
#: What the network and the metastore do to calls, without delaying a move past its caller.
BAD_NETWORK: Final = FaultPlan(lost_requests=2, lost_replies=2, false_refusals=1, errors=1, file_errors=1)
WORST: Final = FaultPlan(
    crashes=2,
    pauses=2,
    lost_requests=2,
    lost_replies=2,
    slow_replies=1,
    late_changes=1,
    repeated_changes=1,
    false_refusals=1,
    errors=1,
    file_errors=1,
)


@dataclass(frozen=True)
class Scenario:
    """One table, its writers, and what may go wrong.

    writers: coordinators, each a process; changes: of each of them.
    shared: how many files all of them add beside their own, at the same time and without a key.
    rest: how likely an append is sent as a stock client of the REST server sends it, with lists of its own.
    servers: processes with `clients` each, which commit through one coordinator.
    lock_writers: foreign, with the lock and a blind swap, punctual. cas_writers: foreign, with compare-and-swap alone.
    java_writers: foreign, which read first, lock then, and swap blindly if the table did not move; punctual.
    strays: foreign, with a lock that they may lose, and a blind swap all the same.
    movers: processes that each make one of `moves`, on two names to which all write then.
    acts: what an operator does, in any order: `use zookeeper`, `use hms`, `database ...`, `break`, `heal`.
    expiries: processes that each expire the older snapshots once.
    zookeeper: whether there is one. lock: the setting of that name. lock_api_works: of the metastore, at first.
    hasty: ZooKeeper ends sessions soon after their connection broke.
    blind: for how many of our writers the lock API of their server is broken.
    latest: seconds after which a late move has come.
    proven: how likely a writer knows from an earlier commit that the server is atomic.
    verdict, reaper, lease_seconds: of the metastore. others: what further servers of it make of expected values.
    clones: processes of one machine do not all see each other, since it was cloned.
    unrobbed: no lock is taken from a process that lives and has not slept.
    properties: of the table; namespace: of its database. settings: of
    our processes, where they are not the defaults, by attribute.
    within: seconds within which our writers begin. waits: how long clients wait, one of these; seconds.
    kept: whose acknowledged changes are never lost. all_commit: no append may fail.
    in_order: who comes first is served first. tidy: nobody leaves a list or a manifest behind.
    comes_back: when all is over, and the weather has cleared up, a new writer commits.
    """

    name: str
    about: str
    faults: FaultPlan = field(default_factory=FaultPlan)
    writers: int = 3
    changes: int = 2
    shared: int = 0
    servers: int = 0
    clients: Clients | None = None
    lock_writers: int = 0
    java_writers: int = 0
    rest: float = 0.0
    cas_writers: int = 0
    lost_lock_writers: int = 0
    catalog_callers: int = 0
    catalog_call_kinds: tuple[CatalogCallKind, ...] = tuple(CatalogCallKind)
    operator_actions: tuple[str, ...] = ()
    expirers: int = 0
    zookeeper: bool = False
    lock: str = "hms"
    lock_api_works: bool = True
    ends_sessions_early: bool = False
    without_lock_api: int = 0
    starts_within: float = 0.1
    proven: float = 0.7
    latest: float = 900.0
    swap_support: SwapSupport = SwapSupport.ATOMIC
    other_servers: tuple[SwapSupport, ...] = ()
    reaper: bool = True
    lease_seconds: float = 60.0
    cloned_machines: bool = False
    live_locks_kept: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    namespace: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    waits: tuple[float, ...] = (5.0, 60.0, 300.0)
    protected: frozenset[WriterKind] = OURS
    all_commit: bool = False
    in_order: bool = False
    tidy: bool = False
    recovers: bool = True
