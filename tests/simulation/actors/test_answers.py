"""What callers of operations are answered."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import AlreadyExists, CommitStateUnknown, StorageError
from simulation.actors.answers import answer_of
from simulation.world.history import Answer


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (CommitStateUnknown("nobody knows: x"), (Answer.UNKNOWN, "nobody knows")),
        (AlreadyExists("it is there: db.t"), (Answer.FAILED, "AlreadyExists: it is there")),
        (StorageError("disk full"), (Answer.UNKNOWN, "StorageError: disk full")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_only_a_proved_error_is_a_failure(error: Exception, answer: tuple[Answer, str]) -> None:
    def operation() -> None:
        raise error

    assert answer_of(operation) == answer


def test_what_raises_nothing_was_made() -> None:
    assert answer_of(lambda: None) == (Answer.COMMITTED, "")
