"""Writers of a table on S3 in bad weather, killed in the middle: every acknowledged commit is in the table once, and
every file that it names is in the bucket, as the bucket itself shows.

    STORY_SEED=7 STORY_APPENDS=50 python -m pytest integration/stores/test_s3_story.py --log-cli-level=INFO

The seed sets the order of the faults, and the writers that the test kills. Which requests a fault meets depends on the
machine.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME
from iceberg_hms.spark.s3 import AWS_BUNDLE
from integration import interop, maven_packages
from integration.appender import ROW
from integration.command_line import running
from integration.concurrent_writers import KILLED, AppendResult, ConcurrentWriters, summary
from integration.faults import LIMIT, SCHEMA, in_background, until
from integration.rest_clients import ALL
from integration.stores.bucket_checks import BucketFiles, BucketReport, check_bucket
from integration.stores.minio import ObjectStore
from integration.stores.s3_proxy import S3Proxy
from integration.stores.s3_weather import CLIENT_SECONDS, S3Weather

logger = logging.getLogger(__name__)

SEED = int(os.environ.get("STORY_SEED") or secrets.randbelow(1_000_000))
#: Of each writer.
APPENDS = int(os.environ.get("STORY_APPENDS") or "12")
WRITERS = 8
KILLS = 3
#: Appends that begin between two kills.
BETWEEN_KILLS = (8, 16)
#: For all appends of a writer, in bad weather on a busy machine.
SECONDS = 120 + 30 * APPENDS
#: PyIceberg would set the mapping with its first added file. Files that fall out of the log are deleted beside writers.
PROPERTIES = {
    **ALL,
    "schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]',
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
TABLE = "story.t"
#: Of which the table still names files that are as old as orphans.
COMMITS_BEFORE = 5
#: How many snapshots an expiration leaves: clients that read one must have time for it.
KEPT = 20

pytestmark = [pytest.mark.slow, pytest.mark.minio, pytest.mark.timeout(2 * SECONDS + 300)]


class Lake:
    """A metastore whose table lies in a bucket, in front of which a proxy makes bad weather."""

    def __init__(self, stack: ExitStack, store: ObjectStore, bucket: str, folder: Path) -> None:
        # A warning: pytest shows it beside a failure.
        logger.warning("STORY_SEED=%d", SEED)
        self.random = Random(SEED)
        self.store = store
        self.bucket = bucket
        self.stack = stack
        self.folder = folder
        self.metastore = stack.enter_context(LocalMetastore(folder / "hms", warehouse=f"s3://{bucket}/warehouse"))
        self.proxy = stack.enter_context(S3Proxy(store.endpoint))
        self.weather = S3Weather(self.proxy, Random(SEED))
        self.catalog = stack.enter_context(iceberg_hms.connect(**self.settings(store.endpoint)))
        self.catalog.create_namespace("story")
        self.catalog.create_table(TABLE, SCHEMA, properties=PROPERTIES)
        self.location = self.catalog.load_table(TABLE).metadata.location

    def settings(self, endpoint: str) -> dict[str, Any]:
        where = {"metastore_uri": self.metastore.uri, "warehouse": self.metastore.warehouse}
        return self.store.settings(endpoint=endpoint, s3_request_timeout=CLIENT_SECONDS, **where)

    @property
    def environ(self) -> dict[str, str]:
        """What a process of ours finds the bucket by, behind the proxy; and PyIceberg."""
        given = self.store.settings(endpoint=self.proxy.endpoint, s3_request_timeout=CLIENT_SECONDS)
        ours = {f"ICEBERG_HMS_{name.upper()}": str(value) for name, value in given.items()}
        theirs = {
            f"PYICEBERG_CATALOG__REST__S3__{name.removeprefix('s3_').upper()}": str(value)
            for name, value in given.items()
        }
        return ours | theirs

    def put(self, location: str, data: bytes) -> None:
        client = self.store.client()
        client.put_object(Bucket=self.bucket, Key=location.removeprefix(f"s3://{self.bucket}/"), Body=data)
        client.close()

    def append(self, count: int) -> list[AppendResult]:
        """So many commits, in good weather."""
        table = self.catalog.load_table(TABLE)
        results = []
        for number in range(count):
            path = f"{self.location}/data/before-{number}.parquet"
            self.put(path, interop.small_parquet(self.folder / "before.parquet", [number]).read_bytes())
            results.append(AppendResult("before", path, None, False, table.append([path]).snapshot_ids[0]))
        return results

    def writers(self) -> ConcurrentWriters:
        return ConcurrentWriters(self.stack, TABLE, f"{self.location}/data", appends=APPENDS, seconds=SECONDS)

    def run(
        self, writers: ConcurrentWriters, beside: Callable[[], object], end: Callable[[], object] = lambda: None
    ) -> list[AppendResult]:
        """Run writers in bad weather, and a function beside them, which must not fail. end: makes that return."""
        running: list[Future[Any]] = []
        with ExitStack() as weather:

            def begin() -> None:
                weather.enter_context(self.weather)
                running.append(in_background(beside))

            try:
                results = writers.run(begin)
            finally:
                end()
        for each in running:
            each.result(LIMIT)
        logger.info("%s; the weather: %s", summary(results), dict(self.weather.counts))
        return results

    def kill(self, kills: Sequence[Callable[[], object]]) -> None:
        """Do these, with some appends between them."""
        for kill in kills:
            begun = self.proxy.count("PUT", ".parquet") + self.random.randint(*BETWEEN_KILLS)
            assert self.proxy.wait_for("PUT", begun, SECONDS, key=".parquet")
            kill()

    def check(self, results: Sequence[AppendResult], *, snapshots: bool = True) -> BucketReport:
        """Check the table from its bucket, and again once orphans were removed. snapshots: none was expired."""
        # What hangs arrives now or never.
        self.proxy.close()
        self._check(results, snapshots)
        self.catalog.load_table(TABLE).remove_orphan_files(SYSTEM_CLOCK.now_ms(), force=True)
        report = self._check(results, snapshots)
        assert report.unreferenced == ()
        return report

    def _check(self, results: Sequence[AppendResult], snapshots: bool) -> BucketReport:
        pointer = self.catalog.pointer(TABLE).metadata_location
        results = self._located(pointer, results)
        report = check_bucket(
            self.store,
            pointer,
            acknowledged=[
                item for each in results if each.acknowledged for item in (each.items if snapshots else [each.path])
            ],
            refused=[each.path for each in results if each.refused],
        )
        report.raise_if_broken()
        assert set(report.history.data_files) <= {each.path for each in results}
        return report

    def _located(self, pointer: str, results: Sequence[AppendResult]) -> list[AppendResult]:
        """The results with the files of Spark's rows, as far as the table has them."""
        client = self.store.client()
        files = BucketFiles(client)
        located: dict[str, str] = {}
        for path in set(check_bucket(self.store, pointer).history.data_files).difference(each.path for each in results):
            (row,) = pq.read_table(pa.BufferReader(files.read(path)), columns=["id"])["id"].to_pylist()
            assert f"{ROW}{row}" not in located, f"row {row} is there twice"
            located[f"{ROW}{row}"] = path
        client.close()
        return [replace(each, path=located.pop(each.path, each.path)) for each in results]


