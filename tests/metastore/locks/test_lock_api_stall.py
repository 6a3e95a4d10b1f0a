from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from tests.metastore.fake_hms import DropBefore, FakeHms
from tests.metastore.runtimes import ByHand

NAME = TableName("db", "t")
SETTINGS = Settings.load({}, environ={})


@pytest.mark.parametrize(("seconds", "said"), [(40, True), (1, False)])
def test_the_likely_reason_of_a_lock_call_that_stands_still_is_said(
    seconds: float, said: bool, pool: ClientPool, hms: FakeHms, caplog: pytest.LogCaptureFixture
) -> None:
    """lock: no answer for 40 s | lock: granted"""
    runtime = ByHand()
    plain = hms.lock

    def stand_still(rqst: Any) -> Any:
        hms.lock = plain  # type: ignore[method-assign]
        runtime.time += seconds
        raise DropBefore

    hms.lock = stand_still  # type: ignore[method-assign]
    lock = HmsTableLock(pool, runtime, SETTINGS)
    held = lock.acquire(NAME, wait_seconds=100, request="r")
    assert ("datanucleus.connectionPool.maxPoolSize" in caplog.text) is said
    held.release()
    lock.close()
    runtime.join()
    assert hms.locks == {}
