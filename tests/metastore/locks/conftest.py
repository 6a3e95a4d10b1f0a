"""A table lock that waits shortly, on threads that the test joins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.metastore.locks.waiters import SETTINGS
from tests.metastore.runtimes import Counted


@pytest.fixture
def runtime() -> Counted:
    return Counted()


@pytest.fixture
def lock(pool: ClientPool, runtime: Counted) -> Iterator[HmsTableLock]:
    lock = HmsTableLock(pool, runtime, SETTINGS, cleanup_poll_seconds=0.005)
    yield lock
    lock.close()
    runtime.join()
