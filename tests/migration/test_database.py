"""All Hive tables of a database."""

from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import NoSuchNamespace
from iceberg_hms.migration import database
from iceberg_hms.migration.database import migrate_database, migrate_tables
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.takeover import Options
from tests.migration.lake import SPARK, Lake, unreadable

MONTHS = {"month=1": [0]}
NAMES = [TableName("nyc", each) for each in ("airports", "flights", "flown", "planes")]
AIRPORTS, FLIGHTS, FLOWN, PLANES = NAMES


@pytest.fixture
def nyc(lake: Lake) -> Lake:
    """Four Hive tables, two of which fail, an Iceberg table and a view."""
    for name in NAMES:
        lake.table(MONTHS, name=name)
    unreadable(lake.folder(AIRPORTS) / "month=1")
    lake.table(MONTHS, name=FLOWN, parameters={"transactional": "true"})
    lake.catalog.create_table("nyc.iceberg", {"type": "struct", "fields": []})
    lake.hive.add(TableName("nyc", "view"), "file:/nowhere", "VIRTUAL_VIEW")
    return lake


def outcomes(reports: list[MigrationReport]) -> list[tuple[str, str]]:
    return [(each.table, each.outcome) for each in reports]


def test_a_table_that_fails_does_not_stop_the_others(nyc: Lake) -> None:
    reports = migrate_tables(nyc.driver, "nyc", "*", Options(progress=False))
    assert outcomes(reports) == [
        ("nyc.airports", "failed"),
        ("nyc.flights", "done"),
        ("nyc.flown", "failed"),
        ("nyc.planes", "done"),
    ]
    assert [each.problem_count for each in reports] == [1, 0, 0, 0]
    assert "month=1/bad" in reports[0].error
    assert "transactional" in reports[2].error
    assert [nyc.is_migrated(name) for name in NAMES] == [False, True, False, True]


def test_tables_are_chosen_by_their_names_and_those_that_are_done_are_not_asked_again(nyc: Lake) -> None:
    assert outcomes(migrate_tables(nyc.driver, "nyc", "FL?ghts", Options(progress=False))) == [("nyc.flights", "done")]
    assert outcomes(migrate_tables(nyc.driver, "nyc", "fl*", Options(progress=False))) == [("nyc.flown", "failed")]
    assert migrate_tables(nyc.driver, "nyc", "ships", Options()) == []


def test_what_users_call_opens_the_driver(nyc: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "driver_of", nyc.opens_driver())
    dry = migrate_database(SPARK, "NYC", like="a*", dry_run=True, progress=False)
    assert outcomes(dry) == [("nyc.airports", "dry run")]
    assert dry[0].problem_count == 1
    done = migrate_database(SPARK, "nyc", like="a*", skip_unreadable=True, progress=False)
    assert outcomes(done) == [("nyc.airports", "done")]
    with pytest.raises(NoSuchNamespace):
        migrate_database(SPARK, "nowhere")


def test_keys_that_the_caller_lets_pass_refuse_no_table(nyc: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "driver_of", nyc.opens_driver())
    nyc.table(MONTHS, name=FLOWN, parameters={"skip.header.line.count": "1"})
    refused = migrate_database(SPARK, "nyc", like="flown", progress=False)
    assert outcomes(refused) == [("nyc.flown", "failed")]
    assert "'skip.header.line.count' (parameter)" in refused[0].error
    ignored = migrate_database(SPARK, "nyc", like="flown", ignore_keys=["Skip.Header.Line.Count"], progress=False)
    assert outcomes(ignored) == [("nyc.flown", "done")]
