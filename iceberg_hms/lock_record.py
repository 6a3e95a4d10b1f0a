"""A lock as operators see it, whichever server keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.clock import instant


@dataclass(frozen=True, slots=True)
class LockRecord:
    """One lock, held or waited for.

    lock_id: what `LockAdmin.break_lock` takes: the metastore's number, or a path in ZooKeeper. keeper: `hms` or
    `zookeeper`.
    table: db.table, or a database. state: ACQUIRED, WAITING... kind: EXCLUSIVE, SHARED_READ...
    agent_info: what the holder says of itself. since_ms: since when the holder has it, or its entry exists.
    heartbeat_ms: when it was last renewed, by the metastore database's clock; None in ZooKeeper, where the end of the
    holder's session ends the lock. seems_dead: why the holder seems to be dead; "" if it does not. It may also be
    paused, or cut off. Such a lock is left to `break_lock` when nothing is known to protect the table from a swap that
    its holder may still send.
    """

    lock_id: str
    keeper: str
    table: str
    state: str
    kind: str
    user: str
    host: str
    agent_info: str
    since_ms: int | None
    heartbeat_ms: int | None
    seems_dead: str = ""

    def __str__(self) -> str:
        return f"lock {self.lock_id} of {self.user or '?'} on {self.host or '?'} ({self.agent_info or 'no agentInfo'})"

    @property
    def described(self) -> str:
        """The same, and since when and how lately, as far as its keeper tells."""
        since = f", since {instant(self.since_ms)}" if self.since_ms else ""
        heartbeat = f", last heartbeat {instant(self.heartbeat_ms)}" if self.heartbeat_ms else ""
        return f"{self}{since}{heartbeat}"
