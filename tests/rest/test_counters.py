from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, RequirementFailed, proved
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.counters import Counters
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web

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


def test_a_scrape_takes_time_in_proportion_to_what_was_counted() -> None:
    """Strangers may scrape, on the event loop; callers choose the routes and statuses."""
    looked_at = itertools.count()

    class Watched(Counter[Any]):
        def items(self) -> Any:
            for item in super().items():
                next(looked_at)
                yield item

    counters = Counters()
    for route in range(300):
        counters.end("GET", f"/{route}", 200, 0.1)
    for each, found in vars(counters).items():
        if isinstance(found, Counter):
            setattr(counters, each, Watched(found))
        elif isinstance(found, dict):
            found |= {name: Watched(count) for name, count in found.items() if isinstance(count, Counter)}
    assert 'route="/299"' in counters.render()
    assert next(looked_at) < 10_000


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


def test_large_counts_stay_exact(catalog: ScriptedCatalog) -> None:
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


def test_costs_of_commits_add_up(catalog: ScriptedCatalog) -> None:
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


def test_unknown_methods_share_one_label() -> None:
    counters = Counters()
    for method in ("BREW", "FROB"):
        counters.begin()
        counters.end(method, "none", 405, 0.0)
    assert values(counters.render())['iceberg_hms_rest_requests_total{method="OTHER",route="none",status="405"}'] == 2


def test_the_metrics_endpoint_names_no_table(web: Web, table: str) -> None:
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


def test_commit_costs_are_summed_and_each_groups_calls_counted_once(catalog: ScriptedCatalog) -> None:
    catalog.create_namespace("n")
    made = catalog.create_table(("n", "t"), SCHEMA)
    counters = Counters()
    alone = CommitReport(TableName("n", "t"), "file:/x", made.metadata, group_size=1, metastore_calls=5)
    counters.committed(alone)
    for _ in range(4):
        counters.committed(replace(alone, group_size=4, rebased=True, queue_wait_ms=500.0, metastore_calls=6))
    found = values(counters.render())
    assert found["iceberg_hms_rest_commit_metastore_calls_total"] == 11
    assert found["iceberg_hms_rest_commit_rebased_total"] == 4
    assert found["iceberg_hms_rest_commit_queue_wait_seconds_total"] == 2
    sizes = "iceberg_hms_rest_commit_group_size"
    assert [found[f'{sizes}_bucket{{le="{bound}"}}'] for bound in (1, 2, 4, 64)] == [1, 1, 5, 5]
    assert (found[f"{sizes}_count"], found[f"{sizes}_sum"]) == (5, 17)


def test_events_of_waits_are_counted_with_their_seconds() -> None:
    counters = Counters()
    for event in ("retry-priority-wait", "foreign-writer-backoff", "retry-priority-wait", "lock-kept", "committed"):
        counters.count_event({"event": event, "table": TableName("n", "t"), "seconds": 0.5})
    found = values(counters.render())
    assert found["iceberg_hms_rest_commit_retry_priority_waits_total"] == 2
    assert found["iceberg_hms_rest_commit_retry_priority_wait_seconds_total"] == 1
    assert found["iceberg_hms_rest_commit_foreign_writer_backoffs_total"] == 1
    assert found["iceberg_hms_rest_commit_foreign_writer_backoff_seconds_total"] == 0.5
    assert found["iceberg_hms_rest_commit_kept_locks_total"] == 1
    assert found["iceberg_hms_rest_commit_kept_lock_seconds_total"] == 0.5


def test_deleted_files_and_those_that_stay_are_counted_by_why() -> None:
    counters = Counters()
    name = TableName("n", "t")
    for event, why, count in (
        ("files-deleted", "purge", 1_000),
        ("files-deleted", "purge", 7),
        ("files-deleted", "orphans", 1),
        ("files-left", "purge", 3),
        ("files-left", "own files", 2),
        ("files-left", "own files", 1),
    ):
        counters.count_event({"event": event, "table": name, "why": why, "locations": ["file:/x"] * count})
    found = values(counters.render())
    assert {name: value for name, value in found.items() if "_files_" in name} == {
        'iceberg_hms_rest_files_deleted_total{why="purge"}': 1_007,
        'iceberg_hms_rest_files_deleted_total{why="orphans"}': 1,
        'iceberg_hms_rest_files_left_total{why="purge"}': 3,
        'iceberg_hms_rest_files_left_total{why="own files"}': 3,
    }


