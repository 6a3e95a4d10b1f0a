"""The coordinator's runtime in production: real threads, and a given clock."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock, ClockReading
from iceberg_hms.coordinator.ports import Begun, Result, ThreadEvent
from iceberg_hms.thread_pool import ThreadPool

#: How many functions run in parallel for all callers of `gather` together; each caller runs one more itself.
GATHER_THREADS: Final = 64


class ThreadRuntime:
    """Implements `coordinator.ports.Runtime`. threads: that `gather` has for all its callers together."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, threads: int = GATHER_THREADS) -> None:
        self._clock = clock
        self._threads = threads
        self._pool = ThreadPool("iceberg-hms-gather", threads)

    def now(self) -> float:
        return self._clock.monotonic()

    def read_clocks(self) -> ClockReading:
        return self._clock.read_clocks()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def jitter(self) -> float:
        return self._clock.jitter()

    def uuid(self) -> str:
        return self._clock.uuid()

    def event(self) -> ThreadEvent:
        return threading.Event()

    def mutex(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        # The process ends only after commits under way, so that it leaves no lock entries behind.
        threading.Thread(target=function, name=name, daemon=background).start()

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """As the port says. The caller runs functions too: if the pool has no free thread (its threads may be callers
        that wait here as well), or takes no more work since the process ends, this takes longer and still ends."""
        if not functions:
            return []
        batch = _Batch(functions)
        self._run_in_pool(batch, len(functions) - 1)
        batch.work()
        return batch.results()

    def begin(self, function: Callable[[], Result]) -> Begun[Result]:
        """As the port says. Without a free thread in the pool this takes longer and still ends, as `gather`."""
        # The context is now's, also where the caller runs the function later.
        batch = _Batch([partial(contextvars.copy_context().run, function)])
        self._run_in_pool(batch, 1)
        return batch

    def run_while_waiting(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        """As the port says. Without a free thread in the pool this takes longer and still ends, as `gather`."""
        batch = _Batch([work])
        self._run_in_pool(batch, 1)
        try:
            result = wait()
        except BaseException:
            batch.end()
            raise
        batch.work()
        batch.results()
        return result

    def close(self) -> None:
        """End the threads of `gather` once they are idle. What still runs for the caller goes on without them."""
        self._pool.close()

    def _run_in_pool(self, batch: _Batch, threads: int) -> None:
        try:
            for _ in range(min(threads, self._threads)):
                self._pool.submit(partial(contextvars.copy_context().run, batch.work))
        except RuntimeError:  # the pool is closed, or no thread can be started
            pass


class _Batch:
    """Functions that several threads run, each the next one that none has begun.

    The pool refers to a batch until one of its threads gets to it, perhaps long after the batch has ended. So the batch
    drops each function, with what that refers to, when it ends, and the results when they are fetched."""

    def __init__(self, functions: Sequence[Callable[[], Any]]) -> None:
        self._functions: list[Callable[[], Any] | None] = list(functions)
        self._left = deque(range(len(functions)))
        self._results: list[Any] = [None] * len(functions)
        self._errors: list[BaseException] = []
        self._running = len(functions)
        self._mutex = threading.Lock()
        self._done = threading.Event()

    def work(self) -> None:
        """Run functions until all have been begun."""
        while True:
            try:
                index = self._left.popleft()
            except IndexError:
                return
            function, self._functions[index] = self._functions[index], None
            try:
                self._results[index] = function() if function is not None else None
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                self._errors.append(error)
            del function
            self._ended()

    def result(self) -> Any:
        """The result of the only function."""
        self.work()
        return self.results()[0]

    def abandon(self) -> None:
        """Begin no further function."""
        while self._left:
            try:
                self._functions[self._left.popleft()] = None
            except IndexError:
                break
            self._ended()

    def end(self) -> None:
        """Begin no further function, and wait for those that were begun."""
        self.abandon()
        self._done.wait()

    def results(self) -> list[Any]:
        """Wait for all functions. Raises the first error. Call once."""
        self._done.wait()
        results, self._results = self._results, []
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]
        return results

    def _ended(self) -> None:
        with self._mutex:
            self._running -= 1
            if not self._running:
                self._done.set()
