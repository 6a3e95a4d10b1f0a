"""Which refused commit has priority, how long others wait for it, and when refused clients get their answers."""

from dataclasses import replace

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed
from iceberg_hms.coordinator.scheduling.retry_priority import (
    HELD_MAX,
    MISSES_MAX,
    REFUSED_MAX,
    SENDERS_MAX,
    RetryPriority,
    ReturningClients,
)
from iceberg_hms.errors import LockNotAcquired, RequirementFailed
from iceberg_hms.runtime import ThreadRuntime
from tests.coordinator.stock_clients import LOST, Queued, SimulatedServer

DEFAULTS = replace(Settings.load({}, environ={}), retry_priority_max_wait_ms=1_000, retry_priority_max_hold_ms=10_000)
LANDED = Committed(object())


def priority_after(*lost, clients=None, at=10.0, **settings):
    """RetryPriority after commits with these ids were refused, at one moment."""
    priority = RetryPriority(replace(DEFAULTS, **settings), clients or ReturningClients(ThreadRuntime()))
    for id_ in lost:
        priority.record_outcome(Queued(id_, outcome=LOST), at)
    return priority


def ids(commits):
    return [commit.identity.snapshot_ids[-1] for commit in commits]


def wait(priority, queued, now):
    """As the queue asks. No held answer may be due."""
    assert priority.answers_due(queued, now) == []
    return priority.seconds_to_wait(queued, now)


def test_commits_do_not_wait_while_none_was_refused():
    priority = priority_after()
    assert not priority.record_outcome(Queued(1, outcome=LANDED), 10.0)
    assert not priority.record_outcome(Queued(2, outcome=Failed(LockNotAcquired("late"))), 10.0)
    assert wait(priority, [Queued(3)], 10.0) == 0


@pytest.mark.parametrize(
    "commit",
    [
        Queued(1, outcome=Failed(RequirementFailed("assert-default-spec-id", "changed"))),
        Queued(outcome=LOST),
    ],
)
def test_only_a_commit_that_lost_its_branch_and_has_a_snapshot_id_gets_priority(commit):
    priority = priority_after()
    assert not priority.record_outcome(commit, 10.0)
    assert wait(priority, [Queued(3)], 10.0) == 0
    assert priority.times_refused(commit) == 0


def test_others_wait_until_a_refused_commit_is_back_and_it_goes_first():
    priority = priority_after(1)
    others = [Queued(2), Queued(3)]
    assert wait(priority, others, 10.1) == pytest.approx(0.9)
    assert wait(priority, others, 10.4) == pytest.approx(0.6)
    back = Queued(1)
    assert wait(priority, [*others, back], 10.5) == 0
    assert [priority.times_refused(commit) for commit in (*others, back)] == [0, 0, 1]
    priority.record_outcome(Queued(1, outcome=LANDED), 10.6)
    assert priority.times_refused(back) == 0
    assert wait(priority, others, 20.0) == 0


def test_others_wait_no_longer_than_the_bound_after_the_client_got_its_answer():
    priority = priority_after(1)
    assert wait(priority, [Queued(2)], 10.75) == 0.25
    assert wait(priority, [Queued(2)], 11.0) == 0
    assert wait(priority, [Queued(2)], 99.0) == 0
    assert priority.times_refused(Queued(1)) == 1, "a late commit goes first all the same"


def test_a_commit_that_arrives_long_after_a_refusal_does_not_wait():
    assert wait(priority_after(1), [Queued(2)], 11.1) == 0


@pytest.mark.parametrize(("share", "free"), [(50, 1.0), (25, 3.0), (80, 0.25)])
def test_others_wait_for_a_share_of_the_time_only(share, free):
    priority = priority_after(1, retry_priority_max_share_percent=share)
    assert wait(priority, [Queued(2)], 10.0) == 1.0
    assert wait(priority, [Queued(2)], 11.0) == 0
    lost_again = 11.0 + free - 0.01
    priority.record_outcome(Queued(5, outcome=LOST), lost_again)
    assert wait(priority, [Queued(2)], lost_again) == 0
    assert wait(priority, [Queued(2)], lost_again + 0.02) == pytest.approx(0.98)


