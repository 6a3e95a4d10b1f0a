"""How a server command ends: by SIGINT, SIGTERM, or the end of its standard input, always through its `with` blocks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CHUNK = 64 * 1024


class Lifetime:
    """Makes SIGINT and SIGTERM end a command in order. Enter it before anything is started, in the main thread.

        with Lifetime(exit_with_stdin) as lifetime, LocalMetastore(...) as metastore:
            lifetime.ready()
            announce(...)
            lifetime.wait()

    A signal before `ready` is a KeyboardInterrupt; one after it makes `wait` return. Further signals are ignored, so
    that they cannot break the clean-up.

    exit_with_stdin: also end when standard input is closed. A parent that holds the other end of the pipe takes the
        server with it however the parent dies, `kill -9` included.
    """

    def __init__(self, exit_with_stdin: bool) -> None:
        self._exit_with_stdin = exit_with_stdin
        # Not a threading.Event: a signal handler may not take a lock that the main thread holds.
        self._over: SimpleQueue[None] = SimpleQueue()
        self._starting = True
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = [signal.signal(number, self._interrupt) for number in _SIGNALS]
        if self._exit_with_stdin:
            threading.Thread(target=self._watch_stdin, name="stdin", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def ready(self) -> None:
        """The command has started everything: from now on a signal ends `wait`, and interrupts nothing."""
        self._starting = False

    def wait(self) -> None:
        """Block until a signal comes or standard input ends."""
        self._over.get()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._starting:
            self._starting = False
            raise KeyboardInterrupt
        self._over.put(None)

    def _watch_stdin(self) -> None:
        # os.read and not sys.stdin: a thread that waits inside a buffered reader breaks the interpreter's own end.
        try:
            stdin = sys.stdin.fileno()
            while os.read(stdin, _CHUNK):
                pass
        except (OSError, ValueError, AttributeError):
            pass  # Standard input is closed or missing, which counts as its end.
        self._over.put(None)
