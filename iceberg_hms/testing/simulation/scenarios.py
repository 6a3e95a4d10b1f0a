"""Who writes in which weather, and what is promised then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from iceberg_hms.testing.simulation.faults import Weather
from iceberg_hms.testing.simulation.history import Kind, MoveKind
from iceberg_hms.testing.simulation.metastore import Verdict

_OURS = frozenset((Kind.OURS,))
_OURS_AND_LOCKED = frozenset((Kind.OURS, Kind.LOCKED))
#: What the network and the metastore do to calls, without delaying a move past its caller.
_BAD_NETWORK = Weather(lost_requests=2, lost_replies=2, refused_own=1, errors=1, file_errors=1)
_WORST = Weather(
    crashes=2,
    pauses=2,
    lost_requests=2,
    lost_replies=2,
    late_moves=1,
    doubled_moves=1,
    refused_own=1,
    errors=1,
    file_errors=1,
)


#: The table's mark: it takes ZooKeeper's lock.
_MARKED = {"iceberg-hms.lock": "zookeeper"}


@dataclass(frozen=True)
class Scenario:
    """One table, its writers, and what may go wrong.

    writers: coordinators, each a process; changes: of each of them.
    rest: how likely an append is sent as a stock client of the REST server sends it, with lists of its own.
    lock_writers: foreign, with the lock and a blind swap, punctual. cas_writers: foreign, with compare-and-swap alone.
    strays: foreign, with a lock that they may lose, and a blind swap all the same.
    movers: processes that each make one of `moves`, on two names to which all write then.
    acts: what an operator does, in any order: `use zookeeper`, `use hms`, `database ...`, `break`, `heal`.
    zookeeper: whether there is one. lock: the setting of that name. lock_api_works: of the metastore, at first.
    hasty: ZooKeeper ends sessions soon after their connection broke.
    blind: for how many of our writers the lock API of their server is broken.
    proven: how likely a writer knows from an earlier commit that the server is atomic.
    verdict, reaper, lease_seconds: of the metastore. properties: of the table.
    within: seconds within which our writers begin. waits: how long clients wait, one of these; seconds.
    kept: whose acknowledged changes are never lost. all_commit: no append may fail.
    comes_back: when all is over, and the weather has cleared up, a new writer commits.
    """

    name: str
    about: str
    weather: Weather = field(default_factory=Weather)
    writers: int = 3
    changes: int = 2
    lock_writers: int = 0
    rest: float = 0.0
    cas_writers: int = 0
    strays: int = 0
    movers: int = 0
    moves: tuple[MoveKind, ...] = tuple(MoveKind)
    acts: tuple[str, ...] = ()
    zookeeper: bool = False
    lock: str = "hms"
    lock_api_works: bool = True
    hasty: bool = False
    blind: int = 0
    within: float = 0.1
    proven: float = 0.7
    verdict: Verdict = Verdict.ATOMIC
    reaper: bool = True
    lease_seconds: float = 60.0
    properties: Mapping[str, str] = field(default_factory=dict)
    waits: tuple[float, ...] = (5.0, 60.0, 300.0)
    kept: frozenset[Kind] = _OURS
    all_commit: bool = False
    comes_back: bool = True


SCENARIOS: tuple[Scenario, ...] = (
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
    Scenario("crashes", "two crashes anywhere, and reruns of what they cut off", Weather(crashes=2)),
    Scenario("network", "calls that do not arrive or are not answered, refusals of what was committed", _BAD_NETWORK),
    Scenario(
        "late",
        "swaps that arrive when nobody waits for them, or twice",
        Weather(lost_requests=1, late_moves=3, doubled_moves=1),
    ),
    Scenario(
        "pauses",
        "processes that sleep past their lease, beside a writer with the lock and a blind swap",
        Weather(pauses=2, lost_replies=1, refused_own=1),
        lock_writers=3,
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "resent",
        "changes sent again while their first swap is still under way, beside writers with the lock and a blind swap",
        Weather(late_moves=3, pauses=1),
        lock_writers=5,
        proven=0.0,
        waits=(300.0,),
        kept=_OURS_AND_LOCKED,
    ),
    Scenario("worst", "all of it at once", _WORST),
    Scenario(
        "mixed",
        "all of it at once, beside foreign writers of both kinds",
        _WORST,
        lock_writers=1,
        cas_writers=1,
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "short-log",
        "a metadata log of one entry whose old files are deleted: proofs must walk, or say that they cannot",
        Weather(crashes=1, pauses=2, lost_replies=2, refused_own=2, late_moves=1),
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
        Weather(lost_replies=2, refused_own=1, late_moves=1),
        cas_writers=2,
        properties={"write.metadata.previous-versions-max": "1"},
    ),
    Scenario(
        "ignored",
        "a server that ignores expected values: the lock alone carries it",
        Weather(crashes=2, lost_requests=2, lost_replies=2, errors=1, file_errors=1),
        lock_writers=1,
        verdict=Verdict.IGNORED,
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "checked",
        "a server that compares, and then swaps: the lock carries it",
        Weather(crashes=2, lost_requests=2, lost_replies=2, refused_own=1, errors=1, file_errors=1),
        lock_writers=1,
        verdict=Verdict.CHECKED,
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "broken",
        "a server that fails every swap with an expected value: nothing is committed, nothing is lost",
        Weather(crashes=1, lost_replies=1),
        verdict=Verdict.BROKEN,
        comes_back=False,
    ),
    Scenario(
        "no-reaper",
        "nobody removes the locks of the dead: writers give up in time, and nothing is lost",
        Weather(crashes=2, lost_replies=1),
        reaper=False,
        comes_back=False,
    ),
    Scenario(
        "stray",
        "a foreign writer that sleeps past its lease and swaps blindly over whatever is there",
        Weather(pauses=3, lost_replies=1),
        strays=1,
        kept=frozenset(),
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
        _WORST,
        writers=4,
        rest=0.8,
        lock_writers=1,
        cas_writers=1,
        properties={"format-version": "3"},
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "zookeeper",
        "a marked table: ZooKeeper's lock and the metastore's, whose lock API breaks and heals; all of it goes wrong",
        replace(_WORST, partitions=2, silences=1),
        acts=("break", "heal"),
        zookeeper=True,
        lease_seconds=20.0,
        within=30.0,
        properties=_MARKED,
    ),
    Scenario(
        "zookeeper-alone",
        "no lock API, and a server that ignores expected values: ZooKeeper's lock alone carries it",
        replace(_BAD_NETWORK, refused_own=0, crashes=2, partitions=3, silences=1, slow_files=1),
        writers=4,
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lock_api_works=False,
        lease_seconds=20.0,
        within=10.0,
        properties=_MARKED,
    ),
    Scenario(
        "hasty",
        "servers that end sessions soon after their connection broke, and slow files; else as before",
        Weather(partitions=6, slow_files=10),
        writers=4,
        changes=3,
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lock_api_works=False,
        hasty=True,
        lease_seconds=20.0,
        within=10.0,
        properties=_MARKED,
    ),
    Scenario(
        "marked-beside-locks",
        "a marked table beside a writer that knows the metastore's lock alone, and swaps blindly",
        replace(_BAD_NETWORK, refused_own=0, crashes=1, partitions=2),
        lock_writers=2,
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        within=30.0,
        properties=_MARKED,
        kept=_OURS_AND_LOCKED,
    ),
    Scenario(
        "marking",
        "an operator who moves the table to ZooKeeper and back in the middle of traffic, and servers without a lock "
        "API: the locks alone carry it",
        replace(_BAD_NETWORK, refused_own=0, crashes=1, partitions=1, slow_files=3),
        writers=4,
        blind=2,
        acts=("use zookeeper", "use hms"),
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        within=30.0,
    ),
    Scenario(
        "marking-alone",
        "an operator who moves the table to ZooKeeper when the lock API breaks, while others still have its locks",
        Weather(hesitations=3),
        writers=4,
        acts=("use zookeeper", "break"),
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        within=30.0,
        comes_back=False,
    ),
    Scenario(
        "marking-broken",
        "the same with the database's mark, on an atomic server where all of it goes wrong",
        replace(_WORST, partitions=1),
        acts=("use zookeeper", "use hms", "database zookeeper", "database hms", "break", "heal"),
        zookeeper=True,
        lease_seconds=20.0,
        within=60.0,
    ),
    Scenario(
        "database-mark",
        "an operator marks the database: where there is no lock API nobody swaps before all know of it",
        Weather(crashes=1, hesitations=6),
        writers=6,
        blind=3,
        acts=("database zookeeper",),
        verdict=Verdict.IGNORED,
        zookeeper=True,
        lease_seconds=20.0,
        within=10.0,
        comes_back=False,
    ),
    Scenario(
        "no-lock",
        "lock=none on a table that is declared for it: an atomic server alone carries it, also beside others",
        _WORST,
        cas_writers=2,
        lock="none",
        properties={"engine.hive.lock-enabled": "false"},
        kept=frozenset((Kind.OURS, Kind.SWAPPED)),
    ),
    Scenario(
        "no-lock-refused",
        "lock=none where the server is not atomic: nothing is swapped",
        _BAD_NETWORK,
        verdict=Verdict.IGNORED,
        lock="none",
        properties={"iceberg-hms.exclusive": "true"},
        comes_back=False,
    ),
    Scenario(
        "moves",
        "tables are renamed, dropped, purged, made again, registered over and replaced while all write",
        _WORST,
        movers=4,
    ),
    Scenario(
        "moves-network",
        "the same where calls are lost and refused, and processes sleep past their lease",
        Weather(pauses=2, lost_replies=3, refused_own=2, errors=1),
        writers=3,
        movers=5,
        proven=0.0,
    ),
    Scenario(
        "moves-ignored",
        "the same on a server that ignores expected values: the locks alone carry it",
        Weather(crashes=1, lost_requests=1, lost_replies=2, refused_own=1, errors=1),
        movers=4,
        verdict=Verdict.IGNORED,
    ),
    Scenario(
        "drops",
        "tables that are dropped, purged and made again and again under the same names",
        Weather(crashes=1, lost_replies=2, refused_own=1, slow_files=2),
        writers=3,
        movers=9,
        moves=(MoveKind.DROP, MoveKind.PURGE, MoveKind.CREATE, MoveKind.CREATE, MoveKind.RENAME),
        waits=(300.0,),
    ),
    Scenario(
        "moves-zookeeper",
        "the same on tables that ZooKeeper locks",
        Weather(pauses=1, lost_replies=1, refused_own=1, partitions=2),
        movers=4,
        acts=("break", "heal", "database zookeeper"),
        zookeeper=True,
        lease_seconds=20.0,
        properties=_MARKED,
    ),
)


def by_name(name: str) -> tuple[Scenario, ...]:
    """The scenario of this name, or all of them for `all`; empty if there is none."""
    return SCENARIOS if name == "all" else tuple(each for each in SCENARIOS if each.name == name)
