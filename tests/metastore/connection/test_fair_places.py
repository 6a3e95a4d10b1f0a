from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from iceberg_hms.metastore.connection import fair_places
from iceberg_hms.metastore.connection.fair_places import FairPlaces, Turn
from iceberg_hms.work import owned_by

SECONDS = 10


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Calls:
    """Calls on threads of their own: each waits for a place, and ends when the test says so."""

    def __init__(self, places: FairPlaces) -> None:
        self.places = places
        self.served: list[str] = []
        self._changed = threading.Condition()
        self._ends: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def begin(self, owner: str, name: str) -> None:
        """Ask for a place; returns when it is taken or waited for."""
        end = self._ends[name] = threading.Event()
        seen = self.waiting + len(self.served)

        def call() -> None:
            with owned_by(owner):
                assert self.places.acquire(timeout=SECONDS)
                with self._changed:
                    self.served.append(name)
                    self._changed.notify_all()
                assert end.wait(SECONDS)
                self.places.release()

        self._threads.append(threading.Thread(target=call))
        self._threads[-1].start()
        self._until(lambda: self.waiting + len(self.served) > seen)

    def end(self, name: str) -> None:
        """Give the place back, and wait for who gets it."""
        had, waited = len(self.served), bool(self.waiting)
        self._ends[name].set()
        if waited:
            self._until(lambda: len(self.served) > had)

    def finish(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    @property
    def waiting(self) -> int:
        return self.places.waiting

    def _until(self, true: Callable[[], bool]) -> None:
        with self._changed:
            # Who begins to wait tells nobody.
            assert any(true() or self._changed.wait(0.001) or true() for _ in range(1_000 * SECONDS))


def test_a_place_goes_to_who_holds_none_before_who_holds_one() -> None:
    hand = Hand()
    calls = Calls(FairPlaces(2, hand))
    for name in ("a1", "a2", "a3", "a4"):
        calls.begin("a", name)
    for name in ("b1", "b2"):
        calls.begin("b", name)
    calls.end("a1")
    assert calls.served == ["a1", "a2", "b1"]
    hand.now += 5
    calls.end("b1")
    assert calls.served[3:] == ["b2"], "although its calls took longer so far"
    calls.finish()


def test_owners_take_turns_however_many_of_their_threads_wait() -> None:
    hand = Hand()
    calls = Calls(FairPlaces(1, hand))
    for number in range(6):
        calls.begin("many", f"m{number}")
    for number in range(2):
        calls.begin("few", f"f{number}")
    for name in ("m0", "f0", "m1", "f1", "m2", "m3", "m4"):
        assert calls.served[-1] == name
        hand.now += 1
        calls.end(name)
    calls.finish()


def test_turns_are_counted_in_seconds_and_not_in_calls() -> None:
    hand = Hand()
    calls = Calls(FairPlaces(1, hand))
    for number in range(3):
        calls.begin("slow", f"s{number}")
    for number in range(6):
        calls.begin("quick", f"q{number}")
    for name, seconds in (("s0", 3), ("q0", 1), ("q1", 1), ("q2", 1), ("s1", 3), ("q3", 1), ("q4", 1), ("q5", 1)):
        assert calls.served[-1] == name, calls.served
        hand.now += seconds
        calls.end(name)
    calls.finish()


@pytest.mark.parametrize("was_here_before", [False, True])
def test_an_owner_who_begins_late_is_owed_nothing_for_the_time_before(was_here_before: bool) -> None:
    hand = Hand()
    calls = Calls(FairPlaces(1, hand))
    calls.begin("late" if was_here_before else "another", "first")
    for number in range(5):
        calls.begin("early", f"e{number}")
    calls.end("first")
    for number in range(3):
        hand.now += 100
        calls.end(f"e{number}")
    for number in range(3):
        calls.begin("late", f"l{number}")
    hand.now += 1
    calls.end("e3")
    hand.now += 10
    calls.end("l0")
    assert calls.served == ["first", "e0", "e1", "e2", "e3", "l0", "e4"]
    calls.finish()


def test_without_others_one_owner_has_all_places_in_the_order_in_which_its_threads_came() -> None:
    calls = Calls(FairPlaces(3))
    names = [f"a{number}" for number in range(8)]
    for name in names:
        calls.begin("a", name)
    assert calls.served == names[:3]
    for name in names[:5]:
        calls.end(name)
    calls.finish()
    assert calls.served == names


def test_who_waits_too_long_gets_no_place_and_takes_none() -> None:
    places = FairPlaces(1)
    assert places.acquire(timeout=1)
    with owned_by("b"):
        assert not places.acquire(timeout=0.01)
    places.release()
    assert places.acquire(timeout=0)
    places.release()


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_wait_that_is_interrupted_takes_no_place(handed_over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    places = FairPlaces(1)

    def interrupted(_turn: Turn, _timeout: float) -> bool:
        if handed_over:
            places.release()
        raise KeyboardInterrupt

    assert places.acquire(timeout=1)
    monkeypatch.setattr(Turn, "wait", interrupted)
    with owned_by("b"), pytest.raises(KeyboardInterrupt):
        places.acquire(timeout=1)
    if not handed_over:
        places.release()
    assert places.acquire(timeout=0)


def test_a_place_is_given_back_once() -> None:
    places = FairPlaces(1)
    assert places.acquire(timeout=1)
    places.release()
    with pytest.raises(ValueError, match="without a place"):
        places.release()


def test_nothing_is_kept_of_owners_who_are_gone() -> None:
    places = FairPlaces(2)
    for number in range(100):
        with owned_by(f"owner {number}"):
            assert places.acquire(timeout=1)
            places.release()
    assert not places.owners


def test_owners_are_bounded_while_places_are_scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_places, "OWNERS_MAX", 10)
    calls = Calls(FairPlaces(1))
    calls.begin("first", "first")
    for number in range(50):
        calls.begin(f"owner {number}", f"{number}")
        calls.end("first" if not number else f"{number - 1}")
    assert len(calls.places.owners) <= 10
    calls.finish()
