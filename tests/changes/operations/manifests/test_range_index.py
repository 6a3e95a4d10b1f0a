"""Ranges that overlap one, beside a look at each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.range_index import RangeIndex

#: Few values, so that ends meet. Metrics of a damaged file may say that the end comes before the begin.
ENDS = st.tuples(st.integers(0, 12), st.integers(0, 12))


@given(st.lists(st.tuples(st.sampled_from(["add", "look"]), ENDS), max_size=60))
def test_those_that_overlap_are_found_whenever_they_were_added(steps: list[tuple[str, tuple[int, int]]]) -> None:
    index: RangeIndex[int] = RangeIndex()
    added: list[tuple[int, int]] = []
    for kind, (lower, upper) in steps:
        if kind == "add":
            index.add(lower, upper, len(added))
            added.append((lower, upper))
        else:
            expected = [at for at, (begin, end) in enumerate(added) if begin <= upper and lower <= end]
            assert sorted(index.overlapping(lower, upper)) == expected
    assert sorted(index) == list(range(len(added)))


class Counted(int):
    """Counts how often a value is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) <= int(other)


def test_a_look_compares_few_of_many_narrow_ranges() -> None:
    index: RangeIndex[int] = RangeIndex()
    for each in range(1000):
        index.add(Counted(10 * each), Counted(10 * each + 9), each)
    assert list(index.overlapping(Counted(5005), Counted(5012))) == [501, 500]
    Counted.compared = 0
    assert list(index.overlapping(Counted(5005), Counted(5012))) == [501, 500]
    assert Counted.compared < 20
