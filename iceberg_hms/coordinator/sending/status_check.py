"""Steps 7 and 8: send a swap or another request for a row of the metastore, and find out what became of it.

    answer                         what it proves                           what we do
    Swapped                        it was made                              count it
    Refused                        nothing yet: a metastore can refuse      look once; absence is proof, since a refused
                                   its own committed change                 request is not under way any more
    Refused, not final             nothing: the metastore's database may    send a swap again where that is atomic; then
                                   have it in doubt, and make it later      look; absence is no proof
    Unanswered, atomic             at most one of two equal swaps is made   send it again; then look; absence is proof
                                                                            once the row has left our base
    Unanswered, under a lock       nothing: it may be made at any time      look, with the lock held, until
                                                                            `metastore.unanswered-swap-timeout-ms` are
                                                                            over; absence is no proof, and we never
                                                                            send it again
    Unanswered, without a lock     the same, of a creation                  look; absence is no proof

Where the metastore went away with a swap, this goes on until it is back, as long as the callers of the swap wait.

However we know that a swap was made, it counts only if the lock covered it: otherwise the writer that took the lock may
have swapped over it, or be about to. Then we acquire the lock again, behind that writer, and look at the row.

The callers of a request that only its lock protects get CommitStateUnknown when the ordinary time for an answer is
over. The request goes on without them under its lock, and listeners hear its outcome. If that is unknown even at the
end, it may yet be made over later commits. So its lock is not released, but left to its lease.

`StatusCheck.status` raises nothing: once a request was sent, not even a defect of ours may turn "unknown" into
"failed".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from iceberg_hms.clock import LONGEST_AWAY_SECONDS
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Refused,
    Runtime,
    Sending,
    SwapAnswer,
    Swapped,
    TableName,
    Unanswered,
)
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.errors import (
    CommitStateUnknown,
    CompareAndSwapUnproven,
    IcebergHmsError,
    LockLost,
    MetastoreUnavailable,
)

logger = logging.getLogger(__name__)

#: The longest time between two checks while a table's lock is kept for a swap that may still be made: nobody else can
#: commit meanwhile.
LONGEST_WAIT_SECONDS: Final = 10.0
#: How long the callers of a swap whose lock was lost wait for it to be taken again; then they hear "unknown".
_CALLERS_WAIT_SECONDS: Final = 10.0


def send(
    request: Callable[[Sending], SwapAnswer], locks: Sequence[HeldLock], overdue: Callable[[], None]
) -> SwapAnswer:
    """Send one request under locks, to a server such as they require. Raises IcebergHmsError if nothing was sent.
    overdue: as `Sending` has it."""
    try:
        return request(Sending(locks, any(lock.require_cas for lock in locks), overdue))
    except IcebergHmsError:
        # The ports raise their own errors only for failures before anything was sent.
        raise
    except Exception as error:  # noqa: BLE001 - whatever this is, the request may have been sent
        return Unanswered(error)


def send_swap(swap: ResolvableSwap, lock: HeldLock, overdue: Callable[[], None]) -> SwapAnswer:
    """Step 7. Raises as `send`; LockLost if the swap may be sent under another lock: this one is gone, or it requires
    an atomic server and this server is not proven to be one."""
    try:
        return send(swap.send, [lock], overdue)
    except CompareAndSwapUnproven as error:
        if lock.exclusive:
            raise LockLost(f"it allows only a swap that is atomic: {error.message}") from error
        raise


def publish_overdue(ports: CommitPorts, name: TableName, what: str) -> CommitStateUnknown:
    """Log and publish that a request is overdue. Returns the error for its callers. what: is not known, as in "whether
    the drop of db.t was made"."""
    logger.warning(
        "The metastore has not answered yet, and it is not known %s. The lock of %s is kept until the metastore "
        "answers or its time is over (`metastore.unanswered-swap-timeout-ms`); other writers of the table wait for "
        "that",
        what,
        name,
    )
    ports.events.publish({"event": "overdue", "table": name})
    return CommitStateUnknown(
        f"it is not known {what}: the metastore has not answered yet",
        next_step="delete nothing; look at the table once its lock is released (`iceberg-hms locks list`)",
    )


