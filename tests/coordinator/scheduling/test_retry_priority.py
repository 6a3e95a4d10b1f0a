"""Whose turn it is, how long others wait for it, and who hears when that it was refused."""

from dataclasses import replace

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.protocol.pending_commit import Committed, Failed
from iceberg_hms.coordinator.scheduling.retry_priority import KEPT_MAX, LOSERS_MAX, RetryPriority
from iceberg_hms.coordinator.scheduling.returning_clients import VAIN_MAX, ReturningClients
from iceberg_hms.errors import LockNotAcquired, RequirementFailed
from iceberg_hms.runtime import ThreadRuntime
from tests.coordinator.stock_clients import LOST, Queued, World

DEFAULTS = replace(Settings.load({}, environ={}), retry_priority_max_wait_ms=1_000, retry_priority_max_hold_ms=10_000)
LANDED = Committed(object())


def turns_of(*lost, senders=None, at=10.0, **settings):
    """RetryPriority after commits with these ids lost, at one moment."""
    turns = RetryPriority(replace(DEFAULTS, **settings), senders or ReturningClients(ThreadRuntime()))
    for id_ in lost:
        turns.keeps(Queued(id_, outcome=LOST), at)
    return turns


def ids(members):
    return [member.identity.snapshot_ids[-1] for member in members]


def wait(turns, queued, now):
    """As the coordinator asks. No refusal may be due."""
    assert turns.call(queued, now) == []
    return turns.seconds_to_wait(queued, now)


def test_nobody_waits_where_nobody_lost():
    turns = turns_of()
    assert not turns.keeps(Queued(1, outcome=LANDED), 10.0)
    assert not turns.keeps(Queued(2, outcome=Failed(LockNotAcquired("late"))), 10.0)
    assert wait(turns, [Queued(3)], 10.0) == 0


@pytest.mark.parametrize(
    "member",
    [
        Queued(1, outcome=Failed(RequirementFailed("assert-default-spec-id", "changed"))),
        Queued(outcome=LOST),
    ],
)
def test_only_who_lost_its_branch_s_place_and_can_be_known_again_gets_a_turn(member):
    turns = turns_of()
    assert not turns.keeps(member, 10.0)
    assert wait(turns, [Queued(3)], 10.0) == 0
    assert turns.losses(member) == 0


def test_others_wait_until_it_comes_back_and_it_goes_first():
    turns = turns_of(1)
    others = [Queued(2), Queued(3)]
    assert wait(turns, others, 10.1) == pytest.approx(0.9)
    assert wait(turns, others, 10.4) == pytest.approx(0.6)
    back = Queued(1)
    assert wait(turns, [*others, back], 10.5) == 0
    assert [turns.losses(member) for member in (*others, back)] == [0, 0, 1]
    turns.keeps(Queued(1, outcome=LANDED), 10.6)
    assert turns.losses(back) == 0
    assert wait(turns, others, 20.0) == 0


def test_it_is_waited_for_no_longer_than_the_bound_after_its_client_heard():
    turns = turns_of(1)
    assert wait(turns, [Queued(2)], 10.75) == 0.25
    assert wait(turns, [Queued(2)], 11.0) == 0
    assert wait(turns, [Queued(2)], 99.0) == 0
    assert turns.losses(Queued(1)) == 1, "it goes first all the same when it comes late"


def test_a_commit_that_comes_long_after_a_refusal_does_not_wait():
    assert wait(turns_of(1), [Queued(2)], 11.1) == 0


@pytest.mark.parametrize(("share", "free"), [(50, 1.0), (25, 3.0), (80, 0.25)])
def test_others_are_kept_waiting_for_a_share_of_the_time_only(share, free):
    turns = turns_of(1, retry_priority_max_share_percent=share)
    assert wait(turns, [Queued(2)], 10.0) == 1.0
    assert wait(turns, [Queued(2)], 11.0) == 0
    lost_again = 11.0 + free - 0.01
    turns.keeps(Queued(5, outcome=LOST), lost_again)
    assert wait(turns, [Queued(2)], lost_again) == 0
    assert wait(turns, [Queued(2)], lost_again + 0.02) == pytest.approx(0.98)


