"""Where the pointers of many tables are: what is asked of the metastore, and what may be overlooked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AccessDenied, MetastoreUnavailable
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.tables.pointer_locations import FULL_TURNS, PointerLocations
from iceberg_hms.metastore.tables.table_names import TableNames
from tests.metastore.fake_hms import FakeHms, Running, pool_of
from tests.metastore.tables.test_table_pointer import hive_row

TABLES = 40


class CallClock(SystemClock):
    """Each call of the metastore takes its time: a filter 10 ms, any other call a second."""

    def __init__(self, hms: FakeHms) -> None:
        self.hms = hms
        self.filter_seconds = 0.01

    def monotonic(self) -> float:
        filters = self.hms.calls.count("get_table_names_by_filter")
        return filters * self.filter_seconds + len(self.hms.calls) - filters


@pytest.fixture
def clock(hms: FakeHms) -> CallClock:
    return CallClock(hms)


@pytest.fixture
def locations(server: Running, clock: CallClock) -> Iterator[PointerLocations]:
    with pool_of(server) as pool:
        yield PointerLocations(TableNames(pool, clock=clock), clock)


def location(version: int, id_: str | None = None) -> str:
    return f"file:/w/t/metadata/{version:05d}-{id_ or uuid.uuid4()}.metadata.json"


def place(hms: FakeHms, name: str, where: str) -> None:
    row = hive_row(TableName("db", name), {"table_type": "ICEBERG", "metadata_location": where})
    hms.rows[TableName("db", name)] = row


@pytest.fixture
def there(hms: FakeHms) -> dict[str, str]:
    """Where the tables of the metastore are."""
    found = {f"t{number}": location(number) for number in range(TABLES)}
    for name, where in found.items():
        place(hms, name, where)
    return found


def rows_read(hms: FakeHms) -> int:
    read = sum(hms.rows_sent)
    hms.rows_sent.clear()
    return read


def test_no_row_is_read_of_a_table_that_did_not_move(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    known = locations.read("db", None, {}, 0)
    assert (known, rows_read(hms)) == (there, TABLES)
    for turn in range(1, FULL_TURNS):
        hms.calls.clear()
        assert locations.read("db", None, known, turn) == there
        assert rows_read(hms) == 0
        assert hms.calls.count("get_table_names_by_filter") == (11 if turn % 4 else 17)
    assert locations.read("db", None, known, FULL_TURNS) == there
    assert rows_read(hms) == TABLES


def test_a_table_that_moved_came_or_went_is_seen_in_any_turn_of_versions(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    known = locations.read("db", None, {}, 0)
    rows_read(hms)
    now = {**there, "t3": location(4), "new": location(0)}
    del now["t5"], hms.rows[TableName("db", "t5")]
    for name in ("t3", "new"):
        place(hms, name, now[name])
    for turn in (1, 3):
        assert locations.read("db", None, known, turn) == now
        assert rows_read(hms) == 2


def test_a_table_that_moved_to_the_same_character_is_seen_in_another_turn(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    known = locations.read("db", None, {}, 0)
    before = there["t7"].rpartition("/")[2][6:42]
    moved = location(17, before[:-2] + ("0" if before[-2] != "0" else "1") + before[-1])
    place(hms, "t7", moved)
    assert locations.read("db", None, known, 1) == there
    seen_in = [turn for turn in range(2, FULL_TURNS) if locations.read("db", None, known, turn)["t7"] == moved]
    assert seen_in == [4]
    assert locations.read("db", None, known, FULL_TURNS)["t7"] == moved


@pytest.mark.parametrize("where", ["file:/w/t/metadata/v3.metadata.json", "s3://b/t/00001-a.gz.metadata.json", ""])
def test_the_row_of_a_file_with_another_name_is_always_read(
    where: str, hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    place(hms, "odd", where)
    known = locations.read("db", None, {}, 0)
    rows_read(hms)
    for turn in (1, 4):
        assert locations.read("db", None, known, turn) == (there | {"odd": where} if where else there)
        assert rows_read(hms) == 1


def test_a_server_that_takes_patterns_for_something_else_is_not_believed(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = locations.read("db", None, {}, 0)
    place(hms, "t3", location(4))
    for answer in (list(there), []):
        rows_read(hms)
        monkeypatch.setattr(TableNames, "located_like", lambda _self, _db, _pattern, answer=answer: answer)
        assert locations.read("db", None, known, 1)["t3"] != there["t3"]
        assert rows_read(hms) == TABLES


def test_all_rows_are_read_where_no_filter_works(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = locations.read("db", None, {}, 0)

    def refuse(*_: Any) -> list[str]:
        raise ServerFault(Fault.OTHER, "no such pattern", "get_table_names_by_filter")

    with monkeypatch.context() as patched:
        patched.setattr(TableNames, "located_like", refuse)
        assert locations.read("db", None, known, 1) == there
    rows_read(hms)
    hms.filter_works = False
    assert locations.read("db", None, known, 1) == there
    assert rows_read(hms) == TABLES


def test_rows_are_read_where_that_is_quicker(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str], clock: CallClock
) -> None:
    known = locations.read("db", None, {}, 0)
    clock.filter_seconds = 0.5
    rows_read(hms)
    assert locations.read("db", None, known, 1) == there
    assert rows_read(hms) == TABLES


def test_named_tables_are_read_by_row_and_a_missing_database_has_none(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    assert locations.read("db", ["t1", "missing"], there, 1) == {"t1": there["t1"]}
    assert rows_read(hms) == 1
    assert locations.read("missing", None, there, 1) == {}


def test_an_error_that_may_pass_is_an_outage_and_a_refusal_is_none(
    hms: FakeHms, locations: PointerLocations, there: dict[str, str]
) -> None:
    hms.misbehave["get_table_objects_by_name_req"].append(MetaException("the database is down"))
    with pytest.raises(MetastoreUnavailable, match="could not read the tables of db: the database is down"):
        locations.read("db", ["t1"], {}, 0)
    hms.misbehave["get_table_objects_by_name_req"].append(
        MetaException("User ada is not allowed to perform this API call")
    )
    with pytest.raises(AccessDenied):
        locations.read("db", ["t1"], {}, 0)
    assert locations.read("db", ["t1"], {}, 0) == {"t1": there["t1"]}
