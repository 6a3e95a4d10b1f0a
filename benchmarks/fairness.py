"""Fairness: which commits that the server cannot rebase land beside busy appenders, and what that costs.

    python -m benchmarks fairness [--blocks rewrites,deletes,hive] [--appenders 4] [--times 8] [--direct 10]
        [--seconds 10] [--rounds 3] [--set KEY=VALUE]... [--quick] [--out build/benchmarks]

Stock Java REST clients append to a table as fast as they can, and every append of theirs is rebased. Each round has
these blocks, each on a new table with the same few files:

    alone              they have the table to themselves, for --seconds
    rewrites, deletes  one more REST client rewrites or deletes those files, one commit each, one after the other
    hive               Java's HiveCatalog in lock mode replaces one appender; it bypasses the server and makes --direct
                       appends one after the other

The last three have a control: a second server process whose settings let no commit wait for another
(`commit.retry-priority.max-wait-ms` and `commit.foreign-writer-backoff.max-wait-ms` are 0). All other settings are the
defaults, unless --set changes them, the retries of the clients too.
A rewrite needs no retry priority, since the server rebases it as well: its control shows that.

    appends/s   of the appenders, acknowledged while the other one worked; the median of the rounds
    of alone    over that of the first block of the same round; the median of the rounds
    landed      commits of the other client that landed, of all, in all rounds
    s each      seconds that one of them took, landed or not
    failed      appends of the appenders
    lost        acknowledged appends, of either, that the table's own count of files lacks
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import iceberg_hms
from benchmarks import instruments
from benchmarks.instruments import serving
from benchmarks.writers import SCHEMA, JavaWriters
from iceberg_hms.config import Settings
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.setting import described
from integration import interop

NAMESPACE = "fair"
BESIDE = ("rewrites", "deletes", "hive")
PROPERTIES = {"iceberg-hms.rebase-appends": "all"}
#: The settings of the controls: no commit waits for another.
UNFAIR = {"commit.retry-priority.max-wait-ms": 0, "commit.foreign-writer-backoff.max-wait-ms": 0}
#: Commits of each appender before a block is measured, and how long they may take; seconds.
WARM_UP = 2
WARM_UP_SECONDS = 60


@dataclass
class Block:
    """The result of one block. seconds: its measured time. others: (error or None, seconds) of each commit beside the
    appenders. lost: acknowledged files that the table does not count."""

    kind: str
    is_control: bool
    appenders: int
    seconds: float = 0.0
    appends: int = 0
    errors: list[str] = field(default_factory=list)
    others: list[tuple[str | None, float]] = field(default_factory=list)
    lost: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}, control" if self.is_control else self.kind

    @property
    def rate(self) -> float:
        return self.appends / self.seconds

    @property
    def landed(self) -> int:
        return sum(error is None for error, _ in self.others)


class Appenders:
    """Stock REST clients, each on a thread, that append until stopped. acknowledged: `perf_counter()` of each."""

    def __init__(self, java: JavaWriters, uri: str, table: str, count: int) -> None:
        self.acknowledged: list[float] = []
        self.errors: list[str] = []
        self._java = java
        self._catalogs = [java.rest(f"{table} {number}", uri) for number in range(count)]
        self._table = table
        self._warm = threading.Semaphore(0)
        self._stopped = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run the appenders; the block starts once each has made a few appends."""
        with ThreadPoolExecutor(len(self._catalogs)) as pool:
            futures = [pool.submit(self._work, number) for number in range(len(self._catalogs))]
            try:
                for _ in range(WARM_UP * len(self._catalogs)):
                    if not self._warm.acquire(timeout=WARM_UP_SECONDS):
                        raise RuntimeError(f"the appenders make no progress: {self.errors[:3]}")
                yield
            finally:
                self._stopped.set()
            for future in futures:
                future.result()
        for catalog in self._catalogs:
            catalog.close()

    def _work(self, appender: int) -> None:
        table = self._java.load(self._catalogs[appender], self._table)
        number = 0
        while not self._stopped.is_set():
            number += 1
            (file,) = self._java.files([f"file:/nowhere/{appender}-{number}.parquet"])
            error = self._java.append(table, file)
            if error is None:
                self.acknowledged.append(perf_counter())
            else:
                self.errors.append(error)
            if number <= WARM_UP:
                self._warm.release()