def test_of_several_refused_clients_one_gets_its_answer_and_the_next_when_that_commit_is_back():
    priority = priority_after()
    losers = [Queued(id_, outcome=LOST) for id_ in (1, 5, 6)]
    assert [priority.record_outcome(commit, 10.0) for commit in losers] == [False, True, True]
    assert priority.answers_due([Queued(2)], 10.1) == []
    assert priority.answers_due([Queued(2), Queued(1)], 10.2) == [losers[1]]
    assert priority.answers_due([], 10.3) == []
    assert priority.answers_due([Queued(5)], 10.4) == [losers[2]]


def test_an_answer_is_held_for_a_lock_although_no_other_commit_is_awaited():
    priority = priority_after()
    first = Queued(1, outcome=LOST)
    assert priority.record_outcome(first, 10.0, hold=True)
    assert priority.answers_due([], 10.0, may_await=False) == []
    assert priority.seconds_to_wait([], 10.0, may_await_in=0.3) == pytest.approx(0.3)
    assert priority.seconds_to_wait([Queued(2)], 10.0, may_await_in=0.3) == 0, "commits in the queue do not wait"
    due = priority.answers_due([], 10.3)
    assert due == [first]
    assert priority.awaits_one_of(due)
    assert not priority.awaits_one_of([Queued(2)])
    assert wait(priority, [Queued(2)], 10.5) == pytest.approx(0.8)
    priority.restart_wait(10.5)
    assert wait(priority, [Queued(2)], 10.5) == pytest.approx(1.0)


def test_an_answer_is_held_for_a_lock_no_longer_than_for_another_commit():
    priority = priority_after()
    first = Queued(1, outcome=LOST)
    priority.record_outcome(first, 10.0, hold=True)
    assert priority.seconds_to_wait([], 10.0, may_await_in=99.0) == pytest.approx(10.0)
    assert priority.answers_due([], 20.0, may_await=False) == [first]
    assert not priority.awaits_one_of([first])
    priority.restart_wait(20.0)
    assert wait(priority, [Queued(2)], 20.0) == 0


def test_priority_goes_to_the_next_refused_commit_when_one_does_not_come_back():
    priority = priority_after(1, 5, 6)
    assert ids(priority.answers_due([], 10.99)) == []
    assert ids(priority.answers_due([], 11.0)) == [5]
    assert ids(priority.answers_due([], 12.0)) == [6]


def test_an_empty_queue_with_held_answers_waits_for_the_awaited_commit():
    priority = priority_after(1, 5)
    assert wait(priority, [], 10.25) == 0.75
    assert ids(priority.answers_due([], 11.0)) == [5]
    assert priority.seconds_to_wait([], 11.0) == 0, "no answer is held any more"


def test_the_commit_with_the_most_refusals_gets_its_answer_next():
    priority = priority_after(1, 5)
    priority.answers_due([Queued(1)], 10.1)
    first, again = Queued(6, outcome=LOST), Queued(1, outcome=LOST)
    assert priority.record_outcome(first, 10.2)
    assert priority.record_outcome(again, 10.2)
    assert priority.times_refused(again) == 2
    assert priority.answers_due([Queued(5)], 10.3) == [again]
    assert priority.answers_due([Queued(1)], 10.4) == [first]


def test_a_commit_that_was_refused_before_does_not_wait_for_the_awaited_one():
    priority = priority_after(1, 5)
    assert ids(priority.answers_due([Queued(1)], 10.1)) == [5]
    assert priority.seconds_to_wait([Queued(1), Queued(2)], 10.1) == 0
    priority.record_outcome(Queued(1, outcome=LANDED), 10.2)
    assert wait(priority, [Queued(2)], 10.2) == pytest.approx(0.9), "the other commit is still awaited"


