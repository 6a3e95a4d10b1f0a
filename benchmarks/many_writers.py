"""Many processes that append to one table, beside one that has a table to itself.

    .venv/bin/python -m benchmarks.many_writers [--writers 16] [--commits 10] [--rounds 3] [--lock hms|zookeeper]
        [--java N] [--set KEY=VALUE]... [--quick] [--out build/benchmarks]

Each round has two blocks with the same number of commits, each on a new table: first one process makes them all, then
all processes together, each its share. All settings are the defaults, unless --set says otherwise. With --java so many
processes with Java's HiveCatalog append to the second table as well, in lock mode, each its share; the counts below are
of the library's writers alone.

    together / alone   commits a second of all processes, over that of the one
    slowest / mean     the time that a process took for its share
    failed, lost       commits that raised; commits that were acknowledged and are not in the table
    calls              metastore calls of a commit, by method
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import iceberg_hms
from benchmarks import report
from benchmarks.writers import make_tables
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper

ROOT = Path(__file__).parent.parent
#: The last that a process is waited for once its input is closed; seconds.
END_SECONDS = 60


class Process:
    """A writer of benchmarks.worker in a process of its own; it lives no longer than this one's interest in it."""

    def __init__(self, **job: Any) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "benchmarks.worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Raises RuntimeError if the process ended instead; its errors are on our own standard error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a writer's process ended without an answer")
        return dict(json.loads(line))

    def close(self) -> None:
        try:
            self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--commits", type=int, default=10, help="of each writer in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lock", choices=["hms", "zookeeper"], default="hms")
    parser.add_argument("--java", type=int, default=0, metavar="N", help="so many writers with Java's HiveCatalog too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all writers")
    parser.add_argument("--quick", action="store_true", help="one small round: does it run?")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.writers, arguments.commits, arguments.rounds = 3, 2, 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
        settings |= dict(each.split("=", 1) for each in arguments.set)
        if arguments.lock == "zookeeper":
            zookeeper = stack.enter_context(LocalZooKeeper(folder / "zookeeper"))
            settings |= {"zookeeper": zookeeper.hosts, "lock": "zookeeper"}
        rounds = measure(settings, folder, arguments)
    show(rounds)
    report.keep(arguments.out, f"many_writers_{arguments.lock}", vars(arguments), rounds)


def measure(settings: dict[str, Any], folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    numbers = range(arguments.writers)
    tables = [f"{kind}{number}" for number in range(arguments.rounds) for kind in ("alone", "together")]
    make_tables(settings, [*tables, *(f"warm{number}" for number in range(arguments.writers + arguments.java))])
    with ExitStack() as stack:

        def start(**job: Any) -> Process:
            process = Process(settings=settings, **job)
            stack.callback(process.close)
            return process

        library = [start(kind="library", warm_up=f"bench.warm{number}") for number in numbers]
        java = [
            start(kind="java", warm_up=f"bench.warm{arguments.writers + number}", folder=str(folder / f"java{number}"))
            for number in range(arguments.java)
        ]
        for process in (*library, *java):
            process.answer()
        rounds = []
        for number in range(arguments.rounds):
            alone = block(settings, f"bench.alone{number}", library[:1], [], arguments.commits * arguments.writers)
            rounds.append(
                {
                    "alone": alone,
                    "together": block(settings, f"bench.together{number}", library, java, arguments.commits),
                }
            )
        return rounds


def block(
    settings: dict[str, Any], table: str, library: list[Process], java: list[Process], commits: int
) -> dict[str, Any]:
    """What each writer tells of its share, and how many acknowledged commits the table does not have."""
    writers = (*library, *java)
    for process in writers:
        process.send(table=table)
    for process in writers:
        process.answer()
    for process in writers:
        process.send(commits=commits)
    told = [process.answer() for process in writers]
    with iceberg_hms.connect(**settings) as catalog:
        there = {snapshot.snapshot_id for snapshot in catalog.load_table(table).snapshots()}
    lost = [id_ for each in told for id_ in each["snapshot_ids"] if id_ not in there]
    return {"library": told[: len(library)], "java": told[len(library) :], "lost": lost}


def rate(told: list[dict[str, Any]]) -> float:
    """Successful commits a second, from the first writer's start to the last one's end."""
    done = sum(len(each["seconds"]) for each in told)
    return done / (max(each["ended"] for each in told) - min(each["started"] for each in told))


def summary(told: list[dict[str, Any]], lost: list[int]) -> dict[str, float]:
    seconds = [second for each in told for second in each["seconds"]]
    shares = [each["ended"] - each["started"] for each in told]
    calls: Counter[str] = Counter()
    for each in told:
        calls.update(each["calls"])
    return {
        "commits/s": rate(told),
        "median ms": statistics.median(seconds) * 1000,
        "p99 ms": report.quantile(seconds, 0.99) * 1000,
        "longest ms": max(seconds) * 1000,
        "slowest / mean": max(shares) / statistics.mean(shares),
        "failed": sum(len(each["errors"]) for each in told),
        "lost": len(lost),
        **{f"{method} calls": count / len(seconds) for method, count in calls.most_common()},
    }


def show(rounds: list[dict[str, Any]]) -> None:
    blocks = {
        kind: [summary(each[kind]["library"], each[kind]["lost"]) for each in rounds] for kind in ("alone", "together")
    }
    names = list(dict.fromkeys(name for found in blocks.values() for each in found for name in each))
    ratios = [rate(each["together"]["library"]) / rate(each["alone"]["library"]) for each in rounds]
    rows = [
        [name, *(f"{statistics.median(each.get(name, 0.0) for each in found):.2f}" for found in blocks.values())]
        for name in names
    ]
    rows.append(["together / alone", "", f"{statistics.median(ratios):.2f}"])
    if java := [each["together"]["java"] for each in rounds if each["together"]["java"]]:
        rows.append(["java commits/s", "", f"{statistics.median(map(rate, java)):.2f}"])
        rows.append(["java failed", "", str(sum(len(told["errors"]) for each in java for told in each))])
    report.print_table([f"median of {len(rounds)}", *blocks], rows)
    for error, count in Counter(
        error
        for each in rounds
        for kind in ("library", "java")
        for told in each["together"][kind]
        for error in told["errors"]
    ).most_common(5):
        print(f"{count} x {error}")


if __name__ == "__main__":
    main()
