"""What is known of compare-and-swap (HIVE-26882): by connection and database, and summed up for a pool.

Each connection and each database is proved on its own. Servers of several versions may stand behind one address, and a
proxy behind one connection may send each database to another metastore.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK


class CompareAndSwap(StrEnum):
    """What a server makes of `expected_parameter_key` and `expected_parameter_value`."""

    #: Compared and swapped in one database statement: every outdated swap is refused.
    ATOMIC = "atomic"
    #: Compared, but not in the statement that writes: two writers may both pass.
    CHECKED = "checked"
    #: Accepted and ignored: an outdated writer overwrites.
    IGNORED = "ignored"
    #: Known, and failing on this database: every swap that carries the keys fails.
    BROKEN = "broken"
    #: Not proved yet.
    UNKNOWN = "unknown"


#: From the best to the worst. An address takes over only what is as bad as what is known of it, or worse.
_BEST_TO_WORST: Final = (CompareAndSwap.ATOMIC, CompareAndSwap.BROKEN, CompareAndSwap.CHECKED, CompareAndSwap.IGNORED)


class SwapProtection(StrEnum):
    """What protects a table from the swap of a lock's holder, besides the lock: the last part of its agentInfo."""

    CAS = "cas"
    UNPROVEN = "unproven"
    BLIND = "blind"


#: After so long BROKEN is proved again. It alone depends on the server's database, which may have been in trouble for a
#: moment. A proof costs eight calls, on Derby 40 seconds.
BROKEN_SECONDS: Final = 600.0
#: Databases whose support is remembered; beyond it the oldest are proved again.
DATABASES_MAX: Final = 10_000


@dataclass(slots=True)
class _Known:
    """until: when it expires, by the monotonic clock."""

    support: CompareAndSwap
    until: float
    has_swapped: bool = False


def _known(support: CompareAndSwap, now: float) -> _Known:
    return _Known(support, now + BROKEN_SECONDS if support is CompareAndSwap.BROKEN else math.inf)


class ConnectionCasSupport:
    """What one connection's server makes of compare-and-swap, by database. Not safe for threads, as a connection.

    now: the monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._now = now
        self._by_namespace: dict[str, _Known] = {}

    def of(self, namespace: str) -> CompareAndSwap:
        """UNKNOWN if it was not proved, or the proof expired."""
        known = self._by_namespace.get(namespace)
        return CompareAndSwap.UNKNOWN if known is None or self._now() >= known.until else known.support

    def learn(self, namespace: str, support: CompareAndSwap) -> None:
        """Remember what was proved. UNKNOWN changes nothing."""
        if support is not CompareAndSwap.UNKNOWN:
            self._by_namespace.pop(namespace, None)
            self._by_namespace[namespace] = _known(support, self._now())
            _limit(self._by_namespace)

    def has_swapped(self, namespace: str) -> bool:
        """Whether an alter with an expected value has succeeded, so that it works on the server's database too."""
        known = self._by_namespace.get(namespace)
        return known is not None and known.has_swapped

    def record_swap(self, namespace: str) -> None:
        if (known := self._by_namespace.get(namespace)) is not None:
            known.has_swapped = True


class PoolCasSupport:
    """What the connections of a pool have proved, by address and database. Safe for threads. now: the monotonic clock.

    A server is proved atomic by a swap that it carried out with the expected value, on a table or on a scratch row,
    after it had shown that it compares atomically. An address that was once found not to be atomic stays so until the
    process ends, or, if it is BROKEN, for BROKEN_SECONDS after it was last found so.
    """

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._now = now
        self._mutex = threading.Lock()
        self._by_namespace: dict[str, dict[str, _Known]] = {}

    def learn(self, uri: str, namespace: str, support: CompareAndSwap) -> None:
        """Remember what a connection to this address proved for a database. UNKNOWN changes nothing."""
        if support is CompareAndSwap.UNKNOWN:
            return
        with self._mutex:
            by_uri = self._by_namespace.setdefault(namespace, {})
            known, now = by_uri.get(uri), self._now()
            if known is None or now >= known.until or _is_as_bad(support, known.support):
                by_uri[uri] = _known(support, now)
            _limit(self._by_namespace)

    def of(self, uri: str, namespace: str) -> CompareAndSwap:
        """What is known of an address, for a database."""
        return self._unexpired(namespace).get(uri, CompareAndSwap.UNKNOWN)

    def may_overwrite(self, namespace: str) -> bool:
        """Whether a connection was found to be anything but atomic for a database (`SwapProtection.BLIND`)."""
        return self.protection(namespace) is SwapProtection.BLIND

    def protection(self, namespace: str) -> SwapProtection:
        """What protects a database's tables from a swap of this process, as far as it knows now.

        CAS: at least one connection was proved atomic, and none was found to be anything else. BLIND: one was found to
        be something else. UNPROVEN: nothing is known, as before the first swap in the database.

        CAS and UNPROVEN speak of the connections so far. A swap may still meet another one: a server of another
        version, or one whose proof expired. So a lock whose agentInfo says CAS or UNPROVEN allows only swaps with
        `require_cas`. A lock under which a drop or rename may be sent says BLIND.
        """
        known = self._unexpired(namespace)
        if not known:
            return SwapProtection.UNPROVEN
        return SwapProtection.CAS if set(known.values()) == {CompareAndSwap.ATOMIC} else SwapProtection.BLIND

    def _unexpired(self, namespace: str) -> dict[str, CompareAndSwap]:
        now = self._now()
        with self._mutex:
            by_uri = self._by_namespace.get(namespace, {})
            return {uri: known.support for uri, known in by_uri.items() if now < known.until}


def _is_as_bad(support: CompareAndSwap, known: CompareAndSwap) -> bool:
    return _BEST_TO_WORST.index(support) >= _BEST_TO_WORST.index(known)


def _limit(by_namespace: dict[str, Any]) -> None:
    while len(by_namespace) > DATABASES_MAX:
        del by_namespace[next(iter(by_namespace))]
