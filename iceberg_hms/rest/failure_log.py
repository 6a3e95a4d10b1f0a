"""The failures of requests: one line of JSON for each 409, each 5xx, and each error whose text the client does not get,
on the logger `iceberg_hms.failures`.

    {"time": "2026-11-22T16:12:48.031Z", "request": "0f6a...", "caller": "etl", "peer": "10.0.0.7", "action": "commit",
     "object": ["sales", "orders"], "status": 409, "cause": "assert-ref-snapshot-id", "error": "Requirement failed..."}

A storm of conflicts must not fill a disk: each cause gets `LINES_MAX` lines of one caller in `WINDOW_SECONDS`, and one
that says how many were left out (`left_out`). So no caller can keep the failures of another one out of the log.
/metrics counts all of them. No client can forge a line or make one long (`log_lines`).
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
#: So many lines of one cause and one caller, in so many seconds.
LINES_MAX: Final = 20
WINDOW_SECONDS: Final = 10.0
#: How many causes of callers have lines of their own at a time. Beyond that the other callers share those of a cause.
ROOMS_MAX: Final = 1_024
#: How much of an error's text, and of the end of a defect's trace, a line has.
_ERROR_MAX: Final = 2_048
_TRACE_MAX: Final = 8_192
_FRAMES_MAX: Final = 40


@dataclass(slots=True)
class _Room:
    """since: when its window began. lines, left_out: in this window."""

    since: float
    lines: int = 0
    left_out: int = 0


class FailureLog:
    """Writes the lines. Only the event loop calls it. Causes are few: types of errors, and of requirements. Callers are
    those who have a token, and one for all others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logger = logging.getLogger(LOGGER)
        #: By cause and caller.
        self._rooms: dict[tuple[str, str | None], _Room] = {}
        self._flush_is_due = False

    def write(self, entry: AuditEntry, method: str, path: str, status: int) -> None:
        """Write the line of a request that has ended, if it failed so that it gets one."""
        error = entry.error
        if error is None or not (status == CONFLICT or status >= 500 or is_hidden(error)):
            return
        cause = cause_of(error)
        caller = None if entry.caller is None else entry.caller.name
        if not self._has_room(cause, caller):
            return
        line: dict[str, Any] = {
            "time": time_of(self._clock),
            "request": entry.request_id,
            "caller": caller,
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
        for (cause, caller), room in self._rooms.items():
            if room.left_out:
                line = {"time": time_of(self._clock), "cause": cause, "caller": caller, "left_out": room.left_out}
                self._logger.warning("%s", json_line(line))
        self._rooms.clear()

    def _has_room(self, cause: str, caller: str | None) -> bool:
        now = self._clock.monotonic()
        room = self._room(cause, caller, now)
        if room.lines < LINES_MAX:
            room.lines += 1
            return True
        room.left_out += 1
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_later(WINDOW_SECONDS, self.flush)
        return False

    def _room(self, cause: str, caller: str | None, now: float) -> _Room:
        def is_over(room: _Room) -> bool:
            return now - room.since >= WINDOW_SECONDS and not room.left_out

        key = (cause, caller)
        if key not in self._rooms and len(self._rooms) >= ROOMS_MAX:
            self._rooms = {each: room for each, room in self._rooms.items() if not is_over(room)}
            key = (cause, caller if len(self._rooms) < ROOMS_MAX else None)
        found = self._rooms.get(key)
        if found is None or is_over(found):
            found = self._rooms[key] = _Room(now)
        return found
