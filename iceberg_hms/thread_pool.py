"""Threads that take work until the process ends.

The executors of concurrent.futures, asyncio's default one too, take none once the main thread has ended, though other
threads of the program may go on for hours: a catalog and a server must work for those.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from iceberg_hms.clock import SYSTEM_CLOCK

#: How long the process waits at its end for work that was handed in before: as long as a swap may stay unanswered. Work
#: that is cut off may leave a lock entry or a file behind.
EXIT_SECONDS: Final = 600.0

Result = TypeVar("Result")


class ThreadPool:
    """At most `threads` threads, each of which starts when it is needed first. They end after `close`, and when nobody
    refers to the pool any more. Safe for threads; not for use in a forked child.

    name: of the threads, before their numbers.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._limit = threads
        self._started = 0
        self._work = _Work()
        weakref.finalize(self, self._work.items.put, None).atexit = False

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Run a function on a thread, after those that were handed in before. Raises RuntimeError after `close`, at the
        end of the process, and if no thread can be started."""
        future: Future[Result] = Future()
        work = self._work
        with work.mutex:
            if work.closed:
                raise RuntimeError("this thread pool takes no more work")
            pending = work.put(future, function)
            if self._started < min(pending, self._limit):
                self._start_thread(future)
        return future

    def close(self) -> None:
        """Take no more work, and do not wait: what was handed in is still done."""
        self._work.close()

    def _start_thread(self, future: Future[Any]) -> None:
        thread = threading.Thread(target=self._work.run, name=f"{self._name}_{self._started}", daemon=True)
        _threads[thread] = self._work
        try:
            thread.start()
        except RuntimeError:
            del _threads[thread]
            if not self._started:
                future.cancel()
                raise
            return
        self._started += 1


class _Work:
    """What the threads of a pool share. They do not refer to the pool, which may become garbage."""

    def __init__(self) -> None:
        #: Held while a thread starts; threads that end an item do not need it.
        self.mutex = threading.Lock()
        self.closed = False
        #: How many items wait or run.
        self._pending = 0
        self._counting = threading.Lock()
        #: None: no more items follow.
        self.items: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def put(self, future: Future[Any], function: Callable[[], Any]) -> int:
        """Hand an item in. How many wait or run now."""
        with self._counting:
            self._pending += 1
            self.items.put((future, function))
            return self._pending

    def close(self) -> None:
        with self.mutex:
            self.closed = True
            self.items.put(None)

    def run(self) -> None:
        while (item := self.items.get()) is not None:
            self._run(*item)
            # An idle thread must keep nothing alive.
            del item
        # For the next thread.
        self.items.put(None)
        _threads.pop(threading.current_thread(), None)

    def _run(self, future: Future[Any], function: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            self._ended()
            return
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - carried to the caller of `submit`
            self._ended()
            future.set_exception(error)
            # The error refers to this frame.
            del future, function
        else:
            self._ended()
            future.set_result(result)

    def _ended(self) -> None:
        with self._counting:
            self._pending -= 1


#: The threads of all pools of this process.
_threads: Final[dict[threading.Thread, _Work]] = {}


def _finish() -> None:
    """At the end of the process, which would cut its daemon threads off wherever they are."""
    threads = list(_threads.items())
    for _, work in threads:
        work.close()
    give_up_at = SYSTEM_CLOCK.monotonic() + EXIT_SECONDS
    for thread, _ in threads:
        thread.join(max(0.0, give_up_at - SYSTEM_CLOCK.monotonic()))


atexit.register(_finish)
# A forked child has none of these threads.
os.register_at_fork(after_in_child=_threads.clear)
