"""What is the same for the rows of tables and of views; their contract suites check the rest."""

from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, TableName
from iceberg_hms.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NotFound,
)
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.rows import HmsRows, kind_of
from tests.metastore.fake_hms import FakeHms
from tests.metastore.tables.test_table_pointer import hive_row

NAME = TableName("db", "t")


@pytest.fixture(params=["Table", "View"])
def rows(request: pytest.FixtureRequest, pool: ClientPool) -> HmsRows:
    missing = {"Table": NoSuchTable, "View": NoSuchView}[request.param]
    return HmsRows(pool, SYSTEM_CLOCK, kind=request.param, missing=missing)


def missing_of(rows: HmsRows) -> type[NotFound]:
    return NoSuchTable if rows.kind == "Table" else NoSuchView


def row(name: TableName = NAME) -> Pointer:
    parameters = {"metadata_location": "m"}
    return Pointer(name, "m", None, parameters, hive_row(name, parameters))


def test_a_row_that_is_missing_is_missing_as_its_kind(rows: HmsRows) -> None:
    kind = missing_of(rows)
    with pytest.raises(kind):
        rows.load(NAME)
    for answer in (
        rows.alter(row(), row().table, Sending()),
        rows.rename(row(), TableName("db", "u"), Sending()),
        rows.drop(row().name, Sending()),
    ):
        assert isinstance(answer, Refused)
        assert answer.conflict
        assert isinstance(answer.error, kind)


def test_an_error_that_may_pass_is_an_outage(hms: FakeHms, rows: HmsRows) -> None:
    down, denied = (
        MetaException("Unable to acquire a connection to the database"),
        MetaException("Permission denied: a"),
    )
    hms.misbehave["get_table_req"] += [down, denied]
    with pytest.raises(MetastoreUnavailable, match="Unable to acquire a connection"):
        rows.load(NAME)
    with pytest.raises(AccessDenied):
        rows.load(NAME)


def test_a_taken_name_is_named_by_its_kind(hms: FakeHms, rows: HmsRows) -> None:
    hms.rows[NAME] = hive_row(NAME)
    answer = rows.create(NAME, rows.new(NAME, "VIRTUAL_VIEW", {}, "ada"))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, AlreadyExists)
    assert answer.error.message == f"{rows.kind} already exists: db.t"


def test_a_namespace_is_checked(rows: HmsRows) -> None:
    rows.check_namespace("db")
    with pytest.raises(NoSuchNamespace):
        rows.check_namespace("none")


def test_what_is_too_long_is_named_by_its_kind(rows: HmsRows) -> None:
    what = f"the {rows.kind.lower()}'s"
    with pytest.raises(InvalidInput, match=f"{what} owner"):
        rows.new(NAME, "VIRTUAL_VIEW", {}, "o" * 768)
    with pytest.raises(InvalidInput, match=f"{what} location"):
        rows.with_columns(hive_row(NAME), [], "file:/" + "w" * 5_000)


@pytest.mark.parametrize(
    ("parameters", "kind", "wanted"),
    [
        (None, "MANAGED_TABLE", "MANAGED_TABLE"),
        ({"table_type": "DELTA"}, "EXTERNAL_TABLE", "EXTERNAL_TABLE, table_type=DELTA"),
        (
            {"table_type": "iceberg-view", "metadata_location": "m"},
            "VIRTUAL_VIEW",
            "VIRTUAL_VIEW, table_type=iceberg-view",
        ),
        (
            {"table_type": "iceberg"},
            "VIRTUAL_VIEW",
            "VIRTUAL_VIEW that says table_type=iceberg without metadata_location",
        ),
    ],
)
def test_a_row_says_what_it_is(parameters: dict[str, str] | None, kind: str, wanted: str) -> None:
    assert kind_of(hive_row(NAME, parameters, kind)).endswith(wanted)
