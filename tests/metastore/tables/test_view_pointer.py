from __future__ import annotations

from functools import partial

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Sending, TableName
from iceberg_hms.errors import InvalidInput, NotAnIcebergView
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from iceberg_hms.testing.contracts.table_pointer import Place
from iceberg_hms.testing.contracts.view_pointer import CHECKS, Check, view_metadata
from tests.metastore.fake_hms import FakeHms
from tests.metastore.tables.test_table_pointer import hive_row

NAME = TableName("db", "v")
SETTINGS = Settings.load({}, environ={})


@pytest.fixture
def views(pool: ClientPool) -> HmsViewPointer:
    return HmsViewPointer(pool, SETTINGS)


def add_hive_table(hms: FakeHms, name: TableName, location: str) -> None:
    hms.rows[name] = hive_row(name, location=location)


@pytest.mark.parametrize("filters", [True, False], ids=["filtered", "by rows"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_views_keep_the_contract(
    check: Check, filters: bool, hms: FakeHms, pool: ClientPool, views: HmsViewPointer
) -> None:
    hms.add_database("other")
    hms.filter_works = filters
    place = Place("db", "other", "file:/w/v", partial(add_hive_table, hms))
    check(views, HmsTablePointer(pool, SETTINGS), place)


def test_a_row_is_a_view_with_the_sql_for_hive(hms: FakeHms, views: HmsViewPointer) -> None:
    views.create(NAME, "m0", view_metadata("file:/w/v", texts=(("spark", "s"), ("HIVE", "h"))), "ada")
    row = hms.rows[TableName("db", "v")]
    assert (row.tableType, row.owner, row.retention) == ("VIRTUAL_VIEW", "ada", 2**31 - 1)
    assert (row.viewOriginalText, row.viewExpandedText) == ("h", "h")
    assert row.sd.location == "file:/w/v"
    assert [(column.name, column.type) for column in row.sd.cols] == [("id", "bigint")]
    assert row.sd.inputFormat == "org.apache.hadoop.mapred.FileInputFormat"
    assert "DO_NOT_UPDATE_STATS" not in row.parameters


def test_without_sql_for_hive_the_first_is_taken_and_a_swap_replaces_it(hms: FakeHms, views: HmsViewPointer) -> None:
    first = view_metadata("file:/w/v", texts=(("trino", "t"), ("spark", "s")))
    views.create(NAME, "m0", first, None)
    assert hms.rows[TableName("db", "v")].viewOriginalText == "t"
    second = view_metadata("file:/w/v", texts=(("spark", "s2"),), columns=(("x", "string"),))
    views.swap(views.load(NAME), "m1", second, first, Sending())
    row = hms.rows[TableName("db", "v")]
    assert (row.viewOriginalText, row.viewExpandedText) == ("s2", "s2")
    assert [column.name for column in row.sd.cols] == ["x"]


@pytest.mark.parametrize("sql", ["x" * 32_673, "select '\0'"])
def test_sql_that_some_metastore_cannot_hold_is_left_out(sql: str, hms: FakeHms, views: HmsViewPointer) -> None:
    short = view_metadata("file:/w/v", texts=(("spark", "s"),))
    views.create(NAME, "m0", short, None)
    views.swap(views.load(NAME), "m1", view_metadata("file:/w/v", texts=(("spark", sql),)), short, Sending())
    assert hms.rows[TableName("db", "v")].viewOriginalText is None
    views.swap(views.load(NAME), "m2", view_metadata("file:/w/v", texts=(("spark", "x" * 32_672),)), short, Sending())
    assert len(hms.rows[TableName("db", "v")].viewExpandedText) == 32_672


def test_the_owner_of_a_row_is_the_caller_else_that_of_the_property(hms: FakeHms, views: HmsViewPointer) -> None:
    owned = view_metadata("file:/w/v", {"hive.metastore.table.owner": "grace"})
    views.create(NAME, "m0", owned, None)
    views.create(TableName("db", "w"), "m0", owned, "ada")
    assert (hms.rows[TableName("db", "v")].owner, hms.rows[TableName("db", "w")].owner) == ("grace", "ada")
    assert "hive.metastore.table.owner" not in hms.rows[TableName("db", "v")].parameters


@pytest.mark.parametrize(
    ("parameters", "kind", "found"),
    [
        (None, "VIRTUAL_VIEW", "VIRTUAL_VIEW"),
        ({"table_type": "ICEBERG-VIEW", "metadata_location": "m"}, "EXTERNAL_TABLE", "ICEBERG-VIEW"),
        ({"table_type": "ICEBERG-VIEW"}, "VIRTUAL_VIEW", "without metadata_location"),
        ({"table_type": "ICEBERG", "metadata_location": "m"}, "EXTERNAL_TABLE", "table_type=ICEBERG"),
    ],
)
def test_what_is_no_iceberg_view_is_named(
    parameters: dict[str, str] | None, kind: str, found: str, hms: FakeHms, views: HmsViewPointer
) -> None:
    hms.rows[TableName("db", "v")] = hive_row(NAME, parameters, kind)
    with pytest.raises(NotAnIcebergView) as raised:
        views.load(NAME)
    assert found in raised.value.found
    assert raised.value.is_table is (found == "table_type=ICEBERG")


@pytest.mark.parametrize("case", ["ICEBERG-VIEW", "iceberg-view", "Iceberg-View"])
def test_the_type_is_known_in_any_case(case: str, hms: FakeHms, views: HmsViewPointer) -> None:
    hms.rows[TableName("db", "v")] = hive_row(NAME, {"table_type": case, "metadata_location": "m"}, "virtual_view")
    assert views.load(NAME).metadata_location == "m"


def test_what_the_metastore_cannot_hold_is_refused_before_anything_is_sent(hms: FakeHms, views: HmsViewPointer) -> None:
    metadata = view_metadata("file:/w/v")
    with pytest.raises(InvalidInput, match="the view's owner"):
        views.create(NAME, "m0", metadata, "o" * 768)
    with pytest.raises(InvalidInput, match="the view's location"):
        views.create(NAME, "m0", view_metadata("file:/" + "w" * 5_000), None)
    with pytest.raises(InvalidInput, match="name"):
        views.create(TableName("db", "v" * 257), "m0", metadata, None)
    assert "create_table" not in hms.calls