@dataclass
class Server:
    """`iceberg-hms serve` before the lake, on one port however often it is started."""

    lake: Lake
    uri: str = ""
    _process: Any = field(default=None, init=False)

    def start(self) -> None:
        where = ["--metastore-uri", self.lake.metastore.uri, "--warehouse", self.lake.metastore.warehouse]
        port = self.uri.rpartition(":")[2] or "0"
        log = self.lake.stack.enter_context((self.lake.folder / "server.log").open("a"))
        server = running("serve", *where, "--port", port, "--no-auth", stderr=log, environ=self.lake.environ)
        self._process, event = self.lake.stack.enter_context(server)
        self.uri = str(event["uri"])

    def restart(self) -> None:
        """kill -9, and a new one."""
        self._process.kill()
        self._process.wait(LIMIT)
        self.start()


@dataclass
class Maintenance:
    """Expires snapshots and removes orphans, one after the other, until `end`. older_than: of the orphans."""

    lake: Lake
    older_than: int
    expired: int = 0
    removed: int = 0
    failed: list[iceberg_hms.IcebergHmsError] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with iceberg_hms.connect(**self.lake.settings(self.lake.proxy.endpoint)) as catalog:
            while not self._ended.wait(0.2):
                try:
                    table = catalog.load_table(TABLE)
                    self.expired += len(table.expire_snapshots(SYSTEM_CLOCK.now_ms(), KEPT).snapshot_ids)
                    # No file of a commit under way is older: the writers started after it.
                    self.removed += len(table.remove_orphan_files(self.older_than, force=True).files.locations)
                except iceberg_hms.IcebergHmsError as error:
                    self.failed.append(error)

    def end(self) -> None:
        self._ended.set()