class Round:
    """Runs blocks. uris: True for the control, where no commit waits for another, False for the server at its
    defaults."""

    def __init__(
        self, java: JavaWriters, metastore: LocalMetastore, uris: Mapping[bool, str], options: argparse.Namespace
    ) -> None:
        self._java = java
        self._metastore = metastore
        self._uris = uris
        self._options = options

    def block(self, number: int, kind: str, *, is_control: bool) -> Block:
        """One block on a table of its own."""
        options = self._options
        table = f"{NAMESPACE}.{kind}_{'control_' if is_control else ''}{number}"
        uri = self._uris[is_control]
        first = self._create(table)
        made = Block(kind, is_control, options.appenders - (kind == "hive"))
        appenders = Appenders(self._java, uri, table, made.appenders)
        client = self._client(kind, table, uri)
        loaded = self._java.load(client, table)
        with appenders.at_work():
            begun = perf_counter()
            match kind:
                case "alone":
                    threading.Event().wait(options.seconds)
                case "rewrites":
                    made.others = [timed(self._rewrite, loaded, old) for old in first]
                case "deletes":
                    made.others = [timed(self._delete, loaded, old) for old in first]
                case _:
                    made.others = [timed(self._append, loaded, n) for n in range(options.direct)]
            ended = perf_counter()
        client.close()
        made.seconds = ended - begun
        made.appends = sum(begun <= moment <= ended for moment in appenders.acknowledged)
        made.errors = appenders.errors
        made.lost = self._expected(made, len(first), len(appenders.acknowledged)) - self._count(table)
        return made

    def _create(self, table: str) -> list[Any]:
        """Create a table with one file for each rewrite or delete; returns Java's records of the files."""
        paths = [f"file:/nowhere/first-{number}.parquet" for number in range(self._options.times)]
        with self._connected() as catalog:
            catalog.create_table(table, SCHEMA, properties=PROPERTIES)
        client = self._java.rest(f"{table} first", self._uris[False])
        loaded = self._java.load(client, table)
        files = self._java.files(paths)
        for file in files:
            if error := self._java.append(loaded, file):
                raise RuntimeError(error)
        client.close()
        return files

    def _client(self, kind: str, table: str, uri: str) -> Any:
        if kind == "hive":
            return self._java.hive(f"{table} other", self._metastore.uri, self._metastore.warehouse, {})
        return self._java.rest(f"{table} other", uri)

    def _rewrite(self, table: Any, old: Any) -> str | None:
        (new,) = self._java.files([f"{old.location()}.new"])
        return interop.java_error(table.newRewrite().rewriteFiles({old}, {new}).commit)

    def _delete(self, table: Any, old: Any) -> str | None:
        return interop.java_error(table.newDelete().deleteFile(old).commit)

    def _append(self, table: Any, number: int) -> str | None:
        (file,) = self._java.files([f"file:/nowhere/direct-{number}.parquet"])
        return self._java.append(table, file)

    def _expected(self, block: Block, first: int, appended: int) -> int:
        return first + appended + {"deletes": -block.landed, "hive": block.landed}.get(block.kind, 0)

    def _count(self, table: str) -> int:
        with self._connected() as catalog:
            snapshot = catalog.load(table).metadata.current_snapshot
        return int(snapshot.summary["total-data-files"]) if snapshot is not None else 0

    def _connected(self) -> Any:
        return iceberg_hms.connect(metastore_uri=self._metastore.uri, warehouse=self._metastore.warehouse)


def timed(commit: Callable[[Any, Any], str | None], table: Any, what: Any) -> tuple[str | None, float]:
    """The error of a commit, or None, and how many seconds it took."""
    begun = perf_counter()
    return commit(table, what), perf_counter() - begun


@contextmanager
def in_environment(values: Mapping[str, Any]) -> Iterator[None]:
    """Settings for the processes that start in this block."""
    known = {setting.key: setting.variable for setting in described(Settings)}
    variables = {known[key]: str(value) for key, value in values.items()}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def show(blocks: Sequence[Block], rounds: int) -> None:
    per_round = len(blocks) // rounds
    alone = {id(block): blocks[index // per_round * per_round].rate for index, block in enumerate(blocks)}
    rows = []
    for name in dict.fromkeys(block.name for block in blocks):
        mine = [block for block in blocks if block.name == name]
        others = [other for block in mine for other in block.others]
        of_alone = statistics.median(block.rate / alone[id(block)] for block in mine)
        rows.append(
            (
                name,
                mine[0].appenders,
                f"{statistics.median(block.rate for block in mine):.1f}",
                f"{of_alone:.2f}" if mine[0].appenders == blocks[0].appenders else "",
                f"{sum(block.landed for block in mine)} of {len(others)}" if others else "",
                f"{statistics.mean(seconds for _, seconds in others):.2f}" if others else "",
                sum(len(block.errors) for block in mine),
                sum(block.lost for block in mine),
            )
        )
    instruments.print_table(("block", "appenders", "appends/s", "of alone", "landed", "s each", "failed", "lost"), rows)
    for block in blocks:
        for error in block.errors[:2]:
            print(f"{block.name}: {error.splitlines()[0][:200]}")


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--blocks", default=",".join(BESIDE), help="several, with commas; `alone` is always the first")
    parser.add_argument("--appenders", type=int, default=4)
    parser.add_argument("--times", type=int, default=8, help="rewrites, and deletes, of a block")
    parser.add_argument("--direct", type=int, default=10, help="appends of HiveCatalog in a block")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the first block of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both servers")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args()
    if options.quick:
        options.times, options.direct, options.seconds, options.rounds = 2, 2, 2.0, 1
    chosen = options.blocks.split(",")
    if not set(chosen) <= set(BESIDE):
        parser.error(f"blocks are {', '.join(BESIDE)}")
    kinds = [("alone", False), *((kind, is_control) for kind in chosen for is_control in (False, True))]
    given = dict(each.split("=", 1) for each in options.set)
    blocks: list[Block] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
            catalog.create_namespace(NAMESPACE)
        uris = {}
        for is_control, values in ((False, given), (True, given | UNFAIR)):
            with in_environment(values):
                log = folder / f"{'control' if is_control else 'server'}.log"
                uris[is_control] = stack.enter_context(serving(metastore, log)).uri
        java = JavaWriters(folder / "java")
        stack.callback(java.close)
        rounds = Round(java, metastore, uris, options)
        for number in range(options.rounds):
            blocks += [rounds.block(number, kind, is_control=is_control) for kind, is_control in kinds]
    show(blocks, options.rounds)
    instruments.keep(options.out, "fairness", {**vars(options), "controls": UNFAIR}, [vars(block) for block in blocks])
