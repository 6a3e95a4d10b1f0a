from __future__ import annotations

from iceberg_hms.testing.simulation.history import Attempt, History, Told


def test_answers_are_kept_and_told_on() -> None:
    history = History()
    told: list[str] = []
    history.on_told = lambda attempt: told.append(attempt.wish)
    attempt = history.begin(Attempt("a", "w1"))
    history.tell(attempt, Told.COMMITTED)
    assert attempt.told is Told.COMMITTED
    assert told == ["a"]


def test_unknown_may_become_committed_and_never_failed() -> None:
    history = History()
    attempt = history.begin(Attempt("a", "w1"))
    history.tell(attempt, Told.UNKNOWN)
    history.tell(attempt, Told.FAILED)
    assert attempt.told is Told.UNKNOWN
    history.tell(attempt, Told.COMMITTED)
    assert attempt.told is Told.COMMITTED


def test_attempts_are_gathered_by_what_they_are_for() -> None:
    history = History()
    first, second, other = (history.begin(Attempt(wish, "w1")) for wish in "aab")
    assert history.by_wish() == {"a": [first, second], "b": [other]}
