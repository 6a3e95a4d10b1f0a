"""A cache bounded by size: it evicts the least recently used entry first, and never exceeds the bound."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.storage.bounded_cache import BoundedCache


def cache(max_bytes: int) -> BoundedCache[bytes]:
    return BoundedCache(max_bytes, lambda location, value: len(location) + len(value), threading.Lock())


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    kept = cache(30)
    for name in "abc":
        kept.put(name, bytes(9))
    assert kept.get("a") is not None
    kept.put("d", bytes(9))
    assert kept.get("b") is None
    assert [name for name in "acd" if kept.get(name) is not None] == ["a", "c", "d"]


def test_a_value_larger_than_the_bound_is_not_cached_and_evicts_nothing() -> None:
    kept = cache(10)
    kept.put("a", b"1")
    kept.put("b", bytes(100))
    assert kept.get("b") is None
    assert kept.get("a") == b"1"


def test_an_empty_value_is_a_value() -> None:
    kept = cache(10)
    kept.put("a", b"")
    assert kept.get("a") == b""
    assert kept.get("b") is None


def test_replaced_and_refused_values_take_no_room() -> None:
    kept = cache(10)
    for size in (3, 100, 5) * 50:
        kept.put("a", bytes(size))
    kept.put("b", bytes(3))
    assert (kept.get("a"), kept.get("b")) == (bytes(5), bytes(3)), "6 and 4 bytes fit"
    kept.put("a", bytes(6))
    assert (kept.get("a"), kept.get("b")) == (bytes(6), None), "7 and 4 do not"


@given(st.integers(0, 40), st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 50))))
def test_all_entries_together_stay_within_the_bound(bound: int, puts: list[tuple[str, int]]) -> None:
    kept = cache(bound)
    last: dict[str, int] = {}
    for name, size in puts:
        kept.put(name, bytes(size))
        last[name] = size
    found = {name: value for name in last if (value := kept.get(name)) is not None}
    assert sum(1 + len(value) for value in found.values()) <= bound
    assert all(len(value) == last[name] for name, value in found.items())
