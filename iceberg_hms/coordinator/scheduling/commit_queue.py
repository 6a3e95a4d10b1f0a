"""One table's queue: bounded in count and bytes, in order of arrival, commits with retry priority first.

A queue exists as long as its worker runs: from the first commit until the worker finds it empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwaps
from iceberg_hms.coordinator.ports import CommitPorts, TableName, ThreadEvent
from iceberg_hms.coordinator.scheduling.retry_priority import RetryPriority
from iceberg_hms.coordinator.scheduling.table_state import BatchingWindow, TableState, TableStates
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import QueueFull

logger = logging.getLogger(__name__)

#: How long a blocked queue waits for a caller whose time is over to withdraw its commit by itself.
_WITHDRAWAL_SECONDS: Final = 0.1


class CommitQueue:
    """The commits that wait for one table.

    sent: the swaps of this process: nothing is sent while one may be made over it.
    mutex: guards all queues of a coordinator; `add` and `commits` are called with it.
    end: called with the mutex when the worker finds the queue empty; no commit is added afterwards.
    """

    def __init__(
        self,
        name: TableName,
        ports: CommitPorts,
        settings: Settings,
        states: TableStates,
        sent: SentSwaps,
        mutex: AbstractContextManager[Any],
        end: Callable[[], None],
    ) -> None:
        self._name = name
        self._ports = ports
        self._settings = settings
        self._states = states
        self._sent = sent
        self._mutex = mutex
        self._end = end
        #: Each with its size in bytes.
        self._waiting: list[tuple[PendingCommit, int]] = []
        self._bytes = 0
        #: Set when as many commits as `_wanted` are here, while the worker waits for that.
        self._arrival: ThreadEvent | None = None
        self._wanted = 1

    def add(self, commit: PendingCommit, size: int) -> None:
        """Queue a commit of so many bytes. A commit with retry priority always has a place: there are few of them
        (`retry_priority.REFUSED_MAX`). Raises QueueFull."""
        if self._limit_reached(size) and not self._states.has_priority(self._name, commit):
            self._drop_withdrawn()
            if reached := self._limit_reached(size):
                raise QueueFull(f"{reached} are waiting for {self._name}")
        self._waiting.append((commit, size))
        self._bytes += size
        if self._arrival is not None and len(self._waiting) >= self._wanted:
            self._arrival.set()

    def commits(self) -> list[PendingCommit]:
        """The commits that wait, in order of arrival."""
        return [commit for commit, _ in self._waiting]

    def next_group(self, state: TableState) -> list[PendingCommit]:
        """Wait until commits may be sent, and take the next group. An empty group ends the queue."""
        try:
            return self._wait_and_take(state)
        except Exception:
            logger.exception("retry priority on %s failed: its commits go on as they came; %s", self._name, REPORT)
        state.kept_lock.give_back(state.kept_lock.detach())
        with self._mutex:
            held = self._states.reset_retry_priority(state)
            group = self._take_group(state.retry_priority)
        for commit in held:
            commit.answer()
        return group

    def wait_for_returning_callers(self, window: BatchingWindow, answered: int, since: float) -> None:
        """After a group of `answered` commits: wait, for a bounded time, for their callers to commit again.

        since: when the first of them was answered, by `Runtime.now()`; some may be back already."""
        expected = window.expected(answered)
        with self._mutex:
            others = sum(commit.started < since for commit, _ in self._waiting)
            arrival = self._arrival = self._ports.runtime.event()
            self._wanted = min(others + expected, self._settings.group_max_changes)
            if len(self._waiting) >= self._wanted:
                arrival.set()
        try:
            arrival.wait(self._settings.batching_window_ms / 1000)
        finally:
            with self._mutex:
                self._arrival, self._wanted = None, 1
                returned = len(self._waiting) - others
        window.record(returned, expected, answered)

    def _wait_and_take(self, state: TableState) -> list[PendingCommit]:
        runtime, priority, kept_lock = self._ports.runtime, state.retry_priority, state.kept_lock
        waiting_since: float | None = None
        while True:
            with self._mutex:
                self._arrival = None
                self._drop_withdrawn()
                commits, now = self.commits(), runtime.now()
                ready_in, kept_for = kept_lock.ready_in(now), kept_lock.remaining_seconds(now)
                needs_lock = kept_lock.is_wanted(now)
                # The lock is for the one that is back, before another one may be sent for.
                is_busy = needs_lock and any(map(priority.times_refused, commits))
                due = priority.answers_due(commits, now, may_await=not (ready_in or is_busy))
                priority_wait = priority.seconds_to_wait(commits, now, may_await_in=ready_in)
                blocked = _seconds_blocked(commits, now, self._sent.blocked_until(self._name))
                wait = max(priority_wait, blocked, 0.0 if commits else kept_for)
                takes_lock = needs_lock and priority.awaits_one_of(due) and (priority_wait > 0 or not commits)
                # A group takes the lock that is kept, if there is one.
                over = None if kept_for or (commits and wait <= 0) else kept_lock.detach()
                ends = wait <= 0 and not takes_lock
                if ends:
                    # In the same critical section: a commit that arrives after this check must not overtake one with
                    # retry priority.
                    group = self._take_group(priority)
                else:
                    arrival = self._arrival = runtime.event()
            kept_lock.give_back(over)
            if takes_lock:
                kept_lock.acquire()
                priority.restart_wait(runtime.now())
            for commit in due:
                commit.answer()
            if ends:
                break
            if takes_lock:
                # Commits may have come meanwhile.
                continue
            if commits and priority_wait > 0 and waiting_since is None:
                waiting_since = now
            arrival.wait(min(wait, kept_for) if kept_for else wait)
        if waiting_since is not None:
            with log_and_continue(f"telling listeners of {self._name}", REPORT):
                seconds = runtime.now() - waiting_since
                self._ports.events.publish({"event": "retry-priority-wait", "table": self._name, "seconds": seconds})
        return group

    def _take_group(self, priority: RetryPriority) -> list[PendingCommit]:
        """Called with the mutex."""
        self._waiting.sort(key=lambda entry: -priority.times_refused(entry[0]))
        taken = self._waiting[: self._settings.group_max_changes]
        self._waiting = self._waiting[self._settings.group_max_changes :]
        self._bytes -= sum(size for _, size in taken)
        if not taken:
            self._end()
        return [commit for commit, _ in taken]

    def _drop_withdrawn(self) -> None:
        """Remove commits whose callers have left."""
        withdrawn = [entry for entry in self._waiting if entry[0].withdrawn]
        if withdrawn:
            self._waiting = [entry for entry in self._waiting if not entry[0].withdrawn]
            self._bytes -= sum(size for _, size in withdrawn)

    def _limit_reached(self, size: int) -> str:
        """What fills the queue, so that a commit of `size` bytes has no room; empty if it has."""
        if len(self._waiting) >= self._settings.queue_max_changes:
            return f"{len(self._waiting)} commits"
        if self._waiting and self._bytes + size > self._settings.queue_max_bytes:
            return f"{self._bytes} bytes of commits"
        return ""


def _seconds_blocked(commits: Sequence[PendingCommit], now: float, until: float) -> float:
    """How long to wait until a time, but no longer than any of the callers."""
    if not commits or now >= until:
        return 0.0
    return max(_WITHDRAWAL_SECONDS, min(until, max(commit.deadline for commit in commits)) - now)
