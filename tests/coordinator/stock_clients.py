"""Stock clients that append to one table at the same time, and a server that rebases nothing, in simulated time. Of the
server it has only the order in which it takes commits and answers them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.coordinator.outcome.outcome import Failed
from iceberg_hms.errors import RequirementFailed

LOST = Failed(RequirementFailed("assert-ref-snapshot-id", "branch main has changed"))
#: `commit.retry.num-retries` and `commit.retry.min-wait-ms` of Java and PyIceberg; the wait doubles each time.
RETRIES = 4
WAIT_SECONDS = 0.1
#: What a client takes from reading the table until its commit is sent, and the server for a group.
BUILD_SECONDS = (0.02, 0.06)
GROUP_SECONDS = (0.02, 0.03)


class Queued:
    """A commit as retry priority sees one. base: the head that its client read."""

    def __init__(self, *ids: int, outcome: Any = None, sender: str = "engine", base: int = 0) -> None:
        self.change = self
        self.identity = ChangeIdentity(snapshot_ids=ids, sender=sender)
        self.outcome = outcome
        self.base = base
        self.deadline = float("inf")
        self.attempts = 0
        self.client = 0

    def decide(self, outcome: Any) -> None:
        self.outcome = outcome


@dataclass
class Outcomes:
    """What became of all appends. losses: how often each that landed was refused before. refused: how many gave up."""

    losses: list[int] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0


class SimulatedServer:
    """slow: a factor for all durations but the clients' own waits."""

    def __init__(self, priority: Any, *, clients: int, appends: int, seed: int, slow: float) -> None:
        self._priority = priority
        self._luck = random.Random(seed)
        self._slow = slow
        self._left = dict.fromkeys(range(clients), appends)
        self._ids: Iterator[int] = count(1)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._now = 0.0
        self._head = 0
        self._queue: list[Queued] = []
        self._is_busy = False
        self.outcomes = Outcomes()

    def run(self) -> Outcomes:
        for client in self._left:
            self._begin(client, self._head)
        while self._events:
            self._now, _, happens = heapq.heappop(self._events)
            happens()
        return self.outcomes

    def _after(self, seconds: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._order), happens))

    def _takes(self, seconds: tuple[float, float]) -> float:
        return self._slow * self._luck.uniform(*seconds)

    def _begin(self, client: int, base: int) -> None:
        if self._left[client]:
            self._left[client] -= 1
            commit = Queued(next(self._ids), base=base)
            commit.client = client
            self._after(self._takes(BUILD_SECONDS), lambda: self._send(commit))

    def _send(self, commit: Queued) -> None:
        self._queue.append(commit)
        self._work()

    def _work(self) -> None:
        """As `CommitQueue.next_group` does."""
        if self._is_busy:
            return
        due = self._priority.answers_due(self._queue, self._now)
        wait = self._priority.seconds_to_wait(self._queue, self._now)
        for commit in due:
            self._answer(commit)
        if wait > 0:
            self._after(wait + 1e-6, self._work)
        elif self._queue:
            group = sorted(self._queue, key=lambda commit: -self._priority.times_refused(commit))
            self._queue, self._is_busy = [], True
            self._after(self._takes(GROUP_SECONDS), lambda: self._commit(group))

    def _commit(self, group: list[Queued]) -> None:
        self._is_busy = False
        for commit in group:
            lands = commit.base == self._head
            commit.outcome = None if lands else LOST
            self._head += lands
        for commit in group:
            if not self._priority.record_outcome(commit, self._now):
                self._answer(commit)
        self._work()

    def _answer(self, commit: Queued) -> None:
        self.outcomes.seconds = self._now
        if commit.outcome is None:
            self.outcomes.losses.append(commit.attempts)
            self._begin(commit.client, self._head)
        elif commit.attempts == RETRIES:
            self.outcomes.refused += 1
            self._begin(commit.client, self._head)
        else:
            wait = WAIT_SECONDS * 2**commit.attempts * self._luck.uniform(1.0, 1.1)
            commit.attempts += 1
            self._after(wait, lambda: self._read(commit))

    def _read(self, commit: Queued) -> None:
        commit.base = self._head
        self._after(self._takes(BUILD_SECONDS), lambda: self._send(commit))
