"""One ZooKeeper session, its state, and the few requests that locks need. Every wait is bounded.

A session outlives connections: without one it is SUSPENDED, and the servers keep its ephemeral nodes until its timeout
has passed since they last heard from it. LOST means that the servers ended it, and its nodes with it; kazoo then begins
a new session. Each session is an *epoch* here: locks of an earlier epoch are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import ConfigError, LockUnavailable
from iceberg_hms.zookeeper.faults import NodeGone, NoReply, ZooKeeperUnavailable, mapped

logger = logging.getLogger(__name__)

#: Between attempts to connect again; kazoo's own limit is longer than most sessions live.
_RECONNECT_MAX_SECONDS = 1.0
#: Nodes that could not be removed yet; beyond it the oldest stay until the session ends.
_DISCARDED_MAX = 1_000


class SessionState(StrEnum):
    """As Curator and kazoo name them."""

    CONNECTED = "CONNECTED"
    #: No connection: until there is one, it is unknown whether the session lives.
    SUSPENDED = "SUSPENDED"
    #: There is no session: it ended, or none has begun.
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was read. created_ms: wall clock of the server."""

    name: str
    data: bytes
    created_ms: int


NewClient = Callable[[str, float], Any]


def new_client(hosts: str, timeout_seconds: float) -> Any:
    """A kazoo client that is not started yet. Raises ConfigError if kazoo is not installed, or for malformed hosts."""
    try:
        from kazoo.client import KazooClient
    except ImportError:
        raise ConfigError(
            "`zookeeper.hosts` is set, but kazoo is not installed", next_step="pip install 'iceberg-hms[zookeeper]'"
        ) from None
    try:
        return KazooClient(
            hosts,
            timeout=timeout_seconds,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": _RECONNECT_MAX_SECONDS},
            logger=logging.getLogger(f"{__name__}.kazoo"),
        )
    except ValueError as error:
        raise ConfigError(f"`zookeeper.hosts` is malformed: {hosts!r} ({error})") from error


