r"""The audit trail: one line of JSON for each change and each refusal, on the logger `iceberg_hms.audit`.

    {"time": "2026-11-22T16:12:48.031Z", "request": "0f6a...-1c", "caller": "etl", "peer": "10.0.0.7",
     "action": "commit", "object": ["sales", "orders"], "outcome": "done", "status": 200, "snapshots": [5103...]}

outcome: `done`; `refused`: nothing was changed; `unknown`: the change may be made, now or later. No client can forge a
line or make one long (`log_lines`). Strangers cannot fill the log either: it has so many of their refusals a second,
and then a line with the number of the others (`left_out`).

What the server does by itself gets a line too: what it deletes on behalf of a table, by path and at most 1,000 files
(`action` is `delete-files`; its outcome is `failed` for those that may still be there), the end of a purge with their
number (`purge`; its outcome is `stopped` if files are left), and the snapshots in which it merges manifests
(`merge-manifests`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.rest.access.authorization import CATALOG, AccessTarget, Action
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.log_lines import JsonLog, LineLimit, cut

LOGGER: Final = "iceberg_hms.audit"
#: How much of a deleted file's path a line has: as much as a metastore holds.
_PATH_MAX: Final = 4_000
#: How many snapshot ids a line names.
SNAPSHOTS_MAX: Final = 16
#: How many refusals of requests without a known caller get a line of their own in a second.
STRANGERS_PER_SECOND: Final = 50

#: What changes the catalog: these actions get a line whatever comes of them.
CHANGES: Final = frozenset(
    {
        Action.CREATE_NAMESPACE,
        Action.UPDATE_NAMESPACE,
        Action.DROP_NAMESPACE,
        Action.CREATE_TABLE,
        Action.COMMIT,
        Action.DROP_TABLE,
        Action.RENAME_TABLE,
        Action.REGISTER_TABLE,
        Action.CREATE_VIEW,
        Action.COMMIT_VIEW,
        Action.DROP_VIEW,
        Action.RENAME_VIEW,
        Action.REGISTER_VIEW,
        Action.SET_PROTECTED_PROPERTY,
    }
)
_REFUSALS: Final = (401, 403)
#: Hexadecimal digits that tell the requests of one process from those of another.
_PROCESS_DIGITS: Final = 16
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(slots=True)
class AuditEntry:
    """What is known of a request so far.

    request_id: finds its log lines, and is returned to the client. peer: the address that it came from. caller: None
    before the server knows. begun: whether a handler was called, so that a change may have been made.
    details: more for the line, name by name. error: what the client got instead of a result.
    """

    request_id: str
    peer: str
    caller: Caller | None = None
    action: Action | None = None
    target: AccessTarget = CATALOG
    begun: bool = False
    snapshots: Sequence[int] = ()
    details: dict[str, str | list[str]] = field(default_factory=dict)
    error: Exception | None = None

    def fields(self, method: str, path: str) -> dict[str, Any]:
        """What a line has of the request. path: of its URL."""
        return {
            "request": self.request_id,
            "caller": None if self.caller is None else self.caller.name,
            "peer": self.peer,
            "action": self.action or f"{method} {path}",
            "object": self.target.names,
            "warehouse": self.target.warehouse,
        }


class RequestIds:
    """Ids of requests: one random part for the process, and a number. A random id for each request would be a call of
    the system, at each of which the event loop may lose its turn to another thread."""

    def __init__(self, clock: Clock) -> None:
        self._process = clock.uuid().replace("-", "")[:_PROCESS_DIGITS]
        self._numbers = itertools.count(1)

    def id_of(self, sent: str | None) -> str:
        """The client's own id of a request (header `X-Request-ID`) if it can be read in any log, else a new one."""
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent
        return f"{self._process}-{next(self._numbers):x}"


class AuditTrail:
    """Writes the lines of requests. Only the event loop calls it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = JsonLog(LOGGER, clock)
        self._strangers = LineLimit(STRANGERS_PER_SECOND, 1.0, self._tell)

    def close(self, entry: AuditEntry, status: int, method: str, path: str) -> None:
        """Write the line of a request that has ended with a status, if it gets one."""
        refused = status in _REFUSALS
        if not refused and (entry.action not in CHANGES or not (entry.begun or 400 <= status < 499)):
            return
        if entry.caller is None and not self._strangers.has_room("refused", None, self._clock.monotonic()):
            return
        fields = {**entry.fields(method, path), "outcome": _outcome(status), "status": status}
        if entry.snapshots:
            fields["snapshots"] = list(entry.snapshots[:SNAPSHOTS_MAX])
        self._log.write({**fields, **entry.details})

    def flush(self) -> None:
        """Say how many lines were left out."""
        self._strangers.flush()

    def _tell(self, cause: str, caller: str | None, left_out: int) -> None:
        self._log.write({"caller": caller, "action": None, "outcome": cause, "left_out": left_out})


class ServerTrail:
    """Writes the lines of what the server does by itself in a warehouse. Any thread may call it."""

    def __init__(self, clock: Clock, warehouse: str) -> None:
        self._log = JsonLog(LOGGER, clock)
        self._warehouse = warehouse

    def write(self, event: Mapping[str, Any]) -> None:
        """Write the line of an event (`coordinator.ports.EventListener`), if it gets one."""
        match event:
            case {"event": "files-deleted" | "files-left" as kind, "locations": locations, "why": why}:
                files = [cut(each, _PATH_MAX) for each in locations]
                outcome = "done" if kind == "files-deleted" else "failed"
                self._log.write({**self._fields("delete-files", event, outcome), "why": why}, files=files)
            case {"event": "purged", "ended": ended, "why": why, "metadata_location": location}:
                counted = {key: event[key] for key in ("deleted", "kept", "failed")}
                bounded: dict[str, Any] = {"why": cut(why, _PATH_MAX)} if why else {}
                fields = {**self._fields("purge", event, "done" if ended else "stopped"), **counted}
                self._log.write(fields, **bounded, metadata=cut(location, _PATH_MAX))
            case {"event": "manifests-merged", "snapshot_id": snapshot, "outcome": outcome}:
                self._log.write({**self._fields("merge-manifests", event, outcome), "snapshots": [snapshot]})

    def _fields(self, action: str, event: Mapping[str, Any], outcome: str) -> dict[str, Any]:
        table = event["table"]
        names = [table.namespace, table.name]
        return {"action": action, "object": names, "warehouse": self._warehouse, "outcome": outcome}


def _outcome(status: int) -> str:
    if status < 400:
        return "done"
    # 499: the client left, or the server was stopped, before there was an answer.
    return "refused" if status < 499 else "unknown"
