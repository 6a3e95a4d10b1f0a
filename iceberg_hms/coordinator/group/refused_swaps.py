"""What a group does when the metastore refuses its swap, for a reason that is no conflict.

A first refusal may be a passing one, so the group is sent again. A second refusal has one of two causes, and the answer
makes the difference between a job that waits and one that deletes its files and fails.

    an outage     the metastore writes nothing now: a write on a scratch row fails too, or of several changes it takes
                  none. All callers get MetastoreUnavailable and may send their commits again later.
    one change    the metastore does not accept what it carries: a value too long for its column, a location that its
                  caller may not use. It alone is refused, with the metastore's own error.

An error of the metastore's database is neither, unless it proves that nothing was written: it may leave the swap in
doubt (`ports.Refused.in_doubt`), so the table is checked, and unless it has the swap the whole group is unknown.

To find that one change the group is halved, and the halves are sent one after the other, in the order in which their
changes came, under the same lock. `commit.refusal.max-swaps` bounds that, and so does the time of each caller: a change
whose caller's time is over is sent no more, since a refusal may take the metastore 20 s, and nobody else has the lock
meanwhile. The changes that no swap reached may be sent again.

With halves one change of 64 is found in 15 swaps, and all others land. One by one that takes 67: of these the setting
allows 18, after which 47 of the 63 others have to come again, and in three of four groups that one comes with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import AccessDenied, CommitConflict, MetastoreUnavailable

logger = logging.getLogger(__name__)


class RefusedSwaps:
    """The refused swaps of one group. The table was checked for each: nothing of a `refused` batch is in it.

    max_swaps: how many parts of the group are sent. accepts_writes: whether the metastore carries out a write
    elsewhere; None if that is unknown. now: the clock of `PendingCommit.deadline`.
    """

    def __init__(self, max_swaps: int, accepts_writes: Callable[[], bool | None], now: Callable[[], float]) -> None:
        #: How often there was something to send next.
        self.rounds = 0
        self._remaining_swaps = max_swaps
        self._accepts_writes = accepts_writes
        self._now = now
        #: The batch that was refused, and sent again unchanged.
        self._second_try: frozenset[PendingCommit] = frozenset()
        #: The last refusal.
        self._error: Exception | None = None
        #: None: the metastore was not asked yet.
        self._is_outage: bool | None = None
        self._is_halved = False
        #: Those that were not sent yet, the last one first.
        self._parts: list[list[PendingCommit]] = []
        #: Changes whose callers' time was over before they could be sent again.
        self._timeouts: list[PendingCommit] = []
        #: The changes that were refused while nothing else was sent with them.
        self._lone_refusals: list[tuple[PendingCommit, Exception]] = []

    def refused(self, batch: Sequence[PendingCommit], error: Exception) -> list[PendingCommit]:
        """What to send next, after a batch was refused; empty if nothing is."""
        self._error = error
        if not self._was_sent_again(batch):
            again = self._on_time(batch)
            self._second_try = frozenset(again)
            self.rounds += bool(again)
            return again
        if self._is_outage is None:
            self._is_outage = self._fails_elsewhere()
        if len(batch) == 1 and not self._is_outage:
            self._lone_refusals.append((batch[0], error))
        else:
            middle = len(batch) // 2
            self._parts += [list(batch[middle:]), list(batch[:middle])]
            self._is_halved = True
        return self.next_part()

    def next_part(self) -> list[PendingCommit]:
        """What to send next, after a batch landed, or nothing of it was to be sent any more; empty if nothing is."""
        while self._parts and not self._is_outage and self._remaining_swaps > 0:
            if part := self._on_time(self._parts.pop()):
                self._remaining_swaps -= 1
                self.rounds += 1
                return part
        return []

    def verdicts(self, *, landed: bool) -> list[tuple[PendingCommit, Exception]]:
        """The errors for the changes that have not landed and are not sent again. Each change is returned once. landed:
        whether a part of the group has."""
        refusals, self._lone_refusals = self._lone_refusals, []
        timeouts, self._timeouts = self._timeouts, []
        unsent = [commit for part in reversed(self._parts) for commit in part]
        self._parts = []
        if self._error is None or not (refusals or timeouts or unsent):
            return []
        outage, not_tried = self._outage(self._error), self._not_tried(self._error)
        if self._is_outage:
            return [(commit, outage) for commit in [*(commit for commit, _ in refusals), *timeouts, *unsent]]
        if landed or len(refusals) + len(timeouts) + len(unsent) == 1:
            return [*refusals, *((commit, not_tried) for commit in [*timeouts, *unsent])]
        if refusals and all(isinstance(error, AccessDenied) for _, error in refusals):
            return [*refusals, *((commit, refusals[0][1]) for commit in [*timeouts, *unsent])]
        undecided = [*(commit for commit, _ in refusals), *unsent]
        return [*((commit, not_tried) for commit in timeouts), *((commit, outage) for commit in undecided)]

    def _was_sent_again(self, batch: Sequence[PendingCommit]) -> bool:
        """Whether it was, or need not be: where a group of several changes was refused twice, its halves show more."""
        if len(batch) == 1:
            return self._second_try == frozenset(batch)
        return self._is_halved or self._second_try.issuperset(batch)

    def _on_time(self, batch: Sequence[PendingCommit]) -> list[PendingCommit]:
        """Those whose callers have time; the others are noted as timeouts."""
        now = self._now()
        self._timeouts += [commit for commit in batch if commit.deadline <= now]
        return [commit for commit in batch if commit.deadline > now]

    def _outage(self, error: Exception) -> MetastoreUnavailable:
        return MetastoreUnavailable(
            f"The metastore takes no writes now, and this change was not made: {error}",
            next_step="send it again later; the metastore's log, and that of its database, tell the reason",
        )

    def _not_tried(self, error: Exception) -> CommitConflict:
        return CommitConflict(
            f"The metastore refused a swap with this change and others, and it was not tried alone: {error}"
        )

    def _fails_elsewhere(self) -> bool:
        try:
            return self._accepts_writes() is False
        except Exception:
            logger.exception("nobody can tell whether the metastore takes writes; the refused changes are tried apart")
            return False
