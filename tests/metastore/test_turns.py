"""When a waiter looks at the queue before it: by a clock that the test turns."""

from __future__ import annotations

import pytest

from iceberg_hms.metastore.turns import Turns
from tests.metastore.runtimes import ByHand


@pytest.fixture
def hand() -> ByHand:
    return ByHand()


@pytest.fixture
def turns(hand: ByHand) -> Turns:
    return Turns(hand, 0.05)


def test_before_the_first_look_nothing_is_known(turns: Turns) -> None:
    assert turns.ahead is None


def test_half_of_the_turns_after_the_holders_is_slept_through(hand: ByHand, turns: Turns) -> None:
    turns.saw(5)
    assert turns.seconds() == pytest.approx(4 * 0.05 / 2)


def test_how_long_a_turn_takes_is_learned_from_two_looks(hand: ByHand, turns: Turns) -> None:
    turns.saw(9)
    hand.time += 0.06
    turns.saw(6)
    assert turns.seconds() == pytest.approx(5 * 0.02 / 2)


def test_a_slow_turn_is_believed_by_half(hand: ByHand, turns: Turns) -> None:
    turns.saw(9)
    hand.time += 1.0
    turns.saw(8)
    assert turns.seconds() == pytest.approx(7 * (0.05 + 1.0) / 2 / 2)


def test_who_is_next_looks_soon_and_less_often_the_longer_the_holder_takes(hand: ByHand, turns: Turns) -> None:
    turns.saw(2)
    hand.time += 1.55
    turns.saw(1)
    assert turns.seconds() == pytest.approx((0.05 + 1.55) / 2 / 16)
    hand.time += 8.0
    assert turns.seconds() == pytest.approx(1.0)
    turns.saw(1)
    assert turns.seconds() == pytest.approx(1.0)


def test_a_queue_that_does_not_move_is_looked_at_less_often(hand: ByHand, turns: Turns) -> None:
    turns.saw(3)
    hand.time += 80.0
    turns.saw(3)
    assert turns.seconds() == pytest.approx(10.0)


def test_after_it_was_out_of_sight_the_queue_is_seen_anew(hand: ByHand, turns: Turns) -> None:
    turns.saw(8)
    turns.lost_sight()
    assert turns.ahead is None
    hand.time += 50.0
    turns.saw(2)
    assert turns.seconds() == pytest.approx(0.05 / 2)
