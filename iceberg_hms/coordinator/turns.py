"""Turns: who lost a branch's place to others gets it next, or rebased appends would starve whatever is not rebased.

A delete or a rewrite is made on a table as its client saw it. Where appends land all the time the table has moved again
by the time it comes back, and so it loses until its client gives up. So whoever lost gets a turn: the others wait for
it, for a bounded time and at most for a share of all time, and it goes first when it comes back. It is known by its
snapshot id, which a client keeps over its retries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.member import Failed, Member
from iceberg_hms.coordinator.share import TimeShare
from iceberg_hms.errors import AssumptionBroken

#: How many that lost are remembered for a table; the oldest go first.
WAITING_MAX = 64


class Turns:
    """The turns of one table. Not safe for threads: a table has one worker at a time.

    Settings: commit.turn.max-wait-ms (0 = no turns), commit.turn.max-share-percent.
    """

    def __init__(self, settings: Settings) -> None:
        self._max_wait = settings.turn_max_wait_ms / 1000
        self._share = TimeShare(settings.turn_max_share_percent)
        #: Snapshot ids of those that lost, in that order.
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._held_since: float | None = None

    def seconds_to_wait(self, members: Sequence[Member], now: float) -> float:
        """For how long the queue should be held back for those that lost; 0 if one of them is there, if there are none,
        or if nobody would wait. Called again after each wait. now: `Runtime.now()`, in seconds.

        One that is there has the turn of the first that is not: a client that has given up would else keep the others
        from theirs, until they have used up their retries too."""
        if not members or not self._waiting or not self._share.is_left(now):
            return 0.0
        if any(self.goes_first(member) for member in members):
            self._end(now)
            return 0.0
        if self._held_since is None:
            self._held_since = now
        left = self._held_since + self._max_wait - now
        if left > 0:
            return left
        # It does not come back: its client has given up, or is slow.
        self._waiting.popitem(last=False)
        self._end(now)
        return 0.0

    def goes_first(self, member: Member) -> bool:
        """Whether a member lost before, and so stands in front of the queue."""
        return any(id_ in self._waiting for id_ in member.change.identity.snapshot_ids)

    def settled(self, members: Iterable[Member]) -> None:
        """A group has its outcomes: who lost its branch's place waits for a turn, all others wait no more."""
        for member in members:
            for id_ in member.change.identity.snapshot_ids[-1:]:
                if not lost_its_place(member):
                    self._waiting.pop(id_, None)
                elif self._max_wait > 0:
                    self._waiting.setdefault(id_)
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)

    def _end(self, now: float) -> None:
        if self._held_since is not None:
            self._share.used(self._held_since, now)
            self._held_since = None


def lost_its_place(member: Member) -> bool:
    """Whether it was refused because its branch is not where its client saw it."""
    match member.outcome:
        case Failed(error=AssumptionBroken(name=name)):
            return bool(name == ASSERT_REF_SNAPSHOT_ID)
    return False
