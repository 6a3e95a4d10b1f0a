"""The lock table for operators."""

from __future__ import annotations

from thrift.Thrift import TApplicationException

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore import lock_table
from iceberg_hms.metastore.entries import LockEntries
from tests.metastore.fake_hms import FakeHms, pool_of, running

NAME = TableName("db", "t")
OTHER = TableName("db", "u")


def settings(*uris: str) -> Settings:
    return Settings.load({"metastore_uri": ",".join(uris)}, environ={})


def broken(hms: FakeHms) -> FakeHms:
    """A server without the lock call."""
    hms.misbehave["lock"].extend([TApplicationException(TApplicationException.UNKNOWN_METHOD, "no lock")] * 100)
    return hms


def test_all_locks_are_told_in_order_or_those_of_one_table() -> None:
    with running() as server, pool_of(server) as pool:
        entries = LockEntries(pool, "ann")
        first, waits, other = (entries.enqueue(name, f"agent-{name.name}") for name in (NAME, NAME, OTHER))
        rows = lock_table.LockTable(pool).rows()
        assert [row.lock_id for row in rows] == [first.lock_id, waits.lock_id, other.lock_id]
        row = rows[0]
        assert (row.namespace, row.table, row.state, row.agent_info) == ("db", "t", "ACQUIRED", "agent-t")
        assert rows[1].state == "WAITING"
        assert [row.table for row in lock_table.LockTable(pool).rows(OTHER)] == ["u"]


def test_a_removed_lock_is_gone_and_removing_it_again_is_harmless() -> None:
    with running() as server, pool_of(server) as pool:
        table = lock_table.LockTable(pool)
        entry = LockEntries(pool, "ann").enqueue(NAME, "agent")
        table.remove(entry.lock_id)
        table.remove(entry.lock_id)
        assert table.rows() == []


def test_the_api_works_if_any_server_carries_out_a_lock_call_and_nothing_is_left_of_it() -> None:
    with running(broken(FakeHms())) as bad, running() as good, pool_of(good) as pool:
        assert lock_table.api_works(settings(good.uri))
        assert lock_table.api_works(settings(bad.uri, good.uri))
        assert not lock_table.api_works(settings(bad.uri))
        assert lock_table.LockTable(pool).rows() == []


def test_a_server_that_is_not_there_does_not_work() -> None:
    with running() as server:
        gone = server.uri
    assert not lock_table.api_works(settings(gone))
