"""The log of a server, which never blocks it.

A write to a pipe that nobody reads blocks the writer, and the worker of a table's queue logs a line for each commit. So
a server hands its lines to a thread of its own, which drops and counts the lines that it cannot write. The audit trail
can have a file, and then a thread, of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from logging.handlers import QueueHandler, WatchedFileHandler
from queue import SimpleQueue
from typing import Final

from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.access.audit import LOGGER as AUDIT_LOGGER

#: Lines that wait to be written; more are dropped.
LINES_MAX: Final = 10_000
#: How long a line may wait for others. Without that, a busy server wakes the thread for each line, and each time a
#: thread that commits loses its turn.
BATCH_SECONDS: Final = 0.02
#: How long the end of a server waits for its last lines.
END_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)

#: None: there are no more lines.
_Lines = SimpleQueue[logging.LogRecord | None]


class _DroppingHandler(QueueHandler):
    """Puts lines into the queue, and drops those that do not fit. dropped: how many since the last warning."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__(lines)
        self._lines = lines
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record with its text made, since the arguments may change. No other handler gets it."""
        if record.exc_info or record.exc_text or record.stack_info:
            return super().prepare(record)  # type: ignore[no-any-return]
        record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Never waits."""
        if self._lines.qsize() < LINES_MAX:
            self._lines.put(record)
        else:
            self.dropped += 1


class Background:
    """is_written: whether the thread wrote all lines, known after the end."""

    def __init__(self) -> None:
        self.is_written = False


@contextlib.contextmanager
def in_background(audit_log: str = "") -> Iterator[Background]:
    """Within this block a thread of its own writes the log, with the handlers of the root logger.

    audit_log: the file that gets the audit trail, one JSON object a line, by another thread; without it the trail is
    part of the log. Raises ConfigError if the file cannot be opened.
    """
    root, audit = logging.getLogger(), logging.getLogger(AUDIT_LOGGER)
    with contextlib.ExitStack() as stack:
        background = stack.enter_context(_handed_over(root, root.handlers, "log"))
        if audit_log:
            file = stack.enter_context(contextlib.closing(_audit_file(audit_log)))
            trail = stack.enter_context(_handed_over(audit, [file], "audit-log"))
            audit.propagate = False
            stack.callback(setattr, audit, "propagate", True)
        yield background
    if audit_log and not trail.is_written:
        logger.warning("the last lines of the audit trail may be missing in %s", audit_log)


@contextlib.contextmanager
def _handed_over(source: logging.Logger, handlers: Sequence[logging.Handler], name: str) -> Iterator[Background]:
    """Within this block a thread of this name writes what `source` logs, with these handlers."""
    background = Background()
    handlers, own = list(handlers), list(source.handlers)
    lines: _Lines = SimpleQueue()
    handler = _DroppingHandler(lines)
    ended = threading.Event()
    thread = threading.Thread(target=_write, args=(handler, lines, handlers, ended), name=name, daemon=True)
    thread.start()
    _replace(source, own, [handler])
    try:
        yield background
    finally:
        _replace(source, [handler], own)
        ended.set()
        lines.put(None)
        thread.join(END_SECONDS)
        background.is_written = not thread.is_alive()


class _AuditFile(WatchedFileHandler):
    """A file for this user alone. It is opened again when logrotate has moved it away."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=partial(os.open, mode=0o600))


def _audit_file(path: str) -> logging.Handler:
    try:
        return _AuditFile(path, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the audit trail to {path}: {error.strerror}",
            next_step="name a file that this user can write",
        ) from error


def _replace(root: logging.Logger, old: Sequence[logging.Handler], new: Sequence[logging.Handler]) -> None:
    for handler in new:
        root.addHandler(handler)
    for handler in old:
        root.removeHandler(handler)


def _write(
    dropping: _DroppingHandler, lines: _Lines, handlers: Sequence[logging.Handler], ended: threading.Event
) -> None:
    while (record := lines.get()) is not None:
        if lines.empty():
            ended.wait(BATCH_SECONDS)
        for handler in handlers:
            if record.levelno >= handler.level:
                handler.handle(record)
        dropped, dropping.dropped = dropping.dropped, 0
        if dropped:
            logger.warning("%d lines were dropped: the log was not read fast enough", dropped)
