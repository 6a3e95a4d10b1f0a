"""What a scenario consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simulation.actors.clients import Clients
from simulation.world.faults import FaultPlan
from simulation.world.history import CatalogCallKind, WriterKind
from simulation.world.metastore_handler import SwapSupport

OURS: Final = frozenset((WriterKind.OURS,))
OURS_AND_LOCKED: Final = frozenset((WriterKind.OURS, WriterKind.LOCKED))
#: Faults of the network and the metastore that do not delay a change past its caller.
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

    writers: processes with a coordinator each; changes: of each of them.
    shared: how many files all of them add beside their own, at the same time and without an idempotency key.
    rest: how likely an append is sent as a stock client of the REST server sends it, with manifest lists of its own.
    servers: processes with `clients` each, which commit through one coordinator.
    table_users: processes that call `changes` operations of the Python API each. table_expirers: such processes that
    expire snapshots once, and delete their files.
    lock_writers: foreign, hold the lock and swap blindly; never paused. cas_writers: foreign, with compare-and-swap
    alone.
    java_writers: foreign, read first, lock then, and swap blindly if the table did not change; never paused.
    lost_lock_writers: foreign, hold a lock that they may lose, and swap blindly all the same.
    catalog_callers: processes that each call one of `catalog_call_kinds`, on two names; all writers use both names
    then.
    movers: foreign, rename new tables without a lock, also while others search for them.
    view_users: processes that call `changes` operations of views each.
    migrators: processes that call `changes` operations each that migrate a Hive table, or undo that. hive_writers:
    programs of Hive's that change its row as often.
    operator_actions: what an operator does, in any order: `use zookeeper` and `use hms` switch the table's lock mode,
    `break` and `heal` the metastore's lock API, `outage` does both, one after the other. operators: how many there are.
    expirers: processes that each expire the older snapshots once.
    zookeeper: whether there is one. lock: the setting of that name. lock_api_works: of the metastore, at first.
    ends_sessions_early: ZooKeeper ends sessions soon after their connection broke.
    without_lock_api: for how many of our writers the lock API of their server is broken.
    latest: the longest delay of a late change, in seconds.
    proven: how likely a process knows from an earlier commit that a server is atomic.
    swap_support, reaper, lease_seconds: of the metastore. other_servers: the swap support of its further servers.
    balanced: all of them are behind one address. own_servers: each of our processes has one of them alone,
    mostly the first.
    live_locks_kept: no lock may be removed from a process that lives and has not slept.
    properties: of the table; namespace: of its database.
    settings: of our processes, by attribute, where they are not the defaults.
    starts_within: seconds within which our writers begin. waits: how long clients wait, one of these, in seconds.
    protected: the writers whose acknowledged changes are never lost. all_commit: no append may fail.
    in_order: commits are served in the order in which they came. tidy: no commit leaves a list or a manifest behind.
    recovers: after all faults are over, a new writer can commit.
    """

    name: str
    about: str
    faults: FaultPlan = field(default_factory=FaultPlan)
    writers: int = 3
    changes: int = 2
    shared: int = 0
    servers: int = 0
    clients: Clients | None = None
    table_users: int = 0
    table_expirers: int = 0
    lock_writers: int = 0
    java_writers: int = 0
    rest: float = 0.0
    cas_writers: int = 0
    lost_lock_writers: int = 0
    catalog_callers: int = 0
    catalog_call_kinds: tuple[CatalogCallKind, ...] = tuple(CatalogCallKind)
    movers: int = 0
    view_users: int = 0
    migrators: int = 0
    hive_writers: int = 0
    operator_actions: tuple[str, ...] = ()
    operators: int = 1
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
    balanced: bool = False
    own_servers: bool = False
    reaper: bool = True
    lease_seconds: float = 60.0
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
