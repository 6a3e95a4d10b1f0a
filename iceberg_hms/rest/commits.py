"""Commits of table updates (REST spec: POST /v1/{prefix}/namespaces/{namespace}/tables/{table}).

The body is a list of assumptions and a list of pending changes; the coordinator does the rest. See `errors` for what
each answer makes the client do with the files that it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.errors import AlreadyExists, InvalidInput, RequirementFailed
from iceberg_hms.rest.answers import commit_response
from iceberg_hms.rest.dispatch import Blocking, Call
from iceberg_hms.rest.payloads import SEPARATOR, CommitTable, idempotency_key
from iceberg_hms.rest.pending import Later
from iceberg_hms.rest.tables import named_table

if TYPE_CHECKING:
    from iceberg_hms.coordinator.protocol.commit_report import CommitReport


def commit_table(call: Call) -> Later | Blocking:
    """POST a table: commit updates under requirements, or create a table that was staged."""
    table = named_table(call)
    request = CommitTable.parse(call.body)
    _check_identifier(request, table)
    seconds = call.seconds_left
    arguments: dict[str, Any] = {
        "idempotency_key": _job_key(call, request),
        "client": call.client,
        "wait_seconds": seconds,
        "size": len(call.body),
    }

    # Of the call itself, which has the body, nothing may be kept while the commit waits.
    context = call.context

    def answer(report: CommitReport) -> Response:
        context.counters.committed(report)
        return commit_response(report.metadata, report.metadata_location, context.bodies)

    def create() -> Response:
        try:
            return answer(call.catalog.commit(table, request.requirements, request.updates, **arguments))
        except AlreadyExists as error:
            # The protocol's way to say it (UpdateRequirement.AssertTableDoesNotExist in Java).
            raise RequirementFailed("assert-create", "table already exists") from error

    if _creates(request):
        return Blocking(create)
    return Later(call.catalog.submit(table, request.requirements, request.updates, **arguments), seconds, answer)


def _creates(request: CommitTable) -> bool:
    return any(requirement.get("type") == "assert-create" for requirement in request.requirements)


def _check_identifier(request: CommitTable, table: tuple[str, str]) -> None:
    """Refuse a body that names another table than the path does: one of the two is a mistake."""
    if request.identifier is None:
        return
    parts, name = request.identifier
    named = (SEPARATOR.join(parts), name)
    # The metastore folds case, so two spellings are one table.
    if tuple(part.lower() for part in named) != tuple(part.lower() for part in table):
        raise InvalidInput(f"The body names table {'.'.join((*parts, name))}, the path names {'.'.join(table)}")


def _job_key(call: Call, request: CommitTable) -> str | None:
    """The header Idempotency-Key, where it can be kept: in the summary of a snapshot that brings no key of its own.
    Other commits need none: their requirements hold once only, or they change nothing the second time."""
    key = idempotency_key(call.headers)
    snapshots = [update.get("snapshot") for update in request.updates if update.get("action") == "add-snapshot"]
    summaries = [(snapshot.get("summary") or {}) for snapshot in snapshots if isinstance(snapshot, dict)]
    if not summaries or not all(isinstance(summary, dict) for summary in summaries):
        # Who reads the updates refuses what is malformed in them.
        return None
    if any(IDEMPOTENCY_KEY in summary for summary in summaries):
        return None
    return key
