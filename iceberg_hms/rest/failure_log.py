"""The failures of requests: one line of JSON for each 409, each 5xx, and each error whose text the client does not get,
on the logger `iceberg_hms.failures`.

    {"time": "2026-11-22T16:12:48.031Z", "request": "0f6a...", "caller": "etl", "peer": "10.0.0.7", "action": "commit",
     "object": ["sales", "orders"], "status": 409, "cause": "assert-ref-snapshot-id", "error": "Requirement failed..."}

A storm of conflicts must not fill a disk: each cause gets `LINES_MAX` lines of one caller in `WINDOW_SECONDS`, and one
that says how many were left out (`left_out`). So no caller can keep the failures of another one out of the log.
/metrics counts all of them. No client can forge a line or make one long (`log_lines`).
"""

from __future__ import annotations

import logging
import traceback
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.errors import CONFLICT, cause_of, is_hidden
from iceberg_hms.rest.log_lines import JsonLog, LineLimit, cut

LOGGER: Final = "iceberg_hms.failures"
#: So many lines of one cause and one caller, in so many seconds.
LINES_MAX: Final = 20
WINDOW_SECONDS: Final = 10.0
#: How much of an error's text, and of the end of a defect's trace, a line has.
_ERROR_MAX: Final = 2_048
_TRACE_MAX: Final = 8_192
_FRAMES_MAX: Final = 40


class FailureLog:
    """Writes the lines. Only the event loop calls it. Causes are few: types of errors, and of requirements. Callers are
    those who have a token, and one for all others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = JsonLog(LOGGER, clock)
        self._limit = LineLimit(LINES_MAX, WINDOW_SECONDS, self._tell)

    def write(self, entry: AuditEntry, method: str, path: str, status: int) -> None:
        """Write the line of a request that has ended, if it failed so that it gets one."""
        error = entry.error
        if error is None or not (status == CONFLICT or status >= 500 or is_hidden(error)):
            return
        level = logging.INFO if status == CONFLICT else logging.WARNING
        if not isinstance(error, IcebergHmsError):
            level = logging.ERROR
        if not self._log.wants(level):
            return
        fields = {**entry.fields(method, path), "status": status, "cause": cause_of(error)}
        if not self._limit.has_room(fields["cause"], fields["caller"], self._clock.monotonic()):
            return
        bounded: dict[str, Any] = {"error": cut(str(error), _ERROR_MAX)}
        if not isinstance(error, IcebergHmsError):
            bounded["trace"] = "".join(traceback.format_exception(error, limit=-_FRAMES_MAX))[-_TRACE_MAX:]
        self._log.write(fields, level=level, **bounded)

    def flush(self) -> None:
        """Say how many lines were left out."""
        self._limit.flush()

    def _tell(self, cause: str, caller: str | None, left_out: int) -> None:
        self._log.write({"cause": cause, "caller": caller, "left_out": left_out}, level=logging.WARNING)
