from __future__ import annotations

import socket
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.capabilities import Capabilities, CompareAndSwap, probe
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from tests.metastore.fake_hms import DropAfter, FakeHms, running

SETTINGS = Settings.load({}, environ={})


class SteppedClock(SystemClock):
    """Stands still until it is moved."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def probed(hms: FakeHms) -> Capabilities:
    hms.add_database("default")
    with running(hms) as server:
        found = probe(server.uri, SETTINGS)
        assert found.uri == server.uri
    assert hms.rows == {}, "the scratch row was left behind"
    assert hms.locks == {}, "the lock was left behind"
    return found


def test_a_server_that_can_do_everything() -> None:
    found = probed(FakeHms())
    assert (found.version, found.lock_api, found.lease_seconds, found.transaction_tables) == ("2.x", True, 300, True)
    assert found.compare_and_swap is CompareAndSwap.ATOMIC
    assert found.disallow_incompatible_col_type_changes is None
    assert found.problems == ()


@pytest.mark.parametrize("behaviour", ["atomic", "checked", "ignored", "broken"])
def test_the_probe_judges_compare_and_swap_by_what_the_server_does(behaviour: str) -> None:
    hms = FakeHms()
    hms.swap_support = behaviour
    assert probed(hms).compare_and_swap == behaviour


def test_an_error_that_says_nothing_of_compare_and_swap_is_no_verdict() -> None:
    hms = FakeHms()
    hms.misbehave["alter_table_with_environment_context"].append(MetaException("deadlock"))
    found = probed(hms)
    assert found.compare_and_swap is CompareAndSwap.UNKNOWN
    assert found.problems == ("Compare-and-swap could not be probed: deadlock",)


def test_a_probe_that_may_not_create_is_unknown_and_says_so() -> None:
    hms = FakeHms()
    hms.misbehave["create_table"].append(MetaException("Permission denied: ada"))
    found = probed(hms)
    assert found.compare_and_swap is CompareAndSwap.UNKNOWN
    assert "Permission denied" in found.problems[0]


def test_a_scratch_row_that_was_made_without_an_answer_is_dropped() -> None:
    hms = FakeHms()
    hms.misbehave["create_table"].append(DropAfter())
    found = probed(hms)
    assert found.compare_and_swap is CompareAndSwap.UNKNOWN
    assert "did not answer create_table" in found.problems[0]


def test_the_probe_reports_a_broken_lock_api_and_missing_transaction_tables() -> None:
    hms = FakeHms()
    hms.misbehave["lock"].append(MetaException("HIVE_LOCKS does not exist"))
    hms.misbehave["open_txns"].append(MetaException("TXNS does not exist"))
    found = probed(hms)
    assert (found.lock_api, found.transaction_tables, len(found.problems)) == (False, False, 2)


@pytest.mark.parametrize(("said", "expected"), [("true", True), ("false", False), ("TRUE", True)])
def test_the_probe_reads_the_column_check_from_the_servers_setting(said: str, expected: bool) -> None:
    hms = FakeHms()
    hms.config["hive.metastore.disallow.incompatible.col.type.changes"] = said
    assert probed(hms).disallow_incompatible_col_type_changes is expected


@pytest.mark.parametrize("key", ["metastore.rawstore.impl", "hive.metastore.rawstore.impl"])
def test_the_probe_reads_from_the_servers_setting_whether_a_cache_stands_before_its_database(key: str) -> None:
    hms = FakeHms()
    hms.config[key] = "org.apache.hadoop.hive.metastore.ObjectStore"
    assert not probed(hms).cached
    hms.config[key] = "org.apache.hadoop.hive.metastore.cache.CachedStore"
    assert probed(hms).cached


def test_the_probe_reports_how_long_the_lock_call_took() -> None:
    clock = SteppedClock()
    hms = FakeHms()
    plain = hms.lock

    def slow_lock(rqst: Any) -> Any:
        clock.now += 31
        return plain(rqst)

    hms.lock = slow_lock  # type: ignore[method-assign]
    hms.add_database("default")
    with running(hms) as server:
        assert probe(server.uri, SETTINGS, clock=clock).lock_seconds == 31


def test_the_probe_reports_a_scratch_row_that_it_could_not_drop() -> None:
    hms = FakeHms()
    hms.add_database("default")
    hms.misbehave["drop_table"].append(MetaException("no"))
    with running(hms) as server:
        found = probe(server.uri, SETTINGS)
    assert "could not be dropped" in found.problems[0]


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(MetastoreUnavailable):
            probe(f"thrift://127.0.0.1:{taken.getsockname()[1]}", SETTINGS)


def test_a_lock_of_a_writer_that_seems_to_be_dead_is_a_problem_with_what_removes_it() -> None:
    hms = FakeHms()
    hms.add_database("default")
    with running(hms) as server:
        pool = ClientPool([server.uri])
        entry = LockEntries(pool, "bob").enqueue(TableName("db", "t"), "Iceberg-java")
        hms.now_ms += 301_000
        living = LockEntries(pool, "bob").enqueue(TableName("db", "u"), "Iceberg-java")
        pool.close()
        (problem,) = probe(server.uri, SETTINGS).problems
    assert f"The holder of lock {entry.lock_id} on db.t, bob@" in problem
    assert "it was not renewed for 301 s, with a lease of 300 s" in problem
    assert f"`iceberg-hms locks break {entry.lock_id} --yes`" in problem
    assert list(hms.locks) == [entry.lock_id, living.lock_id]
