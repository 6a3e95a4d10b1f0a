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
def in_spark(spark: Any, server: RestServer) -> Iterator[None]:
    """Two Spark catalogs over the server: `stock`, and `reporting`, which asks to report."""
    stock = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": server.uri, ".token": TOKEN}
    settings = {
        f"spark.sql.catalog.{name}{key}": value for name in ("stock", "reporting") for key, value in stock.items()
    }
    settings["spark.sql.catalog.reporting.rest-metrics-reporting-enabled"] = "true"
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def write_and_read(spark: Any, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (level STRING, number INT) USING iceberg")
    spark.sql(f"INSERT INTO {table} VALUES ('WARN', 1), ('ERROR', 2)")
    assert spark.sql(f"SELECT number FROM {table} WHERE level = 'WARN'").collect()[0].number == 1


def test_spark_reports_its_commits_and_its_scans(
    spark: Any, catalog: Any, server: RestServer, in_spark: None, namespace: str, heard: list[MetricsReport]
) -> None:
    write_and_read(spark, f"reporting.{namespace}.t")
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


def test_spark_does_not_wait_for_reports_that_nobody_keeps(
    spark: Any, in_spark: None, namespace: str, heard: list[MetricsReport]
) -> None:
    # A client that reports goes on only when its report was answered.
    write_and_read(spark, f"stock.{namespace}.t")
    assert heard == []
