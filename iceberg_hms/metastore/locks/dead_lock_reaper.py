"""Removes lock entries of our own dead writers while somebody waits behind them.

A writer that was killed leaves its entry behind, acquired or waiting, and both block the table: until the lease ends,
or for ever where the metastore runs no reaper (apache/iceberg#2301, #9654, #12392). So waiters poll the lock table now
and then. An entry of ours is dead when it was not renewed for a whole lease: the one that it announces, else the
server's. That its process seems to have ended counts for nothing: the process may live on a clone of this machine, and
have missed no more heartbeats than its lease outlives.

An announced lease takes three answered polls, with time between them: one answer that a metastore kept for long must
not outweigh the heartbeats that wait behind it. Time counts by the slowest of our clocks, and by the
database's clock, which our own waiting entry shows: it was renewed just before, and is in the same reply. The holder
goes by the same lease and by the fastest of its clocks, so it no longer acknowledges anything when we remove its entry.

A dead writer's swap may still be under way, and a paused writer may still send one. So an entry is removed only if
everything that is sent under it compares atomically. One whose agentInfo says `blind` is left to the operator.

That protects a waiter whose own swap compares too. One that knows of a server that does not, behind the same address
or on the list, would overwrite such a late swap if that arrived between its look and its own. To that waiter an
announced lease is no shorter than the server's, also when it was removed as a writer that did not know better.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import LockHolder, parse
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry

logger = logging.getLogger(__name__)

#: How many answered polls must find an entry silent before an announced lease is enough.
POLLS: Final = 3
#: An announced lease is divided into so many parts by the polls that count, and into at least so many by all polls.
_COUNTED_PARTS: Final = POLLS + 1
_POLL_PARTS: Final = 8
#: Entries whose heartbeats are remembered; beyond it those that were not seen for longest are forgotten.
REMEMBERED_MAX: Final = 10_000


@dataclass(slots=True)
class _Observation:
    """heartbeat_ms: what the entry has shown ever since `since`. polls: how many counted; last: when the last of them
    was answered. reported: it was logged that the entry stays."""

    heartbeat_ms: int | None
    since: ClockReading
    last: ClockReading
    polls: int = 1
    reported: bool = False


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An entry of ours as a poll showed it. lease_seconds: what it lives by. silent_seconds: for how long it was not
    renewed, as far as we know. polls: how many that counted found it so."""

    entry: LockEntry
    holder: LockHolder
    lease_seconds: float
    silent_seconds: float
    polls: int


