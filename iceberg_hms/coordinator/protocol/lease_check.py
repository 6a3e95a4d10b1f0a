"""Whether a held lock covers what is done under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import HeldLock, Runtime
from iceberg_hms.errors import LockLost

#: A lease outlives this many missed heartbeats.
HEARTBEATS_PER_LEASE = 10
#: Of a long lease there are more: two that are missed tell that a process has ended, and somebody may wait for that.
_BEAT_SECONDS_MAX = 5.0

_LOCKS: ContextVar[Sequence[HeldLock]] = ContextVar("iceberg_hms_locks", default=())


def heartbeat_seconds(lease_seconds: float) -> float:
    """The time between the heartbeats of a lock, at most."""
    return min(lease_seconds / HEARTBEATS_PER_LEASE, _BEAT_SECONDS_MAX)


def renew_if_half_expired(lock: HeldLock) -> None:
    """Renew a lock that was not renewed for half of its lease: it may be over before what is done under it ends.

    Raises LockLost, and what `HeldLock.renew` raises.
    """
    if lock.seconds_since_renewal() > lock.lease_seconds / 2:
        lock.renew()


@contextmanager
def sending_under(locks: Sequence[HeldLock]) -> Iterator[None]:
    """A move that this thread makes within is made under these locks, which `HeldLock.ensure_held` has found fresh."""
    token = _LOCKS.set(locks)
    try:
        yield
    finally:
        _LOCKS.reset(token)


def require_fresh_locks() -> None:
    """Called by drivers just before a move goes out that nothing but its locks fences. Since they were found fresh a
    connection had to be waited for and opened, and its server to be asked what it makes of an expected value.

    Raises LockLost if one was not renewed for half of its lease. It is not renewed here: that takes a connection, and
    the driver has one already, perhaps the last."""
    for lock in _LOCKS.get():
        if lock.seconds_since_renewal() > lock.lease_seconds / 2:
            raise LockLost("a lock was not renewed for half of its lease before its move could be sent")


class LeaseCheck:
    """What a driver knows of a lock that it holds: when it was renewed, and whether it is lost, which is for good.

    what: the lock, in words. sent: when the call that got it was sent.
    """

    def __init__(self, runtime: Runtime, lease_seconds: float, what: object, sent: ClockReading) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._lease_seconds = lease_seconds
        self._what = what
        self._renewed = sent
        self._lost = ""

    def seconds_since_renewal(self) -> float:
        """As HeldLock.seconds_since_renewal."""
        with self._mutex:
            seconds = self._runtime.read_clocks().max_seconds_since(self._renewed)
            if not self._lost and seconds > self._lease_seconds:
                self._lost = f"{self._what} was not renewed for its lease of {self._lease_seconds:g} s"
            lost = self._lost
        if lost:
            raise LockLost(lost)
        return seconds

    def record_renewal(self, sent: ClockReading) -> None:
        """A heartbeat that was sent then has been answered. Raises LockLost if the lease had passed: whoever found the
        lock silent for so long may remove it after this heartbeat."""
        self.seconds_since_renewal()
        with self._mutex:
            self._renewed = max(self._renewed, sent)

    def mark_lost(self, why: str) -> LockLost:
        """It is lost; the first reason stays."""
        with self._mutex:
            self._lost = self._lost or f"{self._what} {why}"
            return LockLost(self._lost)
