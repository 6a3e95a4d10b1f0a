from __future__ import annotations

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.unavailable_lock import granted_lock_seconds
from tests.metastore.fake_hms import FakeHms, running


@pytest.mark.parametrize(
    ("first", "second", "lease", "seconds"),
    [
        ("atomic", "atomic", "120s", 0.0),
        ("atomic", "checked", "120s", 720.0),
        ("ignored", "atomic", None, 900.0),
        ("atomic", "gone", "120s", 720.0),
    ],
)
def test_a_lock_that_was_granted_is_waited_out_unless_every_server_is_proved_atomic(
    first: str, second: str, lease: str | None, seconds: float
) -> None:
    servers = [FakeHms(), FakeHms()]
    for hms, behaviour in zip(servers, (first, second), strict=True):
        hms.compare_and_swap = behaviour
        hms.config = {} if lease is None else {"hive.txn.timeout": lease}
    with running(servers[0]) as one, running(servers[1]) as other:
        settings = Settings.load({"uri": f"{one.uri},{other.uri}"}, environ={})
        pool = ClientPool.configured(settings)
        if second == "gone":
            other.stop()
        assert granted_lock_seconds(pool, settings, "db") == seconds
        pool.close()
    assert all(hms.tables == {} for hms in servers), "no scratch row stays"
    assert all("lock" not in hms.calls for hms in servers), "the lock API is broken"


def test_each_database_of_a_server_is_proved_on_its_own() -> None:
    hms = FakeHms()
    hms.add_database("sales")
    hms.compare_and_swap_of["sales"] = "ignored"
    with running(hms) as server:
        settings = Settings.load({"uri": server.uri}, environ={})
        pool = ClientPool.configured(settings)
        assert granted_lock_seconds(pool, settings, "db") == 0.0
        assert granted_lock_seconds(pool, settings, "sales") == 900.0
        pool.close()
