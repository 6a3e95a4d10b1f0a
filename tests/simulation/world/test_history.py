from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import TableName
from simulation.world.history import Answer, CatalogCall, CatalogCallKind, History, WriteAttempt


def test_answers_are_kept_and_told_on() -> None:
    history = History()
    answer: list[str] = []
    attempt = history.begin(WriteAttempt("a", "w1"))
    call = CatalogCall(CatalogCallKind.DROP, "caller1", TableName("db", "t"), TableName("db", "u"))
    history.on_answer = lambda: answer.append(f"{attempt.answer.value} {call.answer.value}")
    history.record_answer(attempt, Answer.COMMITTED)
    history.record_catalog_answer(call, Answer.FAILED)
    assert answer == ["committed nothing", "committed failed"]


@pytest.mark.parametrize("answer", [Answer.FAILED, Answer.COMMITTED])
def test_each_answer_counts_whatever_came_before_it(answer: Answer) -> None:
    history = History()
    attempt = history.begin(WriteAttempt("a", "w1"))
    history.record_answer(attempt, Answer.UNKNOWN)
    history.record_answer(attempt, answer)
    assert attempt.answer is answer


def test_what_failed_may_be_sent_again() -> None:
    history = History()
    attempt = history.begin(WriteAttempt("a", "w1", data_file="file:/a"))
    history.record_answer(attempt, Answer.FAILED)
    history.reopen(attempt)
    assert attempt.answer is Answer.NOTHING


def test_a_rewrite_adds_no_row() -> None:
    assert WriteAttempt("a", "w1", data_file="file:/a").row == "file:/a"
    assert WriteAttempt("a", "w1", data_file="file:/a", rewrites=True).row is None


def test_attempts_are_gathered_by_what_they_are_for() -> None:
    history = History()
    first, second, other = (history.begin(WriteAttempt(operation, "w1")) for operation in "aab")
    assert history.by_operation() == {"a": [first, second], "b": [other]}
