"""The figures of `commit`: medians over the rounds, ratios, goals, the report in Markdown, and its plots."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from benchmarks import loads
from benchmarks.contest import JAVA_HIVE, JAVA_HIVE_BEST, PEERS, SERVER_ALL, SERVER_PLAIN, PeerBlock
from benchmarks.instruments import quantile
from benchmarks.loads import Load, LoadBlock

TITLES = {peer.name: peer.title for peer in PEERS}


class Block(Protocol):
    """What blocks of peers and of loads share."""

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
    """The latency in ms that `share` of all acknowledged commits did not exceed; NaN if there are none."""
    seconds = [second for block in blocks for second in block.seconds]
    return quantile(seconds, share) * 1000 if seconds else float("nan")


def ratio(blocks: Sequence[Block], others: Sequence[Block]) -> float:
    """How many times faster than the others: the median of the rounds' ratios. NaN if no round has both, infinite
    if the others acknowledged nothing."""
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
    """All goals whose blocks ran."""
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


_HOW = """\
All blocks run on one metastore of this machine, one after the other, and alternate over the rounds; each has a table of
its own. Rates are medians over the rounds, ratios are medians of the ratios of blocks of one round, latencies are those
of all acknowledged commits. After each block its table is checked: every acknowledged append is in it once, and history
is one chain. Load is the average of the minute before a block; on a machine with other work the figures are lower.

Peers are writers that make appends of one data file's record as fast as they can; the data files do not exist. Java's
share one JVM, each with a catalog and connections of its own; PyIceberg's are processes, in the first round alone. What
is unfinished was begun and not answered when a block's time was over.

