"""Folders, names and contents of nodes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.zookeeper.nodes import OwnNode, content, folder_of, in_order, prefix_of, read_folder
from tests.zookeeper.memory_session import FOLDER, NAME, MemorySession, new_ensemble

PARTS = st.text(alphabet=st.sampled_from("ab./%ü 2e"), min_size=1, max_size=6)


@given(PARTS, PARTS, PARTS, PARTS)
def test_no_two_tables_share_a_folder(first: str, second: str, third: str, fourth: str) -> None:
    one, other = TableName(first, second), TableName(third, fourth)
    assert (folder_of(one) == folder_of(other)) == (one == other)


@given(PARTS, PARTS)
def test_a_folder_is_one_node_name_that_tells_its_table(namespace: str, name: str) -> None:
    folder = folder_of(TableName(namespace, name))
    assert folder.count("/") == FOLDER.count("/")
    assert folder.rpartition("/")[2] not in (".", "..")
    session = MemorySession(new_ensemble())
    session.create(folder, "0-0-lock-", b"{}")
    [found] = read_folder(session, folder)
    assert found.table == f"{namespace}.{name}"


def test_the_order_is_that_of_the_numbers_whatever_stands_before_them() -> None:
    names = ["b-0-lock-0000000009", "a-0-lock-0000000010", "c-0-lock-0000000002"]
    for order in itertools.permutations(names):
        assert in_order(order) == [names[2], names[0], names[1]]


def test_a_counter_that_went_below_zero_counts_on() -> None:
    names = ["x-0-lock--2147483648", "x-0-lock-2147483647", "x-0-lock--000000007"]
    assert in_order(names) == [names[1], names[0], names[2]]


@pytest.mark.parametrize(
    "name", ["notes", "a-lock-", "a-lock-12", "a-lock-00000000001", "a-lock-0000000001-b", "lock-0000000001"]
)
def test_what_is_no_lock_has_no_place_in_the_order(name: str) -> None:
    assert in_order([name]) == []


def test_a_prefix_tells_attempts_and_sessions_apart() -> None:
    assert prefix_of("a", 1) == "a-1-lock-"
    assert not prefix_of("a", 11).startswith(prefix_of("a", 1))


def test_a_node_says_who_made_it_and_only_the_first_holds_the_lock() -> None:
    session = MemorySession(new_ensemble())
    session.create(FOLDER, "b-0-lock-", content("iceberg-hms/x", "ann", "h1"))
    session.create(FOLDER, "a-0-lock-", b"{}")
    first, second = read_folder(session, FOLDER)
    assert (first.lock_id, first.table, first.since_ms) == ("db.t/b-0-lock-0000000000", str(NAME), 1_000)
    assert (first.state, second.state) == ("ACQUIRED", "WAITING")
    assert str(first) == "lock db.t/b-0-lock-0000000000 of ann on h1 (iceberg-hms/x)"


@pytest.mark.parametrize("data", [b"", b"not JSON", b"[1]", b"\xff"])
def test_a_node_that_says_nothing_is_shown_all_the_same(data: bytes) -> None:
    session = MemorySession(new_ensemble())
    session.create(FOLDER, "a-0-lock-", data)
    [found] = read_folder(session, FOLDER)
    assert str(found).endswith("of ? on ? (no agentInfo)")


def test_a_node_that_goes_while_the_folder_is_read_is_left_out() -> None:
    session = MemorySession(new_ensemble())
    session.children = lambda folder: ["a-0-lock-0000000001"]  # type: ignore[method-assign]
    assert read_folder(session, FOLDER) == []


def test_our_own_node_is_called_as_operators_see_it() -> None:
    own = OwnNode(FOLDER, "a-0-lock-0000000001", b"{}", epoch=0)
    assert own.path == f"{FOLDER}/a-0-lock-0000000001"
    assert str(own) == "lock db.t/a-0-lock-0000000001"
