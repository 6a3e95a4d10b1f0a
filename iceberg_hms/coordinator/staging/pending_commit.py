"""One queued change, and the caller that waits for it.

It ends in one of two ways; only the methods here choose which:

    withdrawn   its caller's time is over, and no swap carries it: it has failed, unless another send of the same change
                is in the table or may come there (`already_committed`)
    settled     its outcome is known, or known to be unknown

A caller may leave while no swap carries its commit, or after the swap that did was proved absent (`SentSwap.status`).
Otherwise it waits for the outcome, because a "failed" answer is an order to delete the change's files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.coordinator.locations.location_policy import ClientLocations
from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.outcome.already_committed import AlreadyCommitted
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.interrupts import wait_after_interrupt
from iceberg_hms.coordinator.outcome.outcome import CommitReport, Committed, Failed, Outcome, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap, carried_by
from iceberg_hms.coordinator.ports import Runtime, ThreadEvent
from iceberg_hms.errors import (
    CommitStateUnknown,
    LockNotAcquired,
    MetastoreUnavailable,
    RequirementFailed,
    own_copy,
    proved,
)


class PendingCommit:
    """A change in a table's queue. Safe for threads.

    wait_seconds: after which its caller leaves, if no swap carries it.
    already_committed: asked about the change if its caller withdraws it.
    locations: which locations the change may name; None: all.
    prepared: locations that the change wrote before it was queued; they are deleted if it is proved to have failed.
    ended: called with it, at least once, when it waits no longer.
    held_up: why its turn does not come, as a clause; "" if nothing is wrong.
    away: why it was not sent, if the metastore is away now.
    withdrawn: whether it was. outcome: None until it is settled, and for one that was withdrawn. Only the methods here
    set the two.
    """

    def __init__(
        self,
        runtime: Runtime,
        change: Change,
        wait_seconds: float,
        already_committed: AlreadyCommitted,
        locations: ClientLocations | None = None,
        prepared: Sequence[str] = (),
        ended: Callable[[PendingCommit], None] = lambda _: None,
        held_up: Callable[[], str] = lambda: "",
        away: Callable[[], MetastoreUnavailable | None] = lambda: None,
    ) -> None:
        self.change = change
        self.identity = change.identity
        #: What the change is recognized by.
        self.carries = carried_by(self.identity)
        self.locations = locations
        self.prepared = prepared
        self.started = runtime.now()
        self.deadline = self.started + wait_seconds
        self.wait_seconds = wait_seconds
        self.withdrawn = False
        self.outcome: Outcome | None = None
        self._runtime = runtime
        self._already_committed = already_committed
        self._ended = ended
        self._held_up = held_up
        self._away = away
        #: What `away` said when it was withdrawn.
        self._outage: MetastoreUnavailable | None = None
        self._mutex = runtime.mutex()
        #: The last swap that carries it.
        self._swap: SentSwap | None = None
        self._answered = False
        self._listeners: list[Callable[[], None]] = []
        self._answer_event: ThreadEvent | None = None
        self._on_withdraw: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        """Whether it may still be sent: it has no outcome, and its caller waits."""
        return self.outcome is None and not self.withdrawn

    @property
    def sent(self) -> bool:
        """Whether a swap that carries it was sent, or is about to be, and is not proved absent."""
        return self._swap is not None and self._swap.status is not CommitStatus.FAILURE

    def take(self, swap: SentSwap) -> bool:
        """Note that a swap which is about to be sent carries this commit. False: it was withdrawn, build without it."""
        with self._mutex:
            if not self.withdrawn:
                self._swap = swap
            return not self.withdrawn

    def settle(self, outcome: Outcome) -> None:
        """Decide the outcome and answer the caller. Only the first answer counts; a withdrawn one has its own."""
        self.decide(outcome)
        self.answer()

    def decide(self, outcome: Outcome) -> None:
        """Set the outcome with which `answer` answers the caller; until then it can be set anew."""
        with self._mutex:
            if not self._answered and not self.withdrawn:
                self.outcome = outcome

    def answer(self) -> None:
        """Answer the caller with the outcome that was decided."""
        with self._mutex:
            self._answered = True
            listeners, self._listeners = self._listeners, []
            self._on_withdraw = None
        self._ended(self)
        for listener in listeners:
            with log_and_continue("answering the caller of a commit", REPORT):
                listener()

    def when_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, as soon as the caller is answered: on the worker's thread, so it must not block; or
        here and now, if that has happened. It does not raise."""
        with self._mutex:
            if not self._answered:
                self._listeners.append(listener)
                return
        listener()

    def event_of_answer(self) -> ThreadEvent:
        """Set once the caller is answered; for one that blocks. Made at the first call, which may fail: so before the
        commit is queued."""
        if self._answer_event is None:
            self._answer_event = self._runtime.event()
            self.when_settled(self._answer_event.set)
        return self._answer_event

    def when_withdrawn(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, as soon as the caller has left: on the caller's thread, so it must not block. Not for
        one that has left already."""
        with self._mutex:
            if not (self.withdrawn or self._answered):
                self._on_withdraw = listener

    def withdraw(self) -> bool:
        """The caller waits no longer. True: no swap carries the change, and none will. False: a swap may carry it, so
        the caller must wait; or its outcome is decided and held back (`RetryPriority`), and is answered now, since the
        worker that holds it back may wait long for a thread."""
        outage = self._away()
        with self._mutex:
            is_settled = self.outcome is not None
            was_withdrawn = self.withdrawn
            self.withdrawn = self.withdrawn or not (is_settled or self.sent)
            if self.withdrawn and not was_withdrawn:
                self._outage = outage
            on_withdraw = None
            if self.withdrawn:
                on_withdraw, self._on_withdraw = self._on_withdraw, None
        if is_settled:
            self.answer()
        elif self.withdrawn:
            self._ended(self)
        if on_withdraw is not None:
            with log_and_continue("noting that a caller has left", REPORT):
                on_withdraw()
        return self.withdrawn

    def wait(self) -> CommitReport:
        """Block the caller until its commit is settled, or until its time is over and the commit can still be
        withdrawn. Raises as `result`."""
        answered = self.event_of_answer()
        if not answered.wait(max(0.0, self.deadline - self._runtime.now())) and not self.withdraw():
            answered.wait()
        return self.result()

    def wait_after(self, interrupt: KeyboardInterrupt, what: str) -> CommitReport:
        """What `wait` returns or raises, after Ctrl-C came in it. Raises the interrupt if the commit could still be
        withdrawn: nothing of it was sent. Raises CommitStateUnknown as `wait_after_interrupt`. what: for messages."""
        if self.withdraw():
            interrupt.add_note(f"nothing of the {what} was sent, and nothing will be")
            raise interrupt
        wait_after_interrupt(self.event_of_answer(), interrupt, what, self.identity.snapshot_ids)
        return self.result()

    def result(self) -> CommitReport:
        """The report of a commit that is settled or was withdrawn. Blocks for one that was withdrawn: it looks at the
        table.

        Each call raises an error of its own, of the type that the outcome has. If the change has failed, that type says
        so (`IcebergHmsError.proved_failed`): CommitFailed and its like, or a MetastoreError or StorageError that is a
        ProvedFailure as well. Raises CommitStateUnknown if the change may be in the table.
        """
        match self._outcome_of_withdrawn() if self.withdrawn else self.outcome:
            case Committed(report=report):
                return report
            case Failed(error=error):
                raise proved(error)
            case Unknown(error=unknown):
                raise own_copy(unknown)
            case None:
                raise CommitStateUnknown("the worker of the table's queue ended without an answer")

    def _outcome_of_withdrawn(self) -> Outcome:
        if self._outage is not None:
            return self._already_committed.not_sent_in_outage(self.identity, self._outage)
        late = LockNotAcquired(
            f"the commit did not get its turn within {self.wait_seconds:g} s; nothing was sent{self._held_up()}"
        )
        return self._already_committed.failed_or_unknown(self.identity, late)


def lost_its_place(commit: PendingCommit) -> bool:
    """Whether it was refused because its branch is not where its client saw it."""
    match commit.outcome:
        case Failed(error=RequirementFailed(name=name)):
            return bool(name == ASSERT_REF_SNAPSHOT_ID)
    return False


def new_head(commit: PendingCommit) -> object:
    """The snapshot to which another commit has moved the branch of one that lost its place; None for others."""
    match commit.outcome:
        case Failed(error=RequirementFailed(name=name, found=found)) if name == ASSERT_REF_SNAPSHOT_ID:
            return found
    return None
