"""Each key is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from iceberg_hms.changes.operations.once_read import OnceRead


class Reader:
    """Finds a text's length; nothing in an empty one. reads: what it was asked for."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.fails_at: str | None = None

    def read(self, new: Sequence[str]) -> Iterator[tuple[str, int]]:
        self.reads.append([*new])
        for each in new:
            if each == self.fails_at:
                raise OSError(each)
            if each:
                yield each, len(each)


def test_keys_are_found_in_order_and_each_is_read_once() -> None:
    reader, once = Reader(), OnceRead[str, int](0)
    assert once.of(["aa", "", "a", "aa"], reader.read) == [2, 0, 1, 2]
    assert once.of(["", "aaa", "a"], reader.read) == [0, 3, 1]
    assert once.of(["aa", ""], reader.read) == [2, 0]
    assert once.of([], reader.read) == []
    assert reader.reads == [["aa", "", "a"], ["aaa"]]


def test_what_was_not_read_for_an_error_is_read_again() -> None:
    reader, once = Reader(), OnceRead[str, int](0)
    reader.fails_at = "b"
    with pytest.raises(OSError, match="b"):
        once.of(["a", "", "b", "c"], reader.read)
    reader.fails_at = None
    assert once.of(["a", "", "b", "c"], reader.read) == [1, 0, 1, 1]
    assert reader.reads[1:] == [["", "b", "c"]]
