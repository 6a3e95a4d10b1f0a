"""The processes that plan scans for a server (`planning_process`): started when they are needed, at most so many.

They are programs of their own, not forks: a server has threads. Nor are they made by `multiprocessing`, which runs the
main program again in each: that may be a user's notebook or script.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import iceberg_hms
from iceberg_hms.clock import Clock
from iceberg_hms.errors import IcebergHmsError, PlanUnavailable
from iceberg_hms.planning.answers import PlanAnswer
from iceberg_hms.rest.planning_process import PlanningSetup, PlanningTask, receive, send

logger = logging.getLogger(__name__)

#: How long a process may take to end by itself.
_END_SECONDS: Final = 2.0
#: A task is tried again in a new process, once: it may have been what the old one did before.
_TRIES: Final = 2
#: Where this package is.
_PACKAGES: Final = str(Path(iceberg_hms.__file__).parents[1])
_PROGRAM: Final = "from iceberg_hms.rest.planning_process import main; main()"


class PlanningProcesses:
    """number: how many may run. setup: what each of them opens. seconds: how long one task may take, the start of a
    process included. Safe for threads."""

    def __init__(self, number: int, setup: Callable[[], PlanningSetup], clock: Clock, seconds: float) -> None:
        self._setup = setup
        self._clock = clock
        self._seconds = seconds
        self._free = threading.Semaphore(number)
        self._mutex = threading.Lock()
        self._idle: list[_Process] = []
        self._running: set[_Process] = set()
        self._closed = False

    def answer(self, task: PlanningTask) -> PlanAnswer:
        """Raises what the process raises; PlanUnavailable if it does not answer in time, or ends again and again."""
        until = self._clock.monotonic() + self._seconds
        if not self._free.acquire(timeout=self._seconds):
            raise PlanUnavailable("Other plans kept the server's processes for too long")
        try:
            for _ in range(_TRIES):
                try:
                    return self._ask(task, until)
                except (EOFError, ConnectionError) as error:
                    logger.warning("a process that planned a scan ended: %r", error)
            raise PlanUnavailable("The process that planned the scan ended")
        finally:
            self._free.release()

    def _ask(self, task: PlanningTask, until: float) -> PlanAnswer:
        process = self._taken()
        keep = False
        try:
            result = process.ask(task, max(0.001, until - self._clock.monotonic()))
            keep = True
        except TimeoutError as error:
            raise PlanUnavailable("The plan took too long") from error
        finally:
            self._give_back(process, keep=keep)
        if isinstance(result, IcebergHmsError):
            raise result
        if not isinstance(result, PlanAnswer):
            raise TypeError(f"a planning process answered {type(result).__name__}")
        return result

    def _taken(self) -> _Process:
        with self._mutex:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = _Process(self._setup())
        with self._mutex:
            is_closed = self._closed
            if not is_closed:
                self._running.add(process)
        if is_closed:
            process.end()
            raise PlanUnavailable("The server is ending")
        return process

    def _give_back(self, process: _Process, *, keep: bool) -> None:
        with self._mutex:
            self._running.discard(process)
            if keep and not self._closed:
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        """End all processes, and what they plan."""
        with self._mutex:
            self._closed = True
            processes = [*self._idle, *self._running]
            self._idle.clear()
        for process in processes:
            process.end()


class _Process:
    """One process, which answers one task after another. Raises OSError if it cannot be started."""

    def __init__(self, setup: PlanningSetup) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            # It finds the modules that this process finds, whatever made them findable.
            path = os.pathsep.join([_PACKAGES, *filter(None, sys.path)])
            self._child = subprocess.Popen(  # noqa: S603 - our own program, no shell
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path},
            )
        send(self._channel, setup)

    def ask(self, task: PlanningTask, seconds: float) -> object:
        """What it answers: a PlanAnswer, or an error. Raises TimeoutError; EOFError, ConnectionError if it ends."""
        self._channel.settimeout(seconds)
        send(self._channel, task)
        return receive(self._channel)

    def end(self) -> None:
        """End it, whatever it does."""
        self._channel.close()
        try:
            self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