def test_of_several_that_lost_one_hears_of_it_and_the_others_when_it_is_back():
    turns = turns_of()
    losers = [Queued(id_, outcome=LOST) for id_ in (1, 5, 6)]
    assert [turns.keeps(member, 10.0) for member in losers] == [False, True, True]
    assert turns.call([Queued(2)], 10.1) == []
    assert turns.call([Queued(2), Queued(1)], 10.2) == [losers[1]]
    assert turns.call([], 10.3) == []
    assert turns.call([Queued(5)], 10.4) == [losers[2]]


def test_a_turn_that_nobody_takes_goes_to_the_next_one():
    turns = turns_of(1, 5, 6)
    assert ids(turns.call([], 10.99)) == []
    assert ids(turns.call([], 11.0)) == [5]
    assert ids(turns.call([], 12.0)) == [6]


def test_where_all_the_others_are_kept_the_queue_waits_for_the_one_that_is_not():
    turns = turns_of(1, 5)
    assert wait(turns, [], 10.25) == 0.75
    assert ids(turns.call([], 11.0)) == [5]
    assert turns.seconds_to_wait([], 11.0) == 0, "nobody waits for it any more"


def test_who_lost_most_often_is_the_next():
    turns = turns_of(1, 5)
    turns.call([Queued(1)], 10.1)
    first, again = Queued(6, outcome=LOST), Queued(1, outcome=LOST)
    assert turns.keeps(first, 10.2)
    assert turns.keeps(again, 10.2)
    assert turns.losses(again) == 2
    assert turns.call([Queued(5)], 10.3) == [again]
    assert turns.call([Queued(1)], 10.4) == [first]


def test_who_lost_before_does_not_wait_for_the_one_whose_turn_it_is():
    turns = turns_of(1, 5)
    assert ids(turns.call([Queued(1)], 10.1)) == [5]
    assert turns.seconds_to_wait([Queued(1), Queued(2)], 10.1) == 0
    turns.keeps(Queued(1, outcome=LANDED), 10.2)
    assert wait(turns, [Queued(2)], 10.2) == pytest.approx(0.9), "the other one has its turn still"


def test_a_refusal_is_kept_no_longer_than_the_bound_nor_than_its_caller_waits():
    turns = turns_of(1, 5, retry_priority_max_wait_ms=60_000)
    short = Queued(6, outcome=LOST)
    short.deadline = 12.0
    assert turns.keeps(short, 10.0)
    assert wait(turns, [Queued(2)], 10.5) == 1.5
    assert turns.call([Queued(2)], 12.0) == [short]
    assert wait(turns, [Queued(2)], 12.5) == 7.5
    assert ids(turns.call([Queued(2)], 20.0)) == [5]
    late = Queued(7, outcome=LOST)
    late.deadline = 20.0
    assert not turns.keeps(late, 20.0)


def test_who_sends_a_commit_again_before_it_hears_is_told_at_once():
    turns = turns_of(1)
    kept, again = Queued(5, outcome=LOST), Queued(5, outcome=LOST)
    assert turns.keeps(kept, 10.0)
    assert not turns.keeps(again, 10.1)
    assert turns.call([Queued(1)], 10.2) == [kept]


def test_a_commit_that_landed_meanwhile_by_another_request_is_not_told_that_it_was_refused():
    turns = turns_of(1)
    kept = Queued(5, outcome=LOST)
    assert turns.keeps(kept, 10.0)
    assert not turns.keeps(Queued(5, outcome=LANDED), 10.1)
    assert turns.call([], 10.1) == [kept]
    assert kept.outcome is LANDED


def test_turns_can_be_switched_off():
    turns = turns_of(1, 5, retry_priority_max_wait_ms=0)
    assert wait(turns, [Queued(2)], 10.0) == 0
    assert turns.losses(Queued(1)) == 0


def test_keeping_refusals_can_be_switched_off():
    turns = turns_of(retry_priority_max_hold_ms=0)
    assert [turns.keeps(Queued(id_, outcome=LOST), 10.0) for id_ in (1, 5)] == [False, False]
    assert wait(turns, [Queued(2)], 10.0) == 1.0
    assert wait(turns, [Queued(2), Queued(5)], 10.1) == 0


