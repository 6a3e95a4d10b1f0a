"""Tables that are found by the parameters of their rows, with the server's filters and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, UnknownDBException

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.tables.table_names import TableNames
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
    hms.tables["db", name] = row
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
    hms.tables["db", "hive"] = hive_row(TableName("db", "hive"), {"uuid": UUID})
    hms.tables["db", "view"] = hive_row(TableName("db", "view"), {"table_type": "ICEBERG-VIEW", "uuid": UUID})
    hms.tables["db", "bare"] = hive_row(TableName("db", "bare"))
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
        if hms.tables.pop(("db", "mine"), None) is not None:
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
    hms.before["get_table_objects_by_name_req"] = hms.tables.clear
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
