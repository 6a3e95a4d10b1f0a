"""The failures of requests: one line of JSON for each 409, each 5xx, and each error whose text the client does not get,
on the logger `iceberg_hms.failures`.

    {"time": "2026-11-22T16:12:48.031Z", "request": "0f6a...", "caller": "etl", "peer": "10.0.0.7", "action": "commit",
     "object": ["sales", "orders"], "status": 409, "cause": "assert-ref-snapshot-id", "error": "Requirement failed..."}

A storm of conflicts must not fill a disk: each cause gets `LINES_MAX` lines in `WINDOW_SECONDS`, and one that says how
many were left out (`left_out`). /metrics counts all of them. No client can forge a line or make one long (`log_lines`).
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.errors import CONFLICT, cause_of, is_hidden
from iceberg_hms.rest.log_lines import cut, json_line, time_of
from iceberg_hms.warehouse_settings import DEFAULT_WAREHOUSE

LOGGER: Final = "iceberg_hms.failures"
#: So many lines of one cause, in so many seconds.
LINES_MAX: Final = 20
WINDOW_SECONDS: Final = 10.0
#: How much of an error's text, and of the end of a defect's trace, a line has.
_ERROR_MAX: Final = 2_048
_TRACE_MAX: Final = 8_192
_FRAMES_MAX: Final = 40


@dataclass(slots=True)
class _Cause:
    """since: when its window began. lines, left_out: in this window."""

    since: float
    lines: int = 0
    left_out: int = 0


class FailureLog:
    """Writes the lines. Only the event loop calls it. Causes are few: types of errors, and of requirements."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logger = logging.getLogger(LOGGER)
        self._causes: dict[str, _Cause] = {}
        self._flush_is_due = False

    def write(self, entry: AuditEntry, method: str, path: str, status: int) -> None:
        """Write the line of a request that has ended, if it failed so that it gets one."""
        error = entry.error
        if error is None or not (status == CONFLICT or status >= 500 or is_hidden(error)):
            return
        cause = cause_of(error)
        if not self._has_room(cause):
            return
        line: dict[str, Any] = {
            "time": time_of(self._clock),
            "request": entry.request_id,
            "caller": None if entry.caller is None else entry.caller.name,
            "peer": cut(entry.peer),
            "action": entry.action or cut(f"{method} {path}"),
            "object": [cut(part) for part in entry.target.names],
            "status": status,
            "cause": cause,
            "error": cut(str(error), _ERROR_MAX),
        }
        if entry.target.warehouse != DEFAULT_WAREHOUSE:
            line["warehouse"] = entry.target.warehouse
        level = logging.INFO if status == CONFLICT else logging.WARNING
        if not isinstance(error, IcebergHmsError):
            level = logging.ERROR
            line["trace"] = "".join(traceback.format_exception(error, limit=-_FRAMES_MAX))[-_TRACE_MAX:]
        self._logger.log(level, "%s", json_line(line))

    def flush(self) -> None:
        """Say how many lines were left out."""
        self._flush_is_due = False
        for name, cause in self._causes.items():
            if cause.left_out:
                line = {"time": time_of(self._clock), "cause": name, "left_out": cause.left_out}
                self._logger.warning("%s", json_line(line))
        self._causes.clear()

    def _has_room(self, name: str) -> bool:
        now = self._clock.monotonic()
        cause = self._causes.get(name)
        if cause is None or (now - cause.since >= WINDOW_SECONDS and not cause.left_out):
            cause = self._causes[name] = _Cause(now)
        if cause.lines < LINES_MAX:
            cause.lines += 1
            return True
        cause.left_out += 1
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_later(WINDOW_SECONDS, self.flush)
        return False
