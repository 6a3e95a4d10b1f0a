"""Commits of table updates (REST spec: POST /v1/{prefix}/namespaces/{namespace}/tables/{table}).

The body is a list of requirements and a list of updates; the coordinator commits them. `errors` says what each status
makes the client do with the files that it wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.responses import Response

from iceberg_hms.changes.summary import IDEMPOTENCY_KEY, with_caller
from iceberg_hms.errors import AlreadyExists, IcebergHmsError, ReadOnly, RequirementFailed
from iceberg_hms.rest.access import protected
from iceberg_hms.rest.access.audit import SNAPSHOTS_MAX
from iceberg_hms.rest.access.authorization import Action
from iceberg_hms.rest.dispatch import BlockingStep, RestRequest
from iceberg_hms.rest.payloads import CommitTable, check_identifier, idempotency_key
from iceberg_hms.rest.pending_response import PendingResponse
from iceberg_hms.rest.responses import commit_response
from iceberg_hms.rest.tables import named_table

if TYPE_CHECKING:
    from iceberg_hms.coordinator.outcome.outcome import CommitReport


def commit_table(request: RestRequest) -> PendingResponse | BlockingStep:
    """POST a table: commit updates under requirements, or create a staged table."""
    table = named_table(request)
    body = CommitTable.parse(request.body)
    check_identifier(body.identifier, table, "table")
    if request.context.settings.rest_read_only:
        # Its client may have sent it before the server was read-only, and it may have landed.
        refuse = partial(request.catalog.refusal, table, body.requirements, body.updates, ReadOnly())
        return BlockingStep(partial(_raise, refuse))
    creates = _creates(body)
    if creates:
        request.require(Action.CREATE_TABLE, *table)
        marks = protected.marks_of_new_tables(request.catalog.settings)
        request.require_protected(protected.changed_by(body.updates, marks), *table)
    request.entry.snapshots = _snapshot_ids(body)
    marks_caller = request.context.settings.rest_caller_in_summary
    requirements = body.requirements
    updates = with_caller(body.updates, request.caller.name if marks_caller else "")
    seconds = request.seconds_left
    arguments: dict[str, Any] = {
        "idempotency_key": _idempotency_key(request, body),
        "client": request.client,
        "wait_seconds": seconds,
        "size": request.memory,
    }

    # The waiting commit must not hold the request, whose body may be large: so `answer` does not use `request`.
    context = request.context

    def answer(report: CommitReport) -> Response:
        context.counters.committed(report)
        config = context.config_of(report.metadata)
        return commit_response(report.metadata, report.metadata_location, context.bodies, config)

    def create() -> Response:
        try:
            return answer(request.catalog.commit(table, requirements, updates, **arguments))
        except AlreadyExists as error:
            if request.catalog.views.exists(table):
                raise
            # As Java reports it (UpdateRequirement.AssertTableDoesNotExist).
            raise RequirementFailed("assert-create", "table already exists") from error

    def settle_protected() -> Response:
        try:
            current = request.catalog.load(table).metadata.properties
            request.require_protected(protected.changed_by(updates, current), *table)
        except IcebergHmsError as error:
            # Its client may have sent it before, and it may have landed.
            raise request.catalog.refusal(table, requirements, updates, error) from None
        changing = protected.without_unchanged(updates, current)
        return answer(request.catalog.commit(table, requirements, changing, **arguments))

    if creates:
        return BlockingStep(create)
    if protected.touches(updates):
        return BlockingStep(settle_protected)
    return PendingResponse(request.catalog.submit(table, requirements, updates, **arguments), seconds, answer)


def _raise(error: Callable[[], Exception]) -> NoReturn:
    raise error()


def _snapshot_ids(body: CommitTable) -> list[int]:
    """Of the snapshots that it adds, for the audit trail."""
    added = [update.get("snapshot") for update in body.updates if update.get("action") == "add-snapshot"]
    ids = [snapshot.get("snapshot-id") for snapshot in added if isinstance(snapshot, dict)]
    return [snapshot_id for snapshot_id in ids[:SNAPSHOTS_MAX] if isinstance(snapshot_id, int)]


def _creates(body: CommitTable) -> bool:
    return "assert-create" in [requirement.get("type") for requirement in body.requirements]


def _idempotency_key(request: RestRequest, body: CommitTable) -> str | None:
    """The header Idempotency-Key, for a commit that can keep it in the summary of a snapshot without a key of its own.
    Other commits need none: their requirements hold only once, or a second commit changes nothing."""
    key = idempotency_key(request.headers)
    if key is None:
        return None
    snapshots = [update.get("snapshot") for update in body.updates if update.get("action") == "add-snapshot"]
    summaries = [(snapshot.get("summary") or {}) for snapshot in snapshots if isinstance(snapshot, dict)]
    if not summaries or not all(isinstance(summary, dict) for summary in summaries):
        # `from_request` refuses malformed updates.
        return None
    if any(IDEMPOTENCY_KEY in summary for summary in summaries):
        return None
    return key
