"""Removes lock entries of our own dead writers, while somebody waits behind them.

A writer that was killed leaves its entry behind, held or waiting, and both block the table: until the lease passes, or
for ever where the metastore runs no reaper (apache/iceberg#2301, #9654, #12392). Whoever waits looks at the lock table
now and then. An entry of ours is dead

    soon        when its process ran on this boot of this machine, among the processes that we see, and has ended, and
                the entry missed two heartbeats: a process that lives on a clone of this machine would have renewed it
    else        when it was not renewed for a whole lease: the one that it announces, else the server's

Anything less than the server's lease takes three answered looks, with time between them: the one answer that a
metastore kept for long must not outweigh the heartbeats that wait behind it. Time is told by the slowest of our clocks
and by the database's: our own waiting entry, renewed just before and shown in the same reply, says what time it is
there. The holder goes by the same lease, and by the fastest of its clocks, so that it no longer acknowledges anything
when we come to this.

A dead writer's swap may still be under way, and a paused one's may be sent yet. So an entry is removed only if nothing
is sent under it but what compares atomically. One whose agentInfo says `blind` is left to the operator.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.coordinator.protocol.lease_check import heartbeat_seconds
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import LockHolder, has_ended, parse
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry

logger = logging.getLogger(__name__)

#: What an ended process's entry must have missed.
MISSED_BEATS = 2
#: How many answered looks must find an entry silent before less than the server's lease is enough.
LOOKS = 3
#: Into so many parts an announced lease is divided by looks that count, and at least by our looks.
_COUNTED_PARTS, _LOOK_PARTS = LOOKS + 1, 8
#: Entries whose heartbeats are remembered; beyond it those that were not seen for longest are forgotten.
SEEN_MAX = 10_000


@dataclass(slots=True)
class _Sight:
    """heartbeat_ms: what the entry showed, ever since `since`. looks: how many counted; last: when the last of them was
    answered. told: it was logged that it stays."""

    heartbeat_ms: int | None
    since: ClockReading
    last: ClockReading
    looks: int = 1
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An entry of ours as a look showed it. lease_seconds: what it lives by. silent_seconds: for how long it was not
    renewed, as far as we know. looks: how many that counted found it so."""

    entry: LockEntry
    holder: LockHolder
    lease_seconds: float
    silent_seconds: float
    looks: int


