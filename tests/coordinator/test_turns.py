"""Whose turn it is, and how long others wait for it."""

from dataclasses import replace

import pytest

from iceberg_hms.changes.change import Identity
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.member import Failed
from iceberg_hms.coordinator.turns import WAITING_MAX, Turns
from iceberg_hms.errors import AssumptionBroken, LockNotAcquired

LOST = Failed(AssumptionBroken("assert-ref-snapshot-id", "branch main has changed"))
DEFAULTS = Settings.load({}, environ={})


class Queued:
    """A member as turns see one."""

    def __init__(self, *ids, outcome=None):
        self.change = self
        self.identity = Identity(snapshot_ids=ids)
        self.outcome = outcome


def turns_of(*lost, **settings):
    turns = Turns(replace(DEFAULTS, **settings))
    turns.settled([Queued(id_, outcome=LOST) for id_ in lost])
    return turns


def test_nobody_waits_where_nobody_lost():
    turns = Turns(DEFAULTS)
    turns.settled([Queued(1, outcome=None), Queued(2, outcome=Failed(LockNotAcquired("late")))])
    assert turns.seconds_to_wait([Queued(3)], 10.0) == 0


@pytest.mark.parametrize(
    "member",
    [
        Queued(1, outcome=Failed(AssumptionBroken("assert-default-spec-id", "changed"))),
        Queued(outcome=LOST),
    ],
)
def test_only_who_lost_its_branch_s_place_and_can_be_known_again_gets_a_turn(member):
    turns = Turns(DEFAULTS)
    turns.settled([member])
    assert turns.seconds_to_wait([Queued(3)], 10.0) == 0


def test_others_wait_until_it_comes_back_and_it_goes_first():
    turns = turns_of(1)
    others = [Queued(2), Queued(3)]
    assert turns.seconds_to_wait(others, 10.0) == 1.0
    assert turns.seconds_to_wait(others, 10.4) == pytest.approx(0.6)
    back = Queued(1)
    assert turns.seconds_to_wait([*others, back], 10.5) == 0
    assert [turns.goes_first(member) for member in (*others, back)] == [False, False, True]
    turns.settled([Queued(1, outcome=None)])
    assert turns.seconds_to_wait(others, 20.0) == 0


def test_it_is_waited_for_no_longer_than_the_bound():
    turns = turns_of(1)
    assert turns.seconds_to_wait([Queued(2)], 10.0) == 1.0
    assert turns.seconds_to_wait([Queued(2)], 11.0) == 0
    assert turns.seconds_to_wait([Queued(2)], 99.0) == 0


@pytest.mark.parametrize(("share", "free"), [(50, 1.0), (25, 3.0), (80, 0.25)])
def test_others_are_kept_waiting_for_a_share_of_the_time_only(share, free):
    turns = turns_of(1, 5, turn_max_share_percent=share)
    turns.seconds_to_wait([Queued(2)], 10.0)
    turns.seconds_to_wait([Queued(2)], 11.0)
    assert turns.seconds_to_wait([Queued(2)], 11.0 + free - 0.01) == 0
    assert turns.seconds_to_wait([Queued(2)], 11.0 + free + 0.01) == 1.0


def test_who_is_there_takes_the_turn_of_one_who_lost_before_and_is_not():
    turns = turns_of(1, 5)
    assert turns.seconds_to_wait([Queued(2)], 10.0) == 1.0
    assert turns.seconds_to_wait([Queued(2), Queued(5)], 10.1) == 0, "a client that gave up keeps nobody waiting"
    turns.settled([Queued(2, outcome=None), Queued(5, outcome=None)])
    assert turns.seconds_to_wait([Queued(2)], 20.0) == 1.0, "the first may still come"
    assert turns.seconds_to_wait([Queued(1)], 20.1) == 0


def test_who_loses_again_is_waited_for_again():
    turns = turns_of(1, 5)
    turns.settled([Queued(1, outcome=LOST), Queued(5, outcome=None)])
    assert turns.goes_first(Queued(1))
    assert not turns.goes_first(Queued(5))
    assert turns.seconds_to_wait([Queued(5)], 10.0) == 1.0


def test_turns_can_be_switched_off():
    turns = turns_of(1, turn_max_wait_ms=0)
    assert turns.seconds_to_wait([Queued(2)], 10.0) == 0
    assert not turns.goes_first(Queued(1))


def test_those_that_wait_are_bounded_and_the_oldest_go():
    turns = turns_of(*range(1, WAITING_MAX + 3))
    assert not turns.goes_first(Queued(2))
    assert turns.goes_first(Queued(3))
    assert turns.goes_first(Queued(WAITING_MAX + 2))


def test_where_nobody_waits_no_time_is_counted():
    turns = turns_of(1)
    assert turns.seconds_to_wait([], 10.0) == 0
    assert turns.seconds_to_wait([Queued(2)], 20.0) == 1.0
