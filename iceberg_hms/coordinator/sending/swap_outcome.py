"""Steps 7 and 8: send a swap, and find out what became of it.

    answer                         what it proves                           what we do
    Swapped                        it was made                              count it, if the lock covered it
    Refused                        nothing yet: a metastore can refuse      look once; absence is proof, since a refused
                                   its own committed change                 swap is not under way any more
    Refused, not final             nothing: the metastore's database may    send it again where that is atomic; then
                                   have it in doubt, and make it later      look; absence is no proof
    Unanswered, atomic             at most one of two equal swaps is made   send it again; then look; absence is proof
                                                                            once the pointer has left our base
    Unanswered                     nothing: it may be made at any time      look, with the lock held, until
                                                                            `metastore.unanswered-swap-timeout-ms` are
                                                                            over; absence is no proof, and we never
                                                                            send it again

However we know that the swap was made, it counts only if the lock covered it: otherwise the writer that took the lock
may have swapped over it, or be about to. Then we acquire the lock again, behind that writer, and look at the table.

A swap that only its lock protects, and whose outcome is still unknown at the end, may yet be made over later commits.
So its lock is not released, but left to its lease.

`SwapResolution` raises nothing: once a swap was sent, not even a defect of ours may turn "unknown" into "failed".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Refused,
    Sending,
    SwapAnswer,
    Swapped,
    TableName,
    Unanswered,
)
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.coordinator.sending.status_checks import status_checks, status_checks_while_pending
from iceberg_hms.coordinator.sending.unanswered_swaps import let_locks_expire
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.errors import CompareAndSwapUnproven, IcebergHmsError, LockLost

logger = logging.getLogger(__name__)

#: How long the callers of a swap whose lock was lost wait for it to be taken again; then they hear "unknown".
_CALLERS_WAIT_SECONDS: Final = 10.0


def send_swap(swap: ResolvableSwap, lock: HeldLock, overdue: Callable[[], None]) -> SwapAnswer:
    """Step 7. overdue: called if the answer takes longer than callers should wait.

    Raises IcebergHmsError if nothing was sent; LockLost if the swap may be sent under another lock: this one is gone,
    or it requires an atomic server and this server is not proven to be one."""
    try:
        return swap.send(Sending((lock,), lock.require_cas, overdue))
    except IcebergHmsError as error:
        # The port raises its own errors only for what happened before anything was sent.
        if isinstance(error, CompareAndSwapUnproven) and lock.exclusive:
            raise LockLost(f"it allows only a swap that is atomic: {error.message}") from error
        raise
    except Exception as error:  # noqa: BLE001 - whatever this is, the swap may have been sent
        return Unanswered(error)


class ResolvableSwap(Protocol):
    """A swap that was sent, of a table (`TableSwap`) or a view."""

    @property
    def name(self) -> TableName: ...

    @property
    def base_location(self) -> str:
        """The metadata location that it expects."""
        ...

    def send(self, sending: Sending) -> SwapAnswer:
        """Send it. Raises IcebergHmsError if nothing was sent."""
        ...

    def look(self) -> tuple[str, CommitStatus]:
        """The metadata location now, and what the metastore and the files say of the swap. Raises IcebergHmsError."""
        ...


class TableSwap:
    """The swap of one attempt to commit to a table."""

    def __init__(self, ports: CommitPorts, cache: MetadataCache, attempt: CommitAttempt) -> None:
        self._ports = ports
        self._cache = cache
        self._attempt = attempt
        self.name = attempt.base.pointer.name
        self.base_location = attempt.base.pointer.metadata_location

    def send(self, sending: Sending) -> SwapAnswer:
        """As the protocol says."""
        base, attempt = self._attempt.base, self._attempt
        return self._ports.pointer.swap(
            base.pointer,
            attempt.location,
            attempt.metadata,
            base.metadata,
            sending,
            owns_folder=attempt.owns_folder,
        )

    def look(self) -> tuple[str, CommitStatus]:
        """As the protocol says."""
        current = self._ports.pointer.load(self.name).metadata_location
        return current, check_status(
            self._cache,
            current,
            ours=self._attempt.location,
            base=self.base_location,
            snapshot_ids=self._attempt.identifying_ids,
        )


class SwapResolution:
    """Finds out what became of one swap, with its lock held.

    overdue: called if that takes longer than callers should wait."""

    def __init__(
        self,
        ports: CommitPorts,
        settings: Settings,
        swap: ResolvableSwap,
        lock: HeldLock,
        *,
        overdue: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._swap = swap
        self._name = swap.name
        self._lock = lock
        self._overdue = overdue
        #: For how long the lock stays, since the swap may still be made; 0: it may be given back.
        self.lock_stays_seconds = 0.0

    def resolve(self, answer: SwapAnswer) -> CommitStatus:
        """SUCCESS: it is in the table, and the lock covered it. FAILURE: proved, it is not, and never will be."""
        found = self._found(answer)
        if isinstance(answer, Unanswered) and not answer.atomic and found is CommitStatus.UNKNOWN:
            self.lock_stays_seconds = let_locks_expire(self._ports, self._name, [self._lock])
        return found

    def _found(self, answer: SwapAnswer) -> CommitStatus:
        try:
            match answer:
                case Swapped():
                    return self._counted_if_covered()
                case Refused(in_doubt=False):
                    return self._if_covered(self._look(could_still_land=False))
                case Refused():
                    sent = self._send_again()
                    return self._counted_if_covered() if sent else self._if_covered(self._look_until_seen(atomic=False))
                case Unanswered(atomic=True):
                    sent = self._send_again()
                    return self._counted_if_covered() if sent else self._if_covered(self._look_until_seen(atomic=True))
                case Unanswered(waited_seconds=waited_seconds):
                    return self._if_covered(self._look_while_under_way(waited_seconds))
        except Exception:
            logger.exception("the outcome of a swap of %s could not be determined", self._name)
            return CommitStatus.UNKNOWN

    def _if_covered(self, found: CommitStatus) -> CommitStatus:
        """What we see in the table counts no more than an answer: a writer that took our lost lock may be about to swap
        over it."""
        return self._counted_if_covered() if found is CommitStatus.SUCCESS else found

    def _send_again(self) -> bool:
        """The same swap once more. True if it was made now; any other answer leaves the first swap's question open."""
        try:
            self._lock.ensure_held()
            answer = self._swap.send(Sending((self._lock,), require_cas=True))
        except IcebergHmsError as error:
            logger.warning("a swap of %s was not answered and could not be sent again: %s", self._name, error)
            return False
        return isinstance(answer, Swapped)

    def _counted_if_covered(self) -> CommitStatus:
        """Acknowledge only what the lock covered: a writer that took a lost lock swaps blindly over ours."""
        try:
            renew_if_half_expired(self._lock)
        except IcebergHmsError as error:
            logger.warning("the lock of %s did not cover its swap: %s", self._name, error)
            return self._look_after_lock_loss()
        return CommitStatus.SUCCESS

    def _look_after_lock_loss(self) -> CommitStatus:
        # Where no reaper runs our own entry may still be there, and would stand in our way.
        self._lock.release()
        longest = max(self._lock.lease_seconds, self._settings.lock_timeout_ms / 1000)
        again = self._acquire_again(min(longest, _CALLERS_WAIT_SECONDS))
        if again is None:
            self._overdue()
            again = self._acquire_again(longest)
        if again is None:
            return CommitStatus.UNKNOWN
        try:
            return self._look(could_still_land=True)
        finally:
            again.release()

    def _acquire_again(self, wait_seconds: float) -> HeldLock | None:
        try:
            # What was sent may still be under way: with an expected value, if the lock that we lost asked for that.
            return self._ports.lock.acquire(
                self._name,
                wait_seconds=wait_seconds,
                request=self._ports.runtime.uuid(),
                use=LockUse.CAS if self._lock.exclusive and self._lock.require_cas else LockUse.BLIND,
            )
        except IcebergHmsError as error:
            logger.warning("The lock of %s could not be taken again: %s", self._name, error)
            return None

    def _look_until_seen(self, *, atomic: bool) -> CommitStatus:
        for _ in status_checks(self._ports.runtime, self._settings):
            found = self._look(could_still_land=True, atomic=atomic)
            if found is not CommitStatus.UNKNOWN:
                return found
        return CommitStatus.UNKNOWN

    def _look_while_under_way(self, waited_seconds: float) -> CommitStatus:
        for _ in status_checks_while_pending(self._ports.runtime, self._settings, waited_seconds, self._overdue):
            if self._look(could_still_land=True) is CommitStatus.SUCCESS:
                return CommitStatus.SUCCESS
        return CommitStatus.UNKNOWN

    def _look(self, *, could_still_land: bool, atomic: bool = False) -> CommitStatus:
        """Look for the swap in the table as it is now.

        could_still_land: no answer says that it is over, so its absence is no proof; unless it is `atomic` and the
        pointer has left our base, to which it never comes back: metadata files have names that were never used before.
        """
        try:
            current, found = self._swap.look()
        except IcebergHmsError as error:
            logger.warning("the outcome of a swap of %s could not be looked up: %s", self._name, error)
            return CommitStatus.UNKNOWN
        base = self._swap.base_location
        if found is CommitStatus.FAILURE and could_still_land and not (atomic and current != base):
            return CommitStatus.UNKNOWN
        return found