The load generator sends requests that were built before, all on the table's first snapshot, so that all but the first
are rebased. The first of each block, twice as many as are in flight, are its warm-up. It asks for compressed answers,
as stock clients do, and gets them where the row says so: by default a server compresses for other machines only, and
what such a client costs is in those rows. Two more of its servers are not the command as it is: one counts all of its
calls to the metastore, also those between commits; one writes as to a far store, each file 60 ms longer."""


def render(results: Results, settings: Mapping[str, Any], machine: Mapping[str, Any], plots: Sequence[Path]) -> str:
    """plots: files beside the report."""
    parts = ["# Commits of many writers to one table", _HOW, "## Goals", _goals(results)]
    if results.peers:
        parts += ["## Peers", _peers(results)]
    if results.loads:
        parts += ["## Load generator", _loads(results)]
    parts += [f"![{plot.stem}]({plot.name})" for plot in plots]
    parts += ["## What is wrong with the tables", "\n".join(f"- {each}" for each in results.findings) or "Nothing."]
    facts = [f"- {key}: {value}" for key, value in {**machine, **settings}.items()]
    parts += ["## Machine and settings", "\n".join(facts), _settings_of_peers()]
    return "\n\n".join(parts) + "\n"


def _goals(results: Results) -> str:
    rows = [
        (
            goal.what,
            f"{'at least' if goal.at_least else 'at most'} {goal.goal:g}",
            _number(goal.figure),
            "met" if goal.met else "**MISSED**",
        )
        for goal in goals(results)
    ]
    return _table(("what", "goal", "figure", ""), rows)


def _peers(results: Results) -> str:
    header = (
        *("writers", "peer", "commits/s", "least to most", "times Java's defaults", "p50 ms", "p99 ms"),
        *("failed", "unfinished", "CPU ms a commit: server", "writers", "metastore", "load"),
    )
    rows = []
    for writers in results.writers:
        best = best_java(results, writers)
        for peer in PEERS:
            blocks = results.of_peer(peer.name, writers)
            if not blocks:
                continue
            title = f"{TITLES[peer.name]} (Java's best)" if peer.name == best else TITLES[peer.name]
            rows.append(
                (
                    writers,
                    title,
                    *_speed(blocks),
                    _number(ratio(blocks, results.of_peer(JAVA_HIVE, writers))),
                    *_latency(blocks),
                    _failures(blocks),
                    sum(block.unfinished for block in blocks),
                    *(_cpu(blocks, part) for part in ("server", "writers", "metastore")),
                    _load(blocks),
                )
            )
    return _table(header, rows)


def _loads(results: Results) -> str:
    header = (
        *("table", "in flight", "commits", "commits/s", "least to most", "p50 ms", "p99 ms", "failed"),
        *("metastore calls a commit", "CPU ms a commit: server", "client", "metastore", "load"),
    )
    rows = []
    for load in results.measured_loads:
        blocks = results.of_load(load.name, load.in_flight)
        calls = [block.calls_per_commit for block in blocks if block.calls_per_commit is not None]
        rows.append(
            (
                describe(load),
                load.in_flight,
                load.commits,
                *_speed(blocks),
                *_latency(blocks),
                _failures(blocks),
                f"{statistics.median(calls):.2f}" if calls else "-",
                *(_cpu(blocks, part) for part in ("server", "client", "metastore")),
                _load(blocks),
            )
        )
    return _table(header, rows)


def describe(load: Load) -> str:
    """A description of a load for people."""
    return f"{_shape(load)}, compressed answers" if load.compressed else _shape(load)


def _shape(load: Load) -> str:
    match load.name.removesuffix(loads.PACKED):
        case loads.LONG:
            return f"history of {load.snapshots:,} snapshots"
        case loads.WIDE:
            return f"head of {load.manifests:,} manifests"
        case loads.SMALL:
            return "10 snapshots, 10 manifests"
        case loads.SLOW:
            return "new, with 60 ms more a file write"
        case loads.CALLS:
            return "new, with all metastore calls counted"
        case _:
            return "new"


def _speed(blocks: Sequence[PeerBlock] | Sequence[LoadBlock]) -> tuple[str, str]:
    rates = sorted(block.rate for block in blocks)
    return _number(rate(blocks)), f"{_number(rates[0])} to {_number(rates[-1])}"


def _latency(blocks: Sequence[PeerBlock] | Sequence[LoadBlock]) -> tuple[str, str]:
    return f"{milliseconds(blocks, 0.5):.0f}", f"{milliseconds(blocks, 0.99):.0f}"


def _failures(blocks: Sequence[PeerBlock] | Sequence[LoadBlock]) -> str:
    failed: Counter[str] = Counter()
    for block in blocks:
        failed.update(block.failed)
    return ", ".join(f"{count} {error}" for error, count in failed.most_common()) or "0"


def _cpu(blocks: Sequence[PeerBlock] | Sequence[LoadBlock], part: str) -> str:
    used = cpu_milliseconds(blocks, part)
    return "-" if used is None else f"{used:.1f}"


def cpu_milliseconds(blocks: Iterable[PeerBlock | LoadBlock], part: str) -> float | None:
    """CPU ms of a part (server, client, metastore) per acknowledged commit; None without one."""
    blocks = list(blocks)
    acknowledged = sum(block.acknowledged for block in blocks)
    return sum(block.cpu_seconds[part] for block in blocks) * 1000 / acknowledged if acknowledged else None


def _load(blocks: Sequence[PeerBlock] | Sequence[LoadBlock]) -> str:
    found = sorted(block.load_average for block in blocks)
    return f"{found[0]:.1f} to {found[-1]:.1f}"


def _settings_of_peers() -> str:
    rows = [
        (peer.name, *(", ".join(f"`{key}={value}`" for key, value in each.items()) for each in kinds))
        for peer in PEERS
        for kinds in [(peer.table, peer.settings)]
    ]
    return _table(("peer", "table properties", "settings of its writers"), rows)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == 0 else f"{value:.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


_DOTS_PER_INCH = 120
#: How many commits a point of the long run stands for.
_COMMITS_A_POINT = 100


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all plots that have results; overwrites those of an earlier run."""
    made = []
    if results.peers:
        made += [_save(peer_rates(results), folder / "commit-peers.png")]
        made += [_save(peer_cpu(results), folder / "commit-cpu.png")]
    if results.loads:
        made += [_save(load_rates(results), folder / "commit-loads.png")]
    if results.of_load(loads.MANY, 64):
        made += [_save(long_run(results), folder / "commit-many.png")]
    return made


