"""A short INSERT in Spark's session catalog, in a new session and in a warm one, beside Java's HiveCatalog.

    python -m benchmarks spark-insert [--kinds embedded,stand-alone,hive] [--rounds 3] [--inserts 60]
        [--out build/benchmarks]

Each block is a Spark application of its own, which runs `INSERT INTO t VALUES (n)`, one after the other, into a table
that was made before. Blocks of the kinds alternate:

    embedded      `iceberg_hms.spark.configure`, with the server in the driver's Python process
    stand-alone   the same with `server_uri` of a running `iceberg-hms serve`
    hive          SparkSessionCatalog of `type=hive`: Java's HiveCatalog, which takes the metastore's lock itself. It
                  plans a statement on the table as the session cached it, without what others committed meanwhile
    hive-fresh    the same with `cache-enabled=false`: each statement loads its table, as with our server

The columns are medians of all rounds, in milliseconds:

    1 to 11-20    the session's first INSERT, the second one, and so on; Java and the server's Python are cold at first
    warm          all after the first half
    other table   the first INSERT of the warm session into another table
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

import iceberg_hms
import iceberg_hms.spark
from benchmarks import instruments
from benchmarks.instruments import serving
from benchmarks.stock_spark import local_settings
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.spark.configuration import CATALOG
from integration.session_catalog.sessions import open_session, session_work

KINDS = ("embedded", "stand-alone", "hive", "hive-fresh")
NAMESPACE = "inserts"
#: Time limit of a block; seconds.
BLOCK_SECONDS = 600
#: First and last number of the INSERTs of a column.
_COLUMNS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 20))


@dataclass(frozen=True)
class Block:
    """One session's INSERTs. start: seconds until the session was there. seconds: of each INSERT, in order. other: of
    the last one, into another table."""

    kind: str
    start: float
    seconds: Sequence[float]
    other: float


def session_inserts() -> None:
    """Run the INSERTs of one block, and print it. `python -m benchmarks session-inserts WORK`."""
    work = json.loads(sys.argv[1])
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    begun = perf_counter()
    spark = open_session(work)
    start = perf_counter() - begun

    def insert(table: str, number: int) -> float:
        into = f"INSERT INTO {NAMESPACE}.{table} VALUES"
        begun = perf_counter()
        spark.sql(f"{into} ({number})")
        return perf_counter() - begun

    try:
        seconds = [insert(work["tables"][0], number) for number in range(work["inserts"])]
        instruments.say(asdict(Block(work["kind"], start, seconds, insert(work["tables"][1], 0))))
    finally:
        spark.stop()


def run_block(metastore: LocalMetastore, kind: str, server_uri: str, folder: Path, inserts: int) -> Block:
    """Make two tables, and run a session of a process of its own."""
    name = f"{kind.replace('-', '_')}_{folder.name}"
    tables = [name, f"{name}_other"]
    with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
        for table in tables:
            catalog.create_table(f"{NAMESPACE}.{table}", pa.schema([("n", pa.int32())]))
    settings = dict(local_settings(folder, "2g"))
    if kind == "hive-fresh":
        settings[f"{CATALOG}.cache-enabled"] = "false"
    session = kind.removesuffix("-fresh")
    work = session_work(metastore, session, server_uri, settings, tables=tables, inserts=inserts)
    [block] = instruments.answers("session-inserts", work, BLOCK_SECONDS)
    return replace(Block(**block), kind=kind)


def measure(options: argparse.Namespace) -> list[Block]:
    blocks = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        server = stack.enter_context(serving(metastore, folder / "server.log"))
        with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
            catalog.create_namespace(NAMESPACE)
        for round_ in range(options.rounds):
            for kind in options.kinds:
                files = folder / kind / str(round_)
                files.mkdir(parents=True)
                blocks.append(run_block(metastore, kind, server.uri, files, options.inserts))
    return blocks


def row(blocks: Sequence[Block], inserts: int) -> list[float]:
    """The columns of one kind, in seconds."""
    parts: list[list[float]] = [
        [each for block in blocks for each in block.seconds[first - 1 : last]] for first, last in _COLUMNS
    ]
    warm = [each for block in blocks for each in block.seconds[inserts // 2 :]]
    return [statistics.median(part) for part in (*parts, warm, [block.other for block in blocks])]


def show(blocks: Sequence[Block], inserts: int) -> None:
    columns = [str(first) if first == last else f"{first}-{last}" for first, last in _COLUMNS]
    by_kind: Mapping[str, Any] = {
        kind: [block for block in blocks if block.kind == kind]
        for kind in dict.fromkeys(block.kind for block in blocks)
    }
    rows = [(kind, *(f"{each * 1000:.0f}" for each in row(mine, inserts))) for kind, mine in by_kind.items()]
    instruments.print_table(("INSERT, ms", *columns, "warm", "other table"), rows)


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inserts", type=int, default=60, help="of a session; 22 or more")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args()
    blocks = measure(options)
    show(blocks, options.inserts)
    instruments.keep(options.out, "spark-insert", vars(options), [asdict(block) for block in blocks])
