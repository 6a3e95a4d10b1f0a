"""Tables that are found by the parameters of their rows, with the server's filters and without; pages of names: what is
asked of the metastore for each, and what a client sees that reads them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, UnknownDBException

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.tables import table_names
from iceberg_hms.metastore.tables.table_names import NamePages, TableNames
from tests.metastore.fake_hms import FakeHms, Running, pool_of
from tests.metastore.tables.test_table_pointer import hive_row

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


class HandClock(SystemClock):
    """Each reading advances it by a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


@pytest.fixture
def names(server: Running) -> Iterator[TableNames]:
    with pool_of(server) as pool:
        yield TableNames(pool, clock=HandClock())


def add(hms: FakeHms, name: str, **parameters: str) -> Any:
    row = hive_row(TableName("db", name), {"table_type": "ICEBERG", "metadata_location": "file:/m", **parameters})
    hms.rows[TableName("db", name)] = row
    return row


def found(names: TableNames, uuid: str = UUID, seconds: float = 600.0) -> list[str]:
    return sorted(row.tableName for row in names.with_uuid("db", uuid, seconds=seconds))


@pytest.mark.parametrize("filters", [True, False], ids=["filtered", "by rows"])
def test_rows_with_a_uuid_and_rows_with_none_are_found(filters: bool, hms: FakeHms, names: TableNames) -> None:
    hms.filter_works = filters
    add(hms, "mine", uuid=UUID)
    add(hms, "shouted", uuid=UUID.upper())
    add(hms, "silent")
    add(hms, "another", uuid=UUID[:-1] + "2")
    hms.rows[TableName("db", "hive")] = hive_row(TableName("db", "hive"), {"uuid": UUID})
    hms.rows[TableName("db", "view")] = hive_row(TableName("db", "view"), {"table_type": "ICEBERG-VIEW", "uuid": UUID})
    hms.rows[TableName("db", "bare")] = hive_row(TableName("db", "bare"))
    for _ in range(2):
        assert found(names) == ["mine", "shouted", "silent"]
    assert hms.calls.count("get_table_names_by_filter") == (6 if filters else 1)
    assert hms.calls.count("get_table_objects_by_name_req") == 2
    assert [row.parameters["uuid"] for row in names.with_uuid("db", UUID, seconds=60.0) if row.tableName == "mine"] == [
        UUID
    ]


def test_a_database_that_is_not_there_has_none(hms: FakeHms, names: TableNames) -> None:
    assert list(names.with_uuid("nope", UUID, seconds=60.0)) == []
    hms.misbehave["get_table_names_by_filter"].append(UnknownDBException("nope"))
    assert list(names.with_uuid("nope", UUID, seconds=60.0)) == []
    hms.filter_works = False
    assert list(names.with_uuid("nope", UUID, seconds=60.0)) == []


@pytest.mark.parametrize("uuid", ['x" or y like ".*', "9c12.*"])
def test_what_is_no_uuid_is_never_part_of_a_filter(uuid: str, hms: FakeHms, names: TableNames) -> None:
    add(hms, "odd", uuid=uuid)
    add(hms, "mine", uuid=UUID)
    assert found(names, uuid) == ["odd"]
    assert "get_table_names_by_filter" not in hms.calls


def test_a_table_that_is_renamed_between_the_questions_is_found_all_the_same(hms: FakeHms, names: TableNames) -> None:
    """The server lists its name | another client renames it | we ask for its row, which is gone, and ask anew."""
    add(hms, "mine", uuid=UUID)

    def rename() -> None:
        if hms.rows.pop(TableName("db", "mine"), None) is not None:
            add(hms, "renamed", uuid=UUID)

    hms.before["get_table_objects_by_name_req"] = rename
    assert found(names) == ["renamed"]


def test_a_row_that_gets_its_uuid_between_the_questions_is_found(hms: FakeHms, names: TableNames) -> None:
    row = add(hms, "silent")
    questions = iter([None, None, lambda: row.parameters.update(uuid=UUID)])

    def once() -> None:
        (next(questions, None) or (lambda: None))()

    hms.before["get_table_names_by_filter"] = once
    assert found(names) == ["silent"]


def test_tables_that_come_and_go_all_the_while_are_not_taken_for_absent(hms: FakeHms, names: TableNames) -> None:
    hms.before["get_table_objects_by_name_req"] = hms.rows.clear
    hms.before["get_table_names_by_filter"] = lambda: add(hms, "mine", uuid=UUID)
    with pytest.raises(MetastoreUnavailable, match="came and went"):
        found(names)


def test_rows_are_read_within_the_time_alone(hms: FakeHms, names: TableNames) -> None:
    hms.filter_works = False
    for number in range(250):
        add(hms, f"t{number}", uuid="other")
    assert found(names) == []
    with pytest.raises(MetastoreUnavailable, match="too many tables"):
        found(names, seconds=2.0)


def test_an_outage_is_not_taken_for_nowhere(hms: FakeHms, names: TableNames) -> None:
    for method in ("get_table_names_by_filter", "get_all_tables"):
        hms.misbehave[method].append(MetaException("the database is down"))
    with pytest.raises(MetastoreError, match="down"):
        found(names)


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


def add_hive(hms: FakeHms, name: str) -> None:
    hms.rows[TableName("db", name)] = hive_row(TableName("db", name), {})


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
    del hms.rows[TableName("db", "t02")]
    add(hms, "t02x")
    assert pages.page("db", "t01", 1) == (["t02"], True)
    clock.seconds += table_names.LIST_MAX_AGE_SECONDS + 1
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
    monkeypatch.setattr(table_names, "NAMES_MAX", 24)
    read(pages, 5)
    assert hms.calls.count("get_table_names_by_filter") == 5
    monkeypatch.setattr(table_names, "NAMES_MAX", 1_000)
    monkeypatch.setattr(table_names, "LISTS_MAX", 0)
    hms.calls.clear()
    read(pages, 5)
    assert hms.calls.count("get_table_names_by_filter") == 5


@pytest.mark.parametrize("filters", [True, False], ids=["filtered", "by rows"])
def test_rows_of_many_tables_come_a_hundred_in_one_call(filters: bool, hms: FakeHms, names: TableNames) -> None:
    hms.filter_works = filters
    for number in range(250):
        add(hms, f"t{number}")
    hms.rows[TableName("db", "hive")] = hive_row(TableName("db", "hive"))
    wanted = {f"t{number}" for number in range(250)}
    assert {row.tableName for row in names.iceberg_rows("db")} == wanted
    assert len([each for each in hms.rows_sent if each]) == 3
    hms.rows_sent.clear()
    assert {row.tableName for row in names.iceberg_rows("db", ["t7", "hive", "missing", "t7"])} == {"t7"}
    assert hms.rows_sent == [2]


def test_a_row_that_the_database_takes_for_another_name_is_left_out(hms: FakeHms, names: TableNames) -> None:
    row = add(hms, "t\u00e4g")
    row.tableName = "tag"
    assert list(names.iceberg_rows("db", ["t\u00e4g"])) == []


def test_a_database_that_is_not_there_has_no_rows(hms: FakeHms, names: TableNames) -> None:
    assert list(names.iceberg_rows("missing")) == []
    hms.misbehave["get_table_objects_by_name_req"].append(UnknownDBException("Could not find database missing"))
    assert list(names.iceberg_rows("missing", ["t"])) == []
    hms.misbehave["get_table_objects_by_name_req"].append(MetaException("the database is down"))
    with pytest.raises(MetastoreError):
        list(names.iceberg_rows("db", ["t"]))
