"""The server's metrics, in the text format that Prometheus scrapes (exposition format 0.0.4).

Labels are methods, route templates, statuses, outcomes and warehouses other than the default one: a bounded set. It
names tables only with `rest.metrics-tables`, and then so many. docs/decisions.md says why prometheus-client is not
used.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.rest.errors import cause_of
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

if TYPE_CHECKING:
    from iceberg_hms.coordinator.outcome.outcome import CommitReport
    from iceberg_hms.rest.access.authorization import AccessTarget

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Upper bounds of the latency histogram, in seconds.
BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
#: Upper bounds of the histogram of group sizes.
GROUP_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
#: Events that count as waits, with the metric's name; and events that are only counted.
_WAITS: Final = {
    "retry-priority-wait": "retry_priority_wait",
    "foreign-writer-backoff": "foreign_writer_backoff",
    "lock-kept": "kept_lock",
}
#: Events that name files, which count by why they were to be deleted.
_FILES: Final = {"files-deleted": "rest_files_deleted_total", "files-left": "rest_files_left_total"}
_COUNTED: Final = {"overdue": "operations_overdue", "lock-left-to-expire": "locks_left_to_expire"}
#: Types of metrics reports that have a label of their own.
_REPORTS: Final = frozenset(("scan-report", "commit-report"))
#: The label of all tables without one of their own.
_OTHER: Final = "other"
#: Outcome of a commit by the status of its answer.
_OUTCOMES: Final = {200: "committed", 409: "conflict", 429: "deferred"}


class Counters:
    """Counters, histograms and gauges. Safe for threads."""

    def __init__(self, *, tables: int = 0) -> None:
        """tables: how many tables have a label of their own, the first ones that are committed to; others share one."""
        self._lock = threading.Lock()
        self._tables_max = tables
        self._tables: set[tuple[str, str]] = set()
        #: By the name of the metric, then by the values of its labels.
        self._labelled: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in _LABELLED}
        # Keys end with the warehouse. Each request is in one bucket, the first that has room for it.
        self._buckets: Counter[tuple[str, str, float, str]] = Counter()
        self._seconds: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        self._groups: Counter[int] = Counter()
        self._work: dict[str, float] = dict.fromkeys(_WORK, 0.0)
        self._counted: dict[str, int] = dict.fromkeys(_WARNINGS, 0)
        self._in_flight = 0
        self._connections = 0

    def begin(self) -> None:
        """A request arrived."""
        with self._lock:
            self._in_flight += 1

    def end(self, method: str, route: str, status: int, seconds: float, warehouse: str = DEFAULT_WAREHOUSE) -> None:
        """The server responded to a request. Methods that HTTP does not define share one label, so that labels stay
        few."""
        method = method if method in _METHODS else "OTHER"
        with self._lock:
            self._in_flight -= 1
            self._labelled["rest_requests_total"][method, route, str(status), warehouse] += 1
            self._seconds[method, route, warehouse] += seconds
            if seconds <= BUCKETS[-1]:
                self._buckets[method, route, BUCKETS[bisect_left(BUCKETS, seconds)], warehouse] += 1

    def commit_answered(self, status: int, warehouse: str = DEFAULT_WAREHOUSE, table: AccessTarget | str = "") -> None:
        """The server responded to a commit of table updates with this status. table: its text is the label."""
        outcome = _OUTCOMES.get(status) or ("unknown" if status >= 500 else "refused")
        with self._lock:
            self._labelled["rest_commits_total"][outcome, warehouse] += 1
            if self._tables_max:
                label = self._table_label(str(table), status, warehouse)
                self._labelled["rest_table_commits_total"][label, outcome, warehouse] += 1

    def _table_label(self, table: str, status: int, warehouse: str) -> str:
        # The metastore folds case. Only a commit proves that there is such a table: clients choose what they name.
        key = (table.lower(), warehouse)
        if key not in self._tables:
            if status != 200 or len(self._tables) >= self._tables_max:
                return _OTHER
            self._tables.add(key)
        return key[0]

    def operation_answered(self, action: str, status: int, warehouse: str = DEFAULT_WAREHOUSE) -> None:
        """The server responded to a change that is no commit, such as a registration, with this status."""
        outcome = "done" if status < 400 else _OUTCOMES.get(status) or ("unknown" if status >= 500 else "refused")
        with self._lock:
            self._labelled["rest_operations_total"][action, outcome, warehouse] += 1

    def committed(self, report: CommitReport) -> None:
        """Count what a successful commit took."""
        with self._lock:
            self._groups[report.group_size] += 1
            self._work["rebased"] += report.rebased
            self._work["queue_wait_seconds"] += report.queue_wait_ms / 1000
            # Each report of a group has the calls of the whole group.
            self._work["metastore_calls"] += report.metastore_calls / max(1, report.group_size)
            self._work["replays"] += report.replays
            self._work["lock_wait_seconds"] += report.lock_wait_ms / 1000
            self._work["swap_seconds"] += report.swap_ms / 1000
            self._work["shared"] += report.group_size > 1

    def conflict(self, error: Exception, warehouse: str = DEFAULT_WAREHOUSE) -> None:
        """The server responded with 409 to a commit, for this reason."""
        with self._lock:
            self._labelled["rest_commit_conflicts_total"][cause_of(error), warehouse] += 1

    def count_event(self, event: Mapping[str, Any]) -> None:
        """Count an event of the catalog."""
        name = event["event"]
        if name in _WAITS:
            with self._lock:
                self._work[f"{_WAITS[name]}s"] += 1
                self._work[f"{_WAITS[name]}_seconds"] += event["seconds"]
        elif name in _COUNTED:
            with self._lock:
                self._counted[_COUNTED[name]] += 1
        elif name in _FILES:
            with self._lock:
                self._labelled[_FILES[name]][(event["why"],)] += len(event["locations"])
        elif name == "metrics-report":
            sent = event["report"].type
            with self._lock:
                self._labelled["rest_metrics_reports_total"][(sent if sent in _REPORTS else "other",)] += 1

    def connections(self, count: int) -> None:
        """So many connections are open now."""
        with self._lock:
            self._connections = count

    def connection_closed(self, reason: str) -> None:
        """The server closed or refused a connection. reason: one of few."""
        with self._lock:
            self._labelled["rest_connections_closed_total"][(reason,)] += 1

    def render(self) -> str:
        """All metrics as text."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from single("rest_requests_in_flight", "gauge", "Requests without a response so far.", self._in_flight)
        yield from single("rest_connections", "gauge", "Open connections.", self._connections)
        yield from self._labelled_lines("rest_connections_closed_total", "rest_requests_total")
        yield from samples_head("rest_request_seconds", "histogram", "Time from request to response.")
        counts: Counter[tuple[str, str, str]] = Counter()
        for (method, route, _, warehouse), count in self._labelled["rest_requests_total"].items():
            counts[method, route, warehouse] += count
        for key, seconds in sorted(self._seconds.items()):
            yield from self._histogram(key, seconds, counts[key])
        yield from self._labelled_lines("rest_commits_total", "rest_commit_conflicts_total")
        if self._tables_max:
            yield from self._labelled_lines("rest_table_commits_total")
        yield from self._labelled_lines("rest_operations_total", "rest_metrics_reports_total", *_FILES.values())
        yield from samples_head("rest_commit_group_size", "histogram", "Commits in the group of a successful commit.")
        for bound in GROUP_SIZES:
            within = sum(count for size, count in self._groups.items() if size <= bound)
            yield sample("rest_commit_group_size_bucket", {"le": str(bound)}, within)
        yield sample("rest_commit_group_size_bucket", {"le": "+Inf"}, self._groups.total())
        commits = sum(size * count for size, count in self._groups.items())
        yield sample("rest_commit_group_size_sum", {}, commits)
        yield sample("rest_commit_group_size_count", {}, self._groups.total())
        for name, doc in _WORK.items():
            yield from single(f"rest_commit_{name}_total", "counter", doc, self._work[name])
        for name, doc in _WARNINGS.items():
            yield from single(f"rest_{name}_total", "counter", doc, self._counted[name])

    def _labelled_lines(self, *names: str) -> Iterator[str]:
        for name in names:
            doc, labels = _LABELLED[name]
            yield from samples_head(name, "counter", doc)
            for values, count in sorted(self._labelled[name].items()):
                found = dict(zip(labels, values, strict=True))
                warehouse = found.pop("warehouse", DEFAULT_WAREHOUSE)
                yield sample(name, found | of_warehouse(warehouse), count)

    def _histogram(self, key: tuple[str, str, str], seconds: float, count: int) -> Iterator[str]:
        method, route, warehouse = key
        labels = {"method": method, "route": route} | of_warehouse(warehouse)
        so_far = 0
        for bound in BUCKETS:
            so_far += self._buckets[method, route, bound, warehouse]
            yield sample("rest_request_seconds_bucket", {**labels, "le": f"{bound:g}"}, so_far)
        yield sample("rest_request_seconds_bucket", {**labels, "le": "+Inf"}, count)
        yield sample("rest_request_seconds_sum", labels, seconds)
        yield sample("rest_request_seconds_count", labels, count)


