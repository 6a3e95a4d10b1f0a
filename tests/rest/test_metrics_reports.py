from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.metrics_reports import LOGGED_MAX, LOGGER, REPORT_MAX_BYTES, MetricsReport
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of

EVENTS = TableName("logging", "events")
PATH = "/v1/namespaces/logging/tables/events/metrics"
#: As Java's client of Iceberg 1.11 writes them.
SCAN: Mapping[str, Any] = {
    "report-type": "scan-report",
    "table-name": "rest.logging.events",
    "snapshot-id": 5_103_942_384_592_384_923,
    "filter": {"type": "eq", "term": "level", "value": "(hash-2bf5ad0e)"},
    "schema-id": 0,
    "projected-field-ids": [1, 2],
    "projected-field-names": ["level", "message"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2_644_235_116},
        "result-data-files": {"unit": "count", "value": 1},
    },
    "metadata": {"engine-name": "spark"},
}
COMMIT: Mapping[str, Any] = {
    "report-type": "commit-report",
    "table-name": "rest.logging.events",
    "snapshot-id": 5_103_942_384_592_384_923,
    "sequence-number": 7,
    "operation": "append",
    "metrics": {"added-data-files": {"unit": "count", "value": 3}},
}


@pytest.fixture
def received(catalog: ScriptedCatalog) -> list[MetricsReport]:
    reports: list[MetricsReport] = []
    catalog.subscribe(lambda event: reports.append(event["report"]) if event["event"] == "metrics-report" else None)
    return reports


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    catalog.create_namespace("logging")
    catalog.create_table(("logging", "events"), SCHEMA)
    return Web(create_app(catalog, settings=catalog.rest_settings))


@pytest.mark.parametrize("report", [SCAN, COMMIT])
def test_listeners_get_a_report_whole(web: Web, received: list[MetricsReport], report: Mapping[str, Any]) -> None:
    sent = {**report, "a-field-of-tomorrow": [{"x": None}]}
    response = web("POST", PATH, sent, headers={"X-Request-ID": "job-7"})
    assert (response.status_code, response.content) == (204, b"")
    [found] = received
    assert (found.type, found.table, found.request_id) == (report["report-type"], EVENTS, "job-7")
    assert found.fields == sent


def test_a_report_of_an_unknown_type_is_accepted_as_in_java(web: Web, received: list[MetricsReport]) -> None:
    assert web("POST", PATH, {"report-type": "view-report", "x": 1}).status_code == 204
    assert [report.type for report in received] == ["view-report"]


def test_a_scan_without_a_filter_has_the_filter_true(web: Web, received: list[MetricsReport]) -> None:
    for nothing in (True, {"type": "true"}):
        assert web("POST", PATH, {**SCAN, "filter": nothing}).status_code == 204
    assert len(received) == 2


@pytest.mark.parametrize("report", [SCAN, COMMIT])
def test_each_field_that_the_spec_requires_must_be_there_and_of_its_type(
    web: Web, received: list[MetricsReport], report: Mapping[str, Any]
) -> None:
    for name in report.keys() - {"metadata"}:
        for junk in (None, {"x": 1}, 1.5, [None], 2**63):
            status, kind, message = error_of(web("POST", PATH, {**report, name: junk}))
            assert (status, kind) == (400, "BadRequestException"), (name, junk)
            assert name in message or message == "Metric x must be an object"
        without = {key: value for key, value in report.items() if key != name}
        assert web("POST", PATH, without).status_code == 400
    assert received == []


@pytest.mark.parametrize(
    "metrics", [{"x": 1}, {"x": []}, {"x": {"value": "1"}}, {"x": {"value": True}}, {"x": {"total-duration": 2**63}}]
)
def test_a_metric_is_an_object_of_whole_numbers(web: Web, metrics: dict[str, Any]) -> None:
    assert error_of(web("POST", PATH, {**COMMIT, "metrics": metrics}))[0] == 400


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"{}", b'{"report-type": 1}', b'{"report-type": ""}', b"\xff"])
def test_junk_is_400(web: Web, received: list[MetricsReport], body: bytes) -> None:
    assert error_of(web("POST", PATH, content=body))[:2] == (400, "BadRequestException")
    assert received == []


