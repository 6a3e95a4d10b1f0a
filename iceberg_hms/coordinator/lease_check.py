"""Whether a held lock still covers what is done under it."""

from __future__ import annotations

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import HeldLock, Runtime
from iceberg_hms.errors import LockLost

#: A lease outlives this many missed heartbeats.
HEARTBEATS_PER_LEASE = 10
#: Long leases get more heartbeats than that: `locks list` takes two missed ones as a sign that a process has ended.
_HEARTBEAT_SECONDS_MAX = 5.0


def heartbeat_seconds(lease_seconds: float) -> float:
    """The longest time between two heartbeats of a lock."""
    return min(lease_seconds / HEARTBEATS_PER_LEASE, _HEARTBEAT_SECONDS_MAX)


def renew_if_half_expired(lock: HeldLock) -> None:
    """Renew a lock that was not renewed for half of its lease: it might expire before what is done under it ends.

    Raises LockLost, and what `HeldLock.renew` raises.
    """
    if lock.seconds_since_renewal() > lock.lease_seconds / 2:
        lock.renew()


class LeaseCheck:
    """What a driver knows of the lease of a lock that it holds: when it was renewed, and whether it is lost. A lost
    lock stays lost.

    what: the lock, in words. sent: when the call that acquired it was sent.
    """

    def __init__(self, runtime: Runtime, lease_seconds: float, what: object, sent: ClockReading) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self.lease_seconds = lease_seconds
        self._what = what
        self._renewed = sent
        self._lost = ""

    def seconds_since_renewal(self) -> float:
        """As `HeldLock.seconds_since_renewal`."""
        with self._mutex:
            seconds = self._runtime.read_clocks().max_seconds_since(self._renewed)
            if not self._lost and seconds > self.lease_seconds:
                self._lost = f"{self._what} was not renewed for its lease of {self.lease_seconds:g} s"
            lost = self._lost
        if lost:
            raise LockLost(lost)
        return seconds

    def until_first_heartbeat(self, interval_seconds: float) -> float:
        """How long to wait for the first heartbeat of a lock: its lease counts from when it was asked for, and the
        answer may have been slow."""
        with self._mutex:
            return max(0.0, interval_seconds - self._runtime.read_clocks().max_seconds_since(self._renewed))

    def shorten(self, lease_seconds: float) -> None:
        """From now on the lease is no longer than this."""
        with self._mutex:
            self.lease_seconds = min(self.lease_seconds, lease_seconds)

    def record_renewal(self, sent: ClockReading) -> None:
        """The heartbeat that was sent at `sent` was answered. Raises LockLost if the lease had passed before: a waiter
        that saw no renewal for so long may remove the lock after this heartbeat."""
        self.seconds_since_renewal()
        with self._mutex:
            self._renewed = max(self._renewed, sent)

    def mark_lost(self, why: str) -> LockLost:
        """Returns the error to raise; the first reason is kept."""
        with self._mutex:
            self._lost = self._lost or f"{self._what} {why}"
            return LockLost(self._lost)
