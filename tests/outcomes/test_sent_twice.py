"""A commit that its client, a proxy or a balancer sends twice, while its first swap is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.changes.change import Change
from iceberg_hms.coordinator.ports import HeldLock, Refused, SwapAnswer, Swapped
from iceberg_hms.errors import CommitStateUnknown, InvalidInput, LockNotAcquired, RequirementFailed, StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.harness import NAME, Harness
from tests.coordinator.resends import MINE, add, sent, with_files


@pytest.fixture
def harness() -> Harness:
    """Its locks have short leases, as those of a metastore that is proved to compare atomically."""
    made = Harness(status_check_num_retries=0)
    made.create()
    made.lock.short_lease_seconds = 15.0
    return made


@pytest.fixture
def base(harness: Harness) -> TableMetadata:
    return with_files(harness, "a", "b")


def left_under_way(harness: Harness, change: Change) -> None:
    """Send a change in a swap that the metastore makes later, if it can."""
    harness.pointer.answers.extend([ScriptedAnswer.DELAYED, *[ScriptedAnswer.REQUEST_LOST] * 2])
    with pytest.raises(CommitStateUnknown):
        harness.commit(change)
    harness.pointer.answers.clear()


def no_lock(harness: Harness) -> None:
    harness.lock.errors.append(LockNotAcquired("others have it"))


def no_storage(harness: Harness) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the store does not answer")

    harness.files.write = fail  # type: ignore[method-assign]


@pytest.mark.parametrize(("trouble", "error"), [(no_lock, "others have it"), (no_storage, "does not answer")])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_commit_whose_first_swap_is_under_way_has_not_failed_because_its_second_send_did(
    harness: Harness, base: TableMetadata, trouble: Callable[[Harness], None], error: str, atomic: bool
) -> None:
    """mine: its swap is delayed | mine again: it fails before anything is sent | the swap is made"""
    mine = sent(harness, base, "delete")
    harness.pointer.atomic = atomic
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    harness.runtime.skipped += harness.lock.short_lease_seconds + 300.0
    trouble(harness)
    with pytest.raises(CommitStateUnknown, match=error):
        harness.commit(mine)
    assert Swapped() in harness.pointer.deliver_delayed()
    assert harness.metadata().snapshot_by_id(MINE)


def test_a_conflict_after_a_restart_is_certain_before_the_client_hears_of_it(
    harness: Harness, base: TableMetadata
) -> None:
    """mine: its swap is delayed | kill -9, and a restart | mine again: a conflict | the swap: refused"""
    mine, other = sent(harness, base, "delete"), sent(harness, base, "overwrite")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    add(harness, 3, "c")
    harness.begin_now()
    before = harness.location()
    with pytest.raises(RequirementFailed):
        harness.commit(mine)
    fenced = harness.location()
    assert fenced != before
    assert harness.read_metadata(before).snapshots == harness.metadata().snapshots
    assert [type(each) for each in harness.pointer.deliver_delayed()] == [Refused]
    with pytest.raises(RequirementFailed):
        harness.commit(other)
    assert harness.location() == fenced, "one such swap is enough for a table and a process"


def test_a_commit_that_a_door_refused_after_a_restart_is_certain_as_well(harness: Harness, base: TableMetadata) -> None:
    """mine: its swap is delayed | a restart with a lower limit | mine again: too large | the swap: refused"""
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    harness.begin_now()
    error = InvalidInput("too large")
    refused = harness.coordinator.refusal(NAME, mine, error, wait_seconds=5.0)
    harness.runtime.join()
    assert (type(refused), str(refused)) == (InvalidInput, str(error))
    assert [type(each) for each in harness.pointer.deliver_delayed()] == [Refused]
    assert harness.metadata().snapshot_by_id(MINE) is None


def test_a_commit_that_a_door_refused_is_unknown_where_nobody_has_the_lock_in_time(
    harness: Harness, base: TableMetadata
) -> None:
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.begin_now()
    no_lock(harness)
    refused = harness.coordinator.refusal(NAME, mine, InvalidInput("too large"), wait_seconds=0.1)
    harness.runtime.join()
    assert isinstance(refused, CommitStateUnknown)


def test_a_conflict_after_a_restart_is_unknown_where_swaps_do_not_compare(
    harness: Harness, base: TableMetadata
) -> None:
    """mine: its swap is delayed | kill -9, and a restart | mine again: a conflict"""
    harness.pointer.atomic = False
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    harness.restart()
    add(harness, 3, "c")
    harness.begin_now()
    with pytest.raises(CommitStateUnknown, match="before this process began"):
        harness.commit(mine)


def test_a_fence_that_cannot_be_made_leaves_the_outcome_unknown(harness: Harness, base: TableMetadata) -> None:
    mine = sent(harness, base, "delete")
    add(harness, 3, "c")
    harness.begin_now()
    no_storage(harness)
    before = harness.location()
    with pytest.raises(CommitStateUnknown, match="before this process began"):
        harness.commit(mine)
    assert harness.location() == before


def test_a_fence_ends_the_doubt_of_a_swap_from_the_very_table_that_it_replaced(
    harness: Harness, base: TableMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mine: its swap is delayed | mine again: its files cannot be read | a fence | the swap: refused"""
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    with monkeypatch.context() as patch:
        patch.setattr(type(mine), "check", _unreadable)
        with pytest.raises(StorageError):
            harness.commit(mine)
    assert [type(each) for each in harness.pointer.deliver_delayed()] == [Refused]


