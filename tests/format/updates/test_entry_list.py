"""Lists whose entries have ids, while updates change them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.format.updates.entry_list import EntryList

#: An id and a content.
Pair = tuple[int, str]


def of(*entries: Pair) -> EntryList[Pair]:
    return EntryList(entries, lambda each: each[0], lambda each: each[1])


def test_entries_are_found_by_id_and_by_content() -> None:
    entries = of((1, "a"), (2, "b"), (3, "a"))
    assert entries.get(2) == (2, "b")
    assert entries.get(9) is None
    assert entries.same_as((7, "a")) == (1, "a"), "the first"
    assert entries.same_as((7, "c")) is None
    assert 2 in entries
    assert 9 not in entries


def test_the_next_id_follows_the_highest_that_is_left() -> None:
    entries = of((1, "a"), (5, "b"))
    assert entries.next_id(0) == 6
    entries.remove(5)
    assert entries.next_id(0) == 2
    entries.add((7, "c"))
    assert entries.next_id(0) == 8
    entries.remove(7)
    entries.remove(1)
    assert entries.next_id(3) == 3


def test_removing_what_is_not_there_is_no_change() -> None:
    entries = of((1, "a"))
    assert entries.remove(2) == []
    assert not entries.changed
    assert entries.remove(1) == [(1, "a")]
    assert entries.changed


pairs = st.tuples(st.integers(0, 4), st.sampled_from("abc"))


@given(st.lists(pairs), st.lists(st.tuples(st.booleans(), pairs)))
def test_it_says_what_a_plain_list_says(start: list[Pair], steps: list[tuple[bool, Pair]]) -> None:
    plain, entries = list(start), of(*start)
    for adds, pair in steps:
        if adds:
            plain.append(pair)
            entries.add(pair)
        else:
            assert entries.remove(pair[0]) == [each for each in plain if each[0] == pair[0]]
            plain = [each for each in plain if each[0] != pair[0]]
        assert list(entries) == plain
        assert len(entries) == len(plain)
        assert entries.same_as(pair) == next((each for each in plain if each[1] == pair[1]), None)
        assert entries.get(pair[0]) == next((each for each in plain if each[0] == pair[0]), None)
        assert entries.next_id(0) == max((each[0] + 1 for each in plain), default=0)
