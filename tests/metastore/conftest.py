"""A metastore that the test steers, on a real socket, connections to it, and its lock table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from tests.metastore.fake_hms import FakeHms, Running, pool_of, running


@pytest.fixture
def hms() -> FakeHms:
    return FakeHms()


@pytest.fixture
def server(hms: FakeHms) -> Iterator[Running]:
    with running(hms) as server:
        yield server


@pytest.fixture
def pool(server: Running) -> Iterator[ClientPool]:
    with pool_of(server) as pool:
        yield pool


@pytest.fixture
def client(server: Running) -> Iterator[MetastoreClient]:
    client = MetastoreClient(server.uri, connect_timeout_ms=5_000, socket_timeout_ms=5_000)
    yield client
    client.close()


@pytest.fixture
def entries(pool: ClientPool) -> LockEntries:
    return LockEntries(pool, "ada")
