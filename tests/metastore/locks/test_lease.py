from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import ConfigValSecurityException
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.coordinator.ports import LockUse
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lease import ServerLeases, lease_seconds, parse_duration
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.runtime import ThreadRuntime
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Running, pool_of, running
from tests.metastore.locks.waiters import NAME, SETTINGS
from tests.metastore.runtimes import Counted


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300), ("300", 300), (" 5 m ", 300), ("1h", 3600), ("300000ms", 300), ("2 days", 172_800),
        ("5MIN", 300),
        ("", None), ("0s", None), ("-1s", None), ("soon", None), ("5 weeks", None), ("1.5s", None),
    ],
)  # fmt: skip
def test_hives_durations_are_read(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or seconds > 0


def test_hive_3s_name_wins_over_hive_2s() -> None:
    hms = FakeHms()
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) == 300
        hms.config["metastore.txn.timeout"] = "10m"
        assert lease_seconds(pool) == 600


def test_a_name_that_the_server_hides_is_passed_over() -> None:
    hms = FakeHms()
    hms.misbehave["get_config_value"].append(ConfigValSecurityException("For security reasons"))
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) == 300


def test_a_server_that_does_not_name_its_lease_gives_none_and_one_that_is_gone_raises() -> None:
    hms = FakeHms()
    hms.config.clear()
    with running(hms) as server, pool_of(server) as pool:
        assert lease_seconds(pool) is None
        hms.misbehave["get_config_value"] += [DropAfter(), DropAfter()]
        with pytest.raises(MetastoreUnavailable):
            lease_seconds(pool)


@pytest.mark.parametrize(
    ("support", "use", "setting", "served", "said", "lease"),
    [
        (CompareAndSwap.ATOMIC, LockUse.CAS, 15_000, "300s", "cas-15", 15),
        (CompareAndSwap.ATOMIC, LockUse.CAS, 4_001, "300s", "cas-5", 5),
        (CompareAndSwap.ATOMIC, LockUse.BLIND, 15_000, "300s", "blind", 300),
        (CompareAndSwap.UNKNOWN, LockUse.BLIND, 15_000, "300s", "blind", 300),
        (CompareAndSwap.ATOMIC, LockUse.CAS, 0, "300s", "cas", 300),
        (CompareAndSwap.ATOMIC, LockUse.CAS, 15_000, "10s", "cas", 10),
        (CompareAndSwap.UNKNOWN, LockUse.CAS, 15_000, "300s", "unproven-15", 15),
        (CompareAndSwap.IGNORED, LockUse.CAS, 15_000, "300s", "blind", 300),
        (CompareAndSwap.CHECKED, LockUse.CAS, 15_000, "300s", "blind", 300),
    ],
)
def test_a_short_lease_is_announced_where_all_that_is_sent_compares_and_is_lived_by(
    support: CompareAndSwap,
    use: LockUse,
    setting: int,
    served: str,
    said: str,
    lease: float,
    pool: ClientPool,
    hms: FakeHms,
) -> None:
    runtime = Counted()
    hms.config["hive.txn.timeout"] = served
    lock = HmsTableLock(pool, runtime, replace(SETTINGS, lock_short_lease_ms=setting))
    pool.cas_support.learn(pool.uris[0], NAME.namespace, support)
    held: Any = lock.acquire(NAME, wait_seconds=1, request="r", use=use)
    (entry,) = hms.locks.values()
    assert entry.agent_info.rpartition("/")[2] == said
    assert (held.lease_seconds, held.require_cas, held.exclusive) == (lease, said != "blind", True)
    assert held.interval_seconds == min(lease / 10, 5)
    held.release()
    lock.close()
    runtime.join()


@pytest.mark.parametrize("while_held", [False, True])
def test_a_server_that_was_restarted_with_a_shorter_lease_is_believed_on_the_next_connection(
    while_held: bool, server: Running, pool: ClientPool, hms: FakeHms
) -> None:
    runtime = Counted()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    held: Any = lock.acquire(NAME, wait_seconds=1, request="r")
    held.renew()
    assert held.lease_seconds == 300
    hms.config["hive.txn.timeout"] = "20s"
    server.hang_up()
    if while_held:
        held.renew()
    else:
        held.release()
        held = lock.acquire(NAME, wait_seconds=1, request="r")
    assert (held.lease_seconds, held.interval_seconds) == (20, 2)
    held.release()
    lock.close()
    runtime.join()


def test_each_server_of_the_list_has_its_own_lease() -> None:
    runtime = Counted()
    with running() as first, running() as second, pool_of(first, second) as pool:
        second.hms.config["hive.txn.timeout"] = "60s"
        lock = HmsTableLock(pool, runtime, SETTINGS)
        held = lock.acquire(NAME, wait_seconds=1, request="r")
        assert held.lease_seconds == 300
        held.release()
        first.stop()
        held = lock.acquire(NAME, wait_seconds=1, request="r")
        assert held.lease_seconds == 60
        held.release()
        lock.close()
        runtime.join()


def test_the_shortest_and_the_longest_lease_are_those_of_the_open_connections() -> None:
    leases = ServerLeases(ThreadRuntime(), 30.0)
    assert (leases.is_known, leases.shortest, leases.longest) == (False, 30.0, 30.0)
    still_referred_to = []

    def ask(client: MetastoreClient) -> None:
        leases.ask(client)
        still_referred_to.append(client)

    with running() as first, running() as second:
        second.hms.config["hive.txn.timeout"] = "60s"
        with pool_of(first) as one, pool_of(second) as other:
            for each in (one, other, one):
                each.run(ask, idempotent=True)
            assert (leases.is_known, leases.shortest, leases.longest) == (True, 60.0, 300.0)
        assert first.hms.calls.count("get_config_value") == 2, "once for each name"
    assert not leases.is_known, "when the garbage collector comes decides nothing"


def test_a_lease_that_could_not_be_asked_is_asked_before_the_lock_is(pool: ClientPool, hms: FakeHms) -> None:
    """A holder that believed in a longer lease than the server's would acknowledge what a reaper gave away."""
    hms.config["hive.txn.timeout"] = "60s"
    hms.misbehave["get_config_value"].extend([DropBefore(), DropBefore()])
    runtime = Counted()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    held = lock.acquire(NAME, wait_seconds=1, request="r")
    assert held.lease_seconds == 60
    held.release()
    lock.close()
    runtime.join()


def test_a_lock_whose_lease_nobody_tells_is_not_requested(pool: ClientPool, hms: FakeHms) -> None:
    hms.misbehave["get_config_value"].extend(DropBefore() for _ in range(10_000))
    runtime = Counted()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    with pytest.raises(MetastoreUnavailable):
        lock.acquire(NAME, wait_seconds=0.05, request="r")
    assert "lock" not in hms.calls
    lock.close()
    runtime.join()


def test_after_a_short_lease_was_lost_a_lock_has_the_servers_and_may_be_taken_from_the_dead(
    pool: ClientPool, hms: FakeHms
) -> None:
    """What is sent compares all the same, so a waiter takes the lock away if its holder is killed."""
    runtime = Counted()
    lock = HmsTableLock(pool, runtime, SETTINGS)
    pool.cas_support.learn(pool.uris[0], NAME.namespace, CompareAndSwap.ATOMIC)
    held = lock.acquire(NAME, wait_seconds=1, request="r", use=LockUse.CAS_FULL_LEASE)
    (entry,) = hms.locks.values()
    assert entry.agent_info.rpartition("/")[2] == "cas"
    assert (held.lease_seconds, held.require_cas) == (300, True)
    held.release()
    lock.close()
    runtime.join()
