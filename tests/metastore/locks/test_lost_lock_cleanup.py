from __future__ import annotations

import threading
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.locks import lost_lock_cleanup
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.lost_lock_cleanup import LostLockCleanup
from tests.metastore.fake_hms import DropBefore, FakeHms
from tests.metastore.runtimes import Counted
from tests.polling import eventually

NAME = TableName("db", "t")


def removal(hms: FakeHms) -> threading.Event:
    """Set when an entry was removed."""
    removed = threading.Event()
    plain = hms.unlock

    def unlock(rqst: object) -> None:
        plain(rqst)
        removed.set()

    hms.unlock = unlock  # type: ignore[method-assign]
    return removed


def test_entries_that_are_there_go_and_others_stay(entries: LockEntries, hms: FakeHms) -> None:
    for agent in ("lost", "other", "lost"):
        entries.enqueue(NAME, agent)
    runtime = Counted()
    LostLockCleanup(entries, runtime, poll_seconds=0.002).watch(NAME, "lost", 0)
    runtime.join()
    assert [lock.agent_info for lock in hms.locks.values()] == ["other"]


def test_an_entry_that_is_spared_stays(entries: LockEntries, hms: FakeHms) -> None:
    left = entries.enqueue(NAME, "lost")
    entries.enqueue(NAME, "lost")
    runtime = Counted()
    LostLockCleanup(entries, runtime, poll_seconds=0.002).watch(NAME, "lost", 0, spare=left.lock_id)
    runtime.join()
    assert list(hms.locks) == [left.lock_id]


def test_an_entry_that_appears_later_goes_too(entries: LockEntries, hms: FakeHms) -> None:
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=0.002)
    removed = removal(hms)
    sweeper.watch(NAME, "lost", 60)
    assert eventually(lambda: hms.calls.count("show_locks") > 1)
    entries.enqueue(NAME, "lost")
    assert removed.wait(10)
    sweeper.close()
    runtime.join()


def test_a_metastore_that_fails_is_asked_again(entries: LockEntries, hms: FakeHms) -> None:
    entries.enqueue(NAME, "lost")
    hms.misbehave["show_locks"] += [DropBefore(), DropBefore()]
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=0.002)
    removed = removal(hms)
    sweeper.watch(NAME, "lost", 60)
    assert removed.wait(10)
    sweeper.close()
    runtime.join()
    assert hms.locks == {}


def test_closing_searches_once_more_and_ends_at_once(entries: LockEntries, hms: FakeHms) -> None:
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=600.0)
    sweeper.watch(NAME, "lost", 600)
    assert eventually(lambda: "show_locks" in hms.calls)
    entries.enqueue(NAME, "lost")
    sweeper.close()
    runtime.join()
    assert hms.locks == {}


def test_one_thread_watches_all_and_a_new_one_starts_after_its_end(entries: LockEntries) -> None:
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=0.002)
    for number in range(5):
        sweeper.watch(NAME, f"lost-{number}", 60)
    assert len(runtime.threads) == 1
    sweeper.close()
    runtime.join()
    sweeper.watch(NAME, "again", 0)
    assert len(runtime.threads) == 2
    runtime.join()


def test_only_the_last_lost_locks_are_searched_for(
    entries: LockEntries, hms: FakeHms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_lock_cleanup, "WATCHED_MAX", 3)
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=600.0)
    for number in range(9):
        sweeper.watch(NAME, f"lost-{number}", 600)
    assert eventually(lambda: "show_locks" in hms.calls)
    appeared = [entries.enqueue(NAME, f"lost-{number}") for number in range(9)]
    sweeper.close()
    runtime.join()
    left = [entry for entry in appeared if entry.lock_id in hms.locks]
    assert left == appeared[:6]


def test_without_a_thread_a_lost_lock_is_removed_with_the_next_one(
    entries: LockEntries, hms: FakeHms, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*given: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    for agent in ("lost", "lost too"):
        entries.enqueue(NAME, agent)
    runtime = Counted()
    sweeper = LostLockCleanup(entries, runtime, poll_seconds=0.002)
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "spawn", no_thread)
        sweeper.watch(NAME, "lost", 0)
    assert len(hms.locks) == 2
    sweeper.watch(NAME, "lost too", 0)
    runtime.join()
    assert hms.locks == {}
