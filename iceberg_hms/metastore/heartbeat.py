"""A lock of the metastore that is held: kept alive by heartbeats until it is released or lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.coordinator.ports import Pointer, Runtime
from iceberg_hms.errors import LockLost, MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.entries import Entry, LockEntries
from iceberg_hms.metastore.faults import Fault, ServerFault

logger = logging.getLogger(__name__)

#: A lease outlives this many missed heartbeats.
BEATS_PER_LEASE = 10


class HmsHeldLock:
    """coordinator.ports.HeldLock on one entry of the metastore's lock table.

    sent_at: `Runtime.now()` when the call that got the lock was sent.
    behind_foreign: as the port says.
    on_release: called once, after the entry was given back; told whether that worked.
    """

    row: Pointer | None = None
    only_fenced = False

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        entry: Entry,
        *,
        sent_at: float,
        behind_foreign: bool,
        lease_seconds: float,
        interval_seconds: float,
        on_release: Callable[[bool], None],
    ) -> None:
        self._entries = entries
        self._runtime = runtime
        self._entry = entry
        self._lease_seconds = lease_seconds
        self._interval_seconds = min(interval_seconds, lease_seconds / BEATS_PER_LEASE)
        self._on_release = on_release
        self._mutex = runtime.mutex()
        self._released = runtime.event()
        self._covered_since = sent_at
        self.behind_foreign = behind_foreign
        self._lost = ""

    @property
    def lock_id(self) -> int:
        """The metastore's id of the lock."""
        return self._entry.lock_id

    @property
    def lease_seconds(self) -> float:
        """As the port says."""
        return self._lease_seconds

    def start(self) -> None:
        """Begin to send heartbeats on a thread of the runtime."""
        self._runtime.spawn(f"heartbeat-{self._entry.lock_id}", self._beat, background=True)

    def covered_since(self) -> float:
        """As the port says. A lock whose lease has passed counts as lost: the metastore may have given it away."""
        with self._mutex:
            lost, since = self._lost, self._covered_since
        if lost:
            raise LockLost(lost)
        if self._runtime.now() - since > self._lease_seconds:
            raise LockLost(f"{self._entry} was not renewed for its lease of {self._lease_seconds:.0f} s")
        return since

    def ensure(self) -> None:
        """As the port says."""
        keep_covered(self, self._runtime.now())

    def renew(self) -> None:
        """As the port says."""
        if self._released.is_set():
            raise LockLost(f"{self._entry} was released")
        sent_at = self._runtime.now()
        try:
            self._entries.renew(self._entry)
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_LOCK:
                self._lose()
                raise LockLost(self._lost) from None
            raise MetastoreUnavailable(f"{self._entry} could not be renewed: {fault.detail}") from fault
        with self._mutex:
            self._covered_since = max(self._covered_since, sent_at)

    def _lose(self) -> None:
        with self._mutex:
            self._lost = f"{self._entry} is no longer in the metastore: it was removed, or its lease passed"

    def _beat(self) -> None:
        while not self._released.wait(self._interval_seconds):
            try:
                self.renew()
            except LockLost as error:
                if not self._released.is_set():
                    logger.warning("%s", error.message)
                return
            except MetastoreError as error:
                logger.warning("A heartbeat of %s failed: %s", self._entry, error.message)
                if self._runtime.now() - self._covered_since > self._lease_seconds:
                    return

    def release(self) -> None:
        """As the port says."""
        with self._mutex:
            if self._released.is_set():
                return
            self._released.set()
        removed = False
        try:
            self._entries.remove(self._entry)
            removed = True
        except MetastoreError as error:
            # A good commit must not fail because its lock could not be given back.
            logger.warning("%s could not be given back: %s", self._entry, error)
        finally:
            self._on_release(removed)
