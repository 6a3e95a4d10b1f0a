"""One attempt to get a table's lock, from creating its node until that is the first.

The recipe is ZooKeeper's own (recipes, "Locks"): each waiter watches the node before its own, so that a release wakes
only one. kazoo's Lock has it too, but does not keep the port's contract: its timeout starts anew with each predecessor,
and it waits without end while no server is reachable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from iceberg_hms.clock import ClockReading
from iceberg_hms.coordinator.ports import Runtime, TableName, ThreadEvent
from iceberg_hms.errors import LockNotAcquired, LockUnavailable
from iceberg_hms.lock_waits import LockWait
from iceberg_hms.zookeeper.faults import NodeGone, NoReply
from iceberg_hms.zookeeper.nodes import (
    ROOT,
    OwnNode,
    Swapping,
    folder_of,
    in_order,
    left_swapping,
    prefix_of,
    read_holder,
)
from iceberg_hms.zookeeper.session import ZooKeeperSession

logger = logging.getLogger(__name__)

#: How long a waiter waits before it polls again, if nothing wakes it; seconds.
POLL_INTERVAL_SECONDS = 5.0
#: The same after a request that was not answered.
RETRY_INTERVAL_SECONDS = 0.1
_WAKE_CHECK_SECONDS = 0.25


class LockAttempt:
    """data: the content of our node. deadline: `Runtime.now()` when we give up. closed: set when all waiters must give
    up.
    wait: hears who holds the lock. swap_seconds: as `ZooKeeperHeldLock`."""

    def __init__(
        self,
        session: ZooKeeperSession,
        runtime: Runtime,
        name: TableName,
        data: bytes,
        deadline: float,
        closed: ThreadEvent,
        *,
        wait: LockWait,
        swap_seconds: float,
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._name = name
        self._folder = folder_of(name)
        self._data = data
        self._deadline = deadline
        self._closed = closed
        self._waiting = wait
        self._swap_seconds = swap_seconds
        #: Swap marker that another writer left -> when it was last read.
        self._waited_since: dict[str, ClockReading] = {}
        self._id = runtime.uuid()
        self._wake = runtime.event()
        self._epoch = -1
        self._prefix = ""
        self._node: str | None = None
        self._sent: ClockReading | None = None
        #: A creation was sent: there may be a node.
        self._tried = False
        #: It was not answered: there may be a second one.
        self._may_have_lost_nodes = False

    def run(self) -> tuple[OwnNode, ClockReading]:
        """Wait until our node is the first. Returns it, and when the last write of it was sent.

        Raises LockNotAcquired, and ZooKeeperUnavailable when ZooKeeper is out of reach; then call `withdraw`.
        """
        while True:
            problem: NoReply | None = None
            interval = POLL_INTERVAL_SECONDS
            self._wake = self._runtime.event()
            try:
                if first := self._poll():
                    return self._own(first), self._renewed(first)
            except NodeGone:
                self._node = None
                self._wake.set()
            except NoReply as error:
                # The request may have created a node of ours, or a second one: the next poll shows it.
                self._may_have_lost_nodes = self._tried
                self._node = None
                problem = error
                interval = RETRY_INTERVAL_SECONDS
            remaining = self._deadline - self._runtime.now()
            if remaining <= 0:
                raise problem or LockNotAcquired(f"Timed out waiting for the lock on {self._name}")
            if self._closed.is_set():
                raise LockNotAcquired(f"Gave up waiting for the lock on {self._name}: the catalog is closed")
            self._pause(min(remaining, interval))

    def withdraw(self) -> None:
        """Remove our node, if there is one: now, or as soon as there is a connection. Never raises."""
        if self._tried:
            self._session.discard(self._folder, self._prefix)

    def _poll(self) -> str | None:
        """Our node, if it is the first. If another is before it, `_wake` is set when that goes."""
        self._begin(self._session.connected())
        if self._node is None and self._tried:
            self._node, self._sent = self._find(), None
        if self._node is None:
            self._create()
        names = self._session.children(self._folder)
        row = in_order(names)
        own = [name for name in row if name.startswith(self._prefix)]
        if not own:
            raise NodeGone(f"{self._node} was removed while it waited")
        # Our first node may be one whose creation was not answered, and not the one that we know of.
        position = row.index(own[0])
        if position == 0:
            # Read all markers, so that their times run side by side.
            over = [self._is_over(left) for left in left_swapping(names)]
            return own[0] if all(over) else None
        # A write before the wait does not prove that our session is alive after it.
        self._sent = None
        if not self._session.watch(f"{self._folder}/{row[position - 1]}", self._wake.set):
            self._wake.set()
        self._tell_wait(names)
        return None

    def _tell_wait(self, names: Sequence[str]) -> None:
        """Where the wait takes long, look once who holds the lock."""
        if self._waiting.is_due:
            try:
                self._waiting.saw(read_holder(self._session, self._folder, names))
            except LockUnavailable as error:
                logger.debug("Who holds the lock of %s could not be read: %s", self._name, error.message)

    def _is_over(self, left: str) -> bool:
        """Whether a swap is over that was sent under a lock whose session ended before it was released: only its writer
        removes the marker.

        It gets its full time: its writer may have sent it to a server that our process does not know. Waiters count
        that time and keep it in the marker, since one may leave and another continue."""
        path, since = f"{self._folder}/{left}", self._waited_since.pop(left, None)
        node = self._session.read(path)
        if node is None:
            return True
        marker, now = Swapping.read(node.data, self._swap_seconds), self._runtime.read_clocks()
        waited = marker.waited + (0.0 if since is None else now.min_seconds_since(since))
        if waited >= marker.seconds:
            logger.warning("%s: the swap that its writer sent before its session ended can no longer be made", path)
            self._session.delete(path)
            return True
        self._sent = None
        if since is None:
            logger.warning(
                "The session of a writer of %s ended while its swap was under way. The swap may overwrite later "
                "commits, so nobody writes to the table for %.0f s. Once no metastore works on the swap: "
                "`iceberg-hms locks break %s --yes`",
                self._name,
                marker.seconds - waited,
                path.removeprefix(f"{ROOT}/"),
            )
        else:
            self._session.write(path, replace(marker, waited=waited).in_content(node.data))
        if not self._session.watch(path, self._wake.set):
            self._wake.set()
        self._waited_since[left] = now
        return False

    def _begin(self, epoch: int) -> None:
        """Start over if the session is new: the old one's nodes are gone. But a request that was under way when the old
        session ended may have made a node in the new one. It has the old name, so we do not count it as ours, and
        remove it."""
        if epoch == self._epoch:
            return
        self.withdraw()
        self._epoch = epoch
        self._prefix = prefix_of(self._id, epoch)
        self._node = None
        self._sent = None
        self._tried = False
        self._may_have_lost_nodes = False

    def _create(self) -> None:
        self._tried = True
        sent = self._runtime.read_clocks()
        self._node = self._session.create(self._folder, self._prefix, self._data)
        self._sent = sent

    def _find(self) -> str | None:
        row = in_order(self._session.children(self._folder))
        return next((name for name in row if name.startswith(self._prefix)), None)

    def _renewed(self, name: str) -> ClockReading:
        """When the creation was sent, if it was answered and nobody was before us; else write the node now."""
        if self._sent is not None:
            return self._sent
        sent = self._runtime.read_clocks()
        self._session.write(f"{self._folder}/{name}", self._data)
        return sent

    def _own(self, name: str) -> OwnNode:
        lost_prefix = self._prefix if self._may_have_lost_nodes else None
        return OwnNode(self._folder, name, self._data, self._epoch, lost_prefix)

    def _pause(self, seconds: float) -> None:
        """Wait until `_wake` is set, for at most `seconds`, or until we are closed."""
        until = self._runtime.now() + seconds
        while not self._closed.is_set() and (remaining := until - self._runtime.now()) > 0:
            if self._wake.wait(min(remaining, _WAKE_CHECK_SECONDS)):
                return
