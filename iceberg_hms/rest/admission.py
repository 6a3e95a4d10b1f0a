"""What callers may hold of the server at once: requests without a response, and memory for their bodies."""

from __future__ import annotations

from collections import Counter
from types import TracebackType

from iceberg_hms.errors import QueueFull
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.work import caller_owner


class Admission:
    """The shares of all callers. Only one event loop uses it, so it needs no mutex.

    requests: the most of one caller. memory: in which the bodies count.
    """

    def __init__(self, requests: int, memory: MemoryBudget) -> None:
        self.max_requests = requests
        self.memory = memory
        #: Requests without a response, by caller; callers without any are not there.
        self.running: Counter[str] = Counter()

    def enter(self, caller: str) -> HeldByRequest:
        """A request of this caller begins. Raises QueueFull if it has as many as it may."""
        running = self.running[caller]
        if running >= self.max_requests:
            raise QueueFull(f"{running} requests of this caller are running; the server did nothing of this one")
        self.running[caller] = running + 1
        return HeldByRequest(self, caller)


class HeldByRequest:
    """What one request of a caller holds, until it ends."""

    __slots__ = ("_admission", "_memory", "caller")

    def __init__(self, admission: Admission, caller: str) -> None:
        self._admission = admission
        self._memory = admission.memory.share(caller_owner(caller))
        self.caller = caller

    def hold(self, size: int) -> None:
        """Hold so many bytes more. Raises QueueFull if that is more than the caller, or all callers, may hold."""
        if not self._memory.resize(self._memory.bytes + size):
            raise QueueFull("The requests that are running hold too much memory; the server did nothing of this one")

    def __enter__(self) -> HeldByRequest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.resize(0)
        running = self._admission.running
        running[self.caller] -= 1
        if not running[self.caller]:
            del running[self.caller]
