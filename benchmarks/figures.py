"""What the blocks of `bench_commit` come to: medians over the rounds, ratios of blocks of one round, goals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks import loads
from benchmarks.contest import PeerBlock
from benchmarks.loads import Load, LoadBlock
from benchmarks.peers import JAVA_HIVE, JAVA_HIVE_BEST, PEERS, SERVER_ALL, SERVER_PLAIN
from benchmarks.report import quantile

TITLES = {peer.name: peer.title for peer in PEERS}


class Block(Protocol):
    """What blocks of both sorts have."""

    @property
    def round(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def seconds(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class Goal:
    """One line of the report. at_least: else at most."""

    what: str
    goal: float
    figure: float
    at_least: bool

    @property
    def met(self) -> bool:
        return self.figure >= self.goal if self.at_least else self.figure <= self.goal


@dataclass(frozen=True)
class Results:
    """All blocks of a run; some kinds may be missing."""

    peers: Sequence[PeerBlock]
    loads: Sequence[LoadBlock]

    def of_peer(self, name: str, writers: int) -> list[PeerBlock]:
        return [block for block in self.peers if (block.peer, block.writers) == (name, writers)]

    @property
    def measured_loads(self) -> list[Load]:
        """In the order of the first round."""
        return list(dict.fromkeys(block.load for block in self.loads))

    def of_load(self, name: str, in_flight: int) -> list[LoadBlock]:
        return [block for block in self.loads if (block.load.name, block.load.in_flight) == (name, in_flight)]

    @property
    def writers(self) -> list[int]:
        return sorted({block.writers for block in self.peers})

    @property
    def findings(self) -> list[str]:
        """What is wrong with any table, with the block's name in front."""
        of_peers = ((f"{block.peer} {block.writers}", block.findings) for block in self.peers)
        of_loads = ((f"{block.load.name} {block.load.in_flight}", block.findings) for block in self.loads)
        return [f"{name}: {finding}" for name, findings in (*of_peers, *of_loads) for finding in findings]


def rate(blocks: Iterable[Block]) -> float:
    """Median of the blocks' acknowledged commits a second."""
    return statistics.median(block.rate for block in blocks)


def milliseconds(blocks: Iterable[Block], share: float) -> float:
    """The latency that this share of all acknowledged commits did not exceed; NaN if there are none."""
    seconds = [second for block in blocks for second in block.seconds]
    return quantile(seconds, share) * 1000 if seconds else float("nan")


def ratio(blocks: Sequence[Block], others: Sequence[Block]) -> float:
    """How many times faster than the others: the median of the ratios of the rounds. NaN if no round has both, infinite
    where the other acknowledged nothing."""
    of_round = {block.round: block.rate for block in others}
    ratios = [
        block.rate / of_round[block.round] if of_round[block.round] else float("inf")
        for block in blocks
        if block.round in of_round
    ]
    return statistics.median(ratios) if ratios else float("nan")


def best_java(results: Results, writers: int) -> str:
    """The fastest of the settings of Java's HiveCatalog, its defaults among them; '' without a block."""
    measured = [name for name in (JAVA_HIVE, *JAVA_HIVE_BEST) if results.of_peer(name, writers)]
    return max(measured, key=lambda name: rate(results.of_peer(name, writers)), default="")


def goals(results: Results) -> list[Goal]:
    """All goals whose blocks were made."""
    return [*_of_peers(results), *_of_loads(results)]


def _of_peers(results: Results) -> list[Goal]:
    found = []
    for writers in results.writers:
        best = best_java(results, writers)
        for name in (SERVER_ALL, SERVER_PLAIN):
            ours = results.of_peer(name, writers)
            if not ours:
                continue
            who = f"{TITLES[name]}, {writers} writers"
            if defaults := results.of_peer(JAVA_HIVE, writers):
                found.append(Goal(f"{who}: times Java HiveCatalog at its defaults", 3, ratio(ours, defaults), True))
            if best not in ("", JAVA_HIVE):
                against = results.of_peer(best, writers)
                found.append(Goal(f"{who}: times the best of Java HiveCatalog ({best})", 3, ratio(ours, against), True))
            failed = sum(sum(block.failed.values()) for block in ours)
            found.append(Goal(f"{who}: failed", 0, failed, False))
    return found


def _of_loads(results: Results) -> list[Goal]:
    found = []
    one = results.of_load(loads.FRESH, 1)
    for in_flight, per_second, times in ((16, 500, 10), (64, 1_000, 20)):
        who = f"{in_flight} in flight"
        if fresh := results.of_load(loads.FRESH, in_flight):
            found.append(Goal(f"{who}: commits/s", per_second, rate(fresh), True))
            if one:
                found.append(Goal(f"{who}: times one in flight", times, ratio(fresh, one), True))
            found.append(Goal(f"{who}: p99, ms", 150, milliseconds(fresh, 0.99), False))
    for name, usual, what in (
        (loads.LONG, loads.SMALL, "long history"),
        (loads.LONG_PACKED, loads.SMALL_PACKED, "long history, compressed answers"),
        (loads.WIDE, loads.SMALL, "many manifests in head"),
    ):
        for in_flight in (16, 64):
            grown, small = results.of_load(name, in_flight), results.of_load(usual, in_flight)
            if grown and small:
                who = f"{what}, {in_flight} in flight: times slower than with 10"
                found.append(Goal(who, 2, ratio(small, grown), False))
    calls = [block.calls_per_commit for block in results.of_load(loads.CALLS, 16)]
    if counted := [each for each in calls if each is not None]:
        found.append(Goal("16 in flight: metastore calls a commit", 0.5, statistics.median(counted), False))
    if many := results.of_load(loads.MANY, 64):
        found.append(Goal("many commits into one table, 64 in flight: commits/s", 400, rate(many), True))
    if slow := results.of_load(loads.SLOW, 16):
        found.append(Goal("60 ms more for each file write, 16 in flight: commits/s", 100, rate(slow), True))
    return found
