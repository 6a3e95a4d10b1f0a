"""Step 8: what became of a swap that was sent.

    answer                         what it proves                           what is done
    Swapped                        it was made                              counted, if the lock covered it
    Refused                        nothing yet: a metastore can refuse      looked up once; absent is proof, since a
                                   its own committed change                 refused swap is not under way any more
    Refused, not final             nothing: the metastore's database may    sent again where that is atomic; then
                                   have it in doubt, and make it later      looked up; absent is no proof
    Unanswered, atomic             at most one of two equal swaps is made   sent again; then looked up, and absent is
                                                                            proof once the pointer has left our base
    Unanswered                     nothing: it may be made at any time      looked up, with the lock held, until
                                                                            `metastore.unanswered-swap-timeout-ms` are
                                                                            over; absent is no proof, and it is never
                                                                            sent again

However it is known that the swap was made, it counts only if the lock covered it: else whoever took the lock may have
swapped over it, or be about to. Then the lock is taken again, which waits out the thief, and the table is looked at.

A swap that nothing but its lock fences, and whose outcome is unknown at last, may still be made over later commits. So
its lock is not given back, but left to its lease (`may_still_land`).

Nothing here raises: once a swap was sent, not even a defect of ours may turn "unknown" into "failed".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, LockUse, Refused, SwapAnswer, Swapped, Unanswered
from iceberg_hms.coordinator.protocol.commit_status import CommitStatus, trace
from iceberg_hms.coordinator.protocol.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.protocol.status_checks import status_checks, status_checks_while_pending
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swap:
    """A swap that was sent: from `base` to the file at `location`.

    snapshot_ids: of all changes that it carries; empty if one of them adds no snapshot."""

    base: TableVersion
    location: str
    metadata: TableMetadata
    snapshot_ids: Collection[int]


class SwapResolution:
    """Tells the outcome of one swap, with its lock held.

    overdue: called if that takes longer than callers should wait."""

    def __init__(
        self,
        world: CommitPorts,
        cache: MetadataCache,
        settings: Settings,
        swap: Swap,
        lock: HeldLock,
        *,
        overdue: Callable[[], None],
    ) -> None:
        self._world = world
        self._cache = cache
        self._settings = settings
        self._swap = swap
        self._name = swap.base.pointer.name
        self._lock = lock
        self._overdue = overdue

    def resolve(self, answer: SwapAnswer) -> CommitStatus:
        """Landed, proved absent, or untraceable."""
        try:
            match answer:
                case Swapped():
                    return self._confirm_coverage()
                case Refused(in_doubt=False):
                    return self._covered(self._look(could_still_land=False))
                case Refused():
                    sent = self._send_again()
                    return self._confirm_coverage() if sent else self._covered(self._look_until_seen(atomic=False))
                case Unanswered(atomic=True):
                    sent = self._send_again()
                    return self._confirm_coverage() if sent else self._covered(self._look_until_seen(atomic=True))
                case Unanswered(waited_seconds=waited_seconds):
                    return self._covered(self._look_while_under_way(waited_seconds))
        except Exception:
            logger.exception("the outcome of a swap of %s could not be told", self._name)
            return CommitStatus.UNKNOWN

    def _covered(self, found: CommitStatus) -> CommitStatus:
        """Seen in the table is no more than answered: who took a lock that we lost may be about to swap over it."""
        return self._confirm_coverage() if found is CommitStatus.SUCCESS else found

    def _send_again(self) -> bool:
        """The same swap once more. True if it was made now; any other answer leaves the first swap's question open."""
        base, swap = self._swap.base, self._swap
        try:
            self._lock.ensure_held()
            answer = self._world.pointer.swap(
                base.pointer, swap.location, swap.metadata, base.metadata, require_cas=True
            )
        except IcebergHmsError as error:
            logger.warning("a swap of %s was not answered and could not be sent again: %s", self._name, error)
            return False
        return isinstance(answer, Swapped)

    def _confirm_coverage(self) -> CommitStatus:
        """Acknowledge only what the lock covered: a writer that took a lost lock swaps blindly over ours."""
        try:
            renew_if_half_expired(self._lock)
        except IcebergHmsError as error:
            logger.warning("the lock of %s did not cover its swap: %s", self._name, error)
            return self._look_behind_the_thief()
        return CommitStatus.SUCCESS

    def _look_behind_the_thief(self) -> CommitStatus:
        # Where no reaper runs our own entry may still be there, and would stand in our way.
        self._lock.release()
        wait = max(self._lock.lease_seconds, self._settings.lock_timeout_ms / 1000)
        try:
            # What was sent may still be under way: with an expected value, if the lock that we lost asked for that.
            again = self._world.lock.acquire(
                self._name,
                wait_seconds=wait,
                request=self._world.runtime.uuid(),
                use=LockUse.CAS if self._lock.exclusive and self._lock.require_cas else LockUse.BLIND,
            )
        except IcebergHmsError as error:
            logger.warning("the lock of %s could not be taken again: %s", self._name, error)
            return CommitStatus.UNKNOWN
        try:
            return self._look(could_still_land=True)
        finally:
            again.release()

    def _look_until_seen(self, *, atomic: bool) -> CommitStatus:
        for _ in status_checks(self._world.runtime, self._settings):
            found = self._look(could_still_land=True, atomic=atomic)
            if found is not CommitStatus.UNKNOWN:
                return found
        return CommitStatus.UNKNOWN

    def _look_while_under_way(self, waited_seconds: float) -> CommitStatus:
        for _ in status_checks_while_pending(self._world.runtime, self._settings, waited_seconds, self._overdue):
            if self._look(could_still_land=True) is CommitStatus.SUCCESS:
                return CommitStatus.SUCCESS
        return CommitStatus.UNKNOWN

    def _look(self, *, could_still_land: bool, atomic: bool = False) -> CommitStatus:
        """Look for the swap in the table as it is now.

        could_still_land: nobody said that it is over, so its absence is no proof; unless it is `atomic` and the pointer
        has left our base, to which it never comes back: metadata files have names that were never used before.
        """
        try:
            current = self._world.pointer.load(self._name).metadata_location
        except IcebergHmsError as error:
            logger.warning("the outcome of a swap of %s could not be looked up: %s", self._name, error)
            return CommitStatus.UNKNOWN
        base = self._swap.base.pointer.metadata_location
        found = trace(self._cache, current, ours=self._swap.location, base=base, snapshot_ids=self._swap.snapshot_ids)
        if found is CommitStatus.FAILURE and could_still_land and not (atomic and current != base):
            return CommitStatus.UNKNOWN
        return found


def may_still_land(answer: SwapAnswer, found: CommitStatus) -> bool:
    """Whether a move may yet be made over what others commit, once its lock is given back."""
    return isinstance(answer, Unanswered) and not answer.atomic and found is CommitStatus.UNKNOWN
