"""Which locks an operation takes, and what it may send under them."""

from functools import partial

import pytest

from iceberg_hms.coordinator.ports import LockUse
from iceberg_hms.coordinator.sending.operation_requests import retry_with_full_lease
from iceberg_hms.errors import (
    CommitStateUnknown,
    CompareAndSwapUnproven,
    LockLost,
    LockNotAcquired,
)
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.creations import OTHER, before_look
from tests.coordinator.harness import NAME, Harness, append


@pytest.fixture
def harness():
    made = Harness()
    made.create()
    made.commit(append("file:/a"))
    return made


def test_renames_take_their_locks_in_the_order_of_the_names_and_for_what_may_overwrite(harness):
    taken = []
    ensured = []
    acquire = harness.lock.acquire

    def noted(name, *, use, **options):
        held = acquire(name, use=use, **options)
        ensure = held.ensure_held
        held.ensure_held = lambda *, blind=False: (ensured.append(blind), ensure())[1]
        taken.append((name, use))
        return held

    harness.lock.acquire = noted
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    harness.coordinator.operations.rename(OTHER, NAME, wait_seconds=1)
    assert taken == [(name, LockUse.BLIND) for name in (OTHER, NAME, OTHER, NAME)]
    assert ensured == [True] * 4


def test_a_rename_that_times_out_on_its_second_lock_releases_the_first(harness):
    held = harness.lock.acquire(NAME, wait_seconds=1, request="other")
    with pytest.raises(LockNotAcquired):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=0.01)
    assert not harness.lock.queues.entries(OTHER)
    held.release()


@pytest.mark.parametrize("kind", ["drop", "rename"])
def test_an_operation_that_another_writer_undid_is_unknown_and_not_refused(harness, kind):
    """drop: made, and the metastore tries once more and finds no table | another registers its file under the name"""
    row = harness.pointer.rows[NAME]

    def undo():
        harness.pointer.rows.clear()
        harness.pointer.rows[NAME] = row

    harness.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    operations = harness.coordinator.operations
    # A rename looks at its target first.
    before_look(harness, 3 if kind == "rename" else 2, undo)
    operation = partial(operations.drop, NAME) if kind == "drop" else partial(operations.rename, NAME, OTHER)
    with pytest.raises(CommitStateUnknown):
        operation(wait_seconds=1)


@pytest.fixture
def suspended(harness):
    """A harness whose locks are acquired and then lost."""
    acquire = harness.lock.acquire

    def acquire_and_lose(name, **options):
        held = acquire(name, **options)

        def ensure_held(*, blind=False):
            raise LockLost("the session is SUSPENDED")

        held.ensure_held = ensure_held
        return held

    harness.lock.acquire = acquire_and_lose
    harness.pointer.calls.clear()
    return harness


@pytest.mark.parametrize(
    "operation",
    [
        lambda operations, location: operations.rename(NAME, OTHER, wait_seconds=1),
        lambda operations, location: operations.drop(NAME, wait_seconds=1),
        lambda operations, location: operations.register(NAME, location, overwrite=True, wait_seconds=1),
    ],
    ids=["rename", "drop", "register with overwrite"],
)
def test_no_operation_is_sent_under_a_lost_lock(suspended, operation):
    files = set(suspended.files.locations())
    with pytest.raises(LockLost) as caught:
        operation(suspended.coordinator.operations, suspended.location())
    assert caught.value.proved_failed
    assert {call for call, _ in suspended.pointer.calls} == {"load"}
    assert set(suspended.files.locations()) == files


@pytest.fixture
def asked(harness):
    """What each lock was asked for, in order."""
    asked = []
    acquire = harness.lock.acquire

    def noted(name, **options):
        asked.append(options["use"])
        return acquire(name, **options)

    harness.lock.acquire = noted
    return asked


def test_only_what_no_server_refuses_for_good_takes_a_lock_for_blind_use(harness, asked):
    harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    harness.coordinator.operations.drop(OTHER, wait_seconds=1)
    assert asked == [LockUse.CAS, LockUse.BLIND, LockUse.BLIND, LockUse.BLIND]


def test_a_registration_on_a_server_that_is_not_proven_is_retried_under_a_lock_that_promises_nothing(harness, asked):
    harness.lock.short_lease_seconds = 20.0
    harness.pointer.atomic = False
    harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
    assert asked == [LockUse.CAS, LockUse.BLIND]


LOST, UNPROVEN = LockLost("the lock is gone"), CompareAndSwapUnproven("ignored")


@pytest.mark.parametrize(
    ("failures", "uses"),
    [
        ([], [LockUse.CAS]),
        ([LOST], [LockUse.CAS, LockUse.CAS_FULL_LEASE]),
        ([UNPROVEN], [LockUse.CAS, LockUse.BLIND]),
        ([LOST, UNPROVEN], [LockUse.CAS, LockUse.CAS_FULL_LEASE, LockUse.BLIND]),
        ([UNPROVEN, LOST], [LockUse.CAS, LockUse.BLIND, LockUse.BLIND]),
    ],
    ids=lambda each: "-".join(type(one).__name__ if isinstance(one, Exception) else one.name for one in each) or "none",
)
def test_an_operation_that_sent_nothing_is_run_again_under_the_lock_that_it_needs(failures, uses):
    left, asked = list(failures), []

    def operation(use):
        asked.append(use)
        if left:
            raise left.pop(0)
        return "made"

    assert retry_with_full_lease(operation) == "made"
    assert asked == uses


def test_an_operation_that_never_sends_anything_fails_at_its_third_try():
    asked = []

    def operation(use):
        asked.append(use)
        raise LOST

    with pytest.raises(LockLost):
        retry_with_full_lease(operation)
    assert asked == [LockUse.CAS, LockUse.CAS_FULL_LEASE, LockUse.CAS_FULL_LEASE]
