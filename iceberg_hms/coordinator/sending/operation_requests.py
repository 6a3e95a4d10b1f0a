"""One operation on a table or view: its locks, its requests, and what became of them.

A refusal or a lost reply proves nothing by itself: `status_check` looks at the row before anybody believes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn, TypeVar

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.interrupts import wait_after_interrupt
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Refused,
    Sending,
    SwapAnswer,
    Swapped,
    TableName,
    tell_nobody,
)
from iceberg_hms.coordinator.sending import status_check
from iceberg_hms.coordinator.sending.status_check import (
    ResolvableSwap,
    StatusCheck,
    SwapStatusCheck,
    publish_overdue,
)
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    CompareAndSwapUnproven,
    IcebergHmsError,
    LockLost,
    proved,
)

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How often an operation is run again that sent nothing: its short lease was lost, and the server proved not atomic.
_RETRIES_MAX: Final = 2


def retry_with_full_lease(operation: Callable[[LockUse], Result]) -> Result:
    """Run an operation whose requests carry an expected value. LockLost and CompareAndSwapUnproven mean that nothing
    was sent. After LockLost the metastore may be too slow for a short lease: run it again under the server's full one.
    After CompareAndSwapUnproven no lock may promise that the request compares atomically."""
    use = LockUse.CAS
    for _ in range(_RETRIES_MAX):
        try:
            return operation(use)
        except (LockLost, CompareAndSwapUnproven) as error:
            logger.info("taking a table's lock again, with the server's full lease: %s", error)
            is_unproven = isinstance(error, CompareAndSwapUnproven) or use is LockUse.BLIND
            use = LockUse.BLIND if is_unproven else LockUse.CAS_FULL_LEASE
    return operation(use)


class Operation:
    """One call of an operation on the table or view `name`. what: it is, for messages, as in "drop of db.t"."""

    def __init__(self, ports: CommitPorts, settings: Settings, name: TableName, what: str) -> None:
        self._ports = ports
        self._settings = settings
        self.name = name
        self.what = what
        self._locks: Sequence[HeldLock] = ()
        self._overdue = tell_nobody

    @contextmanager
    def locked(self, names: Collection[TableName], wait_seconds: float, use: LockUse) -> Iterator[None]:
        """Hold the locks on tables, acquired in the order of the names: two operations that lock the same tables in
        different orders would wait for each other."""
        request = self._ports.runtime.uuid()
        held: list[HeldLock] = []
        try:
            for name in sorted(names):
                held.append(self._ports.lock.acquire(name, wait_seconds=wait_seconds, request=request, use=use))
            self._locks = held
            yield
        finally:
            self._locks = ()
            for lock in reversed(held):
                lock.release()

    def send(self, request: Callable[[Sending], SwapAnswer], *, blind: bool = False) -> SwapAnswer:
        """Send one request under the locks. Raises an IcebergHmsError, proved, if nothing was sent. blind: the request
        may overwrite later commits on any server."""
        try:
            for lock in self._locks:
                lock.ensure_held(blind=blind)
            return status_check.send(request, self._locks, self._overdue)
        except IcebergHmsError as error:
            raise proved(error) from error.__cause__

    def status(self, answer: SwapAnswer, look: Callable[[], CommitStatus]) -> CommitStatus:
        """What became of a request that was sent."""
        ports, settings = self._ports, self._settings
        check = StatusCheck(ports, settings, self.name, self._locks, self._overdue, lambda: ("", look()))
        return check.status(answer)

    def make(self, request: Callable[[Sending], SwapAnswer], look: Callable[[], CommitStatus]) -> bool:
        """Send a rename or drop, and return if it was made. Raises its refusal, or CommitStateUnknown.
        True: the answer said so, and the locks were held all the time, so it changed the row that was loaded under
        them."""
        answer = self.send(request, blind=True)
        status = self.status(answer, look)
        # The metastore found the row changed, but it stands as it was read: another writer undid what may have been our
        # operation.
        was_undone = isinstance(answer, Refused) and answer.conflict and not isinstance(answer.error, AlreadyExists)
        if status is not CommitStatus.SUCCESS:
            self.raise_not_made(answer, CommitStatus.UNKNOWN if was_undone else status)
        return isinstance(answer, Swapped) and self.held_until_now()

    def is_made(self, swap: ResolvableSwap, answer: SwapAnswer) -> bool:
        """Whether a swap was made that was sent under the lock. False: proved, it was not, since the row moved: make
        another one. Raises its refusal, or CommitStateUnknown."""
        [lock] = self._locks
        status = SwapStatusCheck(self._ports, self._settings, swap, lock, self._overdue).status(answer)
        if status is CommitStatus.SUCCESS:
            return True
        if status is CommitStatus.UNKNOWN or (isinstance(answer, Refused) and not answer.conflict):
            self.raise_not_made(answer, status)
        return False

    def raise_not_made(self, answer: SwapAnswer, status: CommitStatus) -> NoReturn:
        """For a request that was not seen. Raises the metastore's refusal if the request is proved not to be made, else
        CommitStateUnknown."""
        if isinstance(answer, Refused) and not answer.in_doubt and status is CommitStatus.FAILURE:
            raise answer.error
        raise CommitStateUnknown(
            f"it is not known whether the {self.what} was made: {answer}",
            next_step="look at the table before you try again, and delete nothing",
        )

    def moved_every_time(self) -> CommitConflict:
        """The error for swaps of which none was made."""
        return CommitConflict(f"{self.name} moved under every attempt at the {self.what}, although its lock was held")

    def run(self, operation: Callable[[], Result]) -> Result:
        """Run the operation on a thread of its own, so that its caller can leave when it is overdue: it goes on then.
        Raises what the operation raises, or CommitStateUnknown when it is overdue.
        After Ctrl-C the caller waits as `wait_after_interrupt` does: the operation may have been sent.
        """
        settled = self._ports.runtime.event()
        results: list[Result] = []
        errors: list[BaseException] = []
        unknown: list[CommitStateUnknown] = []

        def overdue() -> None:
            if not unknown:
                unknown.append(publish_overdue(self._ports, self.name, f"whether the {self.what} was made"))
                settled.set()

        def run() -> None:
            try:
                results.append(operation())
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                errors.append(error)
                if unknown:
                    logger.warning("The %s, whose caller has left, ended: %s", self.what, error)
            else:
                if unknown:
                    logger.warning("The %s, whose caller has left, was made", self.what)
            settled.set()

        self._overdue = overdue
        try:
            try:
                self._ports.runtime.spawn(self.what, run)
            except Exception as error:  # noqa: BLE001 - without a thread the caller cannot leave early; nothing else changes
                logger.warning("The %s is made without a thread of its own: %s", self.what, error)
                run()
            settled.wait()
        except KeyboardInterrupt as interrupt:
            wait_after_interrupt(settled, interrupt, self.what)
        if unknown:
            raise unknown[0]
        if errors:
            raise errors[0]
        return results[0]

    def held_until_now(self) -> bool:
        """Whether the locks were held all the time, so that nobody who takes them has changed anything meanwhile."""
        try:
            for lock in self._locks:
                renew_if_half_expired(lock)
        except IcebergHmsError:
            return False
        return True