_PREFIX: Final = "iceberg_hms_"
#: Counters with labels: what they count, and the names of their labels.
_LABELLED: Final = {
    "rest_connections_closed_total": ("Connections that the server closed or refused.", ("reason",)),
    "rest_requests_total": ("Requests with a response.", ("method", "route", "status", "warehouse")),
    "rest_commits_total": ("Commits by outcome.", ("outcome", "warehouse")),
    "rest_commit_conflicts_total": ("Commits that got status 409, by cause.", ("cause", "warehouse")),
    "rest_table_commits_total": ("Commits by table and outcome.", ("table", "outcome", "warehouse")),
    "rest_operations_total": ("Changes that are no commits, by outcome.", ("operation", "outcome", "warehouse")),
    "rest_files_deleted_total": ("Files of tables that were deleted, by why.", ("why",)),
    "rest_files_left_total": ("Files that could not be deleted, by why they were to be.", ("why",)),
    "rest_metrics_reports_total": ("Metrics reports of clients, by type.", ("type",)),
}
_WORK: Final = {
    "replays": "Replays of successful commits, on a newer base.",
    "lock_wait_seconds": "Time that successful commits waited for locks.",
    "swap_seconds": "Time that the swaps of successful commits took.",
    "shared": "Successful commits that shared their swap with other commits.",
    "rebased": "Successful commits whose snapshot was rebased on a parent that its client had not seen.",
    "queue_wait_seconds": "Time that successful commits waited in their table's queue.",
    "metastore_calls": "Calls to the metastore for groups of successful commits, without calls between groups.",
    "retry_priority_waits": "Times that commits waited for a retried commit with priority.",
    "retry_priority_wait_seconds": "Time that commits waited for retried commits with priority.",
    "foreign_writer_backoffs": "Times that a table's commits paused for a foreign writer.",
    "foreign_writer_backoff_seconds": "Time that tables' commits paused for foreign writers.",
    "kept_locks": "Times that a table's lock was kept for a commit that lost against a writer outside.",
    "kept_lock_seconds": "Time that tables' locks were kept for such commits.",
}
_WARNINGS: Final = {
    "operations_overdue": "Swaps, renames and drops without an answer in time; their tables stay locked meanwhile.",
    "locks_left_to_expire": "Locks that were not released, since an unanswered swap under them may still take effect.",
}


def of_warehouse(warehouse: str) -> dict[str, str]:
    """The label of a warehouse. The default one has none, so that servers with one warehouse have no label more."""
    return {} if warehouse == DEFAULT_WAREHOUSE else {"warehouse": warehouse}


def samples_head(name: str, kind: str, doc: str) -> Iterator[str]:
    """What comes before the samples of a metric."""
    yield f"# HELP {_PREFIX}{name} {doc}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def single(name: str, kind: str, doc: str, value: float) -> Iterator[str]:
    """A metric with one sample."""
    yield from samples_head(name, kind, doc)
    yield sample(name, {}, value)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One sample of a metric."""
    if not labels:
        return f"{_PREFIX}{name} {value}"
    pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return f"{_PREFIX}{name}{{{pairs}}} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
