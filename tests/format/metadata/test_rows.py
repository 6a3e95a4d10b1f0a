"""The lists that grow with every commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.format.metadata import gzip_parts
from iceberg_hms.format.metadata.rows import BLOCK_ROWS, RECENT_ROWS, Row, RowBlock, Rows, SnapshotIndex

#: Lengths around the borders of blocks.
LENGTHS = [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS, 3 * BLOCK_ROWS + 7]


def snapshot(number: int, **fields: Any) -> dict[str, Any]:
    return {"snapshot-id": number, "summary": {"operation": "append"}, **fields}


def plain(length: int) -> list[dict[str, Any]]:
    return [snapshot(number) for number in range(length)]


def text_of(rows: Rows) -> bytes:
    return gzip_parts.join_text(rows.json_parts())


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_equal_the_list_that_they_were_made_of(length: int) -> None:
    rows, wanted = Rows(plain(length)), plain(length)
    assert (len(rows), list(rows), list(reversed(rows))) == (length, wanted, wanted[::-1])
    assert rows == wanted
    assert rows == tuple(wanted)
    assert [rows[index] for index in range(-length, length)] == wanted * 2
    for cut in (slice(None), slice(-3, None), slice(2, 5), slice(length, None), slice(None, None, -50)):
        assert rows[cut] == wanted[cut]
    for outside in (length, -length - 1):
        with pytest.raises(IndexError):
            rows[outside]


def history(numbers: Sequence[int], parents: Sequence[int | None]) -> list[dict[str, Any]]:
    """Snapshots 0, 1, 2... with these sequence numbers and parents."""
    return [
        snapshot(id_, **{"sequence-number": number, "parent-snapshot-id": parent})
        for id_, (number, parent) in enumerate(zip(numbers, parents, strict=True))
    ]


def roots(rows: Sequence[Row], number: int) -> list[int]:
    """By the words of the rule."""
    later = {row["snapshot-id"]: row for row in rows if row["sequence-number"] >= number}
    return [id_ for id_, row in later.items() if row["parent-snapshot-id"] not in later]


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mostly one branch in order, with other parents and numbers here and there."""
    length = draw(st.integers(0, 2 * BLOCK_ROWS + 9))
    numbers, parents = list(range(1, length + 1)), [None if id_ == 0 else id_ - 1 for id_ in range(length)]
    for index in draw(st.lists(st.integers(0, length - 1), max_size=4)) if length else ():
        numbers[index] = draw(st.integers(0, length + 2))
        # No snapshot comes before its parent.
        parents[index] = draw(st.none() | st.integers(-1, index - 1))
    return history(numbers, parents)


@given(histories(), st.integers(-1, 2 * BLOCK_ROWS + 12), st.integers(0, 2 * BLOCK_ROWS + 9))
@settings(max_examples=300)
def test_the_roots_of_later_snapshots_are_those_without_a_later_parent(
    wanted: list[dict[str, Any]], number: int, known: int
) -> None:
    rows = Rows(wanted[:known])
    assert [row["snapshot-id"] for row in rows.roots_from(number)] == roots(wanted[:known], number)
    for row in wanted[known:]:
        rows = rows.with_row(row)
    assert [row["snapshot-id"] for row in rows.roots_from(number)] == roots(wanted, number)
    assert rows.descent == Rows(wanted).descent, "grown row by row, it is another one than looked for at once"


def test_the_sources_of_cherry_picks_are_known() -> None:
    picks = [snapshot(id_, summary={"source-snapshot-id": source}) for id_, source in enumerate(["7", 8, None, "9"])]
    rows = Rows([snapshot(20), {"snapshot-id": 21}, {"snapshot-id": 22, "summary": "odd"}])
    assert rows.descent.picked == frozenset()
    for row in picks:
        rows = rows.with_row(row)
    assert rows.descent.picked == Rows(list(rows)).descent.picked == {"7", "9"}


def test_the_order_of_the_list_does_not_matter() -> None:
    wanted = history(range(9), [None, *range(8)])[::-1]
    for number in range(11):
        assert [row["snapshot-id"] for row in Rows(wanted).roots_from(number)] == roots(wanted, number)


def test_a_snapshot_without_a_number_counts_as_the_first() -> None:
    assert Rows(plain(3)).roots_from(1) == []
    assert len(Rows(plain(3)).roots_from(0)) == 3


@pytest.mark.parametrize("length", LENGTHS)
def test_the_json_of_rows_equals_that_of_a_list(length: int) -> None:
    rows, wanted = Rows(plain(length)), plain(length)
    assert text_of(rows) == orjson.dumps(wanted)
    longer = rows.with_row(snapshot(-1))
    assert text_of(longer) == orjson.dumps([*wanted, snapshot(-1)])
    assert text_of(rows) == orjson.dumps(wanted), "as it was"