class DeadLockReaper:
    """What the waiters of a process know of other entries, and what they do about it.

    interval_seconds: how often each waiter asks show_locks; 0 never.
    is_over: whether the holder of an entry is known to have ended.
    """

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        interval_seconds: float,
        *,
        is_over: Callable[[LockHolder], bool] = has_ended,
    ) -> None:
        self._entries = entries
        self._runtime = runtime
        self._interval = interval_seconds
        self._is_over = is_over
        self._seen: OrderedDict[int, _Sight] = OrderedDict()
        self._mutex = self._runtime.mutex()

    def watch(self, name: TableName, lease_seconds: float) -> LockWatch:
        """For one who waits for the lock of a table."""
        return LockWatch(self, self._runtime, name, lease_seconds, self._interval)

    def remove_dead(self, name: TableName, own: LockEntry, lease_seconds: float) -> int:
        """Look once, and remove what is dead and may be removed. Returns how many. Never raises MetastoreError.

        own: our waiting entry, which was renewed just before.
        """
        sent = self._runtime.read_clocks()
        try:
            found = self._entries.of(name)
        except MetastoreError as error:
            logger.debug("Looking for dead writers' locks of %s failed: %s", name, error.message)
            return 0
        now_there = next((entry.heartbeat_ms for entry in found if entry.lock_id == own.lock_id), None)
        removed = 0
        for suspect in self.saw(found, sent, lease_seconds):
            if why := self._why_dead(suspect, now_there):
                removed += self._remove(name, suspect.entry, suspect.holder, why)
        return removed

    def saw(self, found: Sequence[LockEntry], sent: ClockReading, lease_seconds: float) -> list[_Suspect]:
        """Remember what a look showed, which was sent then and has just been answered; the suspects among
        them: those that one of our processes wrote."""
        answered = self._runtime.read_clocks()
        with self._mutex:
            return [
                self._suspect(entry, holder, holder.lease_seconds or lease_seconds, sent, answered)
                for entry in found
                if (holder := parse(entry.agent_info)) is not None
            ]

    def _suspect(
        self, entry: LockEntry, holder: LockHolder, lease: float, sent: ClockReading, answered: ClockReading
    ) -> _Suspect:
        """An entry is silent from the reply that first showed it so to the request whose reply shows it now, by the
        clock that advanced least. Looks that come soon after another do not count, however long each took."""
        sight = self._seen.get(entry.lock_id)
        if sight is None or sight.heartbeat_ms != entry.heartbeat_ms:
            sight = self._seen[entry.lock_id] = _Sight(entry.heartbeat_ms, answered, answered)
        self._seen.move_to_end(entry.lock_id)
        while len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        if sent.wall < sight.since.wall and sent.running >= sight.since.running:
            # The wall clock was set back: it would take as long until it counts again.
            sight.since = sight.last = sent
        apart = heartbeat_seconds(lease) if holder.lease_seconds is None else lease / _COUNTED_PARTS
        if sent.min_seconds_since(sight.last) >= apart:
            sight.looks += 1
            sight.last = answered
        return _Suspect(entry, holder, lease, sent.min_seconds_since(sight.since), sight.looks)

    def _why_dead(self, suspect: _Suspect, now_there_ms: int | None) -> str:
        """The reason, in words; "" if it is not known to be dead. now_there_ms: the database's time."""
        entry, holder, lease = suspect.entry, suspect.holder, suspect.lease_seconds
        if entry.heartbeat_ms is None or now_there_ms is None:
            return ""
        silent = min(suspect.silent_seconds, (now_there_ms - entry.heartbeat_ms) / 1000)
        looked = suspect.looks >= LOOKS
        if looked and silent >= MISSED_BEATS * heartbeat_seconds(lease) and self._is_over(holder):
            return f"process {holder.pid} of this machine has ended"
        if silent < lease or not (looked or holder.lease_seconds is None):
            return ""
        return f"it was not renewed for {silent:.0f} s, with a lease of {lease:.0f} s"

    def _remove(self, name: TableName, entry: LockEntry, holder: LockHolder, why: str) -> bool:
        if holder.word is SwapProtection.BLIND:
            self._tell_once(name, entry, why)
            return False
        try:
            self._entries.remove(entry)
        except MetastoreError as error:
            logger.debug("%s could not be removed and is tried again: %s", entry, error.message)
            return False
        logger.warning("Removed %s on %s: %s", entry, name, why)
        return True

    def _tell_once(self, name: TableName, entry: LockEntry, why: str) -> None:
        now = self._runtime.read_clocks()
        with self._mutex:
            sight = self._seen.setdefault(entry.lock_id, _Sight(entry.heartbeat_ms, now, now))
            told, sight.told = sight.told, True
        if not told:
            logger.warning(
                "%s on %s is dead (%s), and is left: nothing is known to protect the table from its swap; once that "
                "cannot come any more: `iceberg-hms locks break %d --yes`",
                entry,
                name,
                why,
                entry.lock_id,
            )


class LockWatch:
    """One waiter's looks at its table's entries. interval_seconds: between two; 0: there are none."""

    def __init__(
        self, stale: DeadLockReaper, runtime: Runtime, name: TableName, lease_seconds: float, interval_seconds: float
    ) -> None:
        self._stale = stale
        self._runtime = runtime
        self._name = name
        self._lease_seconds = lease_seconds
        self.interval_seconds = interval_seconds
        self._next_look = runtime.now() + interval_seconds

    def saw(self, found: Sequence[LockEntry], sent: ClockReading) -> None:
        """What the waiter's first look at the queue has just shown: from then on silence counts. Where somebody
        announces a short lease, the looks come often enough for that."""
        if self.interval_seconds:
            suspects = self._stale.saw(found, sent, self._lease_seconds)
            shortest = min((suspect.lease_seconds for suspect in suspects), default=self._lease_seconds)
            self.interval_seconds = min(self.interval_seconds, shortest / _LOOK_PARTS)
            self._next_look = min(self._next_look, self._runtime.now() + self.interval_seconds)

    def look(self, own: LockEntry) -> bool:
        """If it is time, remove what is dead; call it after our waiting entry was renewed. True if something was
        removed. Never raises MetastoreError."""
        if not self.interval_seconds or self._runtime.now() < self._next_look:
            return False
        removed = self._stale.remove_dead(self._name, own, self._lease_seconds)
        self._next_look = self._runtime.now() + self.interval_seconds
        return removed > 0