class StatusCheck:
    """Finds out what became of one request, with its locks held.

    name: whose row it changes. locks: that protect it. overdue: called if the check takes longer than callers should
    wait. look: as `ResolvableSwap.look`. base_location: the metadata location that a swap expects."""

    def __init__(
        self,
        ports: CommitPorts,
        settings: Settings,
        name: TableName,
        locks: Sequence[HeldLock],
        overdue: Callable[[], None],
        look: Callable[[], tuple[str, CommitStatus]],
        base_location: str = "",
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._name = name
        self._locks = locks
        self._overdue = overdue
        self._look_at_row = look
        self._base_location = base_location
        #: The last look found no metastore; the last that found one, the row at another place than our base.
        self._is_away = self._has_moved = False
        #: For how long the locks stay, since the request may still be made; 0: they may be given back.
        self.locks_stay_seconds = 0.0

    def status(self, answer: SwapAnswer) -> CommitStatus:
        """SUCCESS: it was made; a swap is in the table, and the lock covered it. FAILURE: proved, it was not, and never
        will be."""
        try:
            found = self._find(answer)
        except Exception:
            logger.exception("the outcome of a request for %s could not be determined", self._name)
            found = CommitStatus.UNKNOWN
        if found is CommitStatus.UNKNOWN and isinstance(answer, Unanswered) and not answer.atomic and self._locks:
            self._let_locks_expire()
        return found

    def _find(self, answer: SwapAnswer) -> CommitStatus:
        runtime, settings = self._ports.runtime, self._settings
        match answer:
            case Swapped():
                found = CommitStatus.SUCCESS
            case Refused(in_doubt=False):
                found = self._look(could_still_land=False)
            case Unanswered(atomic=False, waited_seconds=waited_seconds) if self._locks:
                found = self._look_until_seen(
                    status_checks_while_pending(runtime, settings, waited_seconds, self._overdue)
                )
            case Refused() | Unanswered():
                atomic = isinstance(answer, Unanswered) and answer.atomic
                found = self._send_again() or self._look_until_seen(status_checks(runtime, settings), atomic=atomic)
        if found is CommitStatus.UNKNOWN:
            found = self._find_once_there(answer)
        return self._count() if found is CommitStatus.SUCCESS else found

    def _send_again(self) -> CommitStatus | None:
        """SUCCESS if the same request was sent once more, and made now; any other answer leaves the question open."""
        return None

    def _find_once_there(self, answer: SwapAnswer) -> CommitStatus:  # noqa: ARG002 - a swap's
        """What is found when the metastore is back, if it went away with the request."""
        return CommitStatus.UNKNOWN

    def _count(self) -> CommitStatus:
        """What a request that was made counts as."""
        return CommitStatus.SUCCESS

    def _look_until_seen(self, checks: Iterable[None], *, atomic: bool = False) -> CommitStatus:
        for _ in checks:
            found = self._look(could_still_land=True, atomic=atomic)
            if found is not CommitStatus.UNKNOWN:
                return found
        return CommitStatus.UNKNOWN

    def _look(self, *, could_still_land: bool, atomic: bool = False) -> CommitStatus:
        """Look at the row as it is now.

        could_still_land: no answer says that the request is over, so its absence is no proof; unless it is `atomic` and
        the row has left our base, to which it never comes back: metadata files have names that were never used before.
        """
        try:
            current, found = self._look_at_row()
            self._is_away = False
        except IcebergHmsError as error:
            self._is_away = isinstance(error, MetastoreUnavailable)
            logger.warning("the outcome of a request for %s could not be looked up: %s", self._name, error)
            return CommitStatus.UNKNOWN
        has_moved = self._has_moved = current != self._base_location
        if found is CommitStatus.FAILURE and could_still_land and not (atomic and has_moved):
            return CommitStatus.UNKNOWN
        return found

    def _let_locks_expire(self) -> None:
        seconds = max(lock.lease_seconds for lock in self._locks)
        logger.warning(
            "It is still not known whether a metastore works on an operation on %s, which would overwrite later "
            "commits. Its lock stays until its lease of %.0f s ends; a metastore without a reaper keeps it. Once the "
            "metastore's log shows no call that is still running: `iceberg-hms locks list`, `iceberg-hms locks break "
            "ID --yes`",
            self._name,
            seconds,
        )
        for lock in self._locks:
            lock.let_expire()
        self._ports.events.publish({"event": "lock-left-to-expire", "table": self._name, "seconds": seconds})
        self.locks_stay_seconds = seconds


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


class SwapStatusCheck(StatusCheck):
    """Adds what only a swap needs: it is sent again where that is atomic, and counts only if the lock covered it.

    until: how long its callers wait for a metastore that went away with it, by `Runtime.now()`."""

    def __init__(
        self,
        ports: CommitPorts,
        settings: Settings,
        swap: ResolvableSwap,
        lock: HeldLock,
        overdue: Callable[[], None],
        *,
        until: float = 0.0,
    ) -> None:
        super().__init__(ports, settings, swap.name, [lock], overdue, swap.look, swap.base_location)
        self._swap = swap
        self._lock = lock
        self._until = until
        self._times_sent_again = 0

    def _send_again(self) -> CommitStatus | None:
        return self._send_again_under(self._lock)

    def _send_again_under(self, lock: HeldLock) -> CommitStatus | None:
        try:
            lock.ensure_held()
            answer = self._swap.send(Sending((lock,), require_cas=True))
        except IcebergHmsError as error:
            logger.warning("a swap of %s was not answered and could not be sent again: %s", self._name, error)
            return None
        self._times_sent_again += 1
        return CommitStatus.SUCCESS if isinstance(answer, Swapped) else None

    def _find_once_there(self, answer: SwapAnswer) -> CommitStatus:
        """A metastore that restarts is away for longer than `commit.status-check.*` allows, and its callers would not
        know their outcome. So look until it is back, while they wait, and then send again what is atomic: of equal
        swaps at most one is made, under whichever lock."""
        runtime = self._ports.runtime
        sent_before = self._times_sent_again
        atomic = isinstance(answer, Unanswered) and answer.atomic
        is_over = isinstance(answer, Refused) and not answer.in_doubt
        while (atomic or is_over) and (remaining := self._until - runtime.now()) > 0:
            found = self._look(could_still_land=not is_over, atomic=atomic)
            if found is not CommitStatus.UNKNOWN:
                return found
            if not self._is_away:
                if is_over or self._has_moved or self._times_sent_again > sent_before:
                    break
                if self._send_again_once_there(remaining) is CommitStatus.SUCCESS:
                    return CommitStatus.SUCCESS
                # Once: a metastore that is there and answers no swap may go on like that. A last look follows.
                if self._times_sent_again > sent_before:
                    continue
            runtime.sleep(min(LONGEST_AWAY_SECONDS * (1 - runtime.jitter() / 2), remaining))
        return CommitStatus.UNKNOWN

    def _send_again_once_there(self, seconds: float) -> CommitStatus | None:
        try:
            self._lock.seconds_since_renewal()
        except LockLost:
            # It was not renewed while the metastore was away.
            self._lock.release()
            again = self._acquire_again(seconds)
            if again is None:
                return None
            try:
                return self._send_again_under(again)
            finally:
                again.release()
        return self._send_again()

    def _count(self) -> CommitStatus:
        """Acknowledge only what the lock covered: a writer that took a lost lock swaps blindly over ours. What we see
        in the table counts no more than an answer: that writer may be about to swap over it."""
        try:
            renew_if_half_expired(self._lock)
        except IcebergHmsError as error:
            logger.warning("the lock of %s did not cover its swap: %s", self._name, error)
            return self._look_after_lock_loss()
        return CommitStatus.SUCCESS

    def _look_after_lock_loss(self) -> CommitStatus:
        # Where no reaper runs our own entry may still be there, and would stand in our way.
        self._lock.release()
        longest = max(self._lock.lease_seconds, self._settings.lock_timeout_seconds)
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


def status_checks(runtime: Runtime, settings: Settings) -> Iterator[None]:
    """Yields once for each look: the first at once, the others after waits that double, within
    `commit.status-check.*`."""
    deadline = runtime.now() + settings.status_check_total_timeout_ms / 1000
    wait = settings.status_check_min_wait_ms / 1000
    yield
    for _ in range(settings.status_check_num_retries):
        if runtime.now() + wait > deadline:
            return
        runtime.sleep(wait)
        yield
        wait = min(wait * 2, settings.status_check_max_wait_ms / 1000)


def status_checks_until(runtime: Runtime, settings: Settings, deadline: float) -> Iterator[None]:
    """The same without a limit on their number, until a time by `Runtime.now()`; the last look is then."""
    wait = settings.status_check_min_wait_ms / 1000
    longest = min(settings.status_check_max_wait_ms / 1000, LONGEST_WAIT_SECONDS)
    while (remaining := deadline - runtime.now()) > 0:
        runtime.sleep(min(wait, remaining))
        yield
        wait = min(wait * 2, longest)


def status_checks_while_pending(
    runtime: Runtime, settings: Settings, waited_seconds: float, overdue: Callable[[], None]
) -> Iterator[None]:
    """Looks for a request that only its lock protects, until it can hardly be made any more: those of `status_checks`;
    then calls `overdue`; then looks until `metastore.unanswered-swap-timeout-ms` have passed since the request was
    sent. waited_seconds: how long the driver has waited for the answer already."""
    deadline = runtime.now() + settings.unanswered_swap_timeout_ms / 1000 - waited_seconds
    yield from status_checks(runtime, settings)
    overdue()
    yield from status_checks_until(runtime, settings, deadline)