def test_overdue_operations_and_locks_left_to_expire_are_counted() -> None:
    counters = Counters()
    name = TableName("n", "t")
    for event in (
        {"event": "overdue", "table": name},
        {"event": "overdue", "table": name},
        {"event": "lock-left-to-expire", "table": name, "seconds": 300.0},
    ):
        counters.count_event(event)
    found = values(counters.render())
    assert found["iceberg_hms_rest_operations_overdue_total"] == 2
    assert found["iceberg_hms_rest_locks_left_to_expire_total"] == 1


def test_conflicts_are_counted_by_cause() -> None:
    counters = Counters()
    for error in (
        RequirementFailed("assert-ref-snapshot-id", "moved"),
        LockNotAcquired("late"),
        LockNotAcquired("late"),
        proved(LockUnavailable("no lock table")),
    ):
        counters.conflict(error)
    found = values(counters.render())
    assert found['iceberg_hms_rest_commit_conflicts_total{cause="assert-ref-snapshot-id"}'] == 1
    assert found['iceberg_hms_rest_commit_conflicts_total{cause="LockNotAcquired"}'] == 2
    assert found['iceberg_hms_rest_commit_conflicts_total{cause="LockUnavailable"}'] == 1


def test_the_server_counts_conflicts_and_its_catalogs_events(catalog: ScriptedCatalog) -> None:
    catalog.create_table(("default", "t"), SCHEMA)
    web = Web(create_app(catalog, token=None, settings=catalog.rest_settings))
    body = {"requirements": [{"type": "assert-table-uuid", "uuid": "other"}], "updates": []}
    assert web("POST", "/v1/namespaces/default/tables/t", body).status_code == 409
    heard, *_ = catalog.listeners
    heard({"event": "foreign-writer-backoff", "seconds": 2.0})
    found = values(web("GET", "/metrics").text)
    assert found['iceberg_hms_rest_commit_conflicts_total{cause="assert-table-uuid"}'] == 1
    assert found["iceberg_hms_rest_commit_foreign_writer_backoff_seconds_total"] == 2


def test_so_many_tables_have_a_label_and_the_others_share_one() -> None:
    counters = Counters(tables=2)
    for table, status in (("s.no", 404), ("s.no", 409), ("s.A", 200), ("s.a", 409), ("s.b", 200), ("s.c", 200)):
        counters.commit_answered(status, table=table)
    counters.commit_answered(200, "sales", "s.b")
    found = {name: value for name, value in values(counters.render()).items() if "rest_table_commits" in name}
    prefix = "iceberg_hms_rest_table_commits_total"
    assert found == {
        f'{prefix}{{table="s.a",outcome="committed"}}': 1,
        f'{prefix}{{table="s.a",outcome="conflict"}}': 1,
        f'{prefix}{{table="s.b",outcome="committed"}}': 1,
        f'{prefix}{{table="other",outcome="committed"}}': 1,
        f'{prefix}{{table="other",outcome="refused"}}': 1,
        f'{prefix}{{table="other",outcome="conflict"}}': 1,
        f'{prefix}{{table="other",outcome="committed",warehouse="sales"}}': 1,
    }


def test_a_registration_counts_as_one_and_not_as_a_commit(web: Web, catalog: ScriptedCatalog, table: str) -> None:
    heard: list[str] = []
    catalog.subscribe(lambda event: heard.append(event["event"]))
    location = catalog.pointer(("logging", "events")).metadata_location
    body = {"name": "again", "metadata-location": location}
    catalog.drop_table(("logging", "events"))
    for status in (200, 409):
        assert web("POST", "/v1/namespaces/logging/register", body).status_code == status
    found = values(web("GET", "/metrics").text)
    prefix = "iceberg_hms_rest_operations_total"
    assert found[f'{prefix}{{operation="register-table",outcome="done"}}'] == 1
    assert found[f'{prefix}{{operation="register-table",outcome="conflict"}}'] == 1
    assert not any("rest_commits_total" in name for name in found)
    assert heard == ["registered"]
