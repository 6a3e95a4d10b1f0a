"""Stock engines that append to one table at the same time: what the server acknowledges, and what it refuses for good.

    python -m benchmarks appenders [--engines pyiceberg,spark] [--modes default,all,snapshot]
        [--writers 8] [--appends 10] [--rounds 3] [--quick] [--out build/benchmarks]

Each block has a new table and so many writers, which start together and append one row at a time, one commit after the
other, at the defaults of their engine (4 retries). PyIceberg's writers are processes of their own that call
`Table.append`; Spark's are sessions of one Spark application that run `INSERT`. The server is the command as users
start it. The modes are table properties:

    default   none
    none      iceberg-hms.rebase-appends=none
    all       iceberg-hms.rebase-appends=all
    snapshot  write.merge.isolation-level, write.update.isolation-level and write.delete.isolation-level are `snapshot`

    acknowledged   appends whose call returned, in all rounds
    refused        appends whose call reported that nothing changed, after all retries of their engine
    unknown        appends whose call did not report an outcome
    /s             acknowledged appends a second, from the first writer's start to the last one's end; the median of the
                   rounds
    409/append     how often the server refused an attempt, over the appends
    wrong          acknowledged rows that the table does not hold exactly once, and refused rows that it holds

Ends with 1 if a row is wrong.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Barrier
from time import monotonic, perf_counter
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks import instruments
from benchmarks.instruments import Serving, serving
from benchmarks.writers import iceberg_jar
from iceberg_hms.local.gateway import QUICK_START
from iceberg_hms.local.metastore import LocalMetastore
from integration import interop

NAMESPACE = "stock"
SCHEMA = pa.schema([("id", pa.int64())])
_LEVELS = {f"write.{operation}.isolation-level": "snapshot" for operation in ("merge", "update", "delete")}
MODES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "none": {"iceberg-hms.rebase-appends": "none"},
    "all": {"iceberg-hms.rebase-appends": "all"},
    "snapshot": _LEVELS,
}
#: Row ids of a writer begin at its number times this.
IDS = 1_000_000
#: Time limit of a block; seconds.
BLOCK_SECONDS = 600
#: Part of an engine's error when nothing changed.
_REFUSED = ("CommitFailedException", "ValidationException")


@dataclass
class Share:
    """The answers that one writer got. acknowledged, refused, unknown: row ids. seconds: of each acknowledged append.
    started, ended: on the machine's clock."""

    acknowledged: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = 0.0
    ended: float = 0.0


@dataclass
class Block:
    """The result of one block. counts: the server's counters. wrong: rows that the table should not hold, or lacks."""

    engine: str
    mode: str
    writers: int
    shares: list[Share]
    counts: Mapping[str, float]
    wrong: list[str]

    def total(self, name: str) -> int:
        return sum(len(getattr(share, name)) for share in self.shares)

    @property
    def rate(self) -> float:
        wall = max(share.ended for share in self.shares) - min(share.started for share in self.shares)
        return self.total("acknowledged") / wall


def write(append: Callable[[int], None], writer: int, appends: int) -> Share:
    """A writer's appends, one after the other."""
    share = Share(started=monotonic())
    for row in range(writer * IDS, writer * IDS + appends):
        begun = perf_counter()
        try:
            append(row)
        except Exception as error:  # noqa: BLE001 - any engine's error; a defect of ours is a failed append too
            text = f"{type(error).__name__}: {error}"
            (share.refused if any(name in text for name in _REFUSED) else share.unknown).append(row)
            share.errors.append(text.splitlines()[0])
        else:
            share.acknowledged.append(row)
            share.seconds.append(perf_counter() - begun)
    share.ended = monotonic()
    return share


def write_with_pyiceberg(uri: str, table: str, writer: int, appends: int, start: Any, answers: Any) -> None:
    """The program of one PyIceberg writer."""
    from pyiceberg.catalog import load_catalog

    # It logs each of its retries.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    loaded = load_catalog("stock", type="rest", uri=uri).load_table(table)

    def append(row: int) -> None:
        try:
            loaded.append(pa.table({"id": [row]}, SCHEMA))
        except Exception:
            # Reload the table, as a program does that goes on after an error.
            loaded.refresh()
            raise

    start.wait(BLOCK_SECONDS)
    answers.put(asdict(write(append, writer, appends)))


def run_pyiceberg(uri: str, table: str, writers: int, appends: int) -> list[Share]:
    """Writers in processes of their own, which end with the block."""
    processes = multiprocessing.get_context("spawn")
    start, answers = processes.Barrier(writers), processes.Queue()
    made = [
        processes.Process(target=write_with_pyiceberg, args=(uri, table, number, appends, start, answers), daemon=True)
        for number in range(writers)
    ]
    for each in made:
        each.start()
    shares = [Share(**answers.get(timeout=BLOCK_SECONDS)) for _ in made]
    for each in made:
        each.join(BLOCK_SECONDS)
    return shares


