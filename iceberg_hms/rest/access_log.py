"""The access log: one line of JSON for each request, on the logger `iceberg_hms.access` (`rest.access-log`).

    {"time": "2026-11-22T16:12:48.031Z", "request": "0f6a...", "peer": "10.0.0.7", "caller": "etl", "method": "GET",
     "path": "/v1/namespaces/sales/tables/orders", "status": 200, "bytes": 4711, "ms": 1.7}

request: as in the audit trail and in the response's header `x-request-id`. bytes: of the body, as it was sent. status
499: the client left before it had an answer. Health checks and scrapes that succeed get no line: there are many, and
all are alike. No client can forge a line or make it long (`log_lines`).
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from iceberg_hms.clock import Clock
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.log_lines import JsonLog

LOGGER: Final = "iceberg_hms.access"


class AccessLog:
    """Writes the lines. enabled: whether it does."""

    def __init__(self, clock: Clock, *, enabled: bool) -> None:
        self._log = JsonLog(LOGGER, clock)
        self._enabled = enabled

    def write(
        self, entry: AuditEntry, method: str, path: str, status: int, response: Response | None, seconds: float
    ) -> None:
        """Write the line of a request that has ended. response: None if there was none."""
        if not self._enabled or not self._log.wants():
            return
        self._log.write(
            {
                "request": entry.request_id,
                "peer": entry.peer,
                "caller": None if entry.caller is None else entry.caller.name,
                "method": method,
                "path": path,
                "status": status,
                "bytes": 0 if response is None or method == "HEAD" else len(response.body),
                "ms": round(seconds * 1000, 1),
                "warehouse": entry.target.warehouse,
            }
        )
