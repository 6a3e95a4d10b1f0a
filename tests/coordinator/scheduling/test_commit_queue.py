"""One table's queue: who waits in it, for how long, and who leaves it first. For its callers: test_coordinator.py."""

import threading

import pytest

from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap, SentSwaps
from iceberg_hms.coordinator.scheduling.commit_queue import CommitQueue
from iceberg_hms.coordinator.scheduling.table_state import BatchingWindow, TableStates
from iceberg_hms.errors import QueueFull
from iceberg_hms.runtime import ThreadRuntime
from tests.coordinator.harness import NAME, Harness, append
from tests.coordinator.stock_clients import LOST, Queued


class ScriptedEvent(threading.Event):
    """Waits take their time at once. set_count: how often it was set."""

    def __init__(self, runtime):
        super().__init__()
        self.runtime, self.set_count = runtime, 0

    def set(self):
        self.set_count += 1
        super().set()

    def wait(self, timeout=None):
        self.runtime.waits.append(timeout)
        self.runtime.time += timeout
        self.runtime.while_waiting()
        return self.is_set()


class ScriptedRuntime(ThreadRuntime):
    """A runtime whose clock a test sets. waits: how long each wait was to last. while_waiting: called in each wait."""

    def __init__(self):
        super().__init__()
        self.time, self.waits, self.while_waiting = 10.0, [], lambda: None
        self.events = []

    def now(self):
        return self.time

    def event(self):
        self.events.append(ScriptedEvent(self))
        return self.events[-1]


class Table:
    """A queue and the state of its table. ended: how often the queue was found empty."""

    def __init__(self, **settings):
        self.harness = Harness(**settings)
        self.runtime = ScriptedRuntime()
        self.harness.replace_ports(runtime=self.runtime)
        ports, settings = self.harness.ports, self.harness.settings
        states = TableStates(ports, settings)
        self.state, self.ended, self.sent = states.get(NAME), 0, SentSwaps(self.runtime)
        self.queue = CommitQueue(NAME, ports, settings, states, self.sent, threading.Lock(), self.end)

    def end(self):
        self.ended += 1

    def add(self, *commits, size=0):
        for commit in commits:
            self.queue.add(commit, size)

    def block(self, seconds):
        """A swap that only its lock protects may be made for so long."""
        self.sent.settle(SentSwap(NAME, "file:/base"), CommitStatus.UNKNOWN, lock_stays_seconds=seconds)

    def take(self):
        return self.queue.next_group(self.state)


class Waiting(Queued):
    """A commit in a queue, whose caller may leave. started, deadline: by the scripted clock."""

    def __init__(self, *ids, outcome=None, deadline=float("inf"), started=10.0):
        super().__init__(*ids, outcome=outcome)
        self.deadline, self.started, self.withdrawn, self.answered = deadline, started, False, False

    def answer(self):
        self.answered = True


@pytest.fixture
def table():
    return Table()


def test_commits_leave_in_order_of_arrival_and_an_empty_group_ends_the_queue(table):
    first, second = Waiting(1), Waiting(2)
    table.add(first, second)
    assert table.take() == [first, second]
    assert table.ended == 0
    assert table.take() == []
    assert table.ended == 1
    assert table.runtime.waits == []


def test_commits_beyond_the_largest_group_are_in_the_next_one():
    table = Table(group_max_changes=2)
    commits = [Waiting(number) for number in range(3)]
    table.add(*commits)
    assert [table.take(), table.take()] == [commits[:2], commits[2:]]


def test_a_withdrawn_commit_is_in_no_group(table):
    left, stays = Waiting(1), Waiting(2)
    table.add(left, stays)
    left.withdrawn = True
    assert table.take() == [stays]


def test_a_full_queue_refuses_a_commit_unless_it_has_priority():
    table = Table(queue_max_changes=1)
    table.add(Waiting(1))
    with pytest.raises(QueueFull, match=r"1 commits are waiting for db\.t"):
        table.add(Waiting(2))
    table.state.retry_priority.record_outcome(Waiting(2, outcome=LOST), 10.0)
    table.add(Waiting(2))
    assert len(table.queue.commits()) == 2


def test_commits_wait_for_the_one_with_priority_which_then_goes_first(table):
    table.state.retry_priority.record_outcome(Waiting(7, outcome=LOST), 10.0)
    other, back = Waiting(1), Waiting(7)
    table.add(other)
    table.runtime.while_waiting = lambda: table.add(back)
    assert table.take() == [back, other]
    [event] = table.harness.events
    assert (event["event"], event["table"]) == ("retry-priority-wait", NAME)
    assert table.runtime.events[-1].set_count == 1, "its arrival ends the wait"


@pytest.mark.parametrize(
    ("blocked_for", "deadline", "waits"),
    [(0.0, 40.0, []), (3.0, 40.0, [3.0]), (300.0, 40.0, [30.0]), (300.0, 10.0, [0.1])],
    ids=["not blocked", "until the block ends", "until the last deadline", "a moment for a caller that is leaving"],
)
def test_a_blocked_queue_waits_no_longer_than_its_callers(table, blocked_for, deadline, waits):
    commit = Waiting(1, deadline=deadline)
    table.add(commit)
    table.block(blocked_for)
    table.runtime.while_waiting = lambda: setattr(commit, "withdrawn", table.runtime.time >= commit.deadline)
    assert table.take() == ([] if commit.withdrawn else [commit])
    assert table.runtime.waits == pytest.approx(waits)


def test_an_empty_queue_is_not_blocked(table):
    table.block(300.0)
    assert table.take() == []
    assert table.runtime.waits == []


def test_the_wait_for_returning_callers_ends_when_all_are_back(table):
    table.add(Waiting(1, started=9.0), Waiting(2, started=10.5))
    table.runtime.while_waiting = lambda: table.add(Waiting(3, started=10.6))
    table.queue.wait_for_returning_callers(BatchingWindow(), 2, 10.0)
    [event] = table.runtime.events
    assert event.set_count == 1, "one was here before, one came before the wait, and one in it"


def test_callers_that_are_back_before_the_wait_end_it_at_once(table):
    table.add(Waiting(1, started=10.5), Waiting(2, started=10.5))
    table.queue.wait_for_returning_callers(BatchingWindow(), 2, 10.0)
    [event] = table.runtime.events
    assert event.is_set()


def test_a_wait_for_returning_callers_that_fails_leaves_no_mark_on_the_queue(table):
    def fails():
        raise MemoryError

    table.runtime.while_waiting = fails
    with pytest.raises(MemoryError):
        table.queue.wait_for_returning_callers(BatchingWindow(), 3, 10.0)
    commits = [Waiting(number) for number in range(4)]
    table.add(*commits)
    assert [event.set_count for event in table.runtime.events] == [0]
    assert table.take() == commits


def test_a_failure_of_retry_priority_releases_held_answers_and_takes_commits_as_they_came(table, caplog):
    _, held = (Waiting(id_, outcome=LOST) for id_ in (7, 8))
    table.state.retry_priority.record_outcome(Waiting(7, outcome=LOST), 10.0)
    assert table.state.retry_priority.record_outcome(held, 10.0)
    commits = [Waiting(1), Waiting(2)]
    table.add(*commits)

    def no_memory():
        raise MemoryError

    table.runtime.event = no_memory
    assert table.take() == commits
    assert held.answered
    assert "retry priority on db.t failed" in caplog.text


def test_a_pending_commit_of_a_caller_is_queued_as_it_is(table):
    [commit] = table.harness.members(append("file:/a"))
    table.add(commit)
    assert table.take() == [commit]
