"""The HeldLock of a table that takes several locks, or none."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from iceberg_hms.coordinator.ports import HeldLock, Pointer

logger = logging.getLogger(__name__)

#: A lease that never ends: no server can take away a lock that does not exist.
_FOREVER = 1e9


class NoLock:
    """coordinator.ports.HeldLock of a table that takes no lock: only compare-and-swap protects its swaps."""

    row: Pointer | None = None
    exclusive = False
    require_cas = True
    behind_foreign_writer = False

    @property
    def lease_seconds(self) -> float:
        return _FOREVER

    def seconds_since_renewal(self) -> float:
        return 0.0

    def ensure_held(self, *, blind: bool = False) -> None:  # noqa: ARG002 - the port's
        return

    def renew(self) -> None:
        return

    def release(self) -> None:
        return

    def let_expire(self) -> None:
        return


class ChosenHeldLock:
    """coordinator.ports.HeldLock over all locks that the writer took; all of them must hold."""

    def __init__(self, parts: Sequence[HeldLock]) -> None:
        self.parts = tuple(parts)
        self.row: Pointer | None = None

    @property
    def exclusive(self) -> bool:
        return any(part.exclusive for part in self.parts)

    @property
    def require_cas(self) -> bool:
        return any(part.require_cas for part in self.parts)

    @property
    def behind_foreign_writer(self) -> bool:
        return any(part.behind_foreign_writer for part in self.parts)

    @property
    def lease_seconds(self) -> float:
        """As the port says: the shortest."""
        return min(part.lease_seconds for part in self.parts)

    def seconds_since_renewal(self) -> float:
        """As the port says: the oldest."""
        return max(part.seconds_since_renewal() for part in self.parts)

    def ensure_held(self, *, blind: bool = False) -> None:
        for part in self.parts:
            part.ensure_held(blind=blind)

    def renew(self) -> None:
        for part in self.parts:
            part.renew()

    def release(self) -> None:
        """As the port says; releases the lock first that was taken last."""
        for part in reversed(self.parts):
            part.release()

    def let_expire(self) -> None:
        """As the port says. Each part is left whatever becomes of the others: what was sent may still be made."""
        for part in self.parts:
            try:
                part.let_expire()
            except Exception:
                logger.exception("A part of a lock could not be left to expire")
