"""How many requests to the store a commit makes one after the other: each takes 20 to 60 ms on a real one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.stores import open_files
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from integration.load_generator import append_bodies
from integration.rest_clients import ALL
from integration.stores.minio import ObjectStore
from integration.stores.s3_proxy import S3Proxy, sequential_trips

#: Long beside what a request takes of itself on this machine, so that what is sent together overlaps.
DELAY = 0.1
SCHEMA = pa.schema([("id", pa.int64())])


class FarTable:
    """A table in a bucket, which its catalog reaches through a proxy; rows of the metastore are in memory."""

    def __init__(self, store: ObjectStore, bucket: str, proxy: S3Proxy) -> None:
        self._proxy = proxy
        self.root = f"s3://{bucket}/warehouse"
        settings = Settings.load(store.settings(endpoint=proxy.endpoint), environ={})
        runtime = ThreadRuntime()
        files: Any = RoutedFiles(remote_drivers(settings), gather=runtime.gather, io_threads=settings.io_threads)
        pointer = MemoryTablePointer(namespaces=())
        self.catalog = memory_catalog(files=files, pointer=pointer, warehouse=self.root, runtime=runtime)
        self.catalog.create_namespace("db")
        self.table = self.catalog.create_table("db.t", SCHEMA, properties=ALL)
        self.table.append([self.data_file("first")])
        self.near: Any = open_files(Settings.load(store.settings(), environ={}))
        #: Another process, beside the store.
        self.client = memory_catalog(files=self.near, pointer=pointer, warehouse=self.root)

    def data_file(self, name: str) -> DataFile:
        return DataFile(f"{self.root}/db.db/t/data/{name}.parquet", "PARQUET", 1, 100)

    def count(self, method: str, key: str) -> int:
        """Of the requests that were counted last."""
        return self._proxy.count(method, key)

    def trips(self, do: Callable[[], object]) -> tuple[int, int]:
        """Sequential and all requests of what it does."""
        self._proxy.forget()
        self._proxy.delay = DELAY
        try:
            do()
        finally:
            self._proxy.delay = 0.0
        requests = self._proxy.requests
        return sequential_trips(requests), len(requests)


@pytest.fixture
def far(object_store: ObjectStore, bucket: str) -> Iterator[FarTable]:
    with S3Proxy(object_store.endpoint) as proxy:
        table = FarTable(object_store, bucket, proxy)
        yield table
        table.catalog.close()
        table.client.close()


def test_a_change_of_metadata_takes_one_trip(far: FarTable) -> None:
    assert far.trips(lambda: far.table.set_properties({"a": "b"})) == (1, 1)


def test_an_append_takes_two_trips(far: FarTable) -> None:
    """A manifest, then its list beside the metadata."""
    assert far.trips(lambda: far.table.append([far.data_file("second")])) == (2, 3)


def test_footers_take_a_trip_more_and_are_read_together_from_their_ends(far: FarTable) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(50_000), pa.int64())}), buffer, compression="none")
    paths = [f"{far.root}/db.db/t/data/{number}.parquet" for number in range(12)]
    far.near.write_all([(path, buffer.getvalue()) for path in paths])
    assert far.trips(lambda: far.table.append(paths)) == (3, 15)


def test_a_group_of_stale_commits_takes_as_many_trips_as_one(far: FarTable) -> None:
    """Each list of a client is read, and one is written for it: side by side."""
    bodies = append_bodies(far.client, "db.t", [far.data_file(f"client-{number}") for number in range(17)])

    def commit(body: Any) -> None:
        request = orjson.loads(body.data)
        far.catalog.commit("db.t", request["requirements"], request["updates"])

    commit(bodies[0])
    with ThreadPoolExecutor(16) as pool:
        # Those that come while a group is under way are the next one.
        trips, requests = far.trips(lambda: list(pool.map(commit, bodies[1:])))
    groups = far.count("PUT", ".metadata.json")
    assert groups <= 5
    # The list of the head, which a client wrote, is read too.
    assert requests == 2 * 16 + groups + 1
    assert trips <= 3 * groups
    assert far.table.refresh().current_snapshot().summary["total-data-files"] == "18"