def test_an_answer_is_held_no_longer_than_the_bound_or_its_caller_s_deadline():
    priority = priority_after(1, 5, retry_priority_max_wait_ms=60_000)
    short = Queued(6, outcome=LOST)
    short.deadline = 12.0
    assert priority.record_outcome(short, 10.0)
    assert wait(priority, [Queued(2)], 10.5) == 1.5
    assert priority.answers_due([Queued(2)], 12.0) == [short]
    assert wait(priority, [Queued(2)], 12.5) == 7.5
    assert ids(priority.answers_due([Queued(2)], 20.0)) == [5]
    late = Queued(7, outcome=LOST)
    late.deadline = 20.0
    assert not priority.record_outcome(late, 20.0)


def test_a_repeated_request_for_a_commit_whose_answer_is_held_is_answered_at_once():
    priority = priority_after(1)
    kept, again = Queued(5, outcome=LOST), Queued(5, outcome=LOST)
    assert priority.record_outcome(kept, 10.0)
    assert not priority.record_outcome(again, 10.1)
    assert priority.answers_due([Queued(1)], 10.2) == [kept]


def test_a_held_refusal_becomes_success_when_the_commit_landed_by_another_request():
    priority = priority_after(1)
    kept = Queued(5, outcome=LOST)
    assert priority.record_outcome(kept, 10.0)
    assert not priority.record_outcome(Queued(5, outcome=LANDED), 10.1)
    assert priority.answers_due([], 10.1) == [kept]
    assert kept.outcome is LANDED


def test_retry_priority_can_be_switched_off():
    priority = priority_after(1, 5, retry_priority_max_wait_ms=0)
    assert wait(priority, [Queued(2)], 10.0) == 0
    assert priority.times_refused(Queued(1)) == 0


def test_holding_answers_can_be_switched_off():
    priority = priority_after(retry_priority_max_hold_ms=0)
    assert [priority.record_outcome(Queued(id_, outcome=LOST), 10.0) for id_ in (1, 5)] == [False, False]
    assert wait(priority, [Queued(2)], 10.0) == 1.0
    assert wait(priority, [Queued(2), Queued(5)], 10.1) == 0


def test_refused_commits_are_bounded_and_the_oldest_without_a_held_answer_is_forgotten_first():
    priority = priority_after(*range(1, REFUSED_MAX + 1))
    kept = range(2, HELD_MAX + 2)
    assert not priority.record_outcome(Queued(REFUSED_MAX + 1, outcome=LOST), 10.0), "no more answers are held"
    assert priority.times_refused(Queued(1)) == 0
    assert priority.times_refused(Queued(HELD_MAX + 2)) == 1
    assert not priority.record_outcome(Queued(REFUSED_MAX + 2, outcome=LOST), 10.0)
    assert priority.times_refused(Queued(HELD_MAX + 2)) == 0
    assert priority.times_refused(Queued(2)) == 1
    called = priority.answers_due([Queued(2)], 20.0)
    assert ids(called) == [*kept]


def gives_up(priority, sender, *, at, id_):
    """A client that gets its refusal and does not come back, though there is time for that."""
    commit = Queued(id_, outcome=LOST, sender=sender)
    assert not priority.record_outcome(commit, at)
    return priority.seconds_to_wait([Queued(2)], at)


def test_the_queue_does_not_wait_for_a_sender_that_missed_repeatedly():
    priority = priority_after()
    waits = []
    for number in range(MISSES_MAX + 2):
        waits.append(gives_up(priority, "duckdb", at=100.0 * number, id_=1000 + number))
        priority.answers_due([Queued(2)], 100.0 * number + 1.0)
    assert waits == [1.0] * MISSES_MAX + [0.0, 0.0]
    assert gives_up(priority, "spark", at=900.0, id_=3) == 1.0


def test_the_misses_of_a_sender_count_for_all_tables():
    clients = ReturningClients(ThreadRuntime())
    for number in range(MISSES_MAX):
        priority = priority_after(clients=clients)
        gives_up(priority, "duckdb", at=10.0, id_=1000 + number)
        priority.answers_due([], 11.0)
    assert gives_up(priority_after(clients=clients), "duckdb", at=10.0, id_=3) == 0


