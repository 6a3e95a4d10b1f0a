"""The log: no text of a client breaks out of its line, and no server waits for it.

A location, a name or an error that a client chose is in many records, and may hold a line that looks like one of the
audit trail. So the formatter escapes what ends a line or steers a terminal. A stack trace keeps its lines, which people
must read; each begins with a tab, as no record does, and log shippers take such lines for a record's continuation.

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
from datetime import UTC, datetime
from functools import lru_cache, partial
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from queue import SimpleQueue
from typing import Final

from iceberg_hms.cli.output import printable
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.access.audit import LOGGER as AUDIT_LOGGER

#: Lines that wait to be written; more are dropped.
LINES_MAX: Final = 10_000
#: How long a line may wait for others. Without that, a busy server wakes the thread for each line, and each time a
#: thread that commits loses its turn.
BATCH_SECONDS: Final = 0.02
#: How many more lines are written at a time.
BATCH_MAX: Final = 1_000
#: How long the end of a server waits for its last lines.
END_SECONDS: Final = 2.0
#: Switches of what the logging library looks up for each record (its HOWTO, "Optimization"): the line of code, the
#: thread, the process and the task. No line of a server shows them, and they take longer than all its rest.
_NOT_LOOKED_UP: Final = {
    "_srcfile": None,
    "logThreads": False,
    "logProcesses": False,
    "logMultiprocessing": False,
    "logAsyncioTasks": False,
}

logger = logging.getLogger(__name__)

#: What writes the lines of handlers that only format a record and write it to a stream.
_PLAIN: Final = (logging.StreamHandler.emit, WatchedFileHandler.emit)

#: None: there are no more lines.
_Lines = SimpleQueue[logging.LogRecord | None]


class LineFormatter(logging.Formatter):
    """One line for a record, without control characters, and the lines of its stack trace, which begin with a tab.

    bare: the line is the message alone. Else its time, level and logger come before that."""

    def __init__(self, *, bare: bool = False) -> None:
        super().__init__()
        self._bare = bare

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        text = record.getMessage()
        if not self._bare:
            text = f"{_time(int(record.created))},{int(record.msecs):03d} {record.levelname} {record.name}: {text}"
        text = printable(text)
        trace = record.exc_text or (record.exc_info and self.formatException(record.exc_info))
        for part in (trace, record.stack_info):
            if part:
                text = "\n\t".join((text, *map(printable, part.split("\n"))))
        return text


@lru_cache(maxsize=1)
def _time(second: int) -> str:
    """Local time. Kept, since a server may write thousands of lines in a second."""
    return f"{datetime.fromtimestamp(second, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


class _DroppingHandler(logging.Handler):
    """Puts lines into the queue, and drops those that do not fit. dropped: how many since the last warning."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines
        self.dropped = 0

    def handle(self, record: logging.LogRecord) -> bool:
        """Never waits; the queue needs no lock. The record gets its texts before, since what they are made of may
        change. No other handler gets it."""
        try:
            record.msg, record.args = record.getMessage(), None
            if record.exc_info:
                record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        except Exception:  # noqa: BLE001 - as in `emit` of all handlers
            self.handleError(record)
            return True
        if self._lines.qsize() < LINES_MAX:
            self._lines.put(record)
        else:
            self.acquire()
            self.dropped += 1
            self.release()
        return True


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
        stack.callback(vars(logging).update, {name: vars(logging).get(name) for name in _NOT_LOOKED_UP})
        vars(logging).update(_NOT_LOOKED_UP)
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
        file = _AuditFile(path, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the audit trail to {path}: {error.strerror}",
            next_step="name a file that this user can write",
        ) from error
    file.setFormatter(LineFormatter(bare=True))
    return file


def _replace(root: logging.Logger, old: Sequence[logging.Handler], new: Sequence[logging.Handler]) -> None:
    for handler in new:
        root.addHandler(handler)
    for handler in old:
        root.removeHandler(handler)


def _write(
    dropping: _DroppingHandler, lines: _Lines, handlers: Sequence[logging.Handler], ended: threading.Event
) -> None:
    while (first := lines.get()) is not None:
        if lines.qsize() < BATCH_MAX:
            ended.wait(BATCH_SECONDS)
        batch = [first]
        for _ in range(min(lines.qsize(), BATCH_MAX)):
            if (record := lines.get()) is None:
                # The end, which the next round is to find.
                lines.put(None)
                break
            batch.append(record)
        for handler in handlers:
            _write_batch(handler, batch)
        dropped, dropping.dropped = dropping.dropped, 0
        if dropped:
            logger.warning("%d lines were dropped: the log was not read fast enough", dropped)


def _write_batch(handler: logging.Handler, records: Sequence[logging.LogRecord]) -> None:
    """Write records with one call of the system: at each of them this thread gives up the interpreter, and to get it
    back takes it away from one that commits. As in logging, a record that cannot be written stops nothing."""
    wanted = [record for record in records if record.levelno >= handler.level]
    if not isinstance(handler, logging.StreamHandler) or type(handler).emit not in _PLAIN:
        for record in wanted:
            handler.handle(record)
        return
    texts: list[str] = []
    for record in wanted:
        try:
            if handler.filter(record):
                texts.append(handler.format(record) + handler.terminator)
        except Exception:  # noqa: BLE001 - a formatter may raise anything
            handler.handleError(record)
    if not texts:
        return
    handler.acquire()
    try:
        if isinstance(handler, WatchedFileHandler):
            handler.reopenIfNeeded()
        handler.stream.write("".join(texts))
        handler.flush()
    except Exception:  # noqa: BLE001 - so may a stream
        handler.handleError(wanted[-1])
    finally:
        handler.release()
