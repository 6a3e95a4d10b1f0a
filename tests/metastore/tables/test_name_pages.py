"""Pages of names: what is asked of the metastore for each, and what a client sees that reads them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.tables import name_pages
from iceberg_hms.metastore.tables.name_pages import NamePages
from iceberg_hms.metastore.tables.table_names import TableNames
from tests.metastore.fake_hms import FakeHms, Running, pool_of
from tests.metastore.tables.test_table_pointer import hive_row

NAMES = [f"t{number:02}" for number in range(25)]


class ByHand(SystemClock):
    """A clock that the test moves."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> ByHand:
    return ByHand()


@pytest.fixture
def pages(server: Running, hms: FakeHms, clock: ByHand) -> Iterator[NamePages]:
    for name in reversed(NAMES):
        add(hms, name)
    with pool_of(server) as pool:
        yield NamePages(TableNames(pool), list_all=False, clock=clock)


def add(hms: FakeHms, name: str, **parameters: str) -> None:
    iceberg = {"table_type": "ICEBERG", "metadata_location": "file:/m", **parameters}
    hms.tables["db", name] = hive_row(TableName("db", name), iceberg)


def add_hive(hms: FakeHms, name: str) -> None:
    hms.tables["db", name] = hive_row(TableName("db", name), {})


def read(pages: NamePages, limit: int) -> list[str]:
    """All pages, one after the other."""
    seen: list[str] = []
    more = True
    while more:
        names, more = pages.page("db", seen[-1] if seen else None, limit)
        assert len(names) <= limit
        seen += names
    return seen


@pytest.mark.parametrize("filters", [True, False], ids=["filtered", "by rows"])
@pytest.mark.parametrize("limit", [1, 7, 25, 26, 1000])
def test_all_pages_together_are_the_list(filters: bool, limit: int, hms: FakeHms, pages: NamePages) -> None:
    hms.filter_works = filters
    for name in ("a", "t03x", "t24x", "z"):
        add_hive(hms, name)
    assert read(pages, limit) == NAMES


def test_a_server_that_filters_does_so_once_for_all_pages(hms: FakeHms, pages: NamePages) -> None:
    assert read(pages, 2) == NAMES
    assert hms.calls.count("get_table_names_by_filter") == 1
    assert "get_table_objects_by_name_req" not in hms.calls


def test_a_first_page_is_always_new(hms: FakeHms, pages: NamePages) -> None:
    pages.page("db", None, 2)
    add(hms, "a")
    assert pages.page("db", None, 2) == (["a", "t00"], True)


def test_a_list_is_read_again_when_it_is_too_old_or_unknown(hms: FakeHms, pages: NamePages, clock: ByHand) -> None:
    pages.page("db", None, 2)
    del hms.tables["db", "t02"]
    add(hms, "t02x")
    assert pages.page("db", "t01", 1) == (["t02"], True)
    clock.seconds += name_pages.LIST_MAX_AGE_SECONDS + 1
    assert pages.page("db", "t01", 1) == (["t02x"], True)
    # As after a restart, or on another server.
    assert pages.page("db", "t02", 1) == (["t02x"], True)


def test_without_a_filter_only_the_rows_of_the_page_are_read(hms: FakeHms, pages: NamePages) -> None:
    hms.filter_works = False
    for number in range(300):
        add(hms, f"u{number:03}")
    pages.page("db", None, 20)
    hms.calls.clear()
    assert pages.page("db", "t24", 20) == ([f"u{number:03}" for number in range(20)], True)
    assert hms.calls.count("get_table_objects_by_name_req") == 1
    assert hms.rows_sent[-1] == 20


def test_kept_lists_are_bounded_in_number_and_names(
    hms: FakeHms, pages: NamePages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_pages, "NAMES_MAX", 24)
    read(pages, 5)
    assert hms.calls.count("get_table_names_by_filter") == 5
    monkeypatch.setattr(name_pages, "NAMES_MAX", 1_000)
    monkeypatch.setattr(name_pages, "LISTS_MAX", 0)
    hms.calls.clear()
    read(pages, 5)
    assert hms.calls.count("get_table_names_by_filter") == 5
