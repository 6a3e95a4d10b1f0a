"""A table's whole life on a pair of name nodes that change places and die, below eight writers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.stores import open_files
from iceberg_hms.testing.history import check_table
from integration.faults import SCHEMA
from integration.interop import small_parquet
from integration.stores.hdfs import LocalHdfs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WRITERS = 8
APPENDS = 12
#: Seconds without an answer to any append, while a name node is down or not.
PATIENCE = 45
_NUMBERS = itertools.count()


@dataclass
class Appends:
    """Eight threads that append a file a commit, and what became of each."""

    catalog: Catalog
    files: RoutedFiles
    table: str
    data: bytes
    acknowledged: list[int | str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[IcebergHmsError] = field(default_factory=list)
    #: None for each append that was acknowledged, and what ends a thread.
    ticks: SimpleQueue[Exception | None] = field(default_factory=SimpleQueue)

    def start(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        return [pool.submit(self._append_all, writer) for writer in range(WRITERS)]

    def wait_for(self, count: int) -> None:
        """Raises Empty if the appends stand still, and what a thread raised."""
        for _ in range(count):
            error = self.ticks.get(timeout=PATIENCE)
            if error is not None:
                raise error

    def _append_all(self, writer: int) -> None:
        try:
            self._append(writer)
        except Exception as error:
            self.ticks.put(error)
            raise

    def _append(self, writer: int) -> None:
        table = self.catalog.load_table(self.table)
        for number in range(APPENDS):
            location = f"{table.metadata.location}/data/{writer}-{number}.parquet"
            try:
                self.files.write(location, self.data)
                report = table.append([location])
            except CommitStateUnknown as error:
                self.failed.append(error)
            except IcebergHmsError as error:
                self.failed.append(error)
                self.refused.append(location)
            else:
                self.acknowledged += [location, *report.snapshot_ids]
                self.ticks.put(None)


@pytest.fixture(scope="module")
def metastore(hdfs_pair: LocalHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    folder = tmp_path_factory.mktemp("metastore of hdfs")
    with LocalMetastore(folder, warehouse=f"{hdfs_pair.address}/warehouse", conf=hdfs_pair.settings) as server:
        yield server


@pytest.fixture(scope="module")
def catalog(hdfs_pair: LocalHdfs, metastore: LocalMetastore) -> Iterator[Catalog]:
    conf = str(hdfs_pair.config_dir)
    with iceberg_hms.connect(
        metastore_uri=metastore.uri, warehouse=metastore.warehouse, hdfs_config_dir=conf
    ) as catalog:
        catalog.create_namespace("lake")
        yield catalog


@pytest.fixture
def appends(catalog: Catalog, tmp_path: Path) -> Appends:
    name = f"lake.t{next(_NUMBERS)}"
    catalog.create_table(name, SCHEMA)
    data = small_parquet(tmp_path / "rows.parquet", range(3)).read_bytes()
    return Appends(catalog, open_files(catalog.settings), name, data)


def check_and_drop(appends: Appends) -> None:
    """Every acknowledged append is there once and nothing dangles: as the writers left it, and after maintenance. Then
    nothing is left."""
    catalog, name = appends.catalog, appends.table
    known = {"acknowledged": appends.acknowledged, "refused": appends.refused}
    check_table(catalog, name, **known).raise_if_broken()
    table = catalog.load_table(name)
    expired = table.expire_snapshots(older_than=int(time.time() * 1_000) + 1, retain_last=1)
    assert len(expired.snapshot_ids) > WRITERS
    assert expired.files.failed == {}
    paths = [each for each in appends.acknowledged if isinstance(each, str)]
    removed = table.remove_orphan_files(older_than=int(time.time() * 1_000) + 1, force=True)
    assert removed.files.failed == {}
    check_table(catalog, name, acknowledged=paths, refused=appends.refused).raise_if_broken()
    left = [each.location for each in appends.files.list_files(table.metadata.location)]
    assert sorted(each for each in left if "/data/" in each) == sorted(paths)
    assert [each for each in left if each.endswith(".tmp")] == []
    catalog.purge_table(name)
    assert list(appends.files.list_files(table.metadata.location)) == []


def test_no_append_fails_while_the_name_nodes_change_places(hdfs_pair: LocalHdfs, appends: Appends) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        futures = appends.start(pool)
        for _ in range(2):
            appends.wait_for(WRITERS * 2)
            hdfs_pair.fail_over()
        for each in futures:
            each.result()
    assert appends.failed == []
    assert len(appends.acknowledged) == 2 * WRITERS * APPENDS
    check_and_drop(appends)


def test_the_death_of_the_active_name_node_loses_no_append(hdfs_pair: LocalHdfs, appends: Appends) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        futures = appends.start(pool)
        appends.wait_for(WRITERS * 2)
        dead = hdfs_pair.active
        hdfs_pair.stop_name_node(dead)
        hdfs_pair.fail_over()
        appends.wait_for(WRITERS)
        hdfs_pair.start_name_node(dead)
        for each in futures:
            each.result()
    assert [each for each in appends.failed if isinstance(each, CommitStateUnknown)] == []
    assert appends.failed == []
    check_and_drop(appends)


WRITER = """
import sys
from iceberg_hms.stores import open_files
from iceberg_hms.config import Settings

open_files(Settings.load({"hdfs_config_dir": sys.argv[1]}, environ={})).write(sys.argv[2], bytes(1 << 28))
"""


def test_what_a_killed_writer_leaves_is_an_orphan(hdfs_pair: LocalHdfs, appends: Appends) -> None:
    table = appends.catalog.load_table(appends.table)
    location = f"{table.metadata.location}/metadata/of-the-dead.avro"
    command = [sys.executable, "-c", WRITER, str(hdfs_pair.config_dir), location]
    before = {each.location for each in appends.files.list_files(table.metadata.location)}
    with subprocess.Popen(command, env=dict(os.environ)) as writer:
        left: set[str] = set()
        try:
            while not left and writer.poll() is None:
                left = {each.location for each in appends.files.list_files(table.metadata.location)} - before
        finally:
            writer.kill()
    (orphan,) = left
    assert orphan.endswith(".tmp")
    assert {each.location for each in appends.files.list_files(table.metadata.location)} - before == {orphan}
    report = table.remove_orphan_files(older_than=int(time.time() * 1_000) + 1, force=True)
    assert report.files.locations == [orphan]
    assert {each.location for each in appends.files.list_files(table.metadata.location)} == before
    check_table(appends.catalog, appends.table).raise_if_broken()
