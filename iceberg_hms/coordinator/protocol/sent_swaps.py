"""Which snapshots this process has sent to the metastore.

Where a table no longer exists, nobody can look whether it had a snapshot. What proves the snapshot's absence then is
that no swap that carried it was sent. A process knows its own swaps, for snapshots made after it began to remember.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.coordinator.protocol.invariants import CLOCK_SKEW_MS

#: How many snapshots a process remembers.
REMEMBERED_MAX: Final = 50_000


class SentSwaps:
    """Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        #: By snapshot id: how many swaps carried it and are not proved absent, and when the last one was sent.
        self._sent: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._complete_since_ms = runtime.now_ms()
        self._began = runtime.now()

    def sending(self, snapshot_ids: Iterable[int]) -> None:
        """A swap that carries these is about to be sent."""
        now = self._runtime.now_ms()
        with self._mutex:
            for id_ in snapshot_ids:
                count, _ = self._sent.pop(id_, (0, 0))
                self._sent[id_] = (count + 1, now)
            while len(self._sent) > REMEMBERED_MAX:
                _, (_, forgotten) = self._sent.popitem(last=False)
                self._complete_since_ms = max(self._complete_since_ms, forgotten)

    def proved_absent(self, snapshot_ids: Iterable[int]) -> None:
        """One swap that carried these was not made, and cannot be made any more."""
        with self._mutex:
            for id_ in snapshot_ids:
                count, sent = self._sent.get(id_, (0, 0))
                if count > 1:
                    self._sent[id_] = (count - 1, sent)
                else:
                    self._sent.pop(id_, None)

    def carried(self, identity: ChangeIdentity) -> bool:
        """Whether a swap that carried one of a change's snapshots was sent, and may have been made."""
        with self._mutex:
            return any(id_ in self._sent for id_ in identity.snapshot_ids)

    def would_know(self, identity: ChangeIdentity) -> bool:
        """Whether this process remembers all swaps that it can have sent since a change was made. A client's clock may
        be ahead: what is further in the future was refused, unless the table was as well."""
        made = None if identity.client_base is None else identity.client_base.timestamp_ms
        now = self._runtime.now_ms()
        # A clock that was behind when the process began has been put right since.
        began = now - int((self._runtime.now() - self._began) * 1000)
        since = max(self._complete_since_ms, began)
        return made is not None and since + CLOCK_SKEW_MS < made <= now + CLOCK_SKEW_MS
