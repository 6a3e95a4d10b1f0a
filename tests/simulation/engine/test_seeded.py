from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from simulation.engine.seeded import SeededRandom


def test_the_numbers_are_those_of_splitmix64() -> None:
    random = SeededRandom(1234567)
    assert [random.bits() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(), st.integers(min_value=1, max_value=2**40))
def test_numbers_stay_in_their_bounds(seed: int, bound: int) -> None:
    random = SeededRandom(seed)
    assert 0 <= random.below(bound) < bound
    assert 0.0 <= random.fraction() < 1.0
    assert 2.0 <= random.between(2.0, 5.0) < 5.0
    assert random.pick((bound,)) == bound


def test_chances_are_kept() -> None:
    random = SeededRandom(3)
    hits = sum(random.chance(0.25) for _ in range(4000))
    assert 900 < hits < 1100
    assert not random.chance(0.0)
    assert random.chance(1.0)


def test_a_uuid_looks_like_one_and_comes_once() -> None:
    random = SeededRandom(5)
    made = {random.uuid() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}", each) for each in made)


def test_forks_go_their_own_ways() -> None:
    first, second = SeededRandom(1).fork("a"), SeededRandom(1).fork("b")
    assert [first.bits() for _ in range(3)] != [second.bits() for _ in range(3)]
    assert SeededRandom(1).fork("a").bits() == SeededRandom(1).fork("a").bits()
