"""All connections of a server: how many there may be, of one peer and in all, and which is closed for another.

Only the server's event loop uses these objects, so they need no mutex.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
from dataclasses import dataclass, field
from typing import Final, Protocol

from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.log_lines import LineLimit
from iceberg_hms.rest.settings import RestSettings

logger = logging.getLogger(__name__)

#: Open files that connections leave to the metastore's clients, metadata files and the libraries.
OTHER_FILES: Final = 256
#: How often at most one reason for closing connections is logged, in seconds.
LOG_SECONDS: Final = 10.0
#: The sweep looks for connections that are overdue once in a quarter of the shortest time, within these bounds.
_SWEEP_SECONDS: Final = (0.02, 1.0)
#: Networks of this length belong to one owner (RFC 6177), who can use all of their addresses.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Sizes in bytes, times in seconds; the settings of the same names say more. body_bytes: of a request's body."""

    connections: int
    per_peer: int
    header_bytes: int
    body_bytes: int
    header_seconds: float
    idle_seconds: float
    send_seconds: float

    @classmethod
    def of(cls, settings: RestSettings, open_files: int) -> ConnectionLimits:
        """The settings' limits, with no more connections than the process can open. open_files: its own limit."""
        connections = max(1, min(settings.rest_max_connections, open_files - OTHER_FILES))
        if connections < settings.rest_max_connections:
            logger.info("%d connections at most: the process may open %d files", connections, open_files)
        return cls(
            connections=connections,
            per_peer=settings.rest_max_connections_per_peer,
            header_bytes=settings.rest_max_header_bytes,
            body_bytes=settings.rest_max_body_bytes,
            header_seconds=settings.rest_header_timeout_ms / 1000,
            idle_seconds=settings.rest_keep_alive_seconds,
            send_seconds=settings.rest_send_timeout_ms / 1000,
        )


class ClientConnection(Protocol):
    """What the set needs of a connection."""

    peer: str

    @property
    def is_new(self) -> bool:
        """Whether it has brought no request yet."""
        ...

    def give_way(self) -> None:
        """Close at once, for another connection. Only idle connections are asked to."""
        ...

    def close_if_overdue(self, now: float) -> None:
        """Close if one of its times is over. now: the event loop's time."""
        ...


@dataclass(slots=True)
class _Peer:
    """connections: how many it has. idle: those without a request, the one that is idle for longest first, each with
    a number that grows with each one that becomes idle."""

    connections: int = 0
    idle: dict[ClientConnection, int] = field(default_factory=dict)


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits, counters: Counters) -> None:
        self.limits = limits
        self._counters = counters
        self._all: set[ClientConnection] = set()
        self._peers: dict[str, _Peer] = {}
        self._limit = LineLimit(1, LOG_SECONDS, _tell_more)
        self._order = itertools.count()
        self._sweep_seconds = min(
            max(min(limits.header_seconds, limits.idle_seconds, limits.send_seconds) / 4, _SWEEP_SECONDS[0]),
            _SWEEP_SECONDS[1],
        )

    def admit(self, connection: ClientConnection, loop: asyncio.AbstractEventLoop) -> bool:
        """Add a new connection, which is idle. Where its peer or the server has as many as it may, the one that is idle
        for longest gives way; False if none is idle."""
        peer = self._peers.get(connection.peer) or _Peer()
        if peer.connections >= self.limits.per_peer and not self._make_room(peer, "connections of its peer", loop):
            self.closed("connections of its peer", connection.peer, loop)
            return False
        if len(self._all) >= self.limits.connections:
            longest = min(
                (each for each in self._peers.values() if each.idle),
                key=lambda each: next(iter(each.idle.values())),
                default=_Peer(),
            )
            if not self._make_room(longest, "connections in all", loop):
                self.closed("connections in all", connection.peer, loop)
                return False
        peer = self._peers.setdefault(connection.peer, peer)
        peer.connections += 1
        peer.idle[connection] = next(self._order)
        self._all.add(connection)
        self._counters.connections(len(self._all))
        if len(self._all) == 1:
            loop.call_later(self._sweep_seconds, self._sweep, loop)
        return True

    def idle(self, connection: ClientConnection) -> None:
        """The connection has no request any more."""
        if connection in self._all:
            self._peers[connection.peer].idle[connection] = next(self._order)

    def busy(self, connection: ClientConnection) -> None:
        """A request begins on the connection."""
        if connection in self._all:
            self._peers[connection.peer].idle.pop(connection, None)

    def remove(self, connection: ClientConnection) -> None:
        """The connection is closed, or gives way. Twice is harmless."""
        if connection not in self._all:
            return
        self._all.remove(connection)
        peer = self._peers[connection.peer]
        peer.connections -= 1
        peer.idle.pop(connection, None)
        if not peer.connections:
            del self._peers[connection.peer]
        self._counters.connections(len(self._all))

    async def first_requests(self, seconds: float) -> None:
        """Wait until every connection has brought a request, at most for so long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline and any(connection.is_new for connection in self._all):
            await asyncio.sleep(_SWEEP_SECONDS[0])

    def closed(self, reason: str, peer: str, loop: asyncio.AbstractEventLoop) -> None:
        """Count a connection that the server closed or refused, and log it at a bounded rate."""
        self._counters.connection_closed(reason)
        if self._limit.has_room(reason, None, loop.time()):
            logger.warning("closed a connection of %s: %s", peer, reason)

    def _make_room(self, peer: _Peer, reason: str, loop: asyncio.AbstractEventLoop) -> bool:
        connection = next(iter(peer.idle), None)
        if connection is None:
            return False
        self.remove(connection)
        self.closed(reason, connection.peer, loop)
        connection.give_way()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in tuple(self._all):
            connection.close_if_overdue(now)
        if self._all:
            loop.call_later(self._sweep_seconds, self._sweep, loop)


def _tell_more(reason: str, _caller: str | None, left_out: int) -> None:
    logger.warning("closed %d more connection(s): %s", left_out, reason)


def peer_of(host: str | None) -> str:
    """Who a connection counts for: its address, of IPv6 the network. None, a client without a network, is `local`."""
    if host is None:
        return "local"
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _IPV6_PREFIX), strict=False))
