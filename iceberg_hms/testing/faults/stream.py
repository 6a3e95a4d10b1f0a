"""A TCP proxy before any server, such as ZooKeeper, that fails as a network fails.

with StreamProxy(zookeeper.hosts) as proxy:
    ... iceberg_hms.connect(zookeeper=proxy.address, ...)
    proxy.partition()       # nothing passes, and neither side notices
    proxy.heal()
    proxy.refuse()          # both sides notice: the proxy cuts connections and takes no new ones
    proxy.accept()
"""

from __future__ import annotations

import socket
import threading

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.tcp import Connection, TcpProxy

_CHUNK_BYTES = 65_536


class StreamProxy(TcpProxy):
    """Carries bytes both ways, until `close`.

    target: `host:port` of the true server. Raises InvalidInput for anything else, EngineError if it cannot listen.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdigit():
            raise InvalidInput(f"{target!r} is not host:port")
        self._target = (host, int(port))
        self._passable = threading.Event()
        self._passable.set()
        self._passing = threading.Lock()
        super().__init__()

    @property
    def address(self) -> str:
        """The address for clients, in place of the target's."""
        return f"127.0.0.1:{self.port}"

    def partition(self) -> None:
        """Let nothing pass in either direction, not even the end of a connection, as when the network loses packets.
        Connections stay open and the proxy takes new ones, but all are silent. On return the last byte has passed."""
        with self._passing:
            self._passable.clear()

    def heal(self) -> None:
        """Let everything pass again. Bytes sent during the partition arrive, as TCP would send them again."""
        self._passable.set()

    def close(self) -> None:
        """End all connections and threads. Calling it twice is harmless."""
        self._closed.set()
        self._passable.set()
        super().close()

    def wait_for_passage(self) -> None:
        """Wait until there is no partition. For the connections of this proxy."""
        self._passable.wait()

    def deliver(self, data: bytes, to: socket.socket) -> None:
        """Pass bytes on once there is no partition. For the connections of this proxy."""
        while not self._closed.is_set():
            self._passable.wait()
            with self._passing:
                if self._passable.is_set():
                    to.sendall(data)
                    return

    def _connect(self, number: int, client: socket.socket) -> _Stream:
        return _Stream(self, number, client, self._target)


class _Stream(Connection):
    """Carries bytes, with one thread for each direction."""

    def __init__(self, proxy: StreamProxy, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        super().__init__(number, client, target)
        self._proxy = proxy
        self._back: threading.Thread | None = None

    def run(self) -> None:
        self._proxy.wait_for_passage()
        super().run()

    def _carry(self, server: socket.socket) -> None:
        self._back = self._proxy.start(f"fault-proxy-{self.number}-back", lambda: self._pump(server, self._client))
        self._pump(self._client, server)

    def _pump(self, source: socket.socket, to: socket.socket) -> None:
        """Carry bytes until either side ends, or `end` wakes the thread."""
        try:
            while data := source.recv(_CHUNK_BYTES):
                self._proxy.deliver(data, to)
        except OSError:
            # When one side ends, however it does, both end.
            pass
        self._proxy.wait_for_passage()
        self.end()

    def close(self) -> None:
        self.end()
        if self._back is not None:
            self._back.join()
        super().close()