def test_those_that_lost_are_bounded_and_the_oldest_go_but_for_those_whose_refusals_are_kept():
    turns = turns_of(*range(1, LOSERS_MAX + 1))
    kept = range(2, KEPT_MAX + 2)
    assert not turns.keeps(Queued(LOSERS_MAX + 1, outcome=LOST), 10.0), "no more are kept"
    assert turns.losses(Queued(1)) == 0
    assert turns.losses(Queued(KEPT_MAX + 2)) == 1
    assert not turns.keeps(Queued(LOSERS_MAX + 2, outcome=LOST), 10.0)
    assert turns.losses(Queued(KEPT_MAX + 2)) == 0
    assert turns.losses(Queued(2)) == 1
    called = turns.call([Queued(2)], 20.0)
    assert ids(called) == [*kept]


def gives_up(turns, sender, *, at, id_):
    """A client that hears that it was refused and does not come back, though there is time for that."""
    member = Queued(id_, outcome=LOST, sender=sender)
    assert not turns.keeps(member, at)
    return turns.seconds_to_wait([Queued(2)], at)


def test_who_never_comes_back_is_not_waited_for_once_that_was_seen():
    turns = turns_of()
    waits = []
    for number in range(VAIN_MAX + 2):
        waits.append(gives_up(turns, "duckdb", at=100.0 * number, id_=1000 + number))
        turns.call([Queued(2)], 100.0 * number + 1.0)
    assert waits == [1.0] * VAIN_MAX + [0.0, 0.0]
    assert gives_up(turns, "spark", at=900.0, id_=3) == 1.0


def test_what_was_seen_of_a_sender_holds_for_all_tables():
    senders = ReturningClients(ThreadRuntime())
    for number in range(VAIN_MAX):
        turns = turns_of(senders=senders)
        gives_up(turns, "duckdb", at=10.0, id_=1000 + number)
        turns.call([], 11.0)
    assert gives_up(turns_of(senders=senders), "duckdb", at=10.0, id_=3) == 0


def test_the_refusal_of_a_sender_that_does_not_come_back_is_not_kept():
    senders = ReturningClients(ThreadRuntime())
    turns = turns_of(1, senders=senders)
    kept = [Queued(id_, outcome=LOST, sender="duckdb") for id_ in (5, 6)]
    assert [turns.keeps(member, 10.0) for member in kept] == [True, True]
    for _ in range(VAIN_MAX):
        senders.stayed_away("duckdb")
    assert turns.call([], 10.1) == kept
    assert not turns.keeps(Queued(7, outcome=LOST, sender="duckdb"), 10.1)


def test_who_comes_back_late_is_waited_for_the_next_time():
    turns = turns_of()
    for number in range(VAIN_MAX):
        gives_up(turns, "slow", at=100.0 * number, id_=1000 + number)
        turns.call([], 100.0 * number + 1.0)
    assert gives_up(turns, "slow", at=500.0, id_=5) == 0
    turns.call([Queued(5)], 503.0)
    turns.keeps(Queued(5, outcome=LANDED), 503.0)
    assert gives_up(turns, "slow", at=600.0, id_=6) == 1.0


@pytest.mark.parametrize(("clients", "slow"), [(4, 1.0), (8, 1.0), (16, 1.0), (8, 8.0), (16, 8.0)])
def test_of_stock_clients_that_append_as_fast_as_they_can_none_is_refused_for_good(clients, slow):
    """At their defaults: four retries. slow: a machine that has much else to do."""
    for seed in range(3):
        turns = RetryPriority(Settings.load({}, environ={}), ReturningClients(ThreadRuntime()))
        told = World(turns, clients=clients, appends=10, seed=seed, slow=slow).run()
        assert told.refused == 0
        assert len(told.losses) == 10 * clients


@pytest.mark.parametrize(
    "off", [{"retry_priority_max_wait_ms": 0}, {"retry_priority_max_hold_ms": 0}], ids=["turns", "kept refusals"]
)
def test_without_turns_or_without_kept_refusals_some_of_them_are(off):
    """The control."""
    turns = RetryPriority(replace(Settings.load({}, environ={}), **off), ReturningClients(ThreadRuntime()))
    told = World(turns, clients=8, appends=10, seed=1, slow=1.0).run()
    assert told.refused >= 3
