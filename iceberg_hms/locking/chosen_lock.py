"""Which lock a table takes: the metastore's own, ZooKeeper's, both, or none.

A parameter of the table's row decides, so that all of our writers see the same: `iceberg-hms.lock` = `hms` |
`zookeeper`. A table without this mark takes the metastore's lock, whatever this process is set to; the setting `lock`
only says what new tables are marked with (`zookeeper`), or that no lock is taken (`none`).

A table that is marked `zookeeper` takes the ZooKeeper lock first, and the metastore's too while its lock API works:
the metastore's keeps out writers that use no other lock. The lock API is unavailable when it is broken on every server.
With the mark the operator declares that there are no such writers; without it nothing is swapped under ZooKeeper alone.

The mark may change while a writer waits. So the writer reads it again under the lock, and if it has changed, releases
the lock and starts over. That read is handed on with the lock (`HeldLock.row`), so it costs no extra call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

from iceberg_hms.coordinator.ports import HeldLock, LockUse, Pointer, Runtime, TableLock, TableName, TablePointer
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, MetastoreUnavailable, NoSuchTable
from iceberg_hms.locking.held_locks import ChosenHeldLock, NoLock
from iceberg_hms.locking.lock_modes import LockMode, LockModes, is_marked

logger = logging.getLogger(__name__)

#: How often a writer starts over because the mark changed while it waited.
MODE_CHANGES_MAX = 5
#: How often to try all servers, on fresh connections, before their lock API counts as broken.
BROKEN_AFTER = 2
#: How long before a broken lock API is tried again.
BROKEN_SECONDS = 30.0


class ChosenTableLock:
    """coordinator.ports.TableLock that takes the lock which the table's mark names. The row that it read to find out is
    the lock's `row`.

    pointer: reads the rows.
    hms, zookeeper: the locks; None without `zookeeper.hosts`.
    lock_api_works: tries every server of the list, on fresh connections: whether any carries out lock calls; raises
    MetastoreUnavailable if none answers.
    granted_lock_seconds: how long a lock that the metastore granted before its API broke may still be swapped under;
    called once for each database.
    """

    def __init__(
        self,
        pointer: TablePointer,
        hms: TableLock,
        zookeeper: TableLock | None,
        modes: LockModes,
        runtime: Runtime,
        *,
        lock_api_works: Callable[[], bool],
        granted_lock_seconds: Callable[[str], float],
    ) -> None:
        self._pointer = pointer
        self._hms = hms
        self._zookeeper = zookeeper
        self._modes = modes
        self._runtime = runtime
        self._lock_api_works = lock_api_works
        self._granted_lock_seconds = cache(granted_lock_seconds)
        self._works = False
        #: `Runtime.now()` until which the API is known to be broken.
        self._broken_until = float("-inf")

    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> HeldLock:
        """As the port says. LockUnavailable also when the table's mark and this process's settings do not agree."""
        deadline = self._runtime.now() + wait_seconds
        mode = self._modes.remembered(name) or self._modes.of(name, self._read(name))
        for _ in range(MODE_CHANGES_MAX):
            try:
                held = self._take(name, mode, deadline, request, use)
            except LockUnavailable:
                # The table may have been moved to another lock meanwhile, for this very reason.
                found = self._modes.of(name, self._read(name))
                if found is mode:
                    raise
                mode = found
                continue
            try:
                row = self._read(name)
                found = self._modes.of(name, row)
                if found is mode:
                    held.row = row
                    return held
            except BaseException:
                held.release()
                raise
            logger.info("The lock of %s is %s now, no longer %s", name, found, mode)
            held.release()
            mode = found
        raise _changed_too_often(name)

    def for_marking(self, mode: LockMode, *, force: bool = False) -> TableLock:
        """The lock under which a table's mark is changed to `mode`: it keeps out writers of both modes, whatever the
        mark is now. force: as `take_to_mark`."""
        return _MarkingLock(self, mode, force)

    def take_to_mark(
        self, name: TableName, mode: LockMode, wait_seconds: float, request: str, *, use: LockUse, force: bool
    ) -> HeldLock:
        """ZooKeeper's lock and the metastore's.

        To mark a table ZOOKEEPER, the metastore's may be missing if the lock API is broken: this is how a table is
        moved away from it. To mark it HMS, ZooKeeper's may be missing if the table is not marked for it, or if
        ZooKeeper is unreachable and the operator declares with `force` that no writer that uses it is alive.

        Which locks are needed depends on the mark. So it is read again under them, as in `acquire`."""
        deadline = self._runtime.now() + wait_seconds
        for _ in range(MODE_CHANGES_MAX):
            marked = _is_marked(self._read(name))
            parts: list[HeldLock] = []
            try:
                if mode is LockMode.ZOOKEEPER:
                    parts.append(self._take_zookeeper(name, deadline, request))
                    parts += self._take_hms_to_leave_it(name, marked, deadline, request, use)
                else:
                    parts += self._take_zookeeper_to_leave_it(name, marked, deadline, request, force)
                    parts.append(self._take_hms(name, deadline, request, use))
                if _is_marked(self._read(name)) is marked:
                    return ChosenHeldLock(parts)
            except BaseException:
                ChosenHeldLock(parts).release()
                raise
            ChosenHeldLock(parts).release()
        raise _changed_too_often(name)

    def marking_seconds(self, name: TableName, mode: LockMode) -> float:
        """How long `take_to_mark` waits, beside its waits for locks. Raises MetastoreError."""
        if mode is not LockMode.ZOOKEEPER or self._hms_lock_works() or _is_marked(self._read(name)):
            return 0.0
        return self._granted_lock_seconds(name.namespace)

    def _take_hms_to_leave_it(
        self, name: TableName, marked: bool, deadline: float, request: str, use: LockUse
    ) -> list[HeldLock]:
        if not self._hms_lock_works():
            if marked:
                return []
            self._wait_out_granted_locks(name, self._granted_lock_seconds(name.namespace))
            if not self._hms_lock_works():
                return []
        return [self._take_hms(name, deadline, request, use)]

    def _take_zookeeper_to_leave_it(
        self, name: TableName, marked: bool, deadline: float, request: str, force: bool
    ) -> list[HeldLock]:
        try:
            return [self._take_zookeeper(name, deadline, request)] if marked else []
        except LockUnavailable as error:
            if not force:
                step = (
                    "set `zookeeper.hosts` to where it runs; or, if it is gone for good, and no writer that uses it is "
                )
                step += f"alive: `iceberg-hms locks use hms {name} --force`"
                raise LockUnavailable(error.message, next_step=step) from error
            logger.warning("Marking %s for the metastore's lock without taking ZooKeeper's: %s", name, error.message)
            return []

    def _wait_out_granted_locks(self, name: TableName, seconds: float) -> None:
        """Called before a table is first written under ZooKeeper alone: a writer that got the metastore's lock before
        its API broke may still swap under it."""
        if seconds > 0:
            logger.warning("Waiting %.0f s: a writer may still hold the metastore's lock of %s", seconds, name)
            self._runtime.sleep(seconds)
            # It may work again, and then writers of an unmarked table take it.
            self._broken_until = float("-inf")

    def _read(self, name: TableName) -> Pointer | None:
        try:
            row = self._pointer.load(name)
        except NoSuchTable:
            return None
        self._modes.saw(row)
        return row

    def _take(self, name: TableName, mode: LockMode, deadline: float, request: str, use: LockUse) -> ChosenHeldLock:
        match mode:
            case LockMode.NONE:
                return ChosenHeldLock([NoLock()])
            case LockMode.ZOOKEEPER:
                return self._take_both(name, deadline, request, use)
            case LockMode.FREE if self._zookeeper is not None and not self._hms_lock_works():
                return ChosenHeldLock([self._take_zookeeper(name, deadline, request)])
            case _:
                return ChosenHeldLock([self._take_hms(name, deadline, request, use)])

    def _take_both(self, name: TableName, deadline: float, request: str, use: LockUse) -> ChosenHeldLock:
        # First, since the holder of the ZooKeeper lock must not spend its time on a broken API.
        with_hms = self._hms_lock_works()
        zookeeper = self._take_zookeeper(name, deadline, request)
        parts = [zookeeper]
        try:
            if with_hms:
                parts += self._take_hms_if_it_works(name, deadline, request, use)
        except BaseException:
            zookeeper.release()
            raise
        return ChosenHeldLock(parts)

    def _take_hms_if_it_works(self, name: TableName, deadline: float, request: str, use: LockUse) -> list[HeldLock]:
        try:
            return [self._take_hms(name, deadline, request, use)]
        except LockUnavailable:
            if self._hms_lock_works():
                raise
            return []

    def _take_zookeeper(self, name: TableName, deadline: float, request: str) -> HeldLock:
        if self._zookeeper is None:
            raise LockUnavailable(
                f"{name} takes its lock in ZooKeeper, and no ZooKeeper is configured here",
                next_step=f"set `zookeeper.hosts`, or move it back: `iceberg-hms locks use hms {name}`",
            )
        return self._zookeeper.acquire(name, wait_seconds=self._remaining(deadline), request=request)

    def _take_hms(self, name: TableName, deadline: float, request: str, use: LockUse) -> HeldLock:
        try:
            return self._hms.acquire(name, wait_seconds=self._remaining(deadline), request=request, use=use)
        except LockUnavailable as error:
            self._works = False
            step = f"create its transaction tables (schematool); or, if all writers of {name} are iceberg-hms with "
            step += f"`zookeeper.hosts` set: `iceberg-hms locks use zookeeper {name}`"
            raise LockUnavailable(error.message, next_step=step) from error

    def _hms_lock_works(self) -> bool:
        """Whether the metastore's lock API works; tried again BROKEN_SECONDS after it failed. Raises
        MetastoreUnavailable if a try got no answer, and none worked: the API may work for others."""
        if self._works:
            return True
        if self._runtime.now() < self._broken_until:
            return False
        silent: MetastoreUnavailable | None = None
        for _ in range(BROKEN_AFTER):
            try:
                self._works = self._lock_api_works()
            except MetastoreUnavailable as error:
                silent = error
            if self._works:
                return True
        if silent is not None:
            raise silent
        logger.warning(
            "The lock API of the metastore is broken: tables marked `zookeeper` take their lock in ZooKeeper alone"
        )
        self._broken_until = self._runtime.now() + BROKEN_SECONDS
        return False

    def _remaining(self, deadline: float) -> float:
        return max(0.0, deadline - self._runtime.now())


def _is_marked(row: Pointer | None) -> bool:
    return row is not None and is_marked(row.parameters)


def _changed_too_often(name: TableName) -> LockNotAcquired:
    return LockNotAcquired(f"The lock mode of {name} changed {MODE_CHANGES_MAX} times while its lock was taken")


class _MarkingLock:
    """coordinator.ports.TableLock for the commit that changes a mark."""

    def __init__(self, locks: ChosenTableLock, mode: LockMode, force: bool) -> None:
        self._locks = locks
        self._mode = mode
        self._force = force

    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> HeldLock:
        return self._locks.take_to_mark(name, self._mode, wait_seconds, request, use=use, force=self._force)
