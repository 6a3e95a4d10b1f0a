"""One queued change, and the caller that waits for it.

A member is in one of four states; only the functions here move it:

    waiting    --take_for_swap-->  sent        a swap that carries it is about to be sent
    waiting    --withdraw------->  withdrawn   its caller's time is over, and nothing of it was sent: proved failed,
                                               unless it was sent before and is in the table (`doubts`)
    sent       --proved_absent-->  waiting     the swap was refused and the table lacks it
    waiting | sent  --settle---->  settled     its outcome is known, or known to be unknown

The point of the table: a caller whose time ends may be told "failed" only in `waiting`. Once a swap is sent it waits
for the outcome, because a "failed" answer is an order to delete the change's files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.coordinator.protocol.already_committed import AlreadyCommitted
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.errors import CommitStateUnknown, LockNotAcquired, RequirementFailed, own_copy, proved


class State(Enum):
    WAITING = auto()
    SENT = auto()
    WITHDRAWN = auto()
    SETTLED = auto()


@dataclass(frozen=True, slots=True)
class Committed:
    """The change is in the table."""

    report: CommitReport


@dataclass(frozen=True, slots=True)
class Failed:
    """No swap that carried the change took effect. What is proved is the absence, whatever the type of the error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Unknown:
    """The change may be in the table."""

    error: CommitStateUnknown


Outcome = Committed | Failed | Unknown


class PendingCommit:
    """A change in a table's queue.

    wait_seconds: after which its caller leaves, if no swap carries it. doubts: about its table, for one that has left.
    """

    def __init__(self, runtime: Runtime, change: Change, wait_seconds: float, doubts: AlreadyCommitted) -> None:
        self.change = change
        self.started = runtime.now()
        self.deadline = self.started + wait_seconds
        self.wait_seconds = wait_seconds
        self._runtime = runtime
        self._doubts = doubts
        self._mutex = runtime.mutex()
        self._done = runtime.event()
        self._state = State.WAITING
        self._outcome: Outcome | None = None
        self._answered = False
        self._listener: Callable[[], None] | None = None

    @property
    def withdrawn(self) -> bool:
        return self._state is State.WITHDRAWN

    @property
    def sent(self) -> bool:
        """Whether a swap that carries it was sent, or is about to be, and is not proved absent."""
        return self._state is State.SENT

    @property
    def outcome(self) -> Outcome | None:
        """None until it is settled, and for one that was withdrawn."""
        return self._outcome

    def take_for_swap(self) -> bool:
        """Called before a swap that carries this member is sent. False: it was withdrawn, build without it."""
        with self._mutex:
            if self._state is State.WITHDRAWN:
                return False
            self._state = State.SENT
            return True

    def proved_absent(self) -> None:
        """The swap was refused and the table lacks the change: its caller may leave again."""
        with self._mutex:
            if self._state is State.SENT:
                self._state = State.WAITING

    def settle(self, outcome: Outcome) -> None:
        """Answer the caller. Only the first answer counts: a withdrawn member has had its own."""
        self.decide(outcome)
        self.answer()

    def decide(self, outcome: Outcome) -> None:
        """Set the outcome that `answer` tells the caller; until then it can be set anew."""
        with self._mutex:
            if not self._answered and self._state is not State.WITHDRAWN:
                self._state = State.SETTLED
                self._outcome = outcome

    def answer(self) -> None:
        """Tell the caller the outcome that was decided."""
        with self._mutex:
            self._answered = True
            listener, self._listener = self._listener, None
        self._done.set()
        if listener is not None:
            with log_and_continue("telling a caller what became of its commit", REPORT):
                listener()

    def when_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, as soon as the outcome is there: on the worker's thread, which must not wait for it, or
        here and now. It does not raise."""
        with self._mutex:
            if not self._answered:
                self._listener = listener
                return
        listener()

    def withdraw(self) -> bool:
        """The caller waits no longer. False: it must, since a swap may carry its change. Or it has its outcome now,
        which was kept from it (`turns`): the queue that keeps it may be long in getting a thread."""
        with self._mutex:
            if self._state is State.WAITING:
                self._state = State.WITHDRAWN
            state = self._state
        if state is State.SETTLED:
            self.answer()
        return state is State.WITHDRAWN

    def wait(self) -> CommitReport:
        """Block the caller until the outcome is there, or until its time is over and it can still be withdrawn. Raises
        as `result`."""
        if not self._done.wait(max(0.0, self.deadline - self._runtime.now())) and not self.withdraw():
            self._done.wait()
        return self.result()

    def result(self) -> CommitReport:
        """The outcome, once it is settled or withdrawn. Blocks for one that was withdrawn: the table is looked at.

        Each call raises an error of its own, of the type that the outcome has. If the change has failed, that type says
        so (`IcebergHmsError.proved_failed`): CommitFailed and its like, or a MetastoreError or StorageError that is a
        ProvedFailure as well. Raises CommitStateUnknown if the change may be in the table.
        """
        if self.withdrawn:
            late = LockNotAcquired(f"the commit did not get its turn within {self.wait_seconds:g} s; nothing was sent")
            raise self._doubts.about(self.change.identity, late) or late
        match self._outcome:
            case Committed(report=report):
                return report
            case Failed(error=error):
                raise proved(error)
            case Unknown(error=unknown):
                raise own_copy(unknown)
            case None:
                raise CommitStateUnknown("the worker of the table's queue ended without an answer")


def lost_its_place(member: PendingCommit) -> bool:
    """Whether it was refused because its branch is not where its client saw it."""
    match member.outcome:
        case Failed(error=RequirementFailed(name=name)):
            return bool(name == ASSERT_REF_SNAPSHOT_ID)
    return False
