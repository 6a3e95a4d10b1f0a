"""A held lock of the metastore: heartbeats keep it alive until it is released or lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.lease_check import LeaseCheck, heartbeat_seconds, renew_if_half_expired
from iceberg_hms.coordinator.ports import Pointer, Runtime
from iceberg_hms.errors import LockLost, MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry

logger = logging.getLogger(__name__)


class HmsHeldLock:
    """coordinator.ports.HeldLock on one entry of the metastore's lock table.

    sent: when the call that got the lock was sent.
    behind_foreign_writer, require_cas: as the port says. lease_seconds: its lease; server_lease: the shortest of the
    servers that heartbeats have met, which wins. interval_seconds: the longest time between two heartbeats.
    on_release: called once after `release`, with whether the entry was removed. on_let_expire: after `let_expire`, with
    the lock's id.
    """

    row: Pointer | None = None
    exclusive = True

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        entry: LockEntry,
        *,
        sent: ClockReading,
        behind_foreign_writer: bool,
        require_cas: bool,
        lease_seconds: float,
        server_lease: Callable[[], float],
        interval_seconds: float,
        on_release: Callable[[bool], None],
        on_let_expire: Callable[[int], None],
    ) -> None:
        self._entries = entries
        self._runtime = runtime
        self._entry = entry
        self._server_lease = server_lease
        self._interval_seconds = interval_seconds
        self._on_release = on_release
        self._on_let_expire = on_let_expire
        self._mutex = runtime.mutex()
        self._released = runtime.event()
        self._cover = LeaseCheck(runtime, lease_seconds, entry, sent)
        self.behind_foreign_writer = behind_foreign_writer
        self.require_cas = require_cas

    @property
    def lock_id(self) -> int:
        return self._entry.lock_id

    @property
    def lease_seconds(self) -> float:
        return self._cover.lease_seconds

    @property
    def interval_seconds(self) -> float:
        """Between two heartbeats."""
        return min(self._interval_seconds, heartbeat_seconds(self.lease_seconds))

    def start(self) -> None:
        """Begin to send heartbeats on a thread of the runtime."""
        self._runtime.spawn(f"heartbeat-{self._entry.lock_id}", self._beat, background=True)

    def seconds_since_renewal(self) -> float:
        return self._cover.seconds_since_renewal()

    def ensure_held(self, *, blind: bool = False) -> None:  # noqa: ARG002 - the port's
        renew_if_half_expired(self)

    def renew(self) -> None:
        if self._released.is_set():
            raise LockLost(f"{self._entry} was released")
        self._cover.seconds_since_renewal()
        sent = self._runtime.read_clocks()
        try:
            self._entries.renew(self._entry)
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_LOCK:
                raise self._cover.mark_lost(
                    "is no longer in the metastore: it was removed, or its lease passed"
                ) from None
            raise MetastoreUnavailable(f"{self._entry} could not be renewed: {fault.detail}") from fault
        self._cover.shorten(self._server_lease())
        self._cover.record_renewal(sent)

    def _beat(self) -> None:
        pause = self._cover.until_first_heartbeat(self.interval_seconds)
        while not self._released.wait(pause):
            pause = self.interval_seconds
            try:
                self.renew()
            except LockLost as error:
                if not self._released.is_set():
                    logger.warning("%s", error.message)
                return
            except MetastoreError as error:
                logger.warning("A heartbeat of %s failed: %s", self._entry, error.message)

    def let_expire(self) -> None:
        if not self._end():
            return
        self._on_let_expire(self.lock_id)

    def _end(self) -> bool:
        """End the heartbeats. False if they ended before, by `release` or `let_expire`."""
        with self._mutex:
            if self._released.is_set():
                return False
            self._released.set()
            return True

    def release(self) -> None:
        if not self._end():
            return
        self._cover.mark_lost("was released")
        removed = False
        try:
            self._entries.remove(self._entry)
            removed = True
        except MetastoreError as error:
            # A good commit must not fail because its lock could not be released.
            logger.warning("%s could not be released: %s", self._entry, error)
        finally:
            self._on_release(removed)
