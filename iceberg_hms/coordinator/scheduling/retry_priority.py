"""Gives a commit that lost a conflict priority over others when its client sends it again.

A delete, a rewrite, or an append that may not be rebased assumes the table as its client read it. When another commit
lands first, the server refuses it; its client waits a moment, reads the table, builds the commit anew and sends it
again. On a busy table yet another commit has landed by then, and most clients give up after five refusals. Four rules
prevent that:

1. Of several refused clients, one gets its answer at a time. The server holds the answers of the others until that
   commit is back, so that they do not read the table only to lose against each other.
2. From the moment a client gets its refusal until its commit is back, other commits wait: for a bounded time, and
   for at most a share of all time.
3. The commit with the most refusals goes first, in the queue and among the held answers.
4. Nobody waits for a sender whose refused commits did not come back lately (`ReturningClients`).

A commit is recognised by its snapshot id, which clients keep over their retries (Iceberg's `SnapshotProducer` in Java,
PyIceberg's `_SnapshotProducer._refresh_for_retry`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit, lost_its_place

#: How many refused commits of a table to remember; the oldest are forgotten first.
REFUSED_MAX: Final = 256
#: How many answers to hold at a time; the server sends further ones at once.
HELD_MAX: Final = 64
#: After so many refused commits in a row that a sender did not send again, stop waiting for it until one comes back.
MISSES_MAX: Final = 2
#: How many senders with misses to remember; the one whose last miss is oldest is forgotten first.
SENDERS_MAX: Final = 256
#: How many characters of a sender's name to compare; clients choose the name.
_NAME_MAX: Final = 256


@dataclass(slots=True)
class _Refused:
    """A refused commit. times: how often. since: when its client got the last refusal, or, while that answer is
    held, when the commit was refused."""

    sender: str
    times: int = 0
    since: float = 0.0


class RetryPriority:
    """The retry priority of one table. Not safe for threads: a table has one worker at a time. Times are seconds, by
    `Runtime.now()`.

    Settings, below `commit.retry-priority`: max-wait-ms (0 = no retry priority), max-hold-ms, max-share-percent.
    """

    def __init__(self, settings: Settings, clients: ReturningClients) -> None:
        self._max_wait = settings.retry_priority_max_wait_ms / 1000
        self._max_hold = settings.retry_priority_max_hold_ms / 1000
        self._budget = TimeBudget(settings.retry_priority_max_share_percent)
        self._clients = clients
        #: By snapshot id, the oldest first.
        self._refused: OrderedDict[int, _Refused] = OrderedDict()
        #: Refused commits whose answers are held.
        self._held: OrderedDict[int, PendingCommit] = OrderedDict()
        #: The commit that others wait for, until it is back or its time is over.
        self._awaited: int | None = None
        self._waiting_since: float | None = None

    def times_refused(self, commit: PendingCommit) -> int:
        """How often a commit was refused because another one landed first."""
        known = [self._refused[id_].times for id_ in commit.identity.snapshot_ids if id_ in self._refused]
        return max(known, default=0)

    def record_outcome(self, commit: PendingCommit, now: float, *, hold: bool = False) -> bool:
        """Note a commit's outcome. True: it was refused, and its answer is held until `answers_due` returns it. hold:
        hold the answer although no other commit is awaited."""
        ids = commit.identity.snapshot_ids
        if not ids or not self._max_wait:
            return False
        id_ = ids[-1]
        if not lost_its_place(commit):
            self._record_landed(id_, commit)
            return False
        is_first = self._awaited is None and not self._held and not hold
        refused = self._refused.setdefault(id_, _Refused(commit.identity.sender))
        refused.times += 1
        refused.since = now
        self._refused.move_to_end(id_)
        if len(self._refused) > REFUSED_MAX:
            self._forget(next(each for each in self._refused if each not in self._held))
        if not self._clients.returns(refused.sender):
            return False
        if is_first:
            self._awaited = id_
        elif id_ not in self._held and len(self._held) < HELD_MAX and now < self._held_until(refused, commit):
            self._held[id_] = commit
            return True
        return False

    def answers_due(
        self, queued: Sequence[PendingCommit], now: float, *, may_await: bool = True
    ) -> list[PendingCommit]:
        """Refused commits whose held answers the caller shall send now. queued: the commits in the table's queue.
        may_await: whether the next one may get its answer, if none is awaited; else all are held for their time."""
        for commit in queued:
            self._record_return(commit)
        if self._awaited is not None and now >= self._refused[self._awaited].since + self._max_wait:
            self._clients.record_miss(self._refused[self._awaited].sender)
            self._stop_waiting(now)
        due = [id_ for id_, commit in self._held.items() if self._is_due(id_, commit, now)]
        if self._awaited is None and may_await:
            candidates = [id_ for id_ in self._held if id_ not in due]
            if candidates:
                self._awaited = max(candidates, key=lambda id_: self._refused[id_].times)
                due.append(self._awaited)
        for id_ in due:
            if id_ in self._refused:
                self._refused[id_].since = now
        return [self._held.pop(id_) for id_ in due]

    def awaits_one_of(self, commits: Sequence[PendingCommit]) -> bool:
        """Whether one of these is the commit that others wait for."""
        return any(self._awaited in commit.identity.snapshot_ids for commit in commits)

    def restart_wait(self, now: float) -> None:
        """The answer to the commit that others wait for is sent only now."""
        if self._awaited is not None:
            self._refused[self._awaited].since = now

    def release_all(self) -> list[PendingCommit]:
        """All refused commits whose answers are held; they are held no longer, and the caller sends them."""
        held = list(self._held.values())
        self._held.clear()
        return held

    def seconds_to_wait(self, queued: Sequence[PendingCommit], now: float, *, may_await_in: float = 0.0) -> float:
        """How long the queue waits unless a commit arrives; 0: it does not wait. Call after `answers_due`.
        may_await_in: when that may await another one."""
        if self._awaited is None:
            self._stop_waiting(now)
            return 0.0 if queued or not self._held else min([may_await_in, *self._held_ends(now)])
        if queued:
            if not self._budget.allows(now) or any(self.times_refused(commit) for commit in queued):
                self._stop_waiting(now, keep_awaited=True)
                return 0.0
            if self._waiting_since is None:
                self._waiting_since = now
        elif not self._held:
            return 0.0
        return min([self._refused[self._awaited].since + self._max_wait - now, *self._held_ends(now)])

    def _record_return(self, commit: PendingCommit) -> None:
        for id_ in commit.identity.snapshot_ids:
            if id_ in self._refused:
                self._clients.record_return(self._refused[id_].sender)
            if id_ == self._awaited:
                self._awaited = None

    def _is_due(self, id_: int, commit: PendingCommit, now: float) -> bool:
        """Whether an answer may be held no longer: its time is over, its sender does not come back, or its commit came
        again in another request and has another outcome."""
        refused = self._refused.get(id_)
        return refused is None or now >= self._held_until(refused, commit) or not self._clients.returns(refused.sender)

    def _held_ends(self, now: float) -> list[float]:
        """After how many seconds each held answer is due."""
        return [self._held_until(self._refused[id_], commit) - now for id_, commit in self._held.items()]

    def _held_until(self, refused: _Refused, commit: PendingCommit) -> float:
        return min(refused.since + self._max_hold, commit.deadline)

    def _record_landed(self, id_: int, commit: PendingCommit) -> None:
        self._forget(id_)
        if id_ in self._held and commit.outcome is not None:
            # Its client sent it twice. "Refused" would tell the client to delete files that the table may name.
            self._held[id_].decide(commit.outcome)

    def _forget(self, id_: int) -> None:
        self._refused.pop(id_, None)
        if id_ == self._awaited:
            self._awaited = None

    def _stop_waiting(self, now: float, *, keep_awaited: bool = False) -> None:
        if not keep_awaited:
            self._awaited = None
        if self._waiting_since is not None:
            self._budget.spend(self._waiting_since, now)
            self._waiting_since = None


class ReturningClients:
    """Which clients send a commit again after it was refused, of all tables. Safe for threads.

    Some engines never do, and neither does a client that was killed. Waiting for them only delays other writers. The
    server keeps no list of such engines: it judges each sender by what it did lately.

    A sender is what a change says of its origin (`Identity.sender`): the name and version of an engine, and what it
    does.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._misses_in_a_row: OrderedDict[str, int] = OrderedDict()
        self._mutex = runtime.mutex()

    def returns(self, sender: str) -> bool:
        """Whether refused commits of this sender are worth waiting for."""
        with self._mutex:
            return self._misses_in_a_row.get(sender[:_NAME_MAX], 0) < MISSES_MAX

    def record_return(self, sender: str) -> None:
        """This sender sent a refused commit again."""
        with self._mutex:
            self._misses_in_a_row.pop(sender[:_NAME_MAX], None)

    def record_miss(self, sender: str) -> None:
        """This sender did not send a refused commit again in time."""
        name = sender[:_NAME_MAX]
        with self._mutex:
            self._misses_in_a_row[name] = self._misses_in_a_row.get(name, 0) + 1
            self._misses_in_a_row.move_to_end(name)
            while len(self._misses_in_a_row) > SENDERS_MAX:
                self._misses_in_a_row.popitem(last=False)