class ZooKeeperSession:
    """Connects on first use. Safe for threads; a forked child gets a session of its own.

    hosts: host:port with commas, an optional /path at the end. timeout_ms: the session timeout that we ask for.
    connect_timeout_ms: how long to wait for a connection. Requests, from `connected` to `delete`, may raise NoReply, if
    they are not answered within the session timeout, and ZooKeeperUnavailable. Raises ConfigError as `new_client`.
    """

    def __init__(
        self,
        hosts: str,
        runtime: Runtime,
        *,
        timeout_ms: int,
        connect_timeout_ms: int,
        make_client: NewClient = new_client,
    ) -> None:
        self.hosts = hosts
        # kazoo knows a path at the end ("chroot"), but does not make its folders.
        self._servers, _, base = hosts.partition("/")
        self._base = f"/{base.strip('/')}" if base.strip("/") else ""
        self._runtime = runtime
        self._timeout_seconds = timeout_ms / 1000
        self._connect_seconds = connect_timeout_ms / 1000
        self._make_client = make_client
        self._mutex = runtime.mutex()
        # Made now, so that malformed hosts are refused at once, and started on first use.
        self._prepared: Any = make_client(self._servers, self._timeout_seconds)
        self._client: Any = None
        self._live: Any = None
        self._closed = False
        self._state = SessionState.LOST
        self._epoch = 0
        self._negotiated_ms: int | None = None
        #: (folder, prefix) of nodes to be removed, in order.
        self._discarded: dict[tuple[str, str], None] = {}
        self._on_close: set[Callable[[], None]] = set()

    @property
    def state(self) -> SessionState:
        """What is known of the session at this moment."""
        client = self._client
        if client is not None and client.connected:
            return SessionState.CONNECTED
        # kazoo knows that the connection is gone a moment before it tells its listeners.
        return SessionState.SUSPENDED if self._state is SessionState.CONNECTED else self._state

    @property
    def epoch(self) -> int:
        """The number of the session. It grows when a session is lost, before the next one begins."""
        return self._epoch

    @property
    def lease_seconds(self) -> float:
        """The session timeout that the servers granted. Raises ZooKeeperUnavailable before there was a session."""
        if self._negotiated_ms is None:
            raise ZooKeeperUnavailable("ZooKeeper has not granted a session timeout yet")
        return self._negotiated_ms / 1000

    def connected(self) -> int:
        """Wait for a connection, and return the epoch. Raises ZooKeeperUnavailable after the connect timeout."""
        client = self._started()
        if not client.connected and not self._live.wait(self._connect_seconds):
            raise ZooKeeperUnavailable(f"ZooKeeper at {self.hosts} is out of reach")
        if self._discarded:
            self._sweep()
        return self.epoch

    def create(self, folder: str, prefix: str, data: bytes) -> str:
        """Make an ephemeral sequential node, its folder too, and return its name."""
        path = f"{self._base}{folder}/{prefix}"
        try:
            created = self._ask(
                lambda client: client.create_async(path, data, ephemeral=True, sequence=True, makepath=True),
                f"create {folder}/{prefix}",
            )
        except NodeGone as error:
            # Another process removed the folder in between.
            raise NoReply(error.message) from error
        return str(created).rpartition("/")[2]

    def mark(self, path: str, data: bytes) -> None:
        """Make a node that outlives the session."""
        path = self._base + path
        self._ask(
            lambda client: client.create_async(path, data, ephemeral=False, sequence=False, makepath=True),
            f"mark {path}",
        )

    def children(self, folder: str) -> list[str]:
        """Names of the nodes in a folder, in no order; none if the folder does not exist."""
        try:
            return list(self._ask(lambda client: client.get_children_async(self._base + folder), f"list {folder}"))
        except NodeGone:
            return []

    def watch(self, path: str, changed: Callable[[], None]) -> bool:
        """Whether a node is there; if so `changed` is called once when it changes or goes, or when the connection does.

        It reads the node: `exists` on a node that never appears would leave a watch behind, in kazoo and in the server,
        until the connection ends."""
        try:
            self._ask(lambda client: client.get_async(self._base + path, lambda _event: changed()), f"watch {path}")
        except NodeGone:
            return False
        return True

    def read(self, path: str) -> Node | None:
        """A node, None if it is not there."""
        try:
            data, stat = self._ask(lambda client: client.get_async(self._base + path), f"read {path}")
        except NodeGone:
            return None
        return Node(path.rpartition("/")[2], data, int(stat.ctime))

    def write(self, path: str, data: bytes) -> None:
        """Write a node. It goes through the leader, so success proves that our session was alive to the ensemble;
        a server that lags behind the others may answer a read. Raises NodeGone."""
        self._ask(lambda client: client.set_async(self._base + path, data), f"write {path}")

    def delete(self, path: str) -> None:
        """Remove a node; harmless if there is none."""
        try:
            self._ask(lambda client: client.delete_async(self._base + path), f"delete {path}")
        except NodeGone:
            return

    def discard(self, folder: str, prefix: str) -> None:
        """Remove our nodes with this prefix: now, or as soon as there is a connection again. Never raises."""
        with self._mutex:
            self._discarded[folder, prefix] = None
            while len(self._discarded) > _DISCARDED_MAX:
                del self._discarded[next(iter(self._discarded))]
        client = self._client
        if client is not None and client.connected:
            self._sweep()

    def on_close(self, call: Callable[[], None]) -> None:
        """Call something before the session is closed, or now if it is closed already. It must not block."""
        with self._mutex:
            if not self._closed:
                self._on_close.add(call)
                return
        call()

    def forget_on_close(self, call: Callable[[], None]) -> None:
        with self._mutex:
            self._on_close.discard(call)

    def close(self) -> None:
        """End the session; its nodes go with it. Never raises; twice is harmless."""
        with self._mutex:
            self._closed = True
            calls, self._on_close = self._on_close, set()
            client, self._client = self._client, None
        for call in calls:
            call()
        if client is None:
            return
        try:
            client.stop()
            client.close()
        except Exception as error:  # noqa: BLE001 - the servers end the session after its timeout
            logger.warning("The ZooKeeper session could not be ended in order: %s", error)

    def _ask(self, request: Callable[[Any], Any], what: str) -> Any:
        client = self._started()
        if not client.connected:
            # kazoo would keep the request until there is a connection, however long that takes.
            raise NoReply(f"ZooKeeper at {self.hosts} is out of reach: {what}")
        try:
            return request(client).get(timeout=self._timeout_seconds)
        except LockUnavailable:
            raise
        except Exception as error:
            raise mapped(error, what) from error

    def _started(self) -> Any:
        with self._mutex:
            if self._closed:
                raise ZooKeeperUnavailable("The catalog is closed", next_step="connect again")
            if self._client is not None:
                return self._client
            prepared, self._prepared = self._prepared, None
            client = prepared if prepared is not None else self._make_client(self._servers, self._timeout_seconds)
            self._client = client
            client.add_listener(self._on_state)
            _overhear_timeout(client, self._on_timeout)
            self._live = client.start_async()
            return client

    def _on_timeout(self, milliseconds: int) -> None:
        self._negotiated_ms = milliseconds

    def _on_state(self, state: str) -> None:
        """Called on kazoo's connection thread: must not block."""
        with self._mutex:
            self._state = SessionState(state)
            if self._state is SessionState.LOST:
                self._epoch += 1
            sweep = self._state is SessionState.CONNECTED and bool(self._discarded)
        if self._state is not SessionState.CONNECTED and not self._closed:
            logger.warning("The ZooKeeper session is %s", state)
        if sweep:
            self._runtime.spawn("zookeeper-sweeper", self._sweep, background=True)

    def _catch_up(self, folder: str) -> None:
        """Let the server that we are connected to catch up: one that lags would not show a node that exists, and the
        node would stay."""
        self._ask(lambda client: client.sync_async(self._base + folder), f"sync {folder}")

    def _sweep(self) -> None:
        for folder, prefix in list(self._discarded):
            try:
                self._catch_up(folder)
                for name in self.children(folder):
                    if name.startswith(prefix):
                        self.delete(f"{folder}/{name}")
            except NoReply as error:
                logger.debug("%s/%s is removed later: %s", folder, prefix, error.message)
                return
            except LockUnavailable as error:
                if self._closed:
                    return
                logger.warning("%s/%s could not be removed: %s", folder, prefix, error.message)
            with self._mutex:
                self._discarded.pop((folder, prefix), None)


def _overhear_timeout(client: Any, tell: Callable[[int], None]) -> None:
    """Call `tell` with the session timeout that the servers grant: they limit the requested one, and kazoo does not
    keep their answer."""
    connection = client._connection
    invoke = connection._invoke

    def overheard(timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = invoke(timeout, request, xid)
        granted = getattr(answer[0], "time_out", None) if isinstance(answer, tuple) else None
        if granted:
            tell(int(granted))
        return answer

    connection._invoke = overheard