def test_the_answer_to_a_sender_that_does_not_come_back_is_not_held():
    clients = ReturningClients(ThreadRuntime())
    priority = priority_after(1, clients=clients)
    kept = [Queued(id_, outcome=LOST, sender="duckdb") for id_ in (5, 6)]
    assert [priority.record_outcome(commit, 10.0) for commit in kept] == [True, True]
    for _ in range(MISSES_MAX):
        clients.record_miss("duckdb")
    assert priority.answers_due([], 10.1) == kept
    assert not priority.record_outcome(Queued(7, outcome=LOST, sender="duckdb"), 10.1)


def test_the_queue_waits_again_for_a_sender_that_came_back_late():
    priority = priority_after()
    for number in range(MISSES_MAX):
        gives_up(priority, "slow", at=100.0 * number, id_=1000 + number)
        priority.answers_due([], 100.0 * number + 1.0)
    assert gives_up(priority, "slow", at=500.0, id_=5) == 0
    priority.answers_due([Queued(5)], 503.0)
    priority.record_outcome(Queued(5, outcome=LANDED), 503.0)
    assert gives_up(priority, "slow", at=600.0, id_=6) == 1.0


@pytest.mark.parametrize(("clients", "slow"), [(4, 1.0), (8, 1.0), (16, 1.0), (8, 8.0), (16, 8.0)])
def test_no_stock_client_gives_up_while_all_append_as_fast_as_they_can(clients, slow):
    """With their default of four retries. slow: on a busy machine."""
    for seed in range(3):
        priority = RetryPriority(Settings.load({}, environ={}), ReturningClients(ThreadRuntime()))
        outcomes = SimulatedServer(priority, clients=clients, appends=10, seed=seed, slow=slow).run()
        assert outcomes.refused == 0
        assert len(outcomes.losses) == 10 * clients


@pytest.mark.parametrize(
    "off",
    [{"retry_priority_max_wait_ms": 0}, {"retry_priority_max_hold_ms": 0}],
    ids=["no priority", "no held answers"],
)
def test_without_priority_or_without_held_answers_some_stock_clients_give_up(off):
    """The control."""
    priority = RetryPriority(replace(Settings.load({}, environ={}), **off), ReturningClients(ThreadRuntime()))
    outcomes = SimulatedServer(priority, clients=8, appends=10, seed=1, slow=1.0).run()
    assert outcomes.refused >= 3


LONG_NAME = "x" * 10_000


def clients_with_misses(*senders):
    clients = ReturningClients(ThreadRuntime())
    for sender in senders:
        clients.record_miss(sender)
    return clients


def test_one_miss_does_not_condemn_an_engine():
    clients = clients_with_misses("duckdb")
    assert clients.returns("duckdb")


def test_the_server_does_not_wait_for_a_sender_with_repeated_misses():
    clients = clients_with_misses(*["duckdb"] * MISSES_MAX)
    assert not clients.returns("duckdb")
    assert clients.returns("spark"), "each sender is judged by its own misses"


def test_one_return_clears_all_misses_of_a_sender():
    clients = clients_with_misses(*["duckdb"] * MISSES_MAX * 2)
    clients.record_return("duckdb")
    assert clients.returns("duckdb")
    clients.record_miss("duckdb")
    assert clients.returns("duckdb"), "its misses are counted from zero"


def test_senders_are_bounded_and_the_oldest_miss_is_forgotten_first():
    clients = clients_with_misses(*["first"] * MISSES_MAX, *["second"] * MISSES_MAX)
    for number in range(SENDERS_MAX - 1):
        clients.record_miss(str(number))
    assert clients.returns("first")
    assert not clients.returns("second")


def test_only_the_beginning_of_a_long_name_counts():
    clients = clients_with_misses(LONG_NAME + "1", LONG_NAME + "2")
    assert not clients.returns(LONG_NAME + "3")
    clients.record_return(LONG_NAME)
    assert clients.returns(LONG_NAME + "3")
