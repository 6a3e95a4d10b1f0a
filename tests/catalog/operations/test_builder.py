"""Builders: steps, and one commit."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.catalog.operations.builder import Builder
from iceberg_hms.errors import InvalidInput


class Words(Builder[list[str], str]):
    """Says its words; refuses the empty one, after half of its work, and to say `never`."""

    made_by = "words()"

    def __init__(self) -> None:
        self.said: list[Any] = []
        super().__init__(list, self._checked_steps, self._say)  # type: ignore[arg-type]

    def _checked_steps(self, steps: Any) -> Any:
        if "never" in self._draft:
            raise InvalidInput("never")
        return steps

    def _say(self, steps: Any) -> str:
        draft: list[str] = []
        for step in steps:
            step(draft)
        self.said.append(draft)
        return " ".join(draft)

    def steps_so_far(self) -> list[str]:
        return list(self._draft)

    def word(self, word: str) -> Words:
        def step(draft: list[str]) -> None:
            draft.append(word)
            if not word:
                raise InvalidInput("no word")

        return self._add(step)


def test_a_chain_ends_in_a_commit() -> None:
    assert Words().word("a").word("b").commit() == "a b"


def test_a_block_commits_at_its_end() -> None:
    with Words() as words:
        words.word("a")
        assert words.said == []
    assert (words.report, words.said) == ("a", [["a"]])


def test_a_block_that_ends_in_an_exception_commits_nothing() -> None:
    words = Words()

    def breaks_off() -> None:
        with words:
            words.word("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    assert (words.report, words.said) == (None, [])
    assert words.word("b").commit() == "a b"


def test_a_commit_within_the_block_is_the_only_one() -> None:
    with Words() as words:
        words.word("a").commit()
    assert words.said == [["a"]]


def test_a_refused_step_leaves_the_others() -> None:
    words = Words().word("a")
    with pytest.raises(InvalidInput, match="no word"):
        words.word("")
    assert words.steps_so_far() == ["a"]
    assert words.word("b").commit() == "a b"


def test_nothing_follows_a_commit() -> None:
    words = Words().word("a")
    words.commit()
    for late in (words.commit, lambda: words.word("b")):
        with pytest.raises(InvalidInput, match="committed already"):
            late()


def dropped(caplog: pytest.LogCaptureFixture, use: Callable[[Words], Any]) -> list[str]:
    """What the log says once a builder is gone. A refusal on the way is the caller's."""
    with contextlib.suppress(InvalidInput, ZeroDivisionError):
        use(Words())
    gc.collect()
    return [each.getMessage() for each in caplog.records]


def test_steps_that_nobody_committed_leave_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    expected = (
        "words(): 2 steps were dropped, and the table has none of them; end the chain with commit(), or use `with`"
    )
    assert dropped(caplog, lambda words: words.word("a").word("b")) == [expected]


def breaks_off(words: Words) -> None:
    with words:
        words.word("a")
        raise ZeroDivisionError


def goes_on_after_a_refusal(words: Words) -> None:
    words.word("a")
    with contextlib.suppress(InvalidInput):
        words.word("")
    words.word("b")


@pytest.mark.parametrize(
    ("use", "warnings"),
    [
        (lambda words: words, 0),
        (lambda words: words.word("a").commit(), 0),
        (lambda words: words.word("a").word(""), 0),
        (lambda words: words.word("never").commit(), 0),
        (breaks_off, 0),
        (goes_on_after_a_refusal, 1),
    ],
)
def test_a_caller_that_heard_of_it_or_committed_gets_no_warning(
    caplog: pytest.LogCaptureFixture, use: Callable[[Words], Any], warnings: int
) -> None:
    assert len(dropped(caplog, use)) == warnings


def test_a_builder_that_was_never_made_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> list[str]:
        raise InvalidInput("unknown transform")

    with pytest.raises(InvalidInput):
        Builder(refused, lambda steps: steps, lambda change: change)  # type: ignore[arg-type, return-value, var-annotated]
    gc.collect()
    assert not caplog.records
