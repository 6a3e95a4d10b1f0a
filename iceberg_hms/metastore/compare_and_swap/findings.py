"""What metastores make of compare-and-swap (HIVE-26882), and what this process has found out about its own.

A verdict belongs to a connection and a database. Behind one address there may be servers of several versions, and
behind one connection a proxy that sends each database to a metastore of its own. The process as a whole only sums up
what its connections found.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK


class CompareAndSwap(StrEnum):
    """What a server makes of `expected_parameter_key` and `expected_parameter_value`."""

    #: Compared and swapped in one database statement: fences every writer that uses it.
    ATOMIC = "atomic"
    #: Compared, but not in the statement that writes: two writers may both pass.
    CHECKED = "checked"
    #: Taken and ignored: an outdated writer overwrites.
    IGNORED = "ignored"
    #: Known, and failing on this database: every swap that carries the keys fails.
    BROKEN = "broken"
    #: Not found out.
    UNKNOWN = "unknown"


#: What is known of an address gives way to what comes later in this row, or is found again.
_WARINESS = (CompareAndSwap.ATOMIC, CompareAndSwap.BROKEN, CompareAndSwap.CHECKED, CompareAndSwap.IGNORED)


class SwapProtection(StrEnum):
    """The last part of a lock's agentInfo: what protects its holder's swap besides the lock."""

    CAS = "cas"
    UNPROVEN = "unproven"
    BLIND = "blind"


#: After so long BROKEN is found out anew. It is the one verdict that the server's database gives, and it may have been
#: in trouble for a moment. To find out costs eight calls, on Derby 40 seconds.
BROKEN_SECONDS = 600.0
#: Databases whose verdicts are kept; beyond it the oldest are found out anew.
DATABASES_MAX = 10_000


@dataclass(slots=True)
class _Finding:
    """until: when it is over, by the monotonic clock."""

    verdict: CompareAndSwap
    until: float
    has_swapped: bool = False


def _finding(verdict: CompareAndSwap, now: float) -> _Finding:
    return _Finding(verdict, now + BROKEN_SECONDS if verdict is CompareAndSwap.BROKEN else math.inf)


class Findings:
    """The verdicts of one connection, by database. now: the monotonic clock. Not safe for threads, as a connection."""

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._now = now
        self._by_namespace: dict[str, _Finding] = {}

    def of(self, namespace: str) -> CompareAndSwap:
        """UNKNOWN if it was not found out, or is over."""
        found = self._by_namespace.get(namespace)
        return CompareAndSwap.UNKNOWN if found is None or self._now() >= found.until else found.verdict

    def learned(self, namespace: str, verdict: CompareAndSwap) -> None:
        """UNKNOWN teaches nothing."""
        if verdict is not CompareAndSwap.UNKNOWN:
            self._by_namespace.pop(namespace, None)
            self._by_namespace[namespace] = _finding(verdict, self._now())
            _limit(self._by_namespace)

    def has_swapped(self, namespace: str) -> bool:
        """Whether an alter with the expected value has succeeded: it works on the server's database too."""
        found = self._by_namespace.get(namespace)
        return found is not None and found.has_swapped

    def swapped(self, namespace: str) -> None:
        """One has."""
        if (found := self._by_namespace.get(namespace)) is not None:
            found.has_swapped = True


class CompareAndSwapFindings:
    """The proofs of a process, by address and database. Safe for threads. now: the monotonic clock.

    A proof is a swap that the server carried out with the expected value, after it had shown that it compares
    atomically; a proof on a scratch row counts as well. What was once found not to be atomic stays so until the process
    ends, or for BROKEN_SECONDS after it was last found BROKEN: behind that address there is a server to be wary of.
    """

    def __init__(self, uris: Sequence[str], now: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._uris = tuple(uris)
        self._now = now
        self._mutex = threading.Lock()
        self._by_namespace: dict[str, dict[str, _Finding]] = {}

    def learned(self, uri: str, namespace: str, verdict: CompareAndSwap) -> None:
        """A connection to this address was proven to be this for a database. UNKNOWN teaches nothing."""
        if verdict is CompareAndSwap.UNKNOWN:
            return
        with self._mutex:
            found = self._by_namespace.setdefault(namespace, {})
            known, now = found.get(uri), self._now()
            if known is None or now >= known.until or _WARINESS.index(verdict) >= _WARINESS.index(known.verdict):
                found[uri] = _finding(verdict, now)
            _limit(self._by_namespace)

    def of(self, uri: str, namespace: str) -> CompareAndSwap:
        """What is known of an address, for a database."""
        return self._known(namespace).get(uri, CompareAndSwap.UNKNOWN)

    def all_atomic(self, namespace: str) -> bool:
        """Whether every address of the list was proven atomic for a database, and no connection was found to be
        anything else."""
        known = self._known(namespace)
        return set(self._uris) <= set(known) and set(known.values()) <= {CompareAndSwap.ATOMIC}

    def word(self, namespace: str) -> SwapProtection:
        """What this process says at this moment of its swaps in a database.

        CAS: at least one connection was proven atomic for it, and none was found to be anything else. BLIND: one was.
        UNPROVEN: nothing is known, as before the first swap in that database.

        CAS and UNPROVEN speak of the connections so far, and a swap may still meet another: a server of another
        version, or a verdict that is over. So whoever says one of them of a lock sends nothing under it but swaps that
        are `require_cas`. Of a lock under which a drop may be
        sent BLIND is said.
        """
        known = self._known(namespace)
        if not known:
            return SwapProtection.UNPROVEN
        return SwapProtection.CAS if set(known.values()) == {CompareAndSwap.ATOMIC} else SwapProtection.BLIND

    def _known(self, namespace: str) -> dict[str, CompareAndSwap]:
        now = self._now()
        with self._mutex:
            found = self._by_namespace.get(namespace, {})
            return {uri: finding.verdict for uri, finding in found.items() if now < finding.until}


def _limit(by_namespace: dict[str, Any]) -> None:
    while len(by_namespace) > DATABASES_MAX:
        del by_namespace[next(iter(by_namespace))]
