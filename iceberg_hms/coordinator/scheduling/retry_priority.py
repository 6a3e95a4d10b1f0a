"""RetryPriority: a commit that lost its branch's place to others gets it in the end, however busy the table is.

A delete, a rewrite, or an append that may not be rebased stands on the table as its client read it. When another commit
lands first, the server refuses it; its client waits a moment, reads the table, builds the commit anew and sends it
again. On a busy table yet another commit has landed by then. Most clients give up when they were refused five times.
Four rules prevent that:

1. Of several clients that were refused, one hears of it at a time. The refusals of the others are kept until its commit
   is back, so that they do not read the table only to lose against each other.
2. From when a client hears that it was refused until its commit is back, other commits wait: for a bounded time, and at
   most for a share of all time.
3. The commit that was refused most often goes first, in the queue and among the refusals that are kept.
4. Nobody waits for a sender whose commits did not come back lately (`senders`).

A commit is known by its snapshot id, which clients keep over their retries (Iceberg's `SnapshotProducer` in Java,
PyIceberg's `_SnapshotProducer._refresh_for_retry`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit, lost_its_place
from iceberg_hms.coordinator.scheduling.returning_clients import ReturningClients
from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget

#: How many refused commits of a table are remembered; the oldest are forgotten first.
LOSERS_MAX: Final = 256
#: How many of their refusals are kept at a time; the server answers further ones at once.
KEPT_MAX: Final = 64


@dataclass(slots=True)
class _Loser:
    """A commit that was refused. losses: how often. since: when its client heard of the last one, or, while that is
    kept, when it was refused."""

    sender: str
    losses: int = 0
    since: float = 0.0


class RetryPriority:
    """The turns of one table. Not safe for threads: a table has one worker at a time. Times are seconds, by
    `Runtime.now()`.

    Settings, below `commit.retry-priority`: max-wait-ms (0 = no turns), max-hold-ms, max-share-percent.
    """

    def __init__(self, settings: Settings, senders: ReturningClients) -> None:
        self._max_wait = settings.retry_priority_max_wait_ms / 1000
        self._max_keep = settings.retry_priority_max_hold_ms / 1000
        self._share = TimeBudget(settings.retry_priority_max_share_percent)
        self._senders = senders
        #: By snapshot id, the oldest first.
        self._losers: OrderedDict[int, _Loser] = OrderedDict()
        #: Those whose clients have not heard that they were refused.
        self._kept: OrderedDict[int, PendingCommit] = OrderedDict()
        #: Whose turn it is, until its commit is back or its time is over.
        self._away: int | None = None
        self._held_since: float | None = None

    def losses(self, member: PendingCommit) -> int:
        """How often a commit was refused because others were faster."""
        known = (self._losers.get(id_) for id_ in member.change.identity.snapshot_ids)
        return max((each.losses for each in known if each is not None), default=0)

    def keeps(self, member: PendingCommit, now: float) -> bool:
        """Note a commit's outcome. True: it was refused, and `call` says when its client may hear of it."""
        ids = member.change.identity.snapshot_ids
        if not ids or not self._max_wait:
            return False
        id_ = ids[-1]
        if not lost_its_place(member):
            self._landed(id_, member)
            return False
        is_free = self._away is None and not self._kept
        loser = self._losers.setdefault(id_, _Loser(member.change.identity.sender))
        loser.losses += 1
        loser.since = now
        self._losers.move_to_end(id_)
        if len(self._losers) > LOSERS_MAX:
            self._forget(next(each for each in self._losers if each not in self._kept))
        if not self._senders.come_back(loser.sender):
            return False
        if is_free:
            self._away = id_
        elif id_ not in self._kept and len(self._kept) < KEPT_MAX and now < self._kept_until(loser, member):
            self._kept[id_] = member
            return True
        return False

    def call(self, queued: Sequence[PendingCommit], now: float) -> list[PendingCommit]:
        """The commits whose clients shall hear now that they were refused. queued: the commits that are there."""
        for member in queued:
            self._is_back(member)
        if self._away is not None and now >= self._losers[self._away].since + self._max_wait:
            self._senders.stayed_away(self._losers[self._away].sender)
            self._end_turn(now)
        called = [id_ for id_, member in self._kept.items() if self._is_over(id_, member, now)]
        if self._away is None:
            waiting = [id_ for id_ in self._kept if id_ not in called]
            if waiting:
                self._away = max(waiting, key=lambda id_: self._losers[id_].losses)
                called.append(self._away)
        for id_ in called:
            if id_ in self._losers:
                self._losers[id_].since = now
        return [self._kept.pop(id_) for id_ in called]

    def let_go(self) -> list[PendingCommit]:
        """Those whose clients have not heard that they were refused: nobody keeps them any longer."""
        kept = list(self._kept.values())
        self._kept.clear()
        return kept

    def seconds_to_wait(self, queued: Sequence[PendingCommit], now: float) -> float:
        """For how long the queue waits unless a commit comes; 0: it does not. Ask after `call`."""
        if self._away is None:
            self._end_turn(now)
            return 0.0
        if queued:
            if not self._share.is_left(now) or any(self.losses(member) for member in queued):
                self._end_turn(now, is_over=False)
                return 0.0
            if self._held_since is None:
                self._held_since = now
        elif not self._kept:
            return 0.0
        ends = [self._kept_until(self._losers[id_], member) for id_, member in self._kept.items()]
        return min([self._losers[self._away].since + self._max_wait, *ends]) - now

    def _is_back(self, member: PendingCommit) -> None:
        for id_ in member.change.identity.snapshot_ids:
            if id_ in self._losers:
                self._senders.came_back(self._losers[id_].sender)
            if id_ == self._away:
                self._away = None

    def _is_over(self, id_: int, member: PendingCommit, now: float) -> bool:
        """Whether a refusal may be kept no longer: its time is over, it makes no sense any more, or its commit came
        again in another request and has another outcome."""
        loser = self._losers.get(id_)
        return loser is None or now >= self._kept_until(loser, member) or not self._senders.come_back(loser.sender)

    def _kept_until(self, loser: _Loser, member: PendingCommit) -> float:
        return min(loser.since + self._max_keep, member.deadline)

    def _landed(self, id_: int, member: PendingCommit) -> None:
        self._forget(id_)
        if id_ in self._kept and member.outcome is not None:
            # Its client sent it twice. "Refused" would be an order to delete what the table may name.
            self._kept[id_].decide(member.outcome)

    def _forget(self, id_: int) -> None:
        self._losers.pop(id_, None)
        if id_ == self._away:
            self._away = None

    def _end_turn(self, now: float, *, is_over: bool = True) -> None:
        if is_over:
            self._away = None
        if self._held_since is not None:
            self._share.used(self._held_since, now)
            self._held_since = None
