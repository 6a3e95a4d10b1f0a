from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from tests.metastore.fake_hms import DropAfter, FakeHms

NAME = TableName("db", "t")


def test_the_second_entry_waits_for_the_first(entries: LockEntries) -> None:
    first, second = entries.enqueue(NAME, "a"), entries.enqueue(NAME, "b")
    assert (first.acquired, second.acquired) == (True, False)
    assert not entries.check(second).acquired
    entries.remove(first)
    assert entries.check(second).acquired
    assert entries.own(NAME, "a") == []
    assert [entry.lock_id for entry in entries.own(NAME, "b")] == [second.lock_id]


def test_the_lock_is_exclusive_on_the_table_outside_transactions(hms: FakeHms, entries: LockEntries) -> None:
    seen = []
    hms.lock, plain = lambda rqst: (seen.append(rqst), plain(rqst))[1], hms.lock  # type: ignore[method-assign]
    entries.enqueue(NAME, "agent")
    (component,) = seen[0].component
    assert (component.type, component.level, component.operationType) == (3, 2, 6)
    assert (component.dbname, component.tablename) == ("db", "t")
    assert (seen[0].user, seen[0].agentInfo) == ("ada", "agent")


def test_check_and_renew_of_an_entry_that_is_gone_raise_and_remove_does_not(entries: LockEntries) -> None:
    entry = entries.enqueue(NAME, "a")
    entries.renew(entry)
    entries.remove(entry)
    entries.remove(entry)
    for call in (entries.renew, entries.check):
        with pytest.raises(ServerFault) as caught:
            call(entry)
        assert caught.value.fault is Fault.NO_SUCH_LOCK


def test_only_asking_for_a_lock_is_not_repeated(hms: FakeHms, entries: LockEntries) -> None:
    hms.misbehave["lock"].append(DropAfter())
    with pytest.raises(NoAnswer):
        entries.enqueue(NAME, "a")
    (entry,) = entries.own(NAME, "a")
    for method, call in (("check_lock", entries.check), ("heartbeat", entries.renew), ("unlock", entries.remove)):
        hms.misbehave[method].append(DropAfter())
        call(entry)
    assert hms.calls.count("lock") == 1
    assert hms.locks == {}


def test_the_lock_table_tells_when_each_was_renewed(hms: FakeHms, entries: LockEntries) -> None:
    entries.enqueue(NAME, "holder")
    at = hms.now_ms
    waiting = entries.enqueue(NAME, "waiter")
    hms.now_ms += 5_000
    entries.check(waiting)
    assert [entry.heartbeat_ms for entry in entries.of(NAME)] == [at, at + 5_000]


def test_a_trial_leaves_nothing_behind_however_it_ends(hms: FakeHms, entries: LockEntries) -> None:
    with entries.trial(NAME, "probe") as entry:
        assert entry.acquired
        assert "/probe." in hms.locks[entry.lock_id].agent_info
    assert hms.locks == {}
    hms.misbehave["heartbeat"] += [MetaException("deadlock")] * 2
    with pytest.raises(ServerFault), entries.trial(NAME, "probe") as entry:
        entries.renew(entry)
    assert hms.locks == {}


def test_an_entry_says_who_it_is() -> None:
    assert str(LockEntry(7, True, "agent", "ada", "host")) == "lock 7 of ada on host (agent)"
    assert str(LockEntry(7, True)) == "lock 7 of ? on ? (no agentInfo)"
