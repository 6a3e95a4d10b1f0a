"""The lock table for operators."""

from __future__ import annotations

import subprocess

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TApplicationException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import LockType
from iceberg_hms.metastore.locks import lock_table
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.lock_table import granted_lock_seconds
from tests.metastore.fake_hms import DropAfter, FakeHms, Running, pool_of, running

NAME = TableName("db", "t")
OTHER = TableName("db", "u")


def settings(*uris: str) -> Settings:
    return Settings.load({"metastore_uri": ",".join(uris)}, environ={})


def works(*uris: str) -> bool:
    found = settings(*uris)
    return lock_table.api_works(ClientPool.configured(found), found)


def broken(hms: FakeHms) -> FakeHms:
    """A server without the lock call."""
    hms.misbehave["lock"].extend([TApplicationException(TApplicationException.UNKNOWN_METHOD, "no lock")] * 100)
    return hms


def test_all_locks_are_listed_in_order_or_those_of_one_table() -> None:
    with running() as server, pool_of(server) as pool:
        entries = LockEntries(pool, "ann")
        first, waits, other = (entries.enqueue(name, f"agent-{name.name}") for name in (NAME, NAME, OTHER))
        rows = lock_table.LockTable(pool).entries()
        assert [row.lock_id for row in rows] == [str(each.lock_id) for each in (first, waits, other)]
        row = rows[0]
        assert (row.keeper, row.table, row.state, row.agent_info) == ("hms", "db.t", "ACQUIRED", "agent-t")
        assert rows[1].state == "WAITING"
        assert [row.table for row in lock_table.LockTable(pool).entries(OTHER)] == ["db.u"]


def test_a_removed_lock_is_gone_and_removing_it_again_is_harmless() -> None:
    with running() as server, pool_of(server) as pool:
        table = lock_table.LockTable(pool)
        entry = LockEntries(pool, "ann").enqueue(NAME, "agent")
        table.remove(str(entry.lock_id))
        table.remove(str(entry.lock_id))
        assert table.entries() == []


def ended_agent(word: str = "blind") -> str:
    """The agentInfo of a process of this machine that is no longer there."""
    _, boot, namespace, process, request, _ = agent_info("r-1").split("/")
    start = process.partition("-")[2]
    with subprocess.Popen(["/bin/true"]) as ended:
        pass
    return f"iceberg-hms/{boot}/{namespace}/{ended.pid}-{start}/{request}/{word}"


def fake(clock_hours: int = 0, lease: str = "300s") -> FakeHms:
    """A metastore whose database's clock is so far from ours."""
    hms = FakeHms()
    hms.now_ms = SYSTEM_CLOCK.now_ms() + clock_hours * 3_600_000
    hms.config["hive.txn.timeout"] = lease
    return hms


def add(hms: FakeHms, age_seconds: float, agent: str, txn: int | None = None) -> None:
    """A lock of bob's that was renewed so long ago, by the database's clock."""
    row = hms.metastore.locks.enqueue(NAME, agent, user="bob", host="h2", kind=LockType.EXCLUSIVE, txn=txn)
    row.acquired, row.seen = True, hms.now_ms / 1000 - age_seconds


def told(server: Running) -> list[str]:
    with pool_of(server) as pool:
        return [row.seems_dead for row in lock_table.LockTable(pool).entries()]


@pytest.mark.parametrize("hours", [0, 7])
def test_a_lock_of_an_ended_process_of_this_machine_seems_dead_after_two_missed_heartbeats(hours: int) -> None:
    hms = fake(clock_hours=hours)
    for age, agent in (
        (11, ended_agent("cas")),
        (11, ended_agent("blind")),
        (4, ended_agent("cas-15")),
        (11, agent_info("me")),
        (9, ended_agent("cas")),
        (2, ended_agent("cas-15")),
    ):
        add(hms, age, agent)
    with running(hms) as server:
        dead, blind, short, *others = told(server)
    assert dead.startswith("process ")
    assert blind.endswith("of this machine has ended")
    assert short.endswith("of this machine has ended")
    assert others == [""] * 3


