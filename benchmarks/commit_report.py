"""The report of `bench_commit` in Markdown: goals, tables, plots, and what it was measured with."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import loads
from benchmarks.contest import PeerBlock
from benchmarks.figures import TITLES, Results, best_java, goals, milliseconds, rate, ratio
from benchmarks.loads import Load, LoadBlock
from benchmarks.peers import JAVA_HIVE, PEERS

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
    """For people."""
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
    """CPU time of a part of the world for each acknowledged commit; None if there is none."""
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