def peer_rates(results: Results) -> Figure:
    """Acknowledged commits a second, and latencies, of each peer."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    speed, latency = figure.subplots(1, 2, sharey=True)
    names = _names(results)
    for place, writers in enumerate(results.writers):
        offset = _offset(place, len(results.writers))
        for row, name in enumerate(names):
            blocks = results.of_peer(name, writers)
            if not blocks:
                continue
            label = f"{writers} writers" if row == 0 else None
            bar = speed.barh(row + offset, rate(blocks), 0.8 / len(results.writers), color=f"C{place}", label=label)
            speed.bar_label(bar, fmt="%.1f", padding=3)
            # A dot a round.
            speed.plot([block.rate for block in blocks], [row + offset] * len(blocks), "k.", markersize=4)
            if any(block.seconds for block in blocks):
                ends = [milliseconds(blocks, share) for share in (0.5, 0.99)]
                latency.plot(ends, [row + offset] * 2, f"C{place}-o", markersize=5)
    _rows(speed, names)
    speed.set_xlabel("acknowledged commits/s: median, and each round")
    speed.legend()
    latency.set_xscale("log", subs=[2, 5])
    latency.xaxis.set_major_formatter(ScalarFormatter())
    latency.xaxis.set_minor_formatter(ScalarFormatter())
    latency.grid(axis="x", which="both", alpha=0.3)
    latency.set_xlabel("latency of acknowledged commits, ms: median to 99th percentile")
    return figure


def peer_cpu(results: Results) -> Figure:
    """CPU time of an acknowledged commit, by part; at the most writers that were measured."""
    writers = results.writers[-1]
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    names = _names(results)
    left = [0.0] * len(names)
    for part in ("server", "metastore", "writers"):
        used = [cpu_milliseconds(results.of_peer(name, writers), part) or 0.0 for name in names]
        axes.barh(range(len(names)), used, left=left, label=part)
        left = [start + more for start, more in zip(left, used, strict=True)]
    _rows(axes, names)
    axes.set_xlabel(f"CPU ms of an acknowledged commit, {writers} writers")
    axes.legend()
    return figure


def load_rates(results: Results) -> Figure:
    """Commits a second of each load."""
    shown = results.measured_loads
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    for row, load in enumerate(shown):
        blocks = results.of_load(load.name, load.in_flight)
        color = f"C{(1, 16, 64).index(load.in_flight)}"
        axes.bar_label(axes.barh(row, rate(blocks), color=color), fmt="%.0f", padding=3)
        axes.plot([block.rate for block in blocks], [row] * len(blocks), "k.", markersize=4)
    _rows(axes, [f"{describe(load)}\n{load.commits:,} commits, {load.in_flight} in flight" for load in shown])
    axes.set_xlabel("acknowledged commits/s: median, and each round")
    return figure


def long_run(results: Results) -> Figure:
    """Latency while a table grows."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    for block in results.of_load(loads.MANY, 64):
        points = [
            sorted(block.seconds[start : start + _COMMITS_A_POINT])
            for start in range(0, len(block.seconds), _COMMITS_A_POINT)
        ]
        middles = [each[len(each) // 2] * 1000 for each in points]
        axes.plot([number * _COMMITS_A_POINT for number in range(len(middles))], middles, label=f"{block.rate:.0f}/s")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("commits in the table")
    axes.set_ylabel("median latency, ms")
    axes.legend()
    return figure


def _names(results: Results) -> list[str]:
    measured = {block.peer for block in results.peers}
    return [peer.name for peer in PEERS if peer.name in measured]


def _rows(axes: Any, names: Sequence[str]) -> None:
    """Labels for horizontal bars, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    # Room for the figures at the ends of the bars.
    axes.margins(x=0.12)


def _offset(place: int, places: int) -> float:
    return (place - (places - 1) / 2) * 0.8 / places


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path
