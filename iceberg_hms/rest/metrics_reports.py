"""What clients report of their scans and commits: POST a table's metrics (REST spec: ReportMetricsRequest).

Java clients, Spark's among them, send a scan report when they have planned a read and a commit report after a commit.
Each becomes the event `metrics-report` for listeners (`Catalog.subscribe`) and, with `rest.log-metrics-reports`, one
line of JSON on the logger `iceberg_hms.metrics_reports`. As in Java's own server, a report of an unknown type is
accepted as it is, and nobody asks the metastore whether the table exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.log_lines import JsonLog, cut
from iceberg_hms.rest.payloads import Fields, parse_object
from iceberg_hms.rest.responses import no_content
from iceberg_hms.rest.tables import named_table

LOGGER: Final = "iceberg_hms.metrics_reports"
SCAN_REPORT: Final = "scan-report"
COMMIT_REPORT: Final = "commit-report"
#: The largest report. One of a scan of 10,000 columns has half of this.
REPORT_MAX_BYTES: Final = 1024 * 1024
#: The longest report that the log repeats whole, in characters. Of a longer one it leaves `_LONG` out.
LOGGED_MAX: Final = 16 * 1024

#: The fields that grow with the table and the query.
_LONG: Final = ("filter", "projected-field-ids", "projected-field-names")
_TYPE: Final = "report-type"
_INT64: Final = 2**63


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """A report as a client sent it.

    type: `scan-report`, `commit-report`, or what the client calls a type of its own. table: by the request's path.
    caller: who sent it. request_id: finds the lines that the server logged of it.
    fields: all of its JSON. Those that the spec names for its type have the spec's types; others are kept unread.
    """

    type: str
    table: TableName
    caller: str
    request_id: str
    fields: Mapping[str, Any]


def report_metrics(request: RestRequest) -> Response:
    """POST metrics."""
    if len(request.body) > REPORT_MAX_BYTES:
        raise HTTPException(413, f"A metrics report may have {REPORT_MAX_BYTES} bytes")
    table = TableName(*named_table(request))
    fields = parse_object(request.body)
    kind = _report_type(fields)
    if kind in _CHECKS:
        _check(kind, fields)
    report = MetricsReport(kind, table, request.caller.name, request.entry.request_id, fields)
    if request.context.settings.rest_log_metrics_reports:
        _log(report, request.context.clock)
    request.catalog.services.ports.events.publish({"event": "metrics-report", "table": table, "report": report})
    return no_content()


def _report_type(fields: Mapping[str, Any]) -> str:
    sent = Fields(fields).text(_TYPE)
    # Java's parser takes these spellings for the same.
    folded = sent.lower().replace("_", "-")
    return folded if folded in _CHECKS else sent


def _check(kind: str, fields: Mapping[str, Any]) -> None:
    """Raises InvalidInput for a field that the spec requires and that is missing or of another type."""
    for name, (is_valid, called) in _CHECKS[kind].items():
        if not is_valid(fields.get(name)):
            raise InvalidInput(f"Field {name} must be {called}")
    Fields(fields).string_map("metadata")
    for name, result in fields["metrics"].items():
        if not isinstance(result, dict):
            raise InvalidInput(f"Metric {cut(name)} must be an object")
        for number in ("value", "count", "total-duration"):
            if number in result and not _is_whole(result[number]):
                raise InvalidInput(f"Metric {cut(name)}: {number} must be {_WHOLE[1]}")


def _is_whole(value: Any) -> bool:
    return type(value) is int and -_INT64 <= value < _INT64


def _is_expression(value: Any) -> bool:
    # Java writes `true` for no filter; the spec writes {"type": "true"}. Types of expressions may be added.
    return isinstance(value, bool) or (isinstance(value, dict) and isinstance(value.get("type"), str))


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


#: Whether a value is one, and what it is called.
_Check = tuple[Callable[[Any], bool], str]
_TEXT: Final[_Check] = (_is_text, "a string")
_WHOLE: Final[_Check] = (_is_whole, "a whole number of 64 bits")
_METRICS: Final[_Check] = (lambda value: isinstance(value, dict), "an object")

_CHECKS: Final[Mapping[str, Mapping[str, _Check]]] = {
    SCAN_REPORT: {
        "table-name": _TEXT,
        "snapshot-id": _WHOLE,
        "filter": (_is_expression, "an expression"),
        "schema-id": _WHOLE,
        "projected-field-ids": (_list_of(_is_whole), "a list of whole numbers"),
        "projected-field-names": (_list_of(_is_text), "a list of strings"),
        "metrics": _METRICS,
    },
    COMMIT_REPORT: {
        "table-name": _TEXT,
        "snapshot-id": _WHOLE,
        "sequence-number": _WHOLE,
        "operation": _TEXT,
        "metrics": _METRICS,
    },
}


def _log(report: MetricsReport, clock: Clock) -> None:
    table = [report.table.namespace, report.table.name]
    fields = {"request": report.request_id, "caller": report.caller, "table": table}
    kept = {name: report.fields[name] for name in (_TYPE, *_CHECKS.get(report.type, ())) if name not in _LONG}
    kept = {name: cut(value) if isinstance(value, str) else value for name, value in kept.items()}
    log = JsonLog(LOGGER, clock)
    for part in (
        {"report": report.fields},
        {"report": kept, "left_out": "what makes it long"},
        {"left_out": "the report, which is too long"},
    ):
        # JSON in very many levels is accepted, and cannot be written with the standard library.
        with contextlib.suppress(RecursionError):
            if log.write(fields, most=LOGGED_MAX, **part):
                return
