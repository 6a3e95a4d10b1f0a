"""Whether a held lock covers what is done under it."""

from __future__ import annotations

from iceberg_hms.coordinator.ports import HeldLock


def keep_covered(lock: HeldLock, now: float) -> None:
    """Renew a lock that was not renewed for half of its lease: it may be over before what is done under it ends.

    now: `Runtime.now()`. Raises LockLost, and what `HeldLock.renew` raises.
    """
    if now - lock.covered_since() > lock.lease_seconds / 2:
        lock.renew()