@given(st.sampled_from(LENGTHS), st.integers(0, 2 * BLOCK_ROWS))
@settings(max_examples=30, deadline=None)
def test_adding_a_row_leaves_the_original_list_unchanged(length: int, more: int) -> None:
    base = Rows(plain(length))
    grown, other = base, base.with_row(snapshot(-2))
    for number in range(more):
        grown = grown.with_row(snapshot(length + number))
    assert (list(base), list(grown)) == (plain(length), plain(length + more))
    assert (len(base), len(grown)) == (length, length + more)
    assert [len(block.rows) for block in grown.blocks] == [BLOCK_ROWS] * ((length + more) // BLOCK_ROWS)
    assert list(other) == [*plain(length), snapshot(-2)], "two lists that go on from one do not meet"
    assert list(grown.since(base) or ()) == plain(length + more)[length:]
    assert grown.since(grown) == ()
    assert base.since(grown) == (None if more else ())
    assert other.since(grown) is None or more == 0
    assert grown.last == (None if not length + more else plain(length + more)[-1])


def test_full_blocks_are_shared_and_written_once() -> None:
    base = Rows(plain(2 * BLOCK_ROWS + 5))
    text_of(base)
    grown = base.with_row(snapshot(-1))
    assert all(mine is theirs for mine, theirs in zip(base.blocks, grown.blocks, strict=True))
    for mine, theirs in zip(grown.json_parts()[1:4:2], base.json_parts()[1:4:2], strict=True):
        assert isinstance(mine, RowBlock)
        assert isinstance(theirs, RowBlock)
        assert mine.json is theirs.json
        assert mine.deflated is theirs.deflated


@pytest.mark.parametrize("place", [0, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 3])
def test_a_list_with_another_object_in_it_goes_on_from_nothing(place: int) -> None:
    mine = plain(BLOCK_ROWS + 5)
    changed = [*mine]
    changed[place] = dict(mine[place])
    assert Rows(changed).with_row(snapshot(-1)).since(Rows(mine)) is None


def test_values_that_json_cannot_express_are_a_type_error() -> None:
    for rows in (Rows([snapshot(1, name="\ud800")]), Rows([snapshot(number, bad={1}) for number in range(BLOCK_ROWS)])):
        with pytest.raises(TypeError):
            text_of(rows)


def test_rows_are_found_by_a_value_at_a_path() -> None:
    odd: list[Any] = [{"snapshot-id": 1}, {"summary": None}, {"summary": ["operation"]}, 5, {"summary": {"job": 7}}]
    rows = Rows([*odd, *plain(BLOCK_ROWS), snapshot(900, summary={"job": "k"}), *plain(BLOCK_ROWS)])
    rows = rows.with_row(snapshot(901, summary={"job": "k"}))
    for _ in range(2):
        assert [row["snapshot-id"] for row in rows.where(("summary", "job"), "k")] == [900, 901]
    assert rows.where(("summary", "job"), "other") == []
    assert len(rows.where(("summary", "operation"), "append")) == 2 * BLOCK_ROWS
    assert Rows().where(("summary", "job"), "k") == []


@pytest.mark.parametrize("length", [0, 1, RECENT_ROWS, 2 * RECENT_ROWS + 3])
def test_adding_a_row_leaves_the_original_index_unchanged(length: int) -> None:
    base = SnapshotIndex(plain(5))
    grown = base
    for number in range(5, 5 + length):
        grown = grown.with_row(snapshot(number))
    wanted = {row["snapshot-id"]: row for row in plain(5 + length)}
    assert grown == wanted
    assert (len(grown), list(grown), list(grown.values())) == (len(wanted), list(wanted), list(wanted.values()))
    assert (base, len(base)) == ({number: snapshot(number) for number in range(5)}, 5)
    assert all(number in grown and grown[number] == grown.get(number) == wanted[number] for number in wanted)
    assert -1 not in grown
    assert (grown.get(-1), grown.get(-1, "none")) == (None, "none")
    with pytest.raises(KeyError):
        grown[-1]


@pytest.mark.parametrize("number", [2, 7])
def test_an_index_counts_an_id_once(number: int) -> None:
    index = SnapshotIndex(plain(5)).with_row(snapshot(7))
    again = index.with_row(snapshot(number, again=True))
    assert len(again) == len(set(again)) == len(index)
    assert again[number] == snapshot(number, again=True)