def test_a_lock_that_announces_a_lease_seems_dead_after_that() -> None:
    hms = fake()
    add(hms, 14, f"iceberg-hms/{'0' * 32}/1/2-3/r.000/cas-15")
    add(hms, 16, f"iceberg-hms/{'0' * 32}/1/2-3/r.000/cas-15")
    with running(hms) as server:
        assert told(server) == ["", "it was not renewed for 16 s, with a lease of 15 s"]


def test_any_writer_s_lock_that_was_not_renewed_for_a_lease_seems_dead() -> None:
    hms = fake()
    add(hms, 290, "Iceberg-java")
    add(hms, 310, "Iceberg-java")
    with running(hms) as server:
        assert told(server) == ["", "it was not renewed for 310 s, with a lease of 300 s"]
    assert len(hms.locks) == 2


@pytest.mark.parametrize("hours", [-7, 7])
def test_a_database_s_clock_that_is_wrong_makes_no_living_lock_dead(hours: int) -> None:
    hms = fake(clock_hours=hours)
    add(hms, 10, "Iceberg-java")
    with running(hms) as server:
        assert told(server) == [""]
    assert len(hms.locks) == 1


def test_no_lock_seems_dead_if_the_server_hides_its_clock_or_its_lease() -> None:
    for hms in (broken(fake()), fake(lease="")):
        add(hms, 1_000, "Iceberg-java")
        with running(hms) as server:
            assert told(server) == [""]


def test_a_transaction_s_lock_has_no_heartbeat_of_its_own_to_miss() -> None:
    hms = fake()
    add(hms, 1_000_000, "Hive", txn=7)
    with running(hms) as server:
        assert told(server) == [""]


def test_the_api_works_if_any_server_carries_out_a_lock_call_and_nothing_is_left_of_it() -> None:
    with running(broken(FakeHms())) as bad, running() as good, pool_of(good) as pool:
        assert works(good.uri)
        assert works(bad.uri, good.uri)
        assert not works(bad.uri)
        assert lock_table.LockTable(pool).entries() == []


def test_the_api_works_though_what_it_was_tried_with_could_not_be_removed() -> None:
    """A writer that took it for broken would go without the lock that other writers rely on."""
    hms = FakeHms()
    hms.misbehave["unlock"] += [MetaException("out of order")] * 9
    with running(hms) as server:
        assert works(server.uri)


def test_a_server_that_does_not_answer_tells_nothing() -> None:
    """Its lock API may work for others: without its lock a writer would swap beside them."""
    with running() as server:
        gone = server.uri
    with pytest.raises(MetastoreUnavailable):
        works(gone)
    hms = FakeHms()
    hms.misbehave["lock"] += [DropAfter()] * 9
    with running(hms) as server, pytest.raises(MetastoreUnavailable):
        works(server.uri)
    with running(broken(FakeHms())) as bad, running() as good:
        assert not works(gone, bad.uri)
        assert works(gone, good.uri)


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
        hms.swap_support = behaviour
        hms.config = {} if lease is None else {"hive.txn.timeout": lease}
    with running(servers[0]) as one, running(servers[1]) as other:
        settings = Settings.load({"uri": f"{one.uri},{other.uri}"}, environ={})
        pool = ClientPool.configured(settings)
        if second == "gone":
            other.stop()
        assert granted_lock_seconds(pool, settings, "db") == seconds
        pool.close()
    assert all(hms.rows == {} for hms in servers), "no scratch row stays"
    assert all("lock" not in hms.calls for hms in servers), "the lock API is broken"


def test_each_database_of_a_server_is_proved_on_its_own() -> None:
    hms = FakeHms()
    hms.add_database("sales")
    hms.swap_support_of["sales"] = "ignored"
    with running(hms) as server:
        settings = Settings.load({"uri": server.uri}, environ={})
        pool = ClientPool.configured(settings)
        assert granted_lock_seconds(pool, settings, "db") == 0.0
        assert granted_lock_seconds(pool, settings, "sales") == 900.0
        pool.close()
