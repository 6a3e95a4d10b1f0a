"""What Spark reports of its scans and commits over REST, as listeners of the catalog hear it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.metrics_reports import COMMIT_REPORT, SCAN_REPORT, MetricsReport
from iceberg_hms.rest.server import RestServer
from integration.faults import until
from integration.rest_clients import TOKEN, catalog, server

__all__ = ["catalog", "server"]


@pytest.fixture
def heard(catalog: Any) -> list[MetricsReport]:
    reports: list[MetricsReport] = []
    catalog.subscribe(lambda event: reports.append(event["report"]) if event["event"] == "metrics-report" else None)
    return reports


@pytest.fixture
def in_spark(spark: Any, server: RestServer) -> Iterator[str]:
    """The name of a Spark catalog over the server."""
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": server.uri, ".token": TOKEN}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.reporting{key}", value)
    yield "reporting"
    for key in settings:
        spark.conf.unset(f"spark.sql.catalog.reporting{key}")


def test_spark_reports_its_commits_and_its_scans(
    spark: Any, catalog: Any, server: RestServer, in_spark: str, namespace: str, heard: list[MetricsReport]
) -> None:
    table = f"{in_spark}.{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (level STRING, number INT) USING iceberg")
    spark.sql(f"INSERT INTO {table} VALUES ('WARN', 1), ('ERROR', 2)")
    assert spark.sql(f"SELECT number FROM {table} WHERE level = 'WARN'").collect()[0].number == 1
    until(lambda: {report.type for report in heard} >= {COMMIT_REPORT, SCAN_REPORT}, "both reports came")
    assert {report.table for report in heard} == {TableName(namespace, "t")}
    snapshot = catalog.load(f"{namespace}.t").metadata.current_snapshot_id
    commit = next(report for report in heard if report.type == COMMIT_REPORT)
    assert (commit.fields["snapshot-id"], commit.fields["operation"]) == (snapshot, "append")
    assert commit.fields["metrics"]["added-records"]["value"] == 2
    scan = next(report for report in heard if report.type == SCAN_REPORT and isinstance(report.fields["filter"], dict))
    assert scan.fields["snapshot-id"] == snapshot
    assert "number" in scan.fields["projected-field-names"]
    assert scan.fields["metrics"]["result-data-files"]["value"] >= 1
    counted = httpx.get(f"{server.uri}/metrics", timeout=30).text
    assert f'iceberg_hms_rest_metrics_reports_total{{type="{SCAN_REPORT}"}}' in counted
    assert f'iceberg_hms_rest_metrics_reports_total{{type="{COMMIT_REPORT}"}}' in counted
