"""What the groups of a table leave to the next ones."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.own_files import RecentOwnFiles
from iceberg_hms.coordinator.files.replaced_lists import ReplacedLists
from iceberg_hms.coordinator.group.commit_group import GroupResult
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.scheduling.foreign_writer_backoff import ForeignWriterBackoff
from iceberg_hms.coordinator.scheduling.kept_lock import KeptLock
from iceberg_hms.coordinator.scheduling.retry_priority import RetryPriority, ReturningClients
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit

#: How many tables to remember; the one that was committed to longest ago is forgotten first.
TABLES_MAX: Final = 10_000
#: Expect this much more than came back lately, to notice callers that have become faster.
_PROBE_SHARE: Final = 1 / 8
#: After a miss, wait this many groups before probing again; doubles on each miss.
_GROUPS_BETWEEN_PROBES_MIN: Final = 2
_GROUPS_BETWEEN_PROBES_MAX: Final = 64


class BatchingWindow:
    """How many callers a group waits for before it begins: those that the last group of its table answered and that
    commit again at once. Not safe for threads: a table has one worker at a time.

    Clients that send one commit after another come back together. A group that began with the first of them would make
    the others wait for a group of one, or split a table's writers into two halves that wait for each other. But a
    client that writes files before its next commit does not come back in time, and waiting for it delays everyone else.
    So the window learns how many callers come back. Constants here, and in metastore/locks/queue_position.py, made 11 %
    fewer commits with 16 in flight and 8 % fewer with 64 (python -m benchmarks commit --only fresh,many-commits:
    medians of two).
    """

    def __init__(self) -> None:
        #: Of the callers that were answered together, how many came back in time.
        self._returning_share = 1.0
        self._groups_until_probe = 0
        self._groups_after_next_miss = _GROUPS_BETWEEN_PROBES_MIN

    def expected(self, answered: int) -> int:
        """How many of the callers that were just answered are worth waiting for. Follow each call by `record`."""
        if self._groups_until_probe:
            return round(answered * self._returning_share)
        return min(answered, math.ceil(answered * (self._returning_share + _PROBE_SHARE)))

    def record(self, returned: int, expected: int, answered: int) -> None:
        """Of the callers that were answered, `returned` came back in time; the group waited for `expected`."""
        self._returning_share = min(1.0, returned / answered)
        if returned < expected:
            self._groups_until_probe = self._groups_after_next_miss
            self._groups_after_next_miss = min(self._groups_after_next_miss * 2, _GROUPS_BETWEEN_PROBES_MAX)
        elif self._groups_until_probe:
            self._groups_until_probe -= 1
        else:
            self._groups_after_next_miss = _GROUPS_BETWEEN_PROBES_MIN


@dataclass(slots=True)
class TableState:
    """The memory of one table's worker. Only that worker changes it."""

    last_group: GroupResult
    retry_priority: RetryPriority
    kept_lock: KeptLock
    foreign_writer_backoff: ForeignWriterBackoff
    own_files: RecentOwnFiles
    replaced_lists: ReplacedLists
    batching_window: BatchingWindow


class TableStates:
    """The state of each table, from its first commit on, for as many tables as `max_tables`. Safe for threads."""

    def __init__(self, ports: CommitPorts, settings: Settings, *, max_tables: int = TABLES_MAX) -> None:
        self._ports = ports
        self._settings = settings
        self._max_tables = max_tables
        self._mutex = ports.runtime.mutex()
        self._clients = ReturningClients(ports.runtime)
        self._states: OrderedDict[TableName, TableState] = OrderedDict()

    def get(self, name: TableName) -> TableState:
        """A table's state; a new one if the table has none."""
        with self._mutex:
            state = self._states.get(name)
            if state is None:
                state = self._states[name] = self._new(name)
            self._states.move_to_end(name)
            while len(self._states) > self._max_tables:
                self._states.popitem(last=False)
            return state

    def forget(self, name: TableName) -> list[PendingCommit]:
        """Drop a table's state. Returns the refused commits whose answers it held; the caller sends them."""
        with self._mutex:
            state = self._states.pop(name, None)
        return state.retry_priority.release_all() if state is not None else []

    def has_priority(self, name: TableName, commit: PendingCommit) -> bool:
        """Whether a commit was refused before, so that others may be waiting for it."""
        with self._mutex:
            state = self._states.get(name)
        return state is not None and state.retry_priority.times_refused(commit) > 0

    def reset_retry_priority(self, state: TableState) -> list[PendingCommit]:
        """Begin the retry priority of a table anew. Returns as `forget`."""
        held = state.retry_priority.release_all()
        state.retry_priority = RetryPriority(self._settings, self._clients)
        return held

    def _new(self, name: TableName) -> TableState:
        own_files = RecentOwnFiles(self._ports)
        return TableState(
            GroupResult(),
            RetryPriority(self._settings, self._clients),
            KeptLock(self._ports, self._settings, name),
            ForeignWriterBackoff(self._ports, self._settings, name),
            own_files,
            ReplacedLists(self._ports, self._settings, own_files),
            BatchingWindow(),
        )
