"""Who holds the locks that this process waits for: for the log, once a wait, and for the errors of those that give up.

It is what the waiters see of their queue in any case. So it asks nobody, and can neither delay a commit nor fail it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.lock_record import LockRecord

logger = logging.getLogger(__name__)

#: A wait that takes so long is logged.
REPORT_SECONDS: Final = 5.0
#: For how long it counts as known who holds a lock, after a waiter saw it.
KNOWN_SECONDS: Final = 30.0
#: How many tables are remembered; the one that was seen longest ago is forgotten first.
REMEMBERED_MAX: Final = 10_000


class LockWaits:
    """The waits of one process. Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        #: When a lock was seen, by `Runtime.now()`, and its holder.
        self._seen: OrderedDict[TableName, tuple[float, LockRecord]] = OrderedDict()

    def begin(self, name: TableName) -> LockWait:
        """A wait for the lock of a table begins."""
        return LockWait(self, self._runtime, name)

    def held_by(self, name: TableName) -> str:
        """Who holds the lock of a table, as in "held by lock 7 of ann on host"; "" if no waiter saw it lately."""
        with self._mutex:
            seen, holder = self._seen.get(name, (float("-inf"), None))
        is_known = holder is not None and self._runtime.now() - seen <= KNOWN_SECONDS
        return f"held by {holder.described}" if holder is not None and is_known else ""

    def saw(self, name: TableName, holder: LockRecord) -> None:
        """A waiter saw who holds the lock."""
        with self._mutex:
            self._seen[name] = self._runtime.now(), holder
            self._seen.move_to_end(name)
            while len(self._seen) > REMEMBERED_MAX:
                self._seen.popitem(last=False)

    def forget(self, name: TableName) -> None:
        """A waiter got the lock."""
        with self._mutex:
            self._seen.pop(name, None)


class LockWait:
    """One wait, of one thread, however often the lock is requested anew meanwhile."""

    def __init__(self, waits: LockWaits, runtime: Runtime, name: TableName) -> None:
        self._waits = waits
        self._runtime = runtime
        self._name = name
        self._began = runtime.now()
        self._is_reported = False
        self._has_seen = False

    @property
    def is_due(self) -> bool:
        """Whether it takes long, and the log does not say so yet."""
        return not self._is_reported and self._runtime.now() - self._began >= REPORT_SECONDS

    def saw(self, holder: LockRecord | None) -> None:
        """The waiter looked who holds the lock. None: nobody, or it was not shown."""
        if holder is not None:
            self._has_seen = True
            self._waits.saw(self._name, holder)
        if self.is_due:
            self._is_reported = True
            self._report(holder)

    def ended(self) -> None:
        """The waiter got the lock."""
        if self._has_seen:
            self._waits.forget(self._name)

    def _report(self, holder: LockRecord | None) -> None:
        seconds = self._runtime.now() - self._began
        if holder is None:
            logger.warning("Waiting for the lock of %s for %.0f s; its holder is not known", self._name, seconds)
            return
        logger.warning(
            "Waiting for the lock of %s for %.0f s: held by %s. `iceberg-hms locks list %s` lists the holder and those "
            "that wait. If the holder is gone, `iceberg-hms locks break %s --yes` removes its lock",
            self._name,
            seconds,
            holder.described,
            self._name,
            holder.lock_id,
        )
