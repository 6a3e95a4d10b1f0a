"""Commits to tables in a bucket, far away: iceberg-hms beside Java's HiveCatalog, by what each answer takes longer.

    python -m benchmarks object-store [--delays 0,20,60] [--in-flight 1,16,64] [--commits 10] [--rounds 3]
        [--java java-hive,java-hive-tuned]

MinIO on this machine (`make minio`), and before it a proxy that holds each answer back by so many milliseconds. The
requests of `loads.py`, which clients built near the store, go to a server that is far from it: all but one of a table
are stale, so for each the server reads the client's manifest list, and writes one of its own. Between their blocks
Java's HiveCatalog appends as many files to the same bucket through the same proxy, in as many writers, which all run in
one JVM, with S3FileIO: the peers of `contest.py` that --java names, none if it is empty. A block of theirs ends after
--limit seconds. All takes half an hour, or less with fewer delays. Each block has a table of its own. Ends with 1 if a
table does not match the answers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import orjson

import iceberg_hms
from benchmarks import instruments, loads
from benchmarks.contest import JAVA_HIVE, JAVA_HIVE_BEST, PEERS, Contest, Kind, Peer, PeerBlock
from benchmarks.instruments import ROOT, Serving, serving
from benchmarks.loads import Load, LoadBlock
from benchmarks.writers import JavaWriters
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.spark.s3 import AWS_BUNDLE
from integration import maven_packages
from integration.stores.java_s3 import java_properties
from integration.stores.minio import ObjectStore, local_object_store

BUCKET = "lake"
#: Commits of each of Java's peers before the measured ones, for the JVM's compiler.
WARM_UP = 5


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--delays", type=numbers, default=[0, 20, 60], help="milliseconds; several, with commas")
    parser.add_argument("--in-flight", type=numbers, default=[1, 16, 64])
    parser.add_argument(
        "--commits", type=int, default=10, help="of each client of a block; a client alone makes thrice"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--java", type=_java, default=[JAVA_HIVE, JAVA_HIVE_BEST[0]], help="peers; several, with commas"
    )
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of a block of Java's")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        measured = Measured(stack, arguments)
        for round_ in range(arguments.rounds):
            measured.round(round_)
    found = list(measured.blocks.values())
    instruments.print_table(
        ("in flight", "commits by", "answers later by", "commits/s", "p50 ms", "p99 ms", "failed"),
        list(map(_row, found)),
    )
    instruments.keep(arguments.out, "object-store", vars(arguments), [asdict(each) for row in found for each in row])
    findings = [finding for row in found for each in row for finding in each.block.findings]
    print("\n".join(findings))
    raise SystemExit(1 if findings else 0)


@dataclass(frozen=True)
class Block:
    """One block. delay: milliseconds. failed: of commits, those unfinished at the limit too."""

    who: str
    in_flight: int
    delay: int
    failed: int
    block: LoadBlock | PeerBlock


class Measured:
    """The servers and writers, each at its distance from the store, which end with the stack. blocks: by row of the
    printed table."""

    def __init__(self, stack: ExitStack, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        store = stack.enter_context(local_object_store(folder))
        store.make_bucket(BUCKET)
        metastore = stack.enter_context(LocalMetastore(folder / "hms", warehouse=f"s3://{BUCKET}/warehouse"))
        assert metastore.pid is not None
        self._metastore_pid = metastore.pid
        where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
        self._near = stack.enter_context(iceberg_hms.connect(**where, **store.settings()))
        self._near.create_namespace(loads.NAMESPACE)
        self._servers: dict[int, Serving] = {}
        endpoints: dict[int, str] = {}
        for delay in arguments.delays:
            endpoints[delay] = stack.enter_context(far_from(store.endpoint, delay / 1_000))
            settings = store.settings(endpoint=endpoints[delay])
            variables = {f"ICEBERG_HMS_{name.upper()}": str(value) for name, value in settings.items()}
            log = folder / f"server-{delay}.log"
            self._servers[delay] = stack.enter_context(serving(metastore, log, environment=variables))
        if arguments.java:
            maven_packages.fetch(folder, AWS_BUNDLE)
        self._java = JavaPeers(folder / "java", metastore, store, self._servers, endpoints, arguments.limit)
        stack.callback(self._java.close)
        self.blocks: dict[tuple[int, str, int], list[Block]] = {}

    def round(self, round_: int) -> None:
        arguments = self._arguments
        for in_flight in arguments.in_flight:
            commits = arguments.commits * (1 if in_flight > 1 else 3)
            for delay, server in self._servers.items():
                load = Load(f"s3_{delay}", in_flight, commits * in_flight)
                block = loads.run(self._near, server, self._metastore_pid, load, round_)
                self._keep(Block("iceberg-hms", in_flight, delay, sum(block.failed.values()), block))
                for peer in _peers(arguments.java, delay):
                    theirs = self._java.run(peer, delay, in_flight, commits, round_)
                    failed = sum(theirs.failed.values()) + theirs.unfinished
                    self._keep(Block(peer.title, in_flight, delay, failed, theirs))

    def _keep(self, block: Block) -> None:
        self.blocks.setdefault((block.in_flight, block.who, block.delay), []).append(block)
        print(_row([block]), flush=True)


class JavaPeers:
    """Java's writers, all in one JVM. Commits that a block leaves unfinished would go on beside the next one, and hold
    the metastore's connections to its database: such a block ends the JVM. Close it.

    servers, endpoints: by delay."""

    def __init__(
        self,
        folder: Path,
        metastore: LocalMetastore,
        store: ObjectStore,
        servers: Mapping[int, Serving],
        endpoints: Mapping[int, str],
        limit: float,
    ) -> None:
        self._folder = folder
        self._metastore = metastore
        self._store = store
        self._servers = servers
        self._endpoints = endpoints
        self._limit = limit
        self._jvm = ExitStack()
        self._writers: JavaWriters | None = None
        self._contests: dict[int, Contest] = {}
        self._started = 0

    def run(self, peer: Peer, delay: int, writers: int, commits: int, round_: int) -> PeerBlock:
        """One block, once the peer is warm."""
        contest = self._contest(peer, delay)
        block = contest.run(peer, writers, commits, round_)
        if block.unfinished:
            self.close()
        return block

    def close(self) -> None:
        """End the JVM, and the commits in it."""
        self._jvm.close()
        self._writers = None
        self._contests.clear()

    def _contest(self, peer: Peer, delay: int) -> Contest:
        if self._writers is None:
            self._started += 1
            self._writers = JavaWriters(self._folder, [maven_packages.jar(AWS_BUNDLE)])
            self._jvm.callback(self._writers.close)
        if delay not in self._contests:
            contest = Contest(
                self._metastore,
                self._servers[delay],
                self._writers,
                limit=self._limit,
                settings=self._store.settings(),
                store=java_properties(self._store, endpoint=self._endpoints[delay]),
            )
            self._jvm.callback(contest.close)
            self._contests[delay] = contest
            contest.run(peer, 1, WARM_UP, f"warm_{self._started}")
        return self._contests[delay]


@contextmanager
def far_from(endpoint: str, seconds: float) -> Iterator[str]:
    """An address at which an endpoint's answers come so much later."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "benchmarks", "distance", "--target", endpoint, "--seconds", str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{orjson.loads(process.stdout.readline())['port']}"
    finally:
        # This closes its input, which ends it.
        process.communicate(timeout=instruments.END_SECONDS)


def _row(blocks: Sequence[Block]) -> Sequence[str]:
    first = blocks[0]
    rates = [each.block.rate for each in blocks]
    seconds = [second for each in blocks for second in each.block.seconds]
    at = [f"{instruments.quantile(seconds, part) * 1_000:.0f}" if seconds else "" for part in (0.5, 0.99)]
    rate = f"{median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"
    return str(first.in_flight), first.who, f"{first.delay} ms", rate, *at, str(sum(each.failed for each in blocks))


def _peers(names: Sequence[str], delay: int) -> list[Peer]:
    """Java's, with names of their own for each delay."""
    return [replace(each, name=f"{each.name}-{delay}") for each in PEERS if each.name in names]


def _java(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    known = [each.name for each in PEERS if each.kind is Kind.HIVE]
    if unknown := set(names).difference(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: the peers are {', '.join(known)}")
    return names


def numbers(text: str) -> list[int]:
    """Of a text with commas."""
    return [int(part) for part in text.split(",")]
