from __future__ import annotations

from iceberg_hms.coordinator.ports import TableName
from simulation.world.history import Answer, CommitCall, History, Move, MoveKind


def test_answers_are_kept_and_told_on() -> None:
    history = History()
    told: list[str] = []
    attempt = history.begin(CommitCall("a", "w1"))
    move = Move(MoveKind.DROP, "mover1", TableName("db", "t"), TableName("db", "u"))
    history.on_told = lambda: told.append(f"{attempt.told.value} {move.told.value}")
    history.tell(attempt, Answer.COMMITTED)
    history.tell_move(move, Answer.FAILED)
    assert told == ["committed nothing", "committed failed"]


def test_unknown_may_become_committed_and_never_failed() -> None:
    history = History()
    attempt = history.begin(CommitCall("a", "w1"))
    history.tell(attempt, Answer.UNKNOWN)
    history.tell(attempt, Answer.FAILED)
    assert attempt.told is Answer.UNKNOWN
    history.tell(attempt, Answer.COMMITTED)
    assert attempt.told is Answer.COMMITTED


def test_what_failed_may_be_sent_again() -> None:
    history = History()
    attempt = history.begin(CommitCall("a", "w1", data_file="file:/a"))
    history.tell(attempt, Answer.FAILED)
    history.again(attempt)
    assert attempt.told is Answer.NOTHING


def test_a_rewrite_adds_no_row() -> None:
    assert CommitCall("a", "w1", data_file="file:/a").row == "file:/a"
    assert CommitCall("a", "w1", data_file="file:/a", rewrites=True).row is None


def test_attempts_are_gathered_by_what_they_are_for() -> None:
    history = History()
    first, second, other = (history.begin(CommitCall(wish, "w1")) for wish in "aab")
    assert history.by_wish() == {"a": [first, second], "b": [other]}
