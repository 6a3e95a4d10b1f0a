"""What metastores make of compare-and-swap (HIVE-26882), and what this process has found out about its own.

A verdict belongs to a connection: behind one address there may be servers of several versions. The process as a whole
only sums up what its connections found.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import StrEnum

from iceberg_hms import forks


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


class Word(StrEnum):
    """The last part of a lock's agentInfo: what protects its holder's swap besides the lock."""

    CAS = "cas"
    UNPROVEN = "unproven"
    BLIND = "blind"


class Verdicts:
    """The proofs of a process, by address. Safe for threads.

    A proof is a swap that the server carried out with the expected value, after it had shown that it compares
    atomically; a proof on a scratch row counts as well. What was once found not to be atomic stays so until the process
    ends: behind that address there is a server to be wary of.
    """

    def __init__(self, uris: Sequence[str]) -> None:
        self._uris = tuple(uris)
        forks.tell(self)
        self._mutex = threading.Lock()
        self._by_uri: dict[str, CompareAndSwap] = {}

    def begin_in_forked_child(self) -> None:
        """Keep what is known. A thread of the parent that had the mutex is not in the child."""
        self._mutex = threading.Lock()

    def learned(self, uri: str, verdict: CompareAndSwap) -> None:
        """A connection to this address was proven to be this. UNKNOWN teaches nothing."""
        if verdict is CompareAndSwap.UNKNOWN:
            return
        with self._mutex:
            if self._by_uri.get(uri, CompareAndSwap.ATOMIC) is CompareAndSwap.ATOMIC:
                self._by_uri[uri] = verdict

    def of(self, uri: str) -> CompareAndSwap:
        """What is known of an address."""
        with self._mutex:
            return self._by_uri.get(uri, CompareAndSwap.UNKNOWN)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The addresses of the list that nothing is known of, in the order of the list."""
        with self._mutex:
            return tuple(uri for uri in self._uris if uri not in self._by_uri)

    @property
    def all_atomic(self) -> bool:
        """Whether every address of the list was proven atomic, and no connection was found to be anything else."""
        with self._mutex:
            return set(self._uris) <= set(self._by_uri) and self._has_only_atomic()

    @property
    def word(self) -> Word:
        """What this process says of its swaps at this moment.

        CAS: at least one connection was proven atomic, and none was ever found to be anything else. BLIND: one was.
        UNPROVEN: nothing is known yet, as before the first swap of a process.

        What can go wrong with CAS: it speaks of the connections so far. A swap that is sent afterwards on a new
        connection carries only the probe's key; if that leads to a server which ignores the keys (another of the list,
        or another version behind the same address), the swap has no fence although its lock says CAS. It takes servers
        of mixed versions, and a swap that is still under way when its lock has been taken away.
        """
        with self._mutex:
            if not self._by_uri:
                return Word.UNPROVEN
            return Word.CAS if self._has_only_atomic() else Word.BLIND

    def _has_only_atomic(self) -> bool:
        return set(self._by_uri.values()) <= {CompareAndSwap.ATOMIC}
