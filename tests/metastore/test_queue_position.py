"""When a waiter looks at the queue before it: by a clock that the test turns."""

from __future__ import annotations

import pytest

from iceberg_hms.metastore.queue_position import QueuePosition
from tests.metastore.runtimes import ByHand


@pytest.fixture
def hand() -> ByHand:
    return ByHand()


@pytest.fixture
def position(hand: ByHand) -> QueuePosition:
    return QueuePosition(hand, 0.05)


def test_before_the_first_look_nothing_is_known(position: QueuePosition) -> None:
    assert position.ahead is None


def test_half_of_the_turns_after_the_holders_is_slept_through(hand: ByHand, position: QueuePosition) -> None:
    position.saw(5)
    assert position.seconds() == pytest.approx(4 * 0.05 / 2)


def test_how_long_a_turn_takes_is_learned_from_two_looks(hand: ByHand, position: QueuePosition) -> None:
    position.saw(9)
    hand.time += 0.06
    position.saw(6)
    assert position.seconds() == pytest.approx(5 * 0.02 / 2)


def test_a_slow_turn_is_believed_by_half(hand: ByHand, position: QueuePosition) -> None:
    position.saw(9)
    hand.time += 1.0
    position.saw(8)
    assert position.seconds() == pytest.approx(7 * (0.05 + 1.0) / 2 / 2)


def test_who_is_next_looks_soon_and_less_often_the_longer_the_holder_takes(
    hand: ByHand, position: QueuePosition
) -> None:
    position.saw(2)
    hand.time += 1.55
    position.saw(1)
    assert position.seconds() == pytest.approx((0.05 + 1.55) / 2 / 16)
    hand.time += 8.0
    assert position.seconds() == pytest.approx(1.0)
    position.saw(1)
    assert position.seconds() == pytest.approx(1.0)


def test_a_queue_that_does_not_move_is_looked_at_less_often(hand: ByHand, position: QueuePosition) -> None:
    position.saw(3)
    hand.time += 80.0
    position.saw(3)
    assert position.seconds() == pytest.approx(10.0)


def test_after_it_was_out_of_sight_the_queue_is_seen_anew(hand: ByHand, position: QueuePosition) -> None:
    position.saw(8)
    position.lost_sight()
    assert position.ahead is None
    hand.time += 50.0
    position.saw(2)
    assert position.seconds() == pytest.approx(0.05 / 2)
