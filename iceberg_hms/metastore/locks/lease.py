"""How long the metastore keeps a lock that nobody renews."""

from __future__ import annotations

import logging
import re

from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool

logger = logging.getLogger(__name__)

# Hive 3 and later know the first name, Hive 2 the second; a server may refuse a name that it does not know.
_NAMES = ("metastore.txn.timeout", "hive.txn.timeout")
_DURATION = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")
_UNITS = {
    "ms": 0.001, "msec": 0.001,
    "": 1.0, "s": 1.0, "sec": 1.0,
    "m": 60.0, "min": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip


def parse_duration(text: str) -> float | None:
    """Seconds of a duration as Hive writes it ("300s", "5m", "300"); None if it is none, or zero."""
    match = _DURATION.fullmatch(text)
    unit = _UNITS.get(match.group(2).lower()) if match is not None else None
    if match is None or unit is None:
        return None
    return int(match.group(1)) * unit or None


def config_value(client: MetastoreClient, name: str) -> str | None:
    """A configuration value of the server, None if it has none or refuses to tell it."""
    try:
        value = client.call("get_config_value", name=name, defaultValue="")
    except ServerFault as fault:
        logger.debug("The metastore does not tell %s: %s", name, fault.detail)
        return None
    return str(value) or None


def lease_seconds(pool: ClientPool) -> float | None:
    """The server's lease for locks (`metastore.txn.timeout`, before Hive 3 `hive.txn.timeout`); None if it does not
    tell. Raises MetastoreUnavailable."""
    return pool.run(_lease_of, idempotent=True)


def _lease_of(client: MetastoreClient) -> float | None:
    for name in _NAMES:
        value = config_value(client, name)
        seconds = parse_duration(value) if value else None
        if seconds is not None:
            return seconds
    return None


class ServerLeases:
    """The leases of the servers at the other ends of a process's connections. Safe for threads.

    The servers of a list, and those behind one address, may have different ones, and a restart may change each. A lock
    lives by the shortest, since every server removes locks by its own; others are judged by the longest.

    default_seconds: of a server that does not tell.
    """

    def __init__(self, runtime: Runtime, default_seconds: float) -> None:
        self._default = default_seconds
        self._mutex = runtime.mutex()
        self._by_connection: dict[MetastoreClient, float] = {}

    def ask(self, client: MetastoreClient) -> None:
        """Ask a connection's server, if it was not asked before. Raises NotSent if it does not answer: what the caller
        was about to send has to go out on another connection."""
        with self._mutex:
            if client in self._by_connection:
                return
        try:
            seconds = _lease_of(client) or self._default
        except NoAnswer as error:
            raise NotSent(error.message) from error
        with self._mutex:
            self._by_connection = {**self._open(), client: seconds}

    @property
    def is_known(self) -> bool:
        """Whether any server was asked whose connection is still open."""
        with self._mutex:
            return bool(self._open())

    @property
    def shortest(self) -> float:
        """In seconds."""
        with self._mutex:
            return min(self._open().values(), default=self._default)

    @property
    def longest(self) -> float:
        """In seconds."""
        with self._mutex:
            return max(self._open().values(), default=self._default)

    def _open(self) -> dict[MetastoreClient, float]:
        """Of the connections that are still open. Call with the mutex held."""
        return {client: seconds for client, seconds in self._by_connection.items() if not client.is_closed}
