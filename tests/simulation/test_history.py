from __future__ import annotations

from iceberg_hms.coordinator.ports import TableName
from simulation.history import Attempt, History, Move, MoveKind, Told


def test_answers_are_kept_and_told_on() -> None:
    history = History()
    told: list[str] = []
    attempt = history.begin(Attempt("a", "w1"))
    move = Move(MoveKind.DROP, "mover1", TableName("db", "t"), TableName("db", "u"))
    history.on_told = lambda: told.append(f"{attempt.told.value} {move.told.value}")
    history.tell(attempt, Told.COMMITTED)
    history.tell_move(move, Told.FAILED)
    assert told == ["committed nothing", "committed failed"]


def test_unknown_may_become_committed_and_never_failed() -> None:
    history = History()
    attempt = history.begin(Attempt("a", "w1"))
    history.tell(attempt, Told.UNKNOWN)
    history.tell(attempt, Told.FAILED)
    assert attempt.told is Told.UNKNOWN
    history.tell(attempt, Told.COMMITTED)
    assert attempt.told is Told.COMMITTED


def test_what_failed_may_be_sent_again() -> None:
    history = History()
    attempt = history.begin(Attempt("a", "w1", data_file="file:/a"))
    history.tell(attempt, Told.FAILED)
    history.again(attempt)
    assert attempt.told is Told.NOTHING


def test_a_rewrite_adds_no_row() -> None:
    assert Attempt("a", "w1", data_file="file:/a").row == "file:/a"
    assert Attempt("a", "w1", data_file="file:/a", rewrites=True).row is None


def test_attempts_are_gathered_by_what_they_are_for() -> None:
    history = History()
    first, second, other = (history.begin(Attempt(wish, "w1")) for wish in "aab")
    assert history.by_wish() == {"a": [first, second], "b": [other]}
