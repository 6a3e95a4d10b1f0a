"""Plans of scans (REST spec: planTableScan, fetchPlanningResult, cancelPlanning, fetchScanTasks).

Every answer is `completed`, and nothing is kept between two requests. A plan goes through the manifests until it has
`rest.planning-max-files` tasks or `rest.planning-wait-ms` are over; the rest is in its `plan-tasks`, signed tokens that
say which manifests are left (`plan_tokens`). So a client that never comes back costs nothing, and another server goes
on where a killed one stopped. `submitted` would need a plan that somebody holds; and PyIceberg 0.12 cannot poll.

Who may load a table may plan its scans: a plan names data files, as manifests do. Of the table it reads only what the
location policy allows, since clients wrote its manifest lists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson
from starlette.responses import Response

from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.errors import InvalidInput, NoSuchPlanId, NoSuchPlanTask, NoSuchTable
from iceberg_hms.format.metadata.gzip_parts import GzipStart
from iceberg_hms.planning.answers import PlanAnswer, PlanJob
from iceberg_hms.rest import payloads, plan_requests, vended_credentials
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.plan_tokens import PlannedScan
from iceberg_hms.rest.planning import Planning
from iceberg_hms.rest.response_bodies import ResponseBody
from iceberg_hms.rest.responses import SharedResponse, accepts_gzip, never_stored, no_content, packed_response

_NOT_SIGNED: Final = "it is damaged, or of a server with another key"
_OF_ANOTHER_TABLE: Final = "it is of another table, or of one that was here before"


def plan_table_scan(request: RestRequest) -> Response:
    """POST plan: the first file scan tasks of a scan, and plan tasks for the others."""
    fields = payloads.parse_object(request.body)
    table = _loaded(request)
    scan = plan_requests.parsed(fields, table.metadata)
    if request.client.user_agent.startswith("PyIceberg/"):
        plan_requests.check_for_pyiceberg(scan, table.metadata)
    answer = _answer(request, table, scan)
    return _completed(request, table, replace(scan, digest=answer.digest), answer)


def fetch_planning_result(request: RestRequest) -> Response:
    """GET a plan: the answer that POST gave, made anew."""
    found = _planning(request).tokens.read_plan(request.parameters["plan-id"])
    if found is None:
        raise NoSuchPlanId(_NOT_SIGNED)
    of, scan = found
    table = _loaded(request)
    if of != plan_requests.identity_of(table.metadata):
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
    if scan.table != plan_requests.identity_of(table.metadata):
        raise NoSuchPlanTask(_OF_ANOTHER_TABLE)
    answer = _answer(request, table, scan)
    return _response(request, answer, _plan_tasks(request, scan, answer))


def _loaded(request: RestRequest) -> LoadedTable:
    name = payloads.single_level(request.parameters["namespace"], request.parameters["table"], NoSuchTable)
    with payloads.missing_namespace_is(NoSuchTable, name):
        return request.catalog.load(name)


def _planning(request: RestRequest) -> Planning:
    planning = request.context.planning
    if planning is None:
        raise InvalidInput("this server plans no scans")
    return planning


def _answer(request: RestRequest, table: LoadedTable, scan: PlannedScan) -> PlanAnswer:
    planning = _planning(request)
    if scan.digest and scan.snapshot_id is not None and table.metadata.snapshot_by_id(scan.snapshot_id) is None:
        raise NoSuchPlanTask(f"its snapshot {scan.snapshot_id} has expired")
    job = PlanJob(
        request=plan_requests.request_of(scan),
        schema_id=scan.schema_id,
        bounds=planning.bounds(len(planning.tokens.task(scan))),
        run=scan.run,
        digest=scan.digest,
        has_residuals=scan.has_residuals,
    )
    takes_gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
    return planning.answer(request.catalog, table, job, takes_gzip=takes_gzip)


def _completed(request: RestRequest, table: LoadedTable, scan: PlannedScan, answer: PlanAnswer) -> Response:
    plan_id = _planning(request).tokens.plan_id(scan)
    fields = b',"status":"completed","plan-id":' + orjson.dumps(plan_id) + _plan_tasks(request, scan, answer)
    credentials = vended_credentials.credentials_of_plan(request, table)
    if credentials:
        fields += b',"storage-credentials":' + credentials
    response = _response(request, answer, fields)
    return never_stored(response) if credentials else response


def _plan_tasks(request: RestRequest, scan: PlannedScan, answer: PlanAnswer) -> bytes:
    """The field for what is left, if anything is, after the fields before it."""
    tokens = _planning(request).tokens
    left = [tokens.task(replace(scan, run=run, digest=answer.digest)) for run in answer.rest]
    return b',"plan-tasks":' + orjson.dumps(left) if left else b""


def _response(request: RestRequest, answer: PlanAnswer, fields: bytes) -> Response:
    """fields: those after the tasks, each after a comma."""
    memory, end = request.context.memory.share(), fields + b"}"
    if isinstance(answer.tasks, GzipStart):
        return packed_response(answer.tasks.ended(end), memory)
    return SharedResponse(ResponseBody([b"{", answer.tasks, end], memory, must=False), None)