def _unreadable(*_: object) -> None:
    raise StorageError("the store does not answer")


def test_a_commit_whose_first_send_waits_for_its_turn_has_not_failed(harness: Harness, base: TableMetadata) -> None:
    """mine waits for the lock | mine again: its time is over | the lock is free: mine lands"""
    first, again = sent(harness, base, "delete"), sent(harness, base, "overwrite")
    held = harness.lock.acquire(NAME, wait_seconds=1.0, request="another-writer")
    waiting = harness.coordinator.submit(NAME, first, wait_seconds=60.0)
    with pytest.raises(CommitStateUnknown, match="the other one still waits"):
        harness.coordinator.commit(NAME, again, wait_seconds=0.0)
    held.release()
    waiting.wait()
    harness.runtime.join()
    assert harness.metadata().snapshot_by_id(MINE)


def test_a_commit_is_unknown_while_its_twin_waits_and_fails_with_it(harness: Harness, base: TableMetadata) -> None:
    first, again = sent(harness, base, "delete"), sent(harness, base, "overwrite")
    held = harness.lock.acquire(NAME, wait_seconds=1.0, request="another-writer")
    waiting = harness.coordinator.submit(NAME, first, wait_seconds=60.0)
    refused = harness.coordinator.refusal(NAME, again, InvalidInput("too large"), wait_seconds=0.0)
    assert isinstance(refused, CommitStateUnknown)
    assert waiting.withdraw()
    refused = harness.coordinator.refusal(NAME, again, InvalidInput("too large"), wait_seconds=0.0)
    assert isinstance(refused, InvalidInput)
    held.release()
    harness.runtime.join()


def test_a_table_that_others_moved_meanwhile_needs_no_fence_of_ours(harness: Harness, base: TableMetadata) -> None:
    """mine: its swap is delayed | a restart | mine again: a conflict | the fence: others move the table | the swap"""
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    add(harness, 3, "c")
    harness.begin_now()
    moved: list[str] = []
    swap = harness.pointer.swap

    def others_first(*arguments: Any, **options: Any) -> SwapAnswer:
        if not moved:
            moved.append(harness.foreign_commit(colour="red"))
        return swap(*arguments, **options)

    harness.pointer.swap = others_first  # type: ignore[method-assign]
    with pytest.raises(RequirementFailed):
        harness.commit(mine)
    assert [harness.location()] == moved
    assert [type(each) for each in harness.pointer.deliver_delayed()] == [Refused]


def test_a_swap_that_lands_while_its_table_is_fenced_is_found(harness: Harness, base: TableMetadata) -> None:
    """mine: its swap is delayed | a restart | mine again: its files cannot be read | the fence: mine lands before it"""
    mine = sent(harness, base, "delete")
    left_under_way(harness, mine)
    harness.lock.queues.reap(NAME)
    harness.begin_now()
    swap = harness.pointer.swap

    def mine_first(*arguments: Any, **options: Any) -> SwapAnswer:
        harness.pointer.deliver_delayed()
        return swap(*arguments, **options)

    harness.pointer.swap = mine_first  # type: ignore[method-assign]
    refused = harness.coordinator.refusal(NAME, mine, InvalidInput("too large"), wait_seconds=5.0)
    harness.runtime.join()
    assert isinstance(refused, CommitStateUnknown)
    assert harness.metadata().snapshot_by_id(MINE)


def test_what_was_read_under_a_lock_that_was_lost_before_acknowledges_nothing(
    harness: Harness, base: TableMetadata
) -> None:
    """mine lands | mine again: its lock is lost before it reads the table, in which another writer may swap blindly"""
    mine = sent(harness, base, "delete")
    harness.commit(mine)
    acquire, held = harness.lock.acquire, harness.lock.acquired

    def lost_at_once(*arguments: Any, **options: Any) -> HeldLock:
        harness.lock.acquire = acquire  # type: ignore[method-assign]
        lock = acquire(*arguments, **options)
        harness.lock.queues.reap(NAME)
        return lock

    harness.lock.acquire = lost_at_once  # type: ignore[method-assign]
    assert harness.commit(mine).already_committed
    assert harness.lock.acquired == held + 2
