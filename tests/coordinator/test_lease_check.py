from contextlib import nullcontext

import pytest

from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.ports import Sending
from iceberg_hms.errors import LockLost
from tests.coordinator.group.test_commit_group import when_locking
from tests.coordinator.harness import NAME, append


class Lock:
    lease_seconds = 300.0

    def __init__(self, *, age=200.0, lost=False, renews=True):
        self.age, self.lost, self.renews, self.renewed = age, lost, renews, 0

    def seconds_since_renewal(self):
        if self.lost:
            raise LockLost("reaped")
        return self.age

    def renew(self):
        self.renewed += 1
        if not self.renews:
            raise LockLost("reaped")


@pytest.mark.parametrize(("age", "renewed"), [(0.0, 0), (150.0, 0), (150.1, 1)])
def test_a_lock_is_renewed_when_half_of_its_lease_is_over(age, renewed):
    lock = Lock(age=age)
    renew_if_half_expired(lock)
    assert lock.renewed == renewed


@pytest.mark.parametrize("lock", [Lock(lost=True), Lock(renews=False)])
def test_renewing_a_lost_lock_raises(lock):
    with pytest.raises(LockLost):
        renew_if_half_expired(lock)


@pytest.mark.parametrize(("age", "refused"), [(150.0, False), (150.1, True)])
def test_nothing_is_sent_under_a_lock_that_is_not_fresh(age, refused):
    locks = [Lock(age=0.0), Lock(age=age)]
    with pytest.raises(LockLost) if refused else nullcontext():
        Sending(locks).require_fresh_locks()
    Sending().require_fresh_locks()
    assert [lock.renewed for lock in locks] == [0, 0]


def test_a_swap_that_cannot_be_atomic_is_sent_under_a_lock_with_the_full_lease(harness):
    """The first lock has a short lease, which requires compare-and-swap; this server cannot be proven to have it."""
    harness.lock.short_lease_seconds = 20.0
    harness.pointer.atomic = False
    leases = []
    when_locking(harness, after=lambda held: leases.append((held.lease_seconds, held.require_cas)))
    report = harness.commit(append("file:/a"))
    assert report.attempts == 1
    assert leases == [(20.0, True), (300.0, False)]
    assert harness.data_files() == ["file:/a"]


def test_a_short_lease_that_was_lost_is_not_asked_for_again_by_the_same_group(harness):
    """lock; the metastore answers more slowly than the lease is long | lock, with the server's lease | swap"""
    harness.lock.short_lease_seconds = 20.0
    leases = []

    def lose(held):
        leases.append(held.lease_seconds)
        if len(leases) == 1:
            harness.lock.queues.reap(NAME)

    when_locking(harness, after=lose)
    harness.commit(append("file:/a"))
    harness.commit(append("file:/b"))
    assert leases == [20.0, 300.0, 20.0]
    assert harness.data_files() == ["file:/a", "file:/b"]
