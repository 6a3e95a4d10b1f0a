"""Removes lock entries of our own dead writers, while somebody waits behind them.

A writer that was killed leaves its entry behind, held or waiting, and both block the table: until the lease passes, or
for ever where the metastore runs no reaper (apache/iceberg#2301, #9654, #12392). Whoever waits looks at the lock table
now and then. An entry of ours is dead

    at once     when its process ran on this boot of this machine, among the processes that we see, and has ended
    else        when it was not renewed for a whole lease, by our monotonic clock and by the database's clock too:
                our own waiting entry, renewed just before and shown in the same reply, says what time it is there

A dead writer's swap may still be under way, and a paused one's may be sent yet. So an entry is removed only if that
swap compares atomically: its agentInfo says `cas`, or `unproven` (as a process says before its first swap) while all
servers of our list are proven atomic. All else is left to the operator.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from iceberg_hms import forks
from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.entries import Entry, LockEntries
from iceberg_hms.metastore.identity import Holder, has_ended, parse
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.scratch import drop, prove, scratch_name
from iceberg_hms.metastore.verdict import Word

logger = logging.getLogger(__name__)

#: Between two attempts to prove the servers of the list that nothing is known of.
PROOF_INTERVAL_SECONDS = 60.0
#: Entries whose heartbeats are remembered; beyond it those that were not seen for longest are forgotten.
SEEN_MAX = 10_000


@dataclass(slots=True)
class _Sight:
    """heartbeat_ms: what the entry showed, ever since `since` (Runtime.now()). told: it was logged that it stays."""

    heartbeat_ms: int | None
    since: float
    told: bool = False


class StaleEntries:
    """What the waiters of a process know of other entries, and what they do about it.

    interval_seconds: how often each waiter asks show_locks; 0 never.
    """

    def __init__(self, pool: ClientPool, entries: LockEntries, runtime: Runtime, interval_seconds: float) -> None:
        self._pool = pool
        self._entries = entries
        self._runtime = runtime
        self._interval = interval_seconds
        self._seen: OrderedDict[int, _Sight] = OrderedDict()
        self.begin_in_forked_child()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """Keep what was seen, and since when: the clock goes on. What a proof that is under way finds is told to the
        parent alone, so the child may begin one of its own."""
        self._mutex = self._runtime.mutex()
        self._next_proof = self._runtime.now()

    def watch(self, name: TableName, lease_seconds: float) -> Watch:
        """For one who waits for the lock of a table."""
        return Watch(self, self._runtime, name, lease_seconds, self._interval)

    def remove_dead(self, name: TableName, own: Entry, lease_seconds: float) -> int:
        """Look once, and remove what is dead and may be removed. Returns how many. Never raises MetastoreError.

        own: our waiting entry, which was renewed just before.
        """
        sent_at = self._runtime.now()
        try:
            found = self._entries.of(name)
        except MetastoreError as error:
            logger.debug("Looking for dead writers' locks of %s failed: %s", name, error.message)
            return 0
        now_there = next((entry.heartbeat_ms for entry in found if entry.lock_id == own.lock_id), None)
        removed = 0
        for entry in found:
            holder = parse(entry.agent_info)
            if holder is None:
                continue
            unchanged = self._unchanged_seconds(entry, sent_at)
            why = _why_dead(entry, holder, unchanged, now_there, lease_seconds)
            if why:
                removed += self._remove(name, entry, holder, why)
        return removed

    def _unchanged_seconds(self, entry: Entry, sent_at: float) -> float:
        """For how long we know that the entry was not renewed: from the reply that first showed it so to the request
        whose reply shows it now."""
        with self._mutex:
            sight = self._seen.get(entry.lock_id)
            if sight is None or sight.heartbeat_ms != entry.heartbeat_ms:
                sight = self._seen[entry.lock_id] = _Sight(entry.heartbeat_ms, self._runtime.now())
            self._seen.move_to_end(entry.lock_id)
            while len(self._seen) > SEEN_MAX:
                self._seen.popitem(last=False)
            return max(0.0, sent_at - sight.since)

    def _remove(self, name: TableName, entry: Entry, holder: Holder, why: str) -> bool:
        if not self._is_fenced(name, holder):
            self._tell_once(name, entry, why)
            return False
        try:
            self._entries.remove(entry)
        except MetastoreError as error:
            logger.debug("%s could not be removed and is tried again: %s", entry, error.message)
            return False
        logger.warning("Removed %s on %s: %s", entry, name, why)
        return True

    def _is_fenced(self, name: TableName, holder: Holder) -> bool:
        """Whether the holder's swap, if one is under way, compares atomically."""
        if holder.word is not Word.UNPROVEN:
            return holder.word is Word.CAS
        if self._pool.verdicts.all_atomic:
            return True
        if self._pool.verdicts.word is not Word.BLIND:
            self._begin_proof(name.namespace)
        return False

    def _begin_proof(self, namespace: str) -> None:
        # On a thread of its own: a server that is out of reach must not keep a waiter from renewing its entry. Not in
        # the background: a process that ends meanwhile would leave the scratch row behind.
        with self._mutex:
            now = self._runtime.now()
            if now < self._next_proof:
                return
            self._next_proof = now + PROOF_INTERVAL_SECONDS
        self._runtime.spawn("fence-proof", lambda: self._prove(namespace))

    def _prove(self, namespace: str) -> None:
        for uri in self._pool.verdicts.unknown:
            alone = self._pool.only(uri)
            scratch = scratch_name(namespace, self._runtime)
            try:
                proof = alone.run(lambda client, scratch=scratch: prove(client.call, scratch), idempotent=False)  # type: ignore[misc]
                self._pool.verdicts.learned(uri, proof.verdict)
                for problem in proof.problems:
                    logger.info("%s: %s", uri, problem)
                if proof.left_behind:
                    alone.run(lambda client, scratch=scratch: drop(client.call, scratch), idempotent=True)  # type: ignore[misc]
            except MetastoreError as error:
                logger.info("%s could not be proven to compare and swap atomically: %s", uri, error.message)
            finally:
                alone.close()

    def _tell_once(self, name: TableName, entry: Entry, why: str) -> None:
        with self._mutex:
            sight = self._seen.setdefault(entry.lock_id, _Sight(entry.heartbeat_ms, self._runtime.now()))
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


class Watch:
    """One waiter's looks at its table's entries."""

    def __init__(
        self, stale: StaleEntries, runtime: Runtime, name: TableName, lease_seconds: float, interval_seconds: float
    ) -> None:
        self._stale = stale
        self._runtime = runtime
        self._name = name
        self._lease_seconds = lease_seconds
        self._interval = interval_seconds
        self._next_look = runtime.now() + interval_seconds

    def look(self, own: Entry) -> bool:
        """If it is time, remove what is dead; call it after our waiting entry was renewed. True if something was
        removed. Never raises MetastoreError."""
        if not self._interval or self._runtime.now() < self._next_look:
            return False
        removed = self._stale.remove_dead(self._name, own, self._lease_seconds)
        self._next_look = self._runtime.now() + self._interval
        return removed > 0


def _why_dead(entry: Entry, holder: Holder, unchanged: float, now_there_ms: int | None, lease: float) -> str:
    """The reason, in words; "" if it is not known to be dead."""
    if has_ended(holder):
        return f"process {holder.pid} of this machine has ended"
    if entry.heartbeat_ms is None or now_there_ms is None or unchanged < lease:
        return ""
    age = (now_there_ms - entry.heartbeat_ms) / 1000
    return f"it was not renewed for {age:.0f} s, with a lease of {lease:.0f} s" if age >= lease else ""
