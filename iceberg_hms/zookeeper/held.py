"""A lock in ZooKeeper that is held: one ephemeral node, kept alive by writing it until it is released or lost.

The node lives as long as its session, so a writer that dies is out of the way after the session timeout; that is the
lease. kazoo keeps the session alive by itself; the node is written because success proves that the ensemble, and not
only the server that we talk to, counts our session among the living.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.coordinator.ports import Pointer, Runtime
from iceberg_hms.errors import LockLost, LockUnavailable
from iceberg_hms.zookeeper.faults import NodeGone
from iceberg_hms.zookeeper.nodes import OwnNode
from iceberg_hms.zookeeper.session import Session, SessionState

logger = logging.getLogger(__name__)

#: A lease outlives this many missed heartbeats.
BEATS_PER_LEASE = 10


class ZooKeeperHeldLock:
    """coordinator.ports.HeldLock on one node.

    sent_at: `Runtime.now()` when the last write of it was sent. on_release: called once, after it was given back.
    """

    row: Pointer | None = None
    only_fenced = False
    behind_foreign = False

    def __init__(
        self, session: Session, runtime: Runtime, node: OwnNode, *, sent_at: float, on_release: Callable[[], None]
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._node = node
        self._on_release = on_release
        self._lease_seconds = session.lease_seconds
        self._mutex = runtime.mutex()
        #: No more heartbeats: it was released, or its session was closed.
        self._over = runtime.event()
        self._released = False
        self._covered_since = sent_at
        self._lost = ""

    @property
    def lease_seconds(self) -> float:
        """As the port says: the session timeout."""
        return self._lease_seconds

    def start(self) -> None:
        """Begin to write the node from time to time, on a thread of the runtime, until our session is closed at the
        latest."""
        self._session.on_close(self._closed)
        self._runtime.spawn(f"heartbeat {self._node.name}", self._beat, background=True)

    def covered_since(self) -> float:
        """As the port says. While the session is SUSPENDED the lock is not renewed, and not lost either: the servers
        keep it for the lease, so a swap that was answered within it was covered."""
        with self._mutex:
            since = self._covered_since
        self._check_there()
        if self._runtime.now() - since > self._lease_seconds:
            raise LockLost(f"{self._node} was not renewed for its lease of {self._lease_seconds:.0f} s")
        return since

    def ensure(self) -> None:
        """As the port says."""
        self.covered_since()
        state = self._session.state
        if state is not SessionState.CONNECTED:
            raise LockLost(f"the ZooKeeper session of {self._node} is {state}")
        try:
            keep_covered(self, self._runtime.now())
        except LockUnavailable as error:
            raise LockLost(f"{self._node} could not be renewed: {error.message}") from error

    def renew(self) -> None:
        """As the port says. Raises LockLost; LockUnavailable while no server answers."""
        if self._released:
            raise LockLost(f"{self._node} was released")
        self._check_there()
        sent_at = self._runtime.now()
        try:
            self._session.write(self._node.path, self._node.data)
        except NodeGone:
            raise self._lose("was removed") from None
        with self._mutex:
            self._covered_since = max(self._covered_since, sent_at)

    def release(self) -> None:
        """As the port says."""
        with self._mutex:
            if self._released:
                return
            self._released = True
            closed = self._over.is_set()
            self._over.set()
        self._session.forget_on_close(self._closed)
        try:
            # The end of the session was the end of its nodes.
            if not closed:
                self._give_back()
        finally:
            self._on_release()

    def _give_back(self) -> None:
        node, removed = self._node, False
        try:
            self._session.delete(node.path)
            removed = True
        except LockUnavailable as error:
            logger.warning("%s could not be given back and is removed later: %s", node, error.message)
        finally:
            # After an interrupt too: else the node would stand as long as the session.
            if not removed:
                # The node's whole name is a prefix of itself alone.
                self._session.discard(node.folder, node.name)
            if node.strays is not None:
                self._session.discard(node.folder, node.strays)

    def _check_there(self) -> None:
        """Raises LockLost."""
        with self._mutex:
            lost = self._lost
        if lost:
            raise LockLost(lost)
        if self._session.epoch != self._node.epoch:
            raise LockLost(f"the ZooKeeper session of {self._node} was lost")

    def _lose(self, why: str) -> LockLost:
        with self._mutex:
            self._lost = self._lost or f"{self._node} {why}"
            return LockLost(self._lost)

    def _closed(self) -> None:
        """The session is about to be closed."""
        self._lose("ended with its session, which was closed")
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(self._lease_seconds / BEATS_PER_LEASE):
            try:
                self.renew()
            except LockUnavailable as error:
                if not self._over.is_set():
                    logger.warning("A heartbeat of %s failed: %s", self._node, error.message)
            except LockLost as error:
                if not self._over.is_set():
                    logger.warning("%s", error.message)
                return
