"""The plots of `bench_commit`, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from benchmarks import loads
from benchmarks.commit_report import cpu_milliseconds, describe
from benchmarks.figures import Results, milliseconds, rate
from benchmarks.peers import PEERS

_DOTS_PER_INCH = 120
#: How many commits a point of the long run stands for.
_COMMITS_A_POINT = 100


def draw(results: Results, folder: Path) -> list[Path]:
    """All plots that there are results for; overwrites those of an earlier run."""
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
    """How latency goes while a table grows."""
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
