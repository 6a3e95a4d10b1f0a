"""A new Iceberg table over the files of a Hive table."""

from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CannotMigrate,
    CommitStateUnknown,
    InvalidInput,
    MetastoreRefused,
    NoSuchNamespace,
    NoSuchTable,
)
from iceberg_hms.migration import snapshot_table
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.snapshot_table import make_snapshot, snapshot
from iceberg_hms.migration.takeover import Options
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.migration.hive_files import rows, write
from tests.migration.lake import FLIGHTS, SPARK, Lake, unreadable

TRIAL = TableName("nyc", "trial")
MONTHS = {"month=1": [0, 3], "month=2": [6]}


def trial(lake: Lake, *, location: str | None = None, skip_unreadable: bool = False) -> MigrationReport:
    options = Options(skip_unreadable=skip_unreadable, progress=False)
    return make_snapshot(lake.driver, FLIGHTS, str(TRIAL), location, options)


def test_the_new_table_has_the_files_and_the_hive_table_stays_as_it_is(lake: Lake) -> None:
    lake.table(MONTHS)
    before, row = lake.files(), lake.pointer.rows[FLIGHTS]
    report = trial(lake)
    assert (report.table, report.outcome, report.files, report.records) == ("nyc.trial", "done", 3, 9)
    assert lake.data_files(TRIAL) == {
        "hive/flights/month=1/000": {"month": 1},
        "hive/flights/month=1/003": {"month": 1},
        "hive/flights/month=2/006": {"month": 2},
    }
    assert lake.pointer.rows[FLIGHTS] == row
    loaded = lake.catalog.load(TRIAL)
    assert (report.metadata_location, report.snapshot_id) == (
        loaded.metadata_location,
        loaded.metadata.current_snapshot_id,
    )
    assert loaded.metadata.properties["gc.enabled"] == "false"
    assert loaded.metadata.location == f"file://{lake.path}/nyc.db/trial"
    new = lake.files().keys() - before.keys()
    assert {each.rpartition("/")[0] for each in new} == {"nyc.db/trial/metadata"}
    assert {each.rpartition(".")[2] for each in new} == {"avro", "json"}
    assert {key: value for key, value in lake.files().items() if key not in new} == before


def test_the_new_table_finds_columns_whose_names_differ_by_case(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    write(folder / "month=1" / "000", rows(0).rename_columns(["Id", "carrier", "delay"]))
    assert trial(lake).files == 3
    assert '"names":["id","Id"]' in lake.catalog.load(TRIAL).metadata.properties["schema.name-mapping.default"]


def test_the_new_table_lies_where_the_caller_says(lake: Lake) -> None:
    lake.table(MONTHS)
    trial(lake, location=f"file:{lake.path}/elsewhere")
    assert lake.catalog.load(TRIAL).metadata.location == f"file:{lake.path}/elsewhere"


def test_an_empty_table_makes_an_empty_one(lake: Lake) -> None:
    lake.table({"month=1": []})
    report = trial(lake)
    assert (report.files, report.snapshot_id) == (0, None)
    assert lake.catalog.load(TRIAL).metadata.current_snapshot is None


def test_a_problem_refuses_the_whole_and_leaves_no_file(lake: Lake) -> None:
    lake.table(MONTHS)
    bad = unreadable(lake.folder() / "month=2")
    before = lake.files()
    with pytest.raises(CannotMigrate, match="partition month=2") as failed:
        trial(lake)
    assert failed.value.report.problems[0].location == bad
    assert lake.files() == before
    assert TRIAL not in lake.pointer.rows
    assert trial(lake, skip_unreadable=True).files == 3


def test_a_refused_creation_leaves_no_file_but_the_one_that_was_sent(lake: Lake) -> None:
    lake.table(MONTHS)
    before = lake.files()
    lake.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        trial(lake)
    (left,) = lake.files().keys() - before.keys()
    assert left.endswith(".metadata.json")


def test_an_unknown_outcome_deletes_nothing_but_the_progress(lake: Lake) -> None:
    lake.table(MONTHS)
    lake.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        trial(lake)
    lake.pointer.deliver_delayed()
    assert len(lake.data_files(TRIAL)) == 3
    assert not [each for each in lake.files() if "/migration/" in each]


def test_what_is_wrong_is_refused_before_a_file_is_written(lake: Lake) -> None:
    with pytest.raises(NoSuchTable):
        trial(lake)
    lake.table(MONTHS, parameters={"transactional": "true"})
    with pytest.raises(InvalidInput, match="transactional"):
        trial(lake)
    lake.table(MONTHS)
    before = lake.files()
    with pytest.raises(AlreadyExists):
        make_snapshot(lake.driver, FLIGHTS, "nyc.flights", None, Options())
    with pytest.raises(NoSuchNamespace):
        make_snapshot(lake.driver, FLIGHTS, "nowhere.trial", None, Options())
    assert lake.files() == before


def test_what_users_call_opens_the_driver(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table(MONTHS)
    unreadable(lake.folder() / "month=2")
    monkeypatch.setattr(snapshot_table, "driver_of", lake.opens_driver())
    where = f"file:{lake.path}/here"
    report = snapshot(SPARK, "nyc.flights", "nyc.trial", location=where, skip_unreadable=True, progress=False)
    assert (report.files, report.problem_count) == (3, 1)
    assert lake.catalog.load(TRIAL).metadata.location == where
