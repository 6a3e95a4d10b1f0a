"""The TableLock port in ZooKeeper: ephemeral sequential nodes, one folder a table; the first in the row has the lock.

The recipe is ZooKeeper's own (recipes, "Locks"): each waiter watches the node before its own, so that a release wakes
one. A node's name begins with an id of its attempt, so that it is found when the reply to its creation was lost: the
trick is Curator's ("protection"), as is the word SUSPENDED. kazoo's Lock has it too, but not what the port asks: its
waits begin anew with each predecessor, and it waits without end while no server is there.

A node lives as long as its session, so a writer that dies is out of the way after the session timeout; that is the
lease. It is renewed by writing the node.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote

import orjson

from iceberg_hms.coordinator.ports import Event, Runtime, TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable
from iceberg_hms.zookeeper.faults import NodeGone, NoReply
from iceberg_hms.zookeeper.session import Node, SessionState

logger = logging.getLogger(__name__)

#: Below it is one folder a table, named db.table.
ROOT = "/iceberg-hms/locks"
#: A lease outlives this many missed heartbeats.
BEATS_PER_LEASE = 10
#: A waiter looks again after so long, even if nothing wakes it.
LOOK_INTERVAL_SECONDS = 5.0
#: The same after a request that was not answered.
RETRY_INTERVAL_SECONDS = 0.1
#: How long `close` waits for those that wait for a lock, or hold one.
CLOSE_SECONDS = 10.0
_CLOSE_CHECK_SECONDS = 0.01
_WAKE_CHECK_SECONDS = 0.25

# Ten places of a signed counter, which goes on below zero after 2**31 nodes of one folder.
_NUMBERED = re.compile(r"-lock-(\d{10}|-\d{9,10})$")


class Session(Protocol):
    """What locks ask of ZooKeeper: `session.ZooKeeperSession`, which says what each is. All may raise NoReply and
    ZooKeeperUnavailable, except discard, epoch and state."""

    @property
    def state(self) -> SessionState: ...

    @property
    def epoch(self) -> int: ...

    @property
    def lease_seconds(self) -> float: ...

    def connected(self) -> int: ...

    def create(self, folder: str, prefix: str, data: bytes) -> str: ...

    def children(self, folder: str) -> Sequence[str]: ...

    def watch(self, path: str, changed: Callable[[], None]) -> bool: ...

    def read(self, path: str) -> Node | None: ...

    def write(self, path: str, data: bytes) -> None: ...

    def delete(self, path: str) -> None: ...

    def discard(self, folder: str, prefix: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LockNode:
    """One lock of a table, or one that waits. lock_id: the node's path below ROOT, `db.table/name`."""

    lock_id: str
    table: TableName
    acquired: bool
    agent_info: str
    user: str
    host: str
    since_ms: int

    def __str__(self) -> str:
        return f"lock {self.lock_id} of {self.user or '?'} on {self.host or '?'} ({self.agent_info or 'no agentInfo'})"


