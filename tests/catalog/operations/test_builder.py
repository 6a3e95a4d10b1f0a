"""Builders: steps, and one commit."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.catalog.operations.builder import Builder
from iceberg_hms.errors import InvalidInput


class Words(Builder[list[str], str]):
    """Says its words; refuses the empty one, after half of its work."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        super().__init__(list, lambda steps: steps, self._say)  # type: ignore[arg-type, return-value]

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
