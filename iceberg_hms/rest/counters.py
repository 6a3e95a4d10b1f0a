"""What the server counts about itself, in the text format that Prometheus scrapes (exposition format 0.0.4).

Labels are methods, route templates, statuses and outcomes: a bounded set that names no table.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.errors import RequirementFailed

if TYPE_CHECKING:
    from iceberg_hms.coordinator.protocol.commit_report import CommitReport

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Upper bounds of the latency histogram, in seconds.
BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
#: Upper bounds of the histogram of group sizes.
GROUP_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
#: What events count for.
_WAITS: Final = {"retry-priority-wait": "turn", "foreign-writer-backoff": "pause"}
_COUNTED: Final = {"overdue": "moves_overdue", "lock-left-to-expire": "locks_left"}
#: Outcome of a commit by the status of its answer.
_OUTCOMES: Final = {200: "committed", 409: "conflict", 429: "deferred"}


class Counters:
    """Counts that only grow, and one gauge. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[tuple[str, str, float]] = Counter()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._commits: Counter[str] = Counter()
        self._conflicts: Counter[str] = Counter()
        self._groups: Counter[int] = Counter()
        self._work: dict[str, float] = dict.fromkeys(_WORK, 0.0)
        self._counted: dict[str, int] = dict.fromkeys(_DANGERS, 0)
        self._in_flight = 0

    def begin(self) -> None:
        """A request came in."""
        with self._lock:
            self._in_flight += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered. Methods that HTTP does not define count as one, so that labels stay few."""
        method = method if method in _METHODS else "OTHER"
        with self._lock:
            self._in_flight -= 1
            self._requests[method, route, status] += 1
            self._seconds[method, route] += seconds
            for bound in BUCKETS:
                if seconds <= bound:
                    self._buckets[method, route, bound] += 1

    def commit_answered(self, status: int) -> None:
        """A commit of table updates was answered with this status."""
        outcome = _OUTCOMES.get(status) or ("unknown" if status >= 500 else "refused")
        with self._lock:
            self._commits[outcome] += 1

    def committed(self, report: CommitReport) -> None:
        """What a commit that succeeded took."""
        with self._lock:
            self._groups[report.group_size] += 1
            self._work["rebased"] += report.rebased
            self._work["queue_wait_seconds"] += report.queue_wait_ms / 1000
            # Each of a group tells the calls of the whole group.
            self._work["metastore_calls"] += report.metastore_calls / max(1, report.group_size)
            self._work["replays"] += report.replays
            self._work["lock_wait_seconds"] += report.lock_wait_ms / 1000
            self._work["swap_seconds"] += report.swap_ms / 1000
            self._work["shared"] += report.group_size > 1

    def conflict(self, error: Exception) -> None:
        """A commit was answered with 409, for this reason."""
        cause = error.name if isinstance(error, RequirementFailed) else type(error).__name__
        with self._lock:
            self._conflicts[cause] += 1

    def heard(self, event: Mapping[str, Any]) -> None:
        """An event of the catalog's commits."""
        name = _WAITS.get(event["event"])
        if name is not None:
            with self._lock:
                self._work[f"{name}s"] += 1
                self._work[f"{name}_seconds"] += event["seconds"]
        counted = _COUNTED.get(event["event"])
        if counted is not None:
            with self._lock:
                self._counted[counted] += 1

    def render(self) -> str:
        """All counts as text."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("rest_requests_in_flight", "gauge", "Requests that are being worked on.")
        yield f"{_PREFIX}rest_requests_in_flight {self._in_flight}"
        yield from _head("rest_requests_total", "counter", "Requests that were answered.")
        for (method, route, status), count in sorted(self._requests.items()):
            yield _sample("rest_requests_total", {"method": method, "route": route, "status": str(status)}, count)
        yield from _head("rest_request_seconds", "histogram", "How long requests took.")
        for (method, route), seconds in sorted(self._seconds.items()):
            yield from self._histogram({"method": method, "route": route}, seconds)
        yield from _head("rest_commits_total", "counter", "Commits by outcome.")
        for outcome, count in sorted(self._commits.items()):
            yield _sample("rest_commits_total", {"outcome": outcome}, count)
        yield from _head(
            "rest_commit_conflicts_total", "counter", "Commits that were answered with 409, by the reason."
        )
        for cause, count in sorted(self._conflicts.items()):
            yield _sample("rest_commit_conflicts_total", {"cause": cause}, count)
        yield from _head("rest_commit_group_size", "histogram", "How many commits shared the swap of a successful one.")
        for bound in GROUP_SIZES:
            within = sum(count for size, count in self._groups.items() if size <= bound)
            yield _sample("rest_commit_group_size_bucket", {"le": str(bound)}, within)
        yield _sample("rest_commit_group_size_bucket", {"le": "+Inf"}, self._groups.total())
        yield f"{_PREFIX}rest_commit_group_size_sum {sum(size * count for size, count in self._groups.items())}"
        yield f"{_PREFIX}rest_commit_group_size_count {self._groups.total()}"
        for name, doc in _WORK.items():
            yield from _head(f"rest_commit_{name}_total", "counter", doc)
            yield f"{_PREFIX}rest_commit_{name}_total {self._work[name]}"
        for name, doc in _DANGERS.items():
            yield from _head(f"rest_{name}_total", "counter", doc)
            yield f"{_PREFIX}rest_{name}_total {self._counted[name]}"

    def _histogram(self, labels: Mapping[str, str], seconds: float) -> Iterator[str]:
        method, route = labels["method"], labels["route"]
        count = sum(n for (m, r, _), n in self._requests.items() if (m, r) == (method, route))
        for bound in BUCKETS:
            in_bucket = self._buckets[method, route, bound]
            yield _sample("rest_request_seconds_bucket", {**labels, "le": f"{bound:g}"}, in_bucket)
        yield _sample("rest_request_seconds_bucket", {**labels, "le": "+Inf"}, count)
        yield _sample("rest_request_seconds_sum", labels, seconds)
        yield _sample("rest_request_seconds_count", labels, count)


_PREFIX: Final = "iceberg_hms_"
_WORK: Final = {
    "replays": "Replays that successful commits needed because their table had moved.",
    "lock_wait_seconds": "Time that successful commits waited for locks.",
    "swap_seconds": "Time that the metastore took to swap pointers.",
    "shared": "Successful commits that shared their swap with others.",
    "rebased": "Successful commits whose snapshot was put on a parent that its client had not seen.",
    "queue_wait_seconds": "Time that successful commits waited for their group.",
    "metastore_calls": "Calls to the metastore that successful commits took, without what is asked between groups.",
    "turns": "How often commits waited for one whose turn it was.",
    "turn_seconds": "Time that they waited so.",
    "pauses": "How often a table was left to a writer that is not ours.",
    "pause_seconds": "Time that it was left so.",
}
_DANGERS: Final = {
    "moves_overdue": "Moves that the metastore did not answer in time, and whose table stays locked until it does.",
    "locks_left": "Locks that were not given back, since a move under them may still be made.",
}


def _head(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {doc}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return f"{_PREFIX}{name}{{{pairs}}} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
