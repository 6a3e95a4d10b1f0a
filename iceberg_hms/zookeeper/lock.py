"""The TableLock port in ZooKeeper: one folder a table, one ephemeral node for each writer; the first has the lock."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_hms.coordinator.ports import LockUse, Runtime, TableName
from iceberg_hms.errors import LockNotAcquired, LockUnavailable
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.lock_waits import LockWaits
from iceberg_hms.zookeeper.attempt import LockAttempt
from iceberg_hms.zookeeper.held import ZooKeeperHeldLock
from iceberg_hms.zookeeper.nodes import ROOT, content, folder_of, read_folder
from iceberg_hms.zookeeper.session import ZooKeeperSession

#: How long `close` waits for those that wait for a lock, or hold one.
CLOSE_SECONDS = 10.0
_CLOSE_CHECK_SECONDS = 0.01


class ZooKeeperTableLock:
    """coordinator.ports.TableLock in ZooKeeper, and locking.lock_admin.LockKeeper.

    agent_info: the text that says who we are, from a request; raises InvalidInput for a malformed one.
    may_overwrite: as `ZooKeeperHeldLock`, for a database. swap_seconds: as there.
    waits: hears who holds the locks that the process waits for.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        runtime: Runtime,
        *,
        agent_info: Callable[[str], str],
        user: str,
        host: str,
        may_overwrite: Callable[[str], bool],
        swap_seconds: float,
        waits: LockWaits | None = None,
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._agent_info = agent_info
        self._user = user
        self._host = host
        self._may_overwrite = may_overwrite
        self._swap_seconds = swap_seconds
        self._waits = waits or LockWaits(runtime)
        self._closed = runtime.event()
        self._mutex = self._runtime.mutex()
        self._in_use = 0

    def acquire(
        self,
        name: TableName,
        *,
        wait_seconds: float,
        request: str,
        use: LockUse = LockUse.BLIND,  # noqa: ARG002 - the session decides how long a lock lives
    ) -> ZooKeeperHeldLock:
        """As the port says. LockUnavailable: ZooKeeper is unreachable."""
        data = content(self._agent_info(request), self._user, self._host)
        if self._closed.is_set():
            raise LockUnavailable("The catalog is closed", next_step="connect again")
        deadline = self._runtime.now() + wait_seconds
        wait = self._waits.begin(name)
        attempt = LockAttempt(
            self._session,
            self._runtime,
            name,
            data,
            deadline,
            self._closed,
            wait=wait,
            swap_seconds=self._swap_seconds,
        )
        held = None
        self._count(1)
        try:
            held = self._held(attempt, name.namespace)
        except LockNotAcquired as error:
            if self._closed.is_set():
                raise
            waited = f"Timed out after {round(wait_seconds, 1):g} s waiting for the lock on {name}"
            raise LockNotAcquired(f"{waited}{self._holder(name)}") from error
        finally:
            if held is None:
                attempt.withdraw()
                self._count(-1)
        wait.ended()
        return held

    def entries(self, name: TableName | None = None) -> list[LockRecord]:
        """As the protocol says, the holder of each first."""
        self._session.connected()
        if name is not None:
            return read_folder(self._session, folder_of(name))
        folders = sorted(self._session.children(ROOT))
        return [entry for folder in folders for entry in read_folder(self._session, f"{ROOT}/{folder}")]

    def remove(self, lock_id: str) -> None:
        self._session.connected()
        self._session.delete(f"{ROOT}/{lock_id}")

    def close(self) -> None:
        """Let waiters give up, wait for holders to release their locks, and end the session, which ends the locks that
        are still held. Waits no longer than CLOSE_SECONDS."""
        self._closed.set()
        deadline = self._runtime.now() + CLOSE_SECONDS
        while self._in_use > 0 and self._runtime.now() < deadline:
            self._runtime.sleep(_CLOSE_CHECK_SECONDS)
        self._session.close()

    def _held(self, attempt: LockAttempt, namespace: str) -> ZooKeeperHeldLock:
        node, sent = attempt.run()
        held = ZooKeeperHeldLock(
            self._session,
            self._runtime,
            node,
            sent=sent,
            on_release=lambda: self._count(-1),
            may_overwrite=lambda: self._may_overwrite(namespace),
            swap_seconds=self._swap_seconds,
        )
        held.start()
        return held

    def _count(self, change: int) -> None:
        with self._mutex:
            self._in_use += change

    def _holder(self, name: TableName) -> str:
        try:
            found = self.entries(name)
        except LockUnavailable:
            return ""
        return f" (held by {found[0].described})" if found else ""
