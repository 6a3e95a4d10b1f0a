"""The coordinator's world in production: real threads, and the clock that it is given."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Final

from iceberg_hms import forks
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Event

#: How many functions run side by side for all callers of `gather` together; each caller runs one more itself.
GATHER_THREADS: Final = 32


class ThreadRuntime:
    """Implements `coordinator.ports.Runtime`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pool = _new_pool()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """The pool's threads are not in the child, though it counts them, and one of them may have had its mutex."""
        self._pool = _new_pool()

    def now(self) -> float:
        return self._clock.monotonic()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def jitter(self) -> float:
        return self._clock.jitter()

    def uuid(self) -> str:
        return self._clock.uuid()

    def event(self) -> Event:
        return threading.Event()

    def mutex(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        # A process that ends waits for a commit under way, so that no lock entry is left for a lease to end.
        threading.Thread(target=function, name=name, daemon=background).start()

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """The caller runs them too, so that a pool whose threads are all taken, by callers that wait here as well, or
        that takes no more work since the process ends, makes it slower and never stops it."""
        if not functions:
            return []
        batch = _Batch(functions)
        try:
            for _ in range(min(len(functions) - 1, GATHER_THREADS)):
                self._pool.submit(contextvars.copy_context().run, batch.work)
        except RuntimeError:  # the interpreter is shutting down
            pass
        batch.work()
        return batch.results()


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(GATHER_THREADS, thread_name_prefix="iceberg-hms-gather")


class _Batch:
    """Functions that several threads take from, one after the other."""

    def __init__(self, functions: Sequence[Callable[[], Any]]) -> None:
        self._functions = functions
        self._left = deque(range(len(functions)))
        self._results: list[Any] = [None] * len(functions)
        self._errors: list[BaseException] = []
        self._running = len(functions)
        self._mutex = threading.Lock()
        self._done = threading.Event()

    def work(self) -> None:
        """Run what nobody else has taken."""
        while True:
            try:
                index = self._left.popleft()
            except IndexError:
                return
            try:
                self._results[index] = self._functions[index]()
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                self._errors.append(error)
            with self._mutex:
                self._running -= 1
                if not self._running:
                    self._done.set()

    def results(self) -> list[Any]:
        """Wait for all. Raises the first error."""
        self._done.wait()
        if self._errors:
            raise self._errors[0]
        return self._results
