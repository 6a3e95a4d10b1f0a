"""A held lock in ZooKeeper: one ephemeral node, which its holder keeps writing until it releases or loses it.

The node lives as long as its session, so a writer that dies is out of the way after the session timeout; that is the
lease. kazoo keeps the session alive by itself; the node is written because success proves that the ensemble, and not
only the server that we talk to, counts our session among the living.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.lease_check import HEARTBEATS_PER_LEASE, LeaseCheck, renew_if_half_expired
from iceberg_hms.coordinator.ports import Pointer, Runtime
from iceberg_hms.errors import LockLost, LockUnavailable
from iceberg_hms.zookeeper.faults import NodeGone
from iceberg_hms.zookeeper.nodes import OwnNode, Swapping
from iceberg_hms.zookeeper.session import SessionState, ZooKeeperSession

logger = logging.getLogger(__name__)


class ZooKeeperHeldLock:
    """coordinator.ports.HeldLock on one node.

    sent: when the last write of it was sent. on_release: called once, after `release` or `let_expire`.
    may_overwrite: whether a metastore server of this process is known not to compare and swap atomically.
    swap_seconds: how long after its writer's session ended a swap may still be made.
    """

    row: Pointer | None = None
    exclusive = True
    behind_foreign_writer = False

    def __init__(
        self,
        session: ZooKeeperSession,
        runtime: Runtime,
        node: OwnNode,
        *,
        sent: ClockReading,
        on_release: Callable[[], None],
        may_overwrite: Callable[[], bool],
        swap_seconds: float,
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._node = node
        self._on_release = on_release
        self._may_overwrite = may_overwrite
        self._swap_seconds = swap_seconds
        self._lease_seconds = session.lease_seconds
        self._mutex = runtime.mutex()
        #: No more heartbeats: it was released, or its session was closed.
        self._over = runtime.event()
        self._released = False
        self._is_marked = self._may_be_marked = False
        #: As the port says, from the first `ensure_held` on.
        self.require_cas = False
        self._cover = LeaseCheck(runtime, self._lease_seconds, node, sent)

    @property
    def lease_seconds(self) -> float:
        """As the port says: the session timeout."""
        return self._lease_seconds

    def start(self) -> None:
        """Begin to write the node from time to time, on a thread of the runtime, until our session is closed at the
        latest."""
        self._session.on_close(self._closed)
        self._runtime.spawn(f"heartbeat {self._node.name}", self._beat, background=True)

    def seconds_since_renewal(self) -> float:
        """As the port says. While the session is SUSPENDED the lock is not renewed, and not lost either: the servers
        keep it for the lease, so a swap that was answered within it was covered."""
        if self._session.epoch != self._node.epoch:
            raise self._cover.mark_lost("ended with its ZooKeeper session, which was lost")
        return self._cover.seconds_since_renewal()

    def ensure_held(self, *, blind: bool = False) -> None:
        """As the port says. Before a swap that may overwrite later commits, a marker in ZooKeeper says so, which
        outlives our session. Without a marker swaps are `require_cas`."""
        self.seconds_since_renewal()
        state = self._session.state
        if state is not SessionState.CONNECTED:
            raise LockLost(f"the ZooKeeper session of {self._node} is {state}")
        try:
            renew_if_half_expired(self)
        except LockUnavailable as error:
            raise LockLost(f"{self._node} could not be renewed: {error.message}") from error
        if not self._is_marked and (blind or self._may_overwrite()):
            self._mark()
        self.require_cas = not self._is_marked

    def _mark(self) -> None:
        self._may_be_marked = True
        try:
            self._session.mark(self._node.marker, Swapping(self._swap_seconds).in_content(self._node.data))
        except LockUnavailable as error:
            raise LockLost(f"{self._node} could not be marked before a swap: {error.message}") from error
        self._is_marked = True
        if self._released:
            # By another thread, which may not have seen the marker.
            self._remove_nodes()
            raise LockLost(f"{self._node} was released")

    def renew(self) -> None:
        """As the port says. Raises LockLost; LockUnavailable while no server answers."""
        if self._released:
            raise LockLost(f"{self._node} was released")
        self.seconds_since_renewal()
        sent = self._runtime.read_clocks()
        try:
            self._session.write(self._node.path, self._node.data)
        except NodeGone:
            raise self._cover.mark_lost("was removed") from None
        self._cover.record_renewal(sent)

    def release(self) -> None:
        with self._mutex:
            if self._released:
                return
            self._released = True
            closed = self._over.is_set()
            self._over.set()
        self._cover.mark_lost("was released")
        self._session.forget_on_close(self._closed)
        try:
            # The nodes ended with their session.
            if not closed:
                self._remove_nodes()
        finally:
            self._on_release()

    def let_expire(self) -> None:
        """As the port says. Our session would keep the node alive, so we remove it when a lease has passed."""
        with self._mutex:
            if self._released:
                return
            self._released = True
            self._over.set()
        self._session.forget_on_close(self._closed)
        self._on_release()
        closed = self._runtime.event()

        def remove_later() -> None:
            if not closed.wait(self._lease_seconds):
                self._session.forget_on_close(closed.set)
                self._remove_nodes()

        self._session.on_close(closed.set)
        try:
            self._runtime.spawn(f"left {self._node.name}", remove_later, background=True)
        except RuntimeError as error:
            logger.warning("%s stays as long as its session: no thread could be started: %s", self._node, error)

    def _remove_nodes(self) -> None:
        node, removed = self._node, False
        try:
            if self._may_be_marked:
                self._session.delete(node.marker)
            self._session.delete(node.path)
            removed = True
        except LockUnavailable as error:
            logger.warning("%s could not be released now; it is removed later: %s", node, error.message)
        finally:
            # After an interrupt too: else the node would stay as long as the session.
            if not removed:
                # The node's whole name is a prefix of itself and of its marker alone.
                self._session.discard(node.folder, node.name)
            if node.lost_prefix is not None:
                self._session.discard(node.folder, node.lost_prefix)

    def _closed(self) -> None:
        """Called when the session is about to be closed."""
        self._cover.mark_lost("ended with its session, which was closed")
        self._over.set()

    def _beat(self) -> None:
        interval = self._lease_seconds / HEARTBEATS_PER_LEASE
        pause = self._cover.until_first_heartbeat(interval)
        while not self._over.wait(pause):
            pause = interval
            try:
                self.renew()
            except LockUnavailable as error:
                if not self._over.is_set():
                    logger.warning("A heartbeat of %s failed: %s", self._node, error.message)
            except LockLost as error:
                if not self._over.is_set():
                    logger.warning("%s", error.message)
                return