def test_a_large_report_is_refused(web: Web, received: list[MetricsReport]) -> None:
    assert error_of(web("POST", PATH, {**SCAN, "x": "y" * REPORT_MAX_BYTES}))[0] == 413
    assert received == []


def test_the_metastore_is_not_asked(web: Web, catalog: ScriptedCatalog) -> None:
    catalog.calls.clear()
    assert web("POST", PATH, SCAN).status_code == 204
    assert catalog.calls == []


def test_a_listener_that_fails_harms_no_client(web: Web, catalog: ScriptedCatalog) -> None:
    def broken(_event: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    catalog.subscribe(broken)
    assert web("POST", PATH, SCAN).status_code == 204


def test_reports_are_counted_by_type(web: Web) -> None:
    for report in (SCAN, SCAN, COMMIT, {"report-type": 'evil"} 9'}):
        assert web("POST", PATH, report).status_code == 204
    text = web("GET", "/metrics").text
    assert 'metrics_reports_total{type="scan-report"} 2' in text
    assert 'metrics_reports_total{type="commit-report"} 1' in text
    assert 'metrics_reports_total{type="other"} 1' in text
    assert "evil" not in text


def test_a_setting_logs_each_report_as_one_line(caplog: pytest.LogCaptureFixture) -> None:
    catalog = ScriptedCatalog(rest_log_metrics_reports=True)
    web = Web(create_app(catalog, settings=catalog.rest_settings))
    with caplog.at_level(logging.INFO, LOGGER):
        assert web("POST", PATH, {**SCAN, "x": "a\nb\u2028c\x7f"}, headers={"X-Request-ID": "job-7"}).status_code == 204
    [line] = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert line.isascii()
    assert line.isprintable()
    found = json.loads(line)
    assert (found["request"], found["table"], found["report"]["x"]) == (
        "job-7",
        ["logging", "events"],
        "a\nb\u2028c\x7f",
    )


@pytest.mark.parametrize(
    "long",
    [
        {**SCAN, "projected-field-names": ["n" * 1000] * 100},
        {**SCAN, "table-name": "t" * 100_000},
        {**SCAN, "metrics": {str(number): {"value": 1} for number in range(10_000)}},
        {"report-type": "r" * 100_000},
    ],
)
def test_no_client_makes_a_line_long(caplog: pytest.LogCaptureFixture, long: dict[str, Any]) -> None:
    catalog = ScriptedCatalog(rest_log_metrics_reports=True)
    with caplog.at_level(logging.INFO, LOGGER):
        assert Web(create_app(catalog, settings=catalog.rest_settings))("POST", PATH, long).status_code == 204
    [line] = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert len(line) <= LOGGED_MAX
    assert "left_out" in json.loads(line)


@pytest.mark.parametrize("where", ["a field of a client's own", "the metrics"])
def test_a_report_in_very_many_levels_is_logged_without_them(caplog: pytest.LogCaptureFixture, where: str) -> None:
    """The line could not be written, and the client got 500."""
    catalog = ScriptedCatalog(rest_log_metrics_reports=True)
    text = json.dumps({**SCAN, "x": "HERE"} if where != "the metrics" else {**SCAN, "metrics": {"a": {"b": "HERE"}}})
    body = text.replace('"HERE"', '{"a":' * 1_015 + "1" + "}" * 1_015).encode()
    with caplog.at_level(logging.INFO, LOGGER):
        assert Web(create_app(catalog, settings=catalog.rest_settings))("POST", PATH, content=body).status_code == 204
    [line] = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert json.loads(line)["left_out"]


def test_without_the_setting_nothing_is_logged(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        assert web("POST", PATH, SCAN).status_code == 204
    assert [record for record in caplog.records if record.name == LOGGER] == []
