"""Plans of scans (REST spec: planTableScan, fetchPlanningResult, cancelPlanning, fetchScanTasks).

Every answer is `completed`, and nothing is kept between two requests. A plan goes through the manifests until it has
`rest.planning-max-files` tasks or `rest.planning-wait-ms` are over; the rest is in its `plan-tasks`, signed tokens that
say which manifests are left (`plan_tokens`). So a client that never comes back costs nothing, and another server goes
on where a killed one stopped. `submitted` would need a plan that somebody holds; and PyIceberg 0.12 cannot poll.

Who may load a table may plan its scans: a plan names data files, as manifests do. Of the table it reads only what the
location policy allows, since clients wrote its manifest lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from starlette.responses import Response

from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.errors import InvalidInput, NoSuchPlanId, NoSuchPlanTask, NoSuchTable
from iceberg_hms.expressions.expression import ALWAYS_TRUE
from iceberg_hms.expressions.json_form import from_json
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.answers import PlanAnswer, PlanJob
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.rest import payloads, vended_credentials
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.plan_tokens import PlannedScan
from iceberg_hms.rest.planning import Planning
from iceberg_hms.rest.response_bodies import ResponseBody
from iceberg_hms.rest.responses import SharedResponse, never_stored, no_content

#: Bytes of a filter: each task of the plan repeats it.
FILTER_BYTES_MAX: Final = 4 * 1024 * 1024
_NOT_SIGNED: Final = "it is damaged, or of a server with another key"
_OF_ANOTHER_TABLE: Final = "it is of another table, or of one that was here before"
_LONGS: Final = range(-(2**63), 2**63)


def plan_table_scan(request: RestRequest) -> Response:
    """POST plan: the first file scan tasks of a scan, and plan tasks for the others."""
    fields = payloads.parse_object(request.body)
    table = _loaded(request)
    scan = _parsed(fields, table.metadata)
    columns = payloads.Fields(fields).strings("select")
    answer = _answer(request, table, scan, columns=tuple(columns))
    return _completed(request, table, replace(scan, digest=answer.digest), answer)


def fetch_planning_result(request: RestRequest) -> Response:
    """GET a plan: the answer that POST gave, made anew."""
    found = _planning(request).tokens.read_plan(request.parameters["plan-id"])
    if found is None:
        raise NoSuchPlanId(_NOT_SIGNED)
    of, scan = found
    table = _loaded(request)
    if of != _identity(table.metadata):
        raise NoSuchPlanId(_OF_ANOTHER_TABLE)
    if scan is None:
        raise NoSuchPlanId("its filter is too long to be in its id, so it had all of its answer at once")
    try:
        answer = _answer(request, table, scan)
    except NoSuchPlanTask as error:
        raise NoSuchPlanId(error.why) from error
    return _completed(request, table, scan, answer)


def cancel_planning(request: RestRequest) -> Response:
    """DELETE a plan: nothing is kept of it."""
    found = _planning(request).tokens.read_plan(request.parameters["plan-id"])
    if found is None:
        raise NoSuchPlanId(_NOT_SIGNED)
    return no_content()


def fetch_scan_tasks(request: RestRequest) -> Response:
    """POST tasks: the file scan tasks of a plan task, and plan tasks for what is left of it."""
    scan = _planning(request).tokens.read_task(payloads.Fields.parse(request.body).text("plan-task"))
    if scan is None:
        raise NoSuchPlanTask(_NOT_SIGNED)
    table = _loaded(request)
    if scan.table != _identity(table.metadata):
        raise NoSuchPlanTask(_OF_ANOTHER_TABLE)
    answer = _answer(request, table, scan)
    return _response(request, b"{" + _tasks(request, scan, answer) + b"}")


def _loaded(request: RestRequest) -> LoadedTable:
    name = payloads.single_level(request.parameters["namespace"], request.parameters["table"], NoSuchTable)
    with payloads.missing_namespace_is(NoSuchTable, name):
        return request.catalog.load(name)


def _planning(request: RestRequest) -> Planning:
    planning = request.context.planning
    if planning is None:
        raise InvalidInput("this server plans no scans")
    return planning


def _identity(metadata: TableMetadata) -> str:
    """Tables of old writers have no UUID."""
    return metadata.uuid or metadata.location


def _parsed(fields: Mapping[str, Any], metadata: TableMetadata) -> PlannedScan:
    """The scan that a request names. Raises InvalidInput."""
    asked = payloads.Fields(fields)
    snapshot, start, end = (_long(fields, name) for name in ("snapshot-id", "start-snapshot-id", "end-snapshot-id"))
    if snapshot is not None and (start is not None or end is not None):
        raise InvalidInput("A scan names snapshot-id, or start-snapshot-id and end-snapshot-id, not both")
    if (start is None) != (end is None):
        raise InvalidInput("An incremental scan names both start-snapshot-id and end-snapshot-id")
    chosen = snapshot if end is None else end
    filter_ = None
    if "filter" in fields:
        # Null is no filter: a scan of all rows would be another one than the client meant.
        filter_ = fields["filter"]
        if len(orjson.dumps(filter_)) > FILTER_BYTES_MAX:
            raise InvalidInput(
                f"The filter has more than {FILTER_BYTES_MAX} bytes",
                next_step="plan this scan in the client: scan-planning-mode=client",
            )
        from_json(filter_)
    return PlannedScan(
        table=_identity(metadata),
        snapshot_id=metadata.current_snapshot_id if chosen is None else chosen,
        schema_id=metadata.current_schema_id,
        start_snapshot_id=start,
        filter=filter_,
        case_sensitive=fields.get("case-sensitive") is None or asked.flag("case-sensitive"),
        use_snapshot_schema=asked.flag("use-snapshot-schema"),
        stats_fields=tuple(asked.strings("stats-fields")),
        min_rows=_long(fields, "min-rows-requested"),
    )


def _long(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value not in _LONGS):
        raise InvalidInput(f"Field {name} must be a whole number of 64 bits")
    return value


def _answer(
    request: RestRequest, table: LoadedTable, scan: PlannedScan, *, columns: tuple[str, ...] = ()
) -> PlanAnswer:
    """columns: that the client selects, to be checked."""
    planning = _planning(request)
    if scan.digest and scan.snapshot_id is not None and table.metadata.snapshot_by_id(scan.snapshot_id) is None:
        raise NoSuchPlanTask(f"its snapshot {scan.snapshot_id} has expired")
    wanted = ScanRequest(
        snapshot_id=scan.snapshot_id,
        start_snapshot_id=scan.start_snapshot_id,
        filter=ALWAYS_TRUE if scan.filter is None else from_json(scan.filter),
        columns=columns,
        stats_fields=scan.stats_fields,
        case_sensitive=scan.case_sensitive,
        use_snapshot_schema=scan.use_snapshot_schema,
        min_rows=scan.min_rows,
    )
    bounds = planning.bounds(len(planning.tokens.task(scan)))
    job = PlanJob(wanted, scan.schema_id, bounds, scan.run, scan.digest)
    return planning.answer(request.catalog, table, job)


def _completed(request: RestRequest, table: LoadedTable, scan: PlannedScan, answer: PlanAnswer) -> Response:
    plan_id = _planning(request).tokens.plan_id(scan)
    head = b'{"status":"completed","plan-id":' + orjson.dumps(plan_id) + b","
    credentials = vended_credentials.credentials_of_plan(request, table)
    tail = b',"storage-credentials":' + credentials if credentials else b""
    response = _response(request, head + _tasks(request, scan, answer) + tail + b"}")
    return never_stored(response) if credentials else response


def _tasks(request: RestRequest, scan: PlannedScan, answer: PlanAnswer) -> bytes:
    """Fields of a JSON object."""
    tokens = _planning(request).tokens
    left = [tokens.task(replace(scan, run=run, digest=answer.digest)) for run in answer.rest]
    return answer.tasks + (b',"plan-tasks":' + orjson.dumps(left) if left else b"")


def _response(request: RestRequest, data: bytes) -> Response:
    return SharedResponse(ResponseBody([data], request.context.memory.share(), must=False), None)
