"""Commits of many writers to one table: iceberg-hms beside Java's and PyIceberg's HiveCatalog, and under load.

    python -m benchmarks commit [--writers 8,16] [--commits 5] [--rounds 3] [--minutes 12]
        [--only NAME,...] [--quick] [--out build/benchmarks]

On one metastore, in one run, blocks of all kinds alternate, each on a table of its own: first those of `loads.py`,
which send requests built before as fast as the server takes them, then those of `contest.py`, where writers of several
programs make the same appends. --only takes the names of both. Writes commit.json with every figure and every setting,
and commit.md with goals, tables and plots. Ends with 1 if a table does not match the answers that its writers got.

On ext4 start when nothing has deleted many files for six minutes, not after the tests and not after another run:
creating a file walks over all recently freed inodes, one by one, and takes ten times as long.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import Any

import iceberg_hms
from benchmarks import commit_report, instruments, loads
from benchmarks.commit_report import Results, goals
from benchmarks.contest import NAMESPACE, PEERS, Contest, Kind, Peer, PeerBlock
from benchmarks.instruments import ROOT, Serving, serving
from benchmarks.loads import LOADS, Load, LoadBlock
from benchmarks.writers import JavaWriters, iceberg_jar
from iceberg_hms.local.gateway import spark_jars
from iceberg_hms.local.metastore import LocalMetastore

#: Time limit of a block of peers; seconds. PyIceberg at its defaults uses it up.
LIMIT_SECONDS = 25.0
#: Commits of each writer of a peer before the first round: they open connections and warm up the JVM.
WARM_UP = 3
#: In --quick.
QUICK_LIMIT_SECONDS = 8.0
QUICK_HISTORY = 1_000
#: By `Load.write_seconds` and `Load.compressed`.
Servers = Mapping[tuple[float | None, bool], Serving]
_PACKAGES = ("pyiceberg", "pyspark", "pyarrow", "orjson", "thrift", "uvicorn", "uvloop")


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--writers", type=_numbers, default=[8, 16], help="of a peer; several, with commas")
    parser.add_argument("--commits", type=int, default=5, help="of each writer of a block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=12, help="start no round that would end later")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {', '.join(_all_names())}")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if unknown := set(arguments.only or ()) - set(_all_names()):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}")
    machine = instruments.machine()
    results, versions = measure(arguments)
    settings = {**vars(arguments), "limit_seconds": _limit(arguments), "warm_up": WARM_UP, "versions": versions}
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn = commit_report.draw(results, arguments.out)
    text = commit_report.render(results, settings, machine, drawn)
    written = arguments.out / "commit.md"
    written.write_text(text, encoding="utf-8")
    rows = [
        (goal.what, f"{goal.goal:g}", f"{goal.figure:.2f}", "met" if goal.met else "MISSED") for goal in goals(results)
    ]
    instruments.print_table(("what", "goal", "figure", ""), rows)
    settings |= {"peers": [asdict(each) for each in PEERS], "loads": [asdict(each) for each in LOADS], "start": machine}
    instruments.keep(arguments.out, "commit", settings, asdict(results))
    print(f"report: {written}")
    for finding in results.findings:
        print(finding)
    raise SystemExit(1 if results.findings else 0)


def measure(arguments: argparse.Namespace) -> tuple[Results, Mapping[str, str]]:
    """Run all blocks; returns them with the versions of the programs."""
    begun = monotonic()
    peers = [each for each in PEERS if not arguments.only or each.name in arguments.only]
    wanted = [each for each in LOADS if not arguments.only or each.name in arguments.only]
    writers, commits, rounds = arguments.writers, arguments.commits, arguments.rounds
    if arguments.quick:
        wanted, writers, commits, rounds = [_small(each) for each in wanted], [4], 2, 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        # Building the load does not wait for the disk; the servers' own writes do.
        catalog = stack.enter_context(
            iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, storage_fsync=False)
        )
        catalog.create_namespace(NAMESPACE)
        server = stack.enter_context(serving(metastore, folder / "server.log"))
        servers: dict[tuple[float | None, bool], Serving] = {(None, False): server}
        for seconds, compressed in {(each.write_seconds, each.compressed) for each in wanted} - servers.keys():
            log = folder / f"server-{seconds}-{compressed}.log"
            made = serving(metastore, log, write_seconds=seconds, compressed=compressed)
            servers[seconds, compressed] = stack.enter_context(made)
        versions = _versions()
        contest = None
        if peers:
            java = JavaWriters(folder / "java")
            stack.callback(java.close)
            versions["java"] = java.version
            contest = Contest(metastore, server, java, limit=_limit(arguments))
            stack.callback(contest.close)
        assert metastore.pid is not None
        found_peers, found_loads = [], []
        for round_ in range(rounds):
            # The next round takes no longer than those so far: PyIceberg runs in the first one alone.
            if round_ and (monotonic() - begun) * (round_ + 1) / round_ > arguments.minutes * 60:
                print(f"no time for round {round_ + 1} of {rounds}")
                break
            # Peers come last: their unfinished commits go on for minutes and would disturb the next blocks.
            found_loads += list(_load_blocks(catalog, servers, metastore.pid, wanted, round_))
            if contest is not None:
                if not round_:
                    _warm_up(contest, peers, max(writers))
                found_peers += list(_peer_blocks(contest, peers, writers, commits, round_))
        return Results(found_peers, found_loads), versions


def _peer_blocks(
    contest: Contest, peers: Sequence[Peer], writers: Sequence[int], commits: int, round_: int
) -> Iterator[PeerBlock]:
    for count in writers:
        for peer in peers:
            if round_ == 0 or not peer.once:
                block = contest.run(peer, count, commits, round_)
                _progress(round_, f"{peer.name}, {count} writers", block, sum(block.failed.values()))
                yield block


def _load_blocks(
    catalog: Any, servers: Servers, metastore_pid: int, wanted: Sequence[Load], round_: int
) -> Iterator[LoadBlock]:
    for load in wanted:
        if round_ == 0 or not load.once:
            block = loads.run(catalog, servers[load.write_seconds, load.compressed], metastore_pid, load, round_)
            _progress(round_, f"{load.name}, {load.in_flight} in flight", block, sum(block.failed.values()))
            yield block


def _progress(round_: int, what: str, block: PeerBlock | LoadBlock, failed: int) -> None:
    print(f"round {round_ + 1}: {what}: {block.rate:.1f}/s, {failed} failed, load {block.load_average:.1f}", flush=True)


def _warm_up(contest: Contest, peers: Sequence[Peer], writers: int) -> None:
    for peer in peers:
        if peer.kind is not Kind.PYICEBERG:
            contest.run(peer, writers, WARM_UP, "warm")


def _small(load: Load) -> Load:
    """The same for --quick."""
    return replace(load, snapshots=min(load.snapshots, QUICK_HISTORY), commits=4 * load.in_flight)


def _limit(arguments: argparse.Namespace) -> float:
    return QUICK_LIMIT_SECONDS if arguments.quick else LIMIT_SECONDS


def _versions() -> dict[str, str]:
    """Versions of all measured programs."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    jars = sorted(spark_jars().glob("hive-metastore-*.jar"))
    found |= {"metastore": jars[0].stem if jars else "", "iceberg": iceberg_jar().stem}
    git = shutil.which("git")
    if git is not None:
        command = [git, "-C", str(ROOT), "describe", "--always", "--dirty"]
        found["revision"] = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - no input of others
    return found


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _all_names() -> list[str]:
    return [*(peer.name for peer in PEERS), *dict.fromkeys(load.name for load in LOADS)]
