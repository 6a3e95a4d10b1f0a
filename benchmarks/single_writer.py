"""How much of the metastore's own speed one writer gets: commits by the library beside the bare calls of a commit.

    .venv/bin/python -m benchmarks.single_writer [--java] [--rounds 40] [--commits 5] [--quick] [--out build/benchmarks]

On one embedded metastore, in one run, blocks of these kinds alternate, each on a table of its own:

    bare      lock, get_table_req, alter_table_with_environment_context with the expected value, unlock; the row changes
              as it does in an append
    bare+get  the same with a second get_table_req, before the lock
    library   Table.append of one DataFile record: the same calls, plus a manifest, a list and a metadata file
    java      with --java: the same append by Java's HiveCatalog 1.11.0, in lock mode

Prints medians of the blocks' rates and the median of the ratios of neighbouring blocks; raw results are kept as JSON.
Blocks are short, so that both of a ratio see the same machine where others use it too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.writers import Bare, JavaHive, Library, Writer, count_calls, make_tables, timed
from iceberg_hms.local.metastore import LocalMetastore

#: Commits of each kind before the first round: connections, verdicts, the server's and Java's compilers.
WARM_UP = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--commits", type=int, default=5, help="in each block")
    parser.add_argument("--java", action="store_true", help="also Java's HiveCatalog")
    parser.add_argument("--quick", action="store_true", help="one small round: does it run?")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.commits = 1, 3
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, LocalMetastore(folder) as metastore:
        blocks = measure(metastore, Path(folder), arguments)
    show(blocks)
    report.keep(arguments.out, "single_writer", vars(arguments), blocks)


def measure(metastore: LocalMetastore, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One dict a round: for each kind the durations of its commits, and its metastore calls."""
    settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    make_tables(settings, [f"t{number}" for number in range(4)])
    calls = count_calls()
    with ExitStack() as stack:
        writers: dict[str, Writer] = {
            "bare": Bare(settings),
            "bare+get": Bare(settings, second_get=True),
            "library": Library(settings),
        }
        if arguments.java:
            writers["java"] = JavaHive(settings, folder / "java")
        for number, writer in enumerate(writers.values()):
            stack.callback(writer.close)
            writer.load(f"bench.t{number}")
            timed(writer, 1 if arguments.quick else WARM_UP)
        rounds = []
        for _ in range(arguments.rounds):
            block = {}
            for kind, writer in writers.items():
                calls.clear()
                block[kind] = {"seconds": timed(writer, arguments.commits), "calls": dict(calls)}
            rounds.append(block)
        return rounds


def rate(block: dict[str, Any]) -> float:
    return len(block["seconds"]) / sum(block["seconds"])


def show(rounds: list[dict[str, Any]]) -> None:
    rows = []
    for kind in rounds[0]:
        rates = sorted(rate(each[kind]) for each in rounds)
        seconds = [second for each in rounds for second in each[kind]["seconds"]]
        calls = sum(sum(each[kind]["calls"].values()) for each in rounds) / len(seconds)
        rows.append(
            [
                kind,
                f"{statistics.median(rates):.1f}",
                f"{rates[0]:.1f} to {rates[-1]:.1f}",
                f"{statistics.median(seconds) * 1000:.1f}",
                f"{report.quantile(seconds, 0.99) * 1000:.0f}",
                f"{calls:.2f}" if calls else "-",
                f"{statistics.median(rate(each['library']) / rate(each[kind]) for each in rounds):.2f}",
            ]
        )
    header = ["", "commits/s", "least to most", "median ms", "p99 ms", "calls/commit", "library is"]
    report.print_table(header, rows)


if __name__ == "__main__":
    main()
