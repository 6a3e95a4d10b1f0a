"""The log of a server, which never blocks it.

A write to a pipe that nobody reads blocks the writer, and the worker of a table's queue logs a line for each commit. So
a server hands its lines to a thread of its own, which drops and counts the lines that it cannot write.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from logging.handlers import QueueHandler
from queue import Full, Queue
from typing import Final

#: Lines that wait to be written; more are dropped.
LINES_MAX: Final = 10_000
#: How long the end of a server waits for its last lines.
END_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


class _DroppingHandler(QueueHandler):
    """Puts lines into the queue, and drops those that do not fit. dropped: how many since the last warning."""

    def __init__(self, lines: Queue[logging.LogRecord | None]) -> None:
        super().__init__(lines)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Never waits."""
        try:
            self.queue.put_nowait(record)
        except Full:
            self.dropped += 1


class Background:
    """is_written: whether the thread wrote all lines, known after the end."""

    def __init__(self) -> None:
        self.is_written = False


@contextlib.contextmanager
def in_background() -> Iterator[Background]:
    """Within this block a thread of its own writes the log, with the handlers of the root logger."""
    background = Background()
    root = logging.getLogger()
    handlers = list(root.handlers)
    lines: Queue[logging.LogRecord | None] = Queue(LINES_MAX)
    handler = _DroppingHandler(lines)
    thread = threading.Thread(target=_write, args=(handler, lines, handlers), name="log", daemon=True)
    thread.start()
    _replace(root, handlers, [handler])
    try:
        yield background
    finally:
        _replace(root, [handler], handlers)
        with contextlib.suppress(Full):
            lines.put(None, timeout=END_SECONDS)
        thread.join(END_SECONDS)
        background.is_written = not thread.is_alive()


def _replace(root: logging.Logger, old: Sequence[logging.Handler], new: Sequence[logging.Handler]) -> None:
    for handler in new:
        root.addHandler(handler)
    for handler in old:
        root.removeHandler(handler)


def _write(
    dropping: _DroppingHandler, lines: Queue[logging.LogRecord | None], handlers: Sequence[logging.Handler]
) -> None:
    while (record := lines.get()) is not None:
        for handler in handlers:
            if record.levelno >= handler.level:
                handler.handle(record)
        dropped, dropping.dropped = dropping.dropped, 0
        if dropped:
            logger.warning("%d lines were dropped: the log was not read fast enough", dropped)
