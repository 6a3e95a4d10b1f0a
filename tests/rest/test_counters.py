from __future__ import annotations

import re

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.report import CommitReport
from iceberg_hms.rest.counters import Counters
from tests.rest.fakes import SCHEMA, FakeCatalog, Web

SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\]|\\.)*")(,[a-z]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+')


def values(text: str) -> dict[str, float]:
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    for sample in samples:
        assert SAMPLE.fullmatch(sample), sample
    return {name: float(value) for name, _, value in (sample.rpartition(" ") for sample in samples)}


def test_requests_are_counted_by_method_route_and_status() -> None:
    counters = Counters()
    for status in (200, 200, 404):
        counters.begin()
        counters.end("GET", "/v1/x", status, 0.05)
    found = values(counters.render())
    assert found['iceberg_hms_rest_requests_total{method="GET",route="/v1/x",status="200"}'] == 2
    assert found['iceberg_hms_rest_requests_total{method="GET",route="/v1/x",status="404"}'] == 1
    assert found["iceberg_hms_rest_requests_in_flight"] == 0


def test_buckets_are_cumulative() -> None:
    counters = Counters()
    for seconds in (0.001, 0.3, 100.0):
        counters.begin()
        counters.end("GET", "/", 200, seconds)
    found = values(counters.render())
    prefix = 'iceberg_hms_rest_request_seconds_bucket{method="GET",route="/",le='
    assert found[prefix + '"0.005"}'] == 1
    assert found[prefix + '"0.5"}'] == 2
    assert found[prefix + '"60"}'] == 2
    assert found[prefix + '"+Inf"}'] == 3
    assert found['iceberg_hms_rest_request_seconds_sum{method="GET",route="/"}'] == 100.301


def test_large_counts_stay_exact(catalog: FakeCatalog) -> None:
    catalog.create_namespace("n")
    made = catalog.create_table(("n", "t"), SCHEMA)
    counters = Counters()
    counters.committed(CommitReport(TableName("n", "t"), "file:/x", made.metadata, replays=123_456_789))
    assert "replays_total 123456789" in counters.render()


def test_commits_are_counted_by_outcome() -> None:
    counters = Counters()
    for status in (200, 400, 403, 404, 409, 429, 500, 503):
        counters.commit_answered(status)
    found = values(counters.render())
    expected = {"committed": 1, "refused": 3, "conflict": 1, "deferred": 1, "unknown": 2}
    for outcome, count in expected.items():
        assert found[f'iceberg_hms_rest_commits_total{{outcome="{outcome}"}}'] == count


def test_what_commits_took_adds_up(catalog: FakeCatalog) -> None:
    catalog.create_namespace("n")
    made = catalog.create_table(("n", "t"), SCHEMA)
    counters = Counters()
    for group_size in (1, 3):
        counters.committed(
            CommitReport(
                TableName("n", "t"),
                "file:/x",
                made.metadata,
                replays=2,
                group_size=group_size,
                lock_wait_ms=250,
                swap_ms=500,
            )
        )
    found = values(counters.render())
    assert found["iceberg_hms_rest_commit_replays_total"] == 4
    assert found["iceberg_hms_rest_commit_lock_wait_seconds_total"] == 0.5
    assert found["iceberg_hms_rest_commit_swap_seconds_total"] == 1
    assert found["iceberg_hms_rest_commit_shared_total"] == 1


def test_methods_that_nobody_knows_make_one_label() -> None:
    counters = Counters()
    for method in ("BREW", "FROB"):
        counters.begin()
        counters.end(method, "none", 405, 0.0)
    assert values(counters.render())['iceberg_hms_rest_requests_total{method="OTHER",route="none",status="405"}'] == 2


def test_the_server_shows_its_counts_without_table_names(web: Web, table: str) -> None:
    web("GET", table)
    web("GET", table + "x")
    web("GET", "/nowhere/secret")
    response = web("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = values(response.text)
    route = "/v1/namespaces/{namespace}/tables/{table}"
    assert found[f'iceberg_hms_rest_requests_total{{method="GET",route="{route}",status="200"}}'] == 1
    assert found[f'iceberg_hms_rest_requests_total{{method="GET",route="{route}",status="404"}}'] == 1
    assert found['iceberg_hms_rest_requests_total{method="GET",route="none",status="404"}'] == 1
    # The scrape itself is in flight.
    assert found["iceberg_hms_rest_requests_in_flight"] == 1
    assert "secret" not in response.text
    assert "events" not in response.text