@contextmanager
def spark_application(folder: Path, uri: str, threads: int) -> Iterator[Any]:
    """A Spark session with a catalog `stock`: the server, by Iceberg's stock REST client."""
    from pyspark.sql import SparkSession

    # PySpark logs every statement that fails, with its stack.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    settings = {
        "spark.master": f"local[{threads}]",
        "spark.app.name": "stock appenders",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": " ".join(QUICK_START),
        "spark.jars": str(iceberg_jar()),
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.stock": interop.SPARK_CATALOG,
        "spark.sql.catalog.stock.type": "rest",
        "spark.sql.catalog.stock.uri": uri,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def run_spark(application: Any, table: str, writers: int, appends: int) -> list[Share]:
    """Writers as sessions of one application, each on a thread."""
    start = Barrier(writers)

    def run(number: int) -> Share:
        session = application.newSession()
        session.table(f"stock.{table}").collect()
        start.wait(BLOCK_SECONDS)
        insert = f"INSERT INTO stock.{table} VALUES"
        return write(lambda row: session.sql(f"{insert} ({row})").collect(), number, appends)

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(run, range(writers)))


def check(uri: str, table: str, shares: Sequence[Share]) -> list[str]:
    """What is wrong with the table's rows, as PyIceberg reads them."""
    from pyiceberg.catalog import load_catalog

    rows = Counter(load_catalog("stock", type="rest", uri=uri).load_table(table).scan().to_arrow()["id"].to_pylist())
    acknowledged = {row for share in shares for row in share.acknowledged}
    refused = {row for share in shares for row in share.refused}
    sent = acknowledged | {row for share in shares for row in share.unknown}
    return [
        *(f"row {row} was acknowledged and is there {rows[row]} times" for row in acknowledged if rows[row] != 1),
        *(f"row {row} was refused and is there" for row in refused if rows[row]),
        *(f"row {row} is there {count} times" for row, count in rows.items() if count > (row in sent)),
    ]


def measure(options: argparse.Namespace) -> list[Block]:
    blocks: list[Block] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        server = stack.enter_context(serving(metastore, folder / "server.log"))
        catalog = stack.enter_context(iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse))
        catalog.create_namespace(NAMESPACE)
        application = None
        if "spark" in options.engines:
            application = stack.enter_context(spark_application(folder, server.uri, options.writers))
        for round_ in range(options.rounds):
            for engine in options.engines:
                for mode in options.modes:
                    table = f"{NAMESPACE}.{engine}_{mode}_{round_}"
                    catalog.create_table(table, SCHEMA, properties=MODES[mode])
                    blocks.append(block(server, application, table, engine, mode, options))
    return blocks


def block(server: Serving, application: Any, table: str, engine: str, mode: str, options: argparse.Namespace) -> Block:
    before = server.counts()
    if engine == "spark":
        shares = run_spark(application, table, options.writers, options.appends)
    else:
        shares = run_pyiceberg(server.uri, table, options.writers, options.appends)
    after = server.counts()
    counts = {name: after[name] - before[name] for name in after}
    return Block(engine, mode, options.writers, shares, counts, check(server.uri, table, shares))


def show(blocks: Sequence[Block]) -> None:
    rows = []
    for engine, mode in dict.fromkeys((block.engine, block.mode) for block in blocks):
        mine = [block for block in blocks if (block.engine, block.mode) == (engine, mode)]
        seconds = [each for block in mine for share in block.shares for each in share.seconds]
        totals = {name: sum(block.total(name) for block in mine) for name in ("acknowledged", "refused", "unknown")}
        rows.append(
            (
                f"{engine}, {mode}",
                *totals.values(),
                f"{statistics.median(block.rate for block in mine):.1f}",
                f"{statistics.median(seconds) * 1000:.0f}",
                f"{instruments.quantile(seconds, 0.99) * 1000:.0f}",
                f"{sum(block.counts['conflicts'] for block in mine) / sum(totals.values()):.2f}",
                sum(len(block.wrong) for block in mine),
            )
        )
    header = ("block", "acknowledged", "refused", "unknown", "/s", "median ms", "p99 ms", "409/append", "wrong")
    instruments.print_table(header, rows)
    errors = Counter(error[:160] for block in blocks for share in block.shares for error in share.errors)
    for error, count in errors.most_common(5):
        print(f"{count} x {error}")
    for wrong in [each for block in blocks for each in block.wrong][:10]:
        print(wrong)


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["pyiceberg", "spark"])
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["default", "all", "snapshot"])
    parser.add_argument("--writers", type=int, default=8, help="of a block")
    parser.add_argument("--appends", type=int, default=10, help="of each writer of a block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args()
    if unknown := {*options.engines, *options.modes} - {"pyiceberg", "spark", *MODES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.quick:
        options.writers, options.appends, options.rounds = 3, 2, 1
    blocks = measure(options)
    show(blocks)
    instruments.keep(options.out, "stock_appenders", vars(options), [asdict(block) for block in blocks])
    raise SystemExit(1 if any(block.wrong for block in blocks) else 0)