class DeadLockReaper:
    """What the waiters of a process know of other entries, and what they do about it.

    interval_seconds: how often each waiter polls show_locks; 0: never.
    """

    def __init__(self, entries: LockEntries, runtime: Runtime, interval_seconds: float) -> None:
        self._entries = entries
        self._runtime = runtime
        self._interval = interval_seconds
        self._observed: OrderedDict[int, _Observation] = OrderedDict()
        #: Since when all entries were silent that were removed from a table.
        self._removed: OrderedDict[TableName, ClockReading] = OrderedDict()
        self._mutex = self._runtime.mutex()

    def watch(self, name: TableName, lease_seconds: float, *, may_overwrite: bool) -> LockWatch:
        """The checks of one writer that waits for the lock of a table. lease_seconds: the server's. may_overwrite: its
        swap may meet a server that is known not to compare it atomically."""
        return LockWatch(self, self._runtime, name, lease_seconds, self._interval, may_overwrite=may_overwrite)

    def seconds_until_expired(self, name: TableName, lease_seconds: float) -> float:
        """How long until the server's lease has passed for every entry that this process removed from a table; 0 if it
        has."""
        with self._mutex:
            silent_since = self._removed.get(name)
        if silent_since is None:
            return 0.0
        return max(0.0, lease_seconds - self._runtime.read_clocks().min_seconds_since(silent_since))

    def remove_dead(self, name: TableName, own: LockEntry, lease_seconds: float, *, may_overwrite: bool = False) -> int:
        """Poll once, and remove what is dead and may be removed. Returns how many. Raises no MetastoreError.

        own: our waiting entry, which was renewed just before. The rest: see `watch`.
        """
        sent = self._runtime.read_clocks()
        try:
            found = self._entries.of(name)
        except MetastoreError as error:
            logger.debug("Searching for dead writers' locks of %s failed: %s", name, error.message)
            return 0
        database_ms = next((entry.heartbeat_ms for entry in found if entry.lock_id == own.lock_id), None)
        removed = 0
        for suspect in self.observe(found, sent, lease_seconds, may_overwrite=may_overwrite):
            if reason := self._why_dead(suspect, database_ms):
                removed += self._remove(name, suspect.entry, suspect.holder, reason)
        return removed

    def observe(
        self, found: Sequence[LockEntry], sent: ClockReading, lease_seconds: float, *, may_overwrite: bool = False
    ) -> list[_Suspect]:
        """Remember what a poll showed, which was sent then and has just been answered. Returns the suspects among the
        entries: those that one of our processes wrote. The rest: see `watch`."""
        answered = self._runtime.read_clocks()
        shortest = lease_seconds if may_overwrite else 0.0
        with self._mutex:
            return [
                self._suspect(entry, holder, max(holder.lease_seconds or lease_seconds, shortest), sent, answered)
                for entry in found
                if (holder := parse(entry.agent_info)) is not None
            ]

    def _suspect(
        self, entry: LockEntry, holder: LockHolder, lease: float, sent: ClockReading, answered: ClockReading
    ) -> _Suspect:
        """An entry is silent from the reply that first showed it so to the request whose reply shows it now, by the
        clock that advanced least. Polls that come soon after another do not count, however long each took."""
        seen = self._observed.get(entry.lock_id)
        if seen is None or seen.heartbeat_ms != entry.heartbeat_ms:
            seen = self._observed[entry.lock_id] = _Observation(entry.heartbeat_ms, answered, answered)
        self._observed.move_to_end(entry.lock_id)
        while len(self._observed) > REMEMBERED_MAX:
            self._observed.popitem(last=False)
        if sent.wall < seen.since.wall and sent.running >= seen.since.running:
            # The wall clock was set back: without this it would take as long until silence counts again.
            seen.since = seen.last = sent
        if sent.min_seconds_since(seen.last) >= lease / _COUNTED_PARTS:
            seen.polls += 1
            seen.last = answered
        return _Suspect(entry, holder, lease, sent.min_seconds_since(seen.since), seen.polls)

    def _why_dead(self, suspect: _Suspect, database_ms: int | None) -> str:
        """Why an entry is dead; "" if that is not known. database_ms: the time by the database's clock."""
        entry, holder, lease = suspect.entry, suspect.holder, suspect.lease_seconds
        if entry.heartbeat_ms is None or database_ms is None:
            return ""
        silent = min(suspect.silent_seconds, (database_ms - entry.heartbeat_ms) / 1000)
        if silent < lease or not (suspect.polls >= POLLS or holder.lease_seconds is None):
            return ""
        return f"it was not renewed for {silent:.0f} s, with a lease of {lease:.0f} s"

    def _remove(self, name: TableName, entry: LockEntry, holder: LockHolder, reason: str) -> bool:
        if holder.protection is SwapProtection.BLIND:
            self._report_once(name, entry, reason)
            return False
        try:
            self._entries.remove(entry)
        except MetastoreError as error:
            logger.debug("Removing %s failed and is repeated: %s", entry, error.message)
            return False
        logger.warning("Removed %s on %s: %s", entry, name, reason)
        self._record_removal(name, entry)
        return True

    def _record_removal(self, name: TableName, entry: LockEntry) -> None:
        with self._mutex:
            seen = self._observed.get(entry.lock_id)
            silent_since = self._runtime.read_clocks() if seen is None else seen.since
            self._removed[name] = max(silent_since, self._removed.pop(name, silent_since))
            while len(self._removed) > REMEMBERED_MAX:
                self._removed.popitem(last=False)

    def _report_once(self, name: TableName, entry: LockEntry, reason: str) -> None:
        now = self._runtime.read_clocks()
        with self._mutex:
            seen = self._observed.setdefault(entry.lock_id, _Observation(entry.heartbeat_ms, now, now))
            reported, seen.reported = seen.reported, True
        if not reported:
            logger.warning(
                "%s on %s is dead (%s), but is not removed, since nothing is known to protect the table from its "
                "swap. Once that swap can no longer arrive: `iceberg-hms locks break %d --yes`",
                entry,
                name,
                reason,
                entry.lock_id,
            )


class LockWatch:
    """One waiter's polls of its table's entries. interval_seconds: between two; 0: never. The rest: see
    `DeadLockReaper.watch`."""

    def __init__(
        self,
        reaper: DeadLockReaper,
        runtime: Runtime,
        name: TableName,
        lease_seconds: float,
        interval_seconds: float,
        *,
        may_overwrite: bool,
    ) -> None:
        self._reaper = reaper
        self._runtime = runtime
        self._name = name
        self._lease_seconds = lease_seconds
        self._may_overwrite = may_overwrite
        self.interval_seconds = interval_seconds
        self._next_poll = runtime.now() + interval_seconds

    def observe(self, found: Sequence[LockEntry], sent: ClockReading) -> None:
        """Take note of the waiter's first poll of the queue: silence counts from then on. Where an entry announces a
        short lease, the polls come often enough for that."""
        if self.interval_seconds:
            suspects = self._reaper.observe(found, sent, self._lease_seconds, may_overwrite=self._may_overwrite)
            shortest = min((suspect.lease_seconds for suspect in suspects), default=self._lease_seconds)
            self.interval_seconds = min(self.interval_seconds, shortest / _POLL_PARTS)
            self._next_poll = min(self._next_poll, self._runtime.now() + self.interval_seconds)

    def remove_dead_if_due(self, own: LockEntry) -> bool:
        """If it is time, remove what is dead. Call it after our waiting entry was renewed. True if something was
        removed. Raises no MetastoreError."""
        if not self.interval_seconds or self._runtime.now() < self._next_poll:
            return False
        removed = self._reaper.remove_dead(self._name, own, self._lease_seconds, may_overwrite=self._may_overwrite)
        self._next_poll = self._runtime.now() + self.interval_seconds
        return removed > 0
