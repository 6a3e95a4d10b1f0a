"""Connections to the metastore, shared by the threads of one process, over a list of servers.

Those for whom the threads work share them fairly (`fair_places`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import tell_nobody
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import PoolCasSupport
from iceberg_hms.metastore.connection.client import MetastoreClient, parse_uri
from iceberg_hms.metastore.connection.fair_places import FairPlaces
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.setting import MIB

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How long a call for a held lock waits for the connection of its own before it takes any other.
_OWN_CONNECTION_SECONDS: Final = 1.0


class Places(Protocol):
    """As threading.BoundedSemaphore."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


NewClient = Callable[[str], MetastoreClient]
NewPlaces = Callable[[int], Places]


class _Busy(NotSent):
    """All connections are in use for longer than a call may take."""


class _Place:
    """One of a pool's places, given back once: at the end, or when the call on it is overdue."""

    def __init__(self, places: Places, tell_caller: Callable[[], None]) -> None:
        self._places = places
        self._tell_caller = tell_caller
        self._taken = True

    def overdue(self) -> None:
        self.release()
        self._tell_caller()

    def release(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()


class ClientPool:
    """At most `size` connections at a time, kept open between calls, and one more for calls that keep held locks.

    uris: thrift://host:port, tried in order, beginning with the one that last worked.
    connect_timeout_ms: for one server. socket_timeout_ms: for one answer. patience_ms: for one to `call_patiently`; who
    waits so for longer than socket_timeout_ms does not count any more, so that others find a connection.
    max_reply_bytes: the largest answer.
    cas_support: what its connections proved about compare-and-swap.
    make_client: connects to a uri of the list; raises NotSent. make_places: a semaphore with so many places.
    now: the monotonic clock.
    Raises ConfigError for a uri that is not thrift://.
    """

    def __init__(
        self,
        uris: Sequence[str],
        *,
        size: int = 2,
        connect_timeout_ms: int = 10_000,
        socket_timeout_ms: int = 60_000,
        patience_ms: int = 600_000,
        max_reply_bytes: int = 100 * MIB,
        user: str = "",
        make_client: NewClient | None = None,
        make_places: NewPlaces = FairPlaces,
        now: Callable[[], float] = SYSTEM_CLOCK.monotonic,
    ) -> None:
        for uri in uris:
            parse_uri(uri)
        self.uris = tuple(uris)
        self.cas_support = PoolCasSupport(now)
        self._size = size
        self._wait_seconds = (connect_timeout_ms + socket_timeout_ms) / 1000
        self._make_client = make_client or partial(
            MetastoreClient,
            connect_timeout_ms=connect_timeout_ms,
            socket_timeout_ms=socket_timeout_ms,
            patience_ms=patience_ms,
            max_reply_bytes=max_reply_bytes,
            user=user,
            now=now,
        )
        self._make_places = make_places
        self._preferred = 0
        self._closed = False
        self._now = now
        self._places = self._make_places(self._size)
        # One is left for everybody else, unless there is only one.
        self._places_for_locations = self._make_places(max(1, self._size // 2))
        self._mutex = threading.Lock()
        self._idle: list[MetastoreClient] = []
        self._for_held_locks: ClientPool | None = None

    @classmethod
    def configured(cls, settings: Settings, *, only: str | None = None) -> ClientPool:
        """The pool that settings ask for. only: one server of the list, with one connection, to ask it alone."""
        return cls(
            settings.metastore_uris if only is None else [only],
            size=settings.clients if only is None else 1,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
            patience_ms=settings.unanswered_swap_timeout_ms,
            max_reply_bytes=settings.max_reply_bytes,
            user=settings.user,
        )

    def ask(self, method: str, /, **arguments: Any) -> Any:
        """`run` for one idempotent call, with the arguments and the result of `MetastoreClient.call`."""
        return self.run(lambda client: client.call(method, **arguments), idempotent=True)

    def call_once(self, method: str, /, **arguments: Any) -> Any:
        """The same for a call that is not idempotent."""
        return self.run(lambda client: client.call(method, **arguments), idempotent=False)

    def run_with_location(self, function: Callable[[MetastoreClient], Result]) -> Result:
        """`run`, not idempotent, for a call in which the metastore itself opens a location that a client named. A file
        system that does not answer holds such calls for minutes, so they get half of the connections."""
        if not self._places_for_locations.acquire(timeout=self._wait_seconds):
            raise NotSent(
                "The metastore is busy with the locations of other new tables and namespaces",
                next_step="try again later; the metastore's log tells which file system does not answer",
            )
        try:
            return self.run(function, idempotent=False)
        finally:
            self._places_for_locations.release()

    def run_for_held_lock(self, function: Callable[[MetastoreClient], Result]) -> Result:
        """`run`, idempotent, for a call that keeps a held lock or gives it back. It has a connection of its own: calls
        that hang would else end the short leases of all tables. While another such call hangs there, it takes any
        connection."""
        with self._mutex:
            if self._for_held_locks is None and not self._closed:
                uris = [*self.uris[self._preferred :], *self.uris[: self._preferred]]
                self._for_held_locks = self._of_one_connection(uris, wait_seconds=_OWN_CONNECTION_SECONDS)
            own = self._for_held_locks or self
        try:
            return own.run(function, idempotent=True)
        except _Busy:
            return self.run(function, idempotent=True)

    def run(
        self,
        function: Callable[[MetastoreClient], Result],
        *,
        idempotent: bool,
        overdue: Callable[[], None] = tell_nobody,
    ) -> Result:
        """Call `function` with a connection that nobody else uses, and return what it returns.

        After NotSent `function` is called once more, on a fresh connection, and after NoAnswer too if it is
        `idempotent`, as after an error that says no more than that the server failed inside; if it is not, these are
        raised. A function that is not idempotent must therefore raise NotSent only while all that it sent before is
        known to have changed nothing. Every other ServerFault passes through. overdue: as `Sending.overdue`.

        Raises MetastoreUnavailable: no server could be reached, none answered an idempotent call, or all connections
        are in use for longer than a call may take.
        """
        if not self._places.acquire(timeout=self._wait_seconds):
            raise _Busy(f"All {self._size} connections to the metastore are busy", next_step="raise `clients`")
        place = _Place(self._places, overdue)
        try:
            client = self._take()
            try:
                return self._use(client, function, place)
            except NotSent as error:
                logger.debug("%s; trying again on a fresh connection", error.message)
            except (NoAnswer, ServerFault) as error:
                if not idempotent or (isinstance(error, ServerFault) and error.fault is not Fault.INTERNAL):
                    raise
                logger.debug("%s; asking again on a fresh connection", error.message)
            self._drop_idle()
            client = self._connect()
            try:
                return self._use(client, function, place)
            except NoAnswer as error:
                if not idempotent:
                    raise
                raise MetastoreUnavailable(error.message, next_step=error.next_step or None) from error
        finally:
            place.release()

    def _use(self, client: MetastoreClient, function: Callable[[MetastoreClient], Result], place: _Place) -> Result:
        client.on_overdue = place.overdue
        try:
            return function(client)
        finally:
            client.on_overdue = None
            self._give_back(client)

    def _take(self) -> MetastoreClient:
        while True:
            with self._mutex:
                if self._closed:
                    raise NotSent("The catalog is closed", next_step="connect again")
                client = self._idle.pop() if self._idle else None
            if client is None:
                return self._connect()
            if client.is_usable:
                return client
            client.close()

    def _give_back(self, client: MetastoreClient) -> None:
        if client.is_usable:
            with self._mutex:
                if not self._closed and len(self._idle) < self._size:
                    self._idle.append(client)
                    return
        client.close()

    def _drop_idle(self) -> None:
        """When one connection failed the server may be gone: the others are not worth a failed call each."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _connect(self) -> MetastoreClient:
        failures = []
        first = self._preferred
        for step in range(len(self.uris)):
            position = (first + step) % len(self.uris)
            try:
                client = self._make_client(self.uris[position])
            except NotSent as error:
                failures.append(error.message)
                continue
            if position != first:
                logger.warning("The metastore %s is out of reach; using %s", self.uris[first], self.uris[position])
            self._preferred = position
            return client
        if not self.uris:
            raise NotSent("No metastore is configured", next_step="set metastore_uri (`uri`) to thrift://host:9083")
        raise NotSent("; ".join(failures))

    def only(self, uri: str) -> ClientPool:
        """A pool of one connection to one server of the list, with the same timeouts and user. The caller closes it."""
        return self._of_one_connection([uri], wait_seconds=self._wait_seconds)

    def _of_one_connection(self, uris: Sequence[str], *, wait_seconds: float) -> ClientPool:
        # `_make_client` has the timeouts and the user.
        one = ClientPool(uris, size=1, make_client=self._make_client, make_places=self._make_places, now=self._now)
        one._wait_seconds = wait_seconds
        return one

    def close(self) -> None:
        """Close idle connections now and the others when they come back. Twice is harmless."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
            own, self._for_held_locks = self._for_held_locks, None
        for client in idle:
            client.close()
        if own is not None:
            own.close()