class ZooKeeperTableLock:
    """coordinator.ports.TableLock in ZooKeeper.

    agent_info: makes the text that tells who we are from a request; raises InvalidInput for a malformed one.
    """

    def __init__(
        self, session: Session, runtime: Runtime, *, agent_info: Callable[[str], str], user: str, host: str
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._agent_info = agent_info
        self._user = user
        self._host = host
        self._mutex = runtime.mutex()
        self._closed = runtime.event()
        self._in_use = 0

    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> ZooKeeperHeldLock:
        """As the port says. LockUnavailable: ZooKeeper is out of reach."""
        agent_info = self._agent_info(request)
        if self._closed.is_set():
            raise LockUnavailable("The catalog is closed", next_step="connect again")
        data = orjson.dumps({"agentInfo": agent_info, "user": self._user, "host": self._host})
        deadline = self._runtime.now() + wait_seconds
        attempt = _Attempt(self._session, self._runtime, name, data, deadline, self._closed)
        held = None
        self._count(1)
        try:
            held = attempt.run(on_release=lambda: self._count(-1))
        except LockNotAcquired as error:
            raise LockNotAcquired(error.message + self._holder(name)) from None
        finally:
            if held is None:
                attempt.withdraw()
                self._count(-1)
        held.start()
        return held

    def entries(self, name: TableName | None = None) -> list[LockNode]:
        """The locks of a table, or of all tables, the holder first. Raises LockUnavailable."""
        self._session.connected()
        folders = [_folder_name(name)] if name is not None else sorted(self._session.children(ROOT))
        return [entry for folder in folders for entry in self._entries(folder)]

    def remove(self, lock_id: str) -> None:
        """Take a lock away from whoever holds it or waits for it. Raises LockUnavailable."""
        self._session.connected()
        self._session.delete(f"{ROOT}/{lock_id}")

    def close(self) -> None:
        """Let those that wait give up, wait for those that hold a lock to release it, and end the session."""
        self._closed.set()
        deadline = self._runtime.now() + CLOSE_SECONDS
        while self._in_use and self._runtime.now() < deadline:
            self._runtime.sleep(_CLOSE_CHECK_SECONDS)
        self._session.close()

    def _count(self, change: int) -> None:
        with self._mutex:
            self._in_use += change

    def _entries(self, folder: str) -> list[LockNode]:
        found = []
        for position, node_name in enumerate(_in_order(self._session.children(f"{ROOT}/{folder}"))):
            node = self._session.read(f"{ROOT}/{folder}/{node_name}")
            if node is not None:
                found.append(_entry(folder, node, acquired=position == 0))
        return found

    def _holder(self, name: TableName) -> str:
        try:
            found = self.entries(name)
        except LockUnavailable:
            return ""
        return f"; it is held by {found[0]}" if found else ""


class _Attempt:
    """One try to get the lock, from the node's creation to its being first."""

    def __init__(
        self,
        session: Session,
        runtime: Runtime,
        name: TableName,
        data: bytes,
        deadline: float,
        closed: Event,
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._name = name
        self._folder = f"{ROOT}/{_folder_name(name)}"
        self._data = data
        self._deadline = deadline
        self._closed = closed
        self._id = runtime.uuid()
        self._epoch = -1
        self._prefix = ""
        self._node: str | None = None
        self._tried = False
        #: A creation was not answered: there may be more than one node of ours.
        self._may_have_strays = False
        self._sent_at: float | None = None
        self._wake: Event = runtime.event()

    def run(self, on_release: Callable[[], None]) -> ZooKeeperHeldLock:
        """Wait until the node is the first. on_release: what the held lock calls when it is given back."""
        while True:
            problem: NoReply | None = None
            self._wake = self._runtime.event()
            interval = LOOK_INTERVAL_SECONDS
            try:
                if self._is_ours():
                    return self._held(on_release)
            except NodeGone:
                self._node = None
                self._wake.set()
            except NoReply as error:
                # Whether the node is there is found out as soon as somebody answers.
                self._may_have_strays |= self._tried and self._node is None
                self._node = None
                problem = error
                interval = RETRY_INTERVAL_SECONDS
            remaining = self._deadline - self._runtime.now()
            if remaining <= 0:
                raise problem or LockNotAcquired(f"The lock of {self._name} was not to be had in time")
            if self._closed.is_set():
                raise LockNotAcquired(f"The lock of {self._name} is no longer waited for: the catalog is closed")
            self._pause(min(remaining, interval))

    def withdraw(self) -> None:
        """Remove our node, if there is one, now or later."""
        if self._tried:
            self._session.discard(self._folder, self._prefix)

    def _pause(self, seconds: float) -> None:
        """Wait until the node before ours goes, the time is over, or we are closed."""
        until = self._runtime.now() + seconds
        while not self._closed.is_set() and (remaining := until - self._runtime.now()) > 0:
            if self._wake.wait(min(remaining, _WAKE_CHECK_SECONDS)):
                return

    def _is_ours(self) -> bool:
        """Look once; if another is before us, `_wake` will be set when it goes."""
        self._begin(self._session.connected())
        if self._node is None:
            self._node = self._find() if self._tried else None
        if self._node is None:
            self._tried = True
            sent_at = self._runtime.now()
            self._node = self._session.create(self._folder, self._prefix, self._data)
            self._sent_at = sent_at
        row = _in_order(self._session.children(self._folder))
        own = [name for name in row if name.startswith(self._prefix)]
        if not own:
            raise NodeGone(f"{self._node} was removed while it waited")
        if own[0] != self._node:
            # A node whose reply was lost, and which the server that we asked then did not know of yet.
            self._node, self._sent_at = own[0], None
        position = row.index(own[0])
        if position == 0:
            if self._sent_at is None:
                sent_at = self._runtime.now()
                self._session.write(f"{self._folder}/{self._node}", self._data)
                self._sent_at = sent_at
            return True
        # What was sent before the wait says nothing about the time after it.
        self._sent_at = None
        if not self._session.watch(f"{self._folder}/{row[position - 1]}", self._wake.set):
            self._wake.set()
        return False

    def _begin(self, epoch: int) -> None:
        """A new session has nothing of the old one. But a request that was on its way when the old one ended may have
        been carried out in the new one: under the old name, so it is not ours, and must not stand before us."""
        if epoch == self._epoch:
            return
        self.withdraw()
        self._epoch = epoch
        self._prefix = f"{self._id}-{epoch}-lock-"
        self._node = None
        self._tried = False
        self._may_have_strays = False
        self._sent_at = None

    def _find(self) -> str | None:
        """Our own node, if its creation was carried out and only the reply was lost."""
        self._sent_at = None
        return next((name for name in self._session.children(self._folder) if name.startswith(self._prefix)), None)

    def _held(self, on_release: Callable[[], None]) -> ZooKeeperHeldLock:
        return ZooKeeperHeldLock(
            self._session,
            self._runtime,
            self._folder,
            str(self._node),
            self._data,
            strays=self._prefix if self._may_have_strays else None,
            epoch=self._epoch,
            sent_at=self._sent_at or 0.0,
            on_release=on_release,
        )


class ZooKeeperHeldLock:
    """coordinator.ports.HeldLock on one node.

    strays: how nodes begin that may be left of its creation, and must not block the table after it.
    epoch: of the session that made the node. sent_at: `Runtime.now()` when the last write of it was sent. on_release:
    called once, after the node was given back.
    """

    def __init__(
        self,
        session: Session,
        runtime: Runtime,
        folder: str,
        node: str,
        data: bytes,
        *,
        strays: str | None,
        epoch: int,
        sent_at: float,
        on_release: Callable[[], None],
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._folder = folder
        self._node = node
        self._data = data
        self._strays = strays
        self._epoch = epoch
        self._on_release = on_release
        self._lease_seconds = session.lease_seconds
        self._mutex = runtime.mutex()
        self._released = runtime.event()
        self._covered_since = sent_at
        self._gone = False

    @property
    def lease_seconds(self) -> float:
        """As the port says: the session timeout."""
        return self._lease_seconds

    def start(self) -> None:
        """Begin to write the node from time to time, on a thread of the runtime."""
        self._runtime.spawn(f"heartbeat {self._node}", self._beat, background=True)

    def covered_since(self) -> float:
        """As the port says. While the session is SUSPENDED the lock is not renewed, and not lost either: the servers
        keep it for the lease, so a swap that was answered within it was covered."""
        with self._mutex:
            gone, since = self._gone, self._covered_since
        if gone:
            raise LockLost(f"{self} was removed")
        if self._session.epoch != self._epoch:
            raise LockLost(f"the ZooKeeper session of {self} was lost")
        if self._runtime.now() - since > self._lease_seconds:
            raise LockLost(f"{self} was not renewed for its lease of {self._lease_seconds:.0f} s")
        return since

    def check_connected(self) -> None:
        """To be called before a swap starts. Raises LockLost when the lock is gone, or when no server can be asked
        whether it is."""
        self.covered_since()
        if self._session.state is not SessionState.CONNECTED:
            raise LockLost(f"the ZooKeeper session of {self} is {self._session.state}")

    def renew(self) -> None:
        """As the port says. Raises LockLost; LockUnavailable while no server answers."""
        if self._released.is_set():
            raise LockLost(f"{self} was released")
        if self._session.epoch != self._epoch:
            raise LockLost(f"the ZooKeeper session of {self} was lost")
        sent_at = self._runtime.now()
        try:
            self._session.write(f"{self._folder}/{self._node}", self._data)
        except NodeGone:
            with self._mutex:
                self._gone = True
            raise LockLost(f"{self} was removed") from None
        with self._mutex:
            self._covered_since = max(self._covered_since, sent_at)

    def release(self) -> None:
        """As the port says."""
        with self._mutex:
            if self._released.is_set():
                return
            self._released.set()
        # The node's whole name is a prefix of itself alone.
        try:
            self._session.delete(f"{self._folder}/{self._node}")
        except LockUnavailable as error:
            logger.warning("%s could not be given back and is removed later: %s", self, error.message)
            self._session.discard(self._folder, self._node)
        if self._strays is not None:
            self._session.discard(self._folder, self._strays)
        self._on_release()

    def _beat(self) -> None:
        while not self._released.wait(self._lease_seconds / BEATS_PER_LEASE):
            try:
                self.renew()
            except LockLost as error:
                if not self._released.is_set():
                    logger.warning("%s", error.message)
                return
            except LockUnavailable as error:
                logger.warning("A heartbeat of %s failed: %s", self, error.message)

    def __str__(self) -> str:
        return f"lock {self._folder.rpartition('/')[2]}/{self._node}"


def _folder_name(name: TableName) -> str:
    # Dots inside of the parts are escaped as well: `.` and `..` are no node names, and one dot must divide the two.
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in (name.namespace, name.name))


def _in_order(names: Sequence[str]) -> list[str]:
    """The nodes that are locks, the holder first: by the number that ZooKeeper gave them."""
    numbered = [(int(found.group(1)) % 2**32, name) for name in names if (found := _NUMBERED.search(name))]
    return [name for _, name in sorted(numbered)]


def _entry(folder: str, node: Node, *, acquired: bool) -> LockNode:
    namespace, _, table = folder.partition(".")
    try:
        told = orjson.loads(node.data)
    except orjson.JSONDecodeError:
        told = None
    says = told if isinstance(told, dict) else {}
    return LockNode(
        lock_id=f"{folder}/{node.name}",
        table=TableName(unquote(namespace), unquote(table)),
        acquired=acquired,
        agent_info=str(says.get("agentInfo", "")),
        user=str(says.get("user", "")),
        host=str(says.get("host", "")),
        since_ms=node.created_ms,
    )