@pytest.fixture
def lake(object_store: ObjectStore, bucket: str, tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as stack:
        yield Lake(stack, object_store, bucket, tmp_path)


def test_processes_of_the_library_lose_nothing(lake: Lake) -> None:
    """
    eight processes append to one table
    the store loses, delays, cuts, refuses and hangs; three of the processes are killed in the middle
    """
    writers = lake.writers()
    processes = [
        writers.process("library", lake.metastore.uri, lake.metastore.warehouse, **lake.environ) for _ in range(WRITERS)
    ]
    doomed = lake.random.sample(processes, KILLS)
    results = lake.run(writers, lambda: lake.kill([each.kill for each in doomed]))
    assert sum(each.error == KILLED for each in results) == KILLS
    lake.check(results)


def test_stock_rest_clients_lose_nothing(lake: Lake) -> None:
    """
    four PyIceberg and four Spark clients append to one table through a server, and read and write the store themselves
    the store loses, delays, cuts, refuses and hangs
    one client of each kind is killed, and the server three times, which starts again on its port
    """
    maven_packages.fetch(lake.folder, ICEBERG_RUNTIME)
    maven_packages.fetch(lake.folder, AWS_BUNDLE)
    server = Server(lake)
    server.start()
    writers = lake.writers()
    pyiceberg, spark = (
        [writers.process(client, server.uri, lake.metastore.warehouse, client=client, **lake.environ) for _ in range(4)]
        for client in ("rest", "spark")
    )
    doomed = [lake.random.choice(kind).kill for kind in (pyiceberg, spark)]
    results = lake.run(writers, lambda: lake.kill(lake.random.sample([server.restart] * KILLS + doomed, KILLS + 2)))
    assert sum(each.error == KILLED for each in results) == 2
    lake.check(results)


def test_maintenance_beside_writers_loses_nothing(lake: Lake) -> None:
    """
    some commits, and orphans in the table's folder
    four processes of the library and four PyIceberg clients append in bad weather
    meanwhile snapshots expire, and the orphans go
    """
    before = lake.append(COMMITS_BEFORE)
    orphans = [f"{lake.location}/{part}/orphan-{number}" for part in ("data", "metadata") for number in range(10)]
    for each in orphans:
        lake.put(each, b"left behind")
    # The store may tell times by the second.
    older_than = SYSTEM_CLOCK.now_ms() // 1_000 * 1_000 + 1_000
    until(lambda: SYSTEM_CLOCK.now_ms() >= older_than, "the next second")
    server = Server(lake)
    server.start()
    writers = lake.writers()
    for _ in range(WRITERS // 2):
        writers.process("library", lake.metastore.uri, lake.metastore.warehouse, **lake.environ)
        writers.process("pyiceberg", server.uri, lake.metastore.warehouse, client="rest", **lake.environ)
    maintenance = Maintenance(lake, older_than)
    results = lake.run(writers, beside=maintenance.run, end=maintenance.end)
    logger.info("maintenance: %s", maintenance)
    lake.check([*before, *results], snapshots=False)
    assert maintenance.expired
    assert maintenance.removed >= len(orphans)
