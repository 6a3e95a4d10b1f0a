"""Real threads, as the tests of the drivers need them: waited for, and on a clock that the test turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

from iceberg_hms.clock import ClockReading
from iceberg_hms.runtime import ThreadRuntime


class Counted(ThreadRuntime):
    """Knows when everything that was spawned has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        thread = threading.Thread(target=function, name=name)
        self.threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


class ByHand(Counted):
    """Its time, in seconds, moves only when a test sets it. suspended: how long the machine was suspended, which the
    monotonic clock does not count. wall_ahead: by how much the wall clock was set forth."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1_000.0
        self.suspended = 0.0
        self.wall_ahead = 0.0

    def now(self) -> float:
        return self.time

    def read_clocks(self) -> ClockReading:
        boot = self.time + self.suspended
        return ClockReading(self.time, boot, boot + self.wall_ahead)
