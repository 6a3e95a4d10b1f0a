"""A Hive table becomes an Iceberg table where it lies, whenever the run is killed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import (
    AlreadyIceberg,
    CannotMigrate,
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    MissingFile,
    NoSuchTable,
    StorageError,
)
from iceberg_hms.migration import in_place, reversal
from iceberg_hms.migration.in_place import migrate
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.catalog.parquet import table_for
from tests.migration.hive_files import TABLE, rows, write
from tests.migration.lake import FLIGHTS, SPARK, Killed, Lake, killed_at, unreadable

MONTHS = {"month=1": [0, 3], "month=2": [6]}
PLACES = {
    "hive/flights/month=1/000": {"month": 1},
    "hive/flights/month=1/003": {"month": 1},
    "hive/flights/month=2/006": {"month": 2},
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_partitioned_table_has_all_its_files_where_they_are(lake: Lake, file_format: str) -> None:
    lake.table(MONTHS, file_format=file_format, parameters={"colour": "red", "numFiles": "3"})
    before = lake.files()
    report = lake.migrate()
    assert (report.outcome, report.files, report.records, report.reused_files) == ("done", 3, 9, 0)
    assert [(each.name, each.files) for each in report.partitions] == [("month=1", 2), ("month=2", 1)]
    assert report.size == sum(len(each) for each in before.values())
    assert report.seconds > 0
    assert lake.data_files() == PLACES
    loaded = lake.catalog.load(FLIGHTS)
    snapshot = loaded.metadata.current_snapshot
    assert snapshot is not None
    assert (report.metadata_location, report.snapshot_id) == (loaded.metadata_location, snapshot.snapshot_id)
    totals = {key: snapshot.summary[f"total-{key}"] for key in ("data-files", "records", "files-size")}
    assert totals == {"data-files": "3", "records": "9", "files-size": str(report.size)}
    assert snapshot.summary["changed-partition-count"] == "2"
    assert {key: value for key, value in lake.files().items() if "_iceberg" not in key} == before


def test_the_name_mapping_has_the_names_of_files_that_differ_by_case(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    write(folder / "month=1" / "000", rows(0).rename_columns(["Id", "carrier", "DELAY"]))
    write(folder / "month=2" / "006", rows(6).rename_columns(["ID", "carrier", "delay"]))
    with pytest.raises(Killed):
        lake.migrate(on_stage=killed_at("staged"))
    report = lake.migrate()
    assert (report.outcome, report.files, report.reused_files) == ("done", 3, 3)
    assert lake.data_files() == PLACES
    mapping = json.loads(lake.catalog.load(FLIGHTS).metadata.properties["schema.name-mapping.default"])
    assert [each["names"] for each in mapping] == [["id", "ID", "Id"], ["carrier"], ["delay", "DELAY"], ["month"]]
    # A file that comes late is found by them too.
    write(folder / "month=2" / "100", rows(100).rename_columns(["Id", "carrier", "DELAY"]))
    assert lake.catalog.load_table(FLIGHTS).append(lake.late().files).snapshot_ids


def test_the_table_says_where_it_writes_and_owns_nothing(lake: Lake) -> None:
    lake.table(MONTHS, parameters={"colour": "red", "numFiles": "3"})
    lake.migrate()
    properties = lake.catalog.load(FLIGHTS).metadata.properties
    assert properties["gc.enabled"] == "false"
    assert properties["write.metadata.path"] == f"file:{lake.folder()}/_iceberg"
    assert properties["write.format.default"] == "parquet"
    assert properties["colour"] == "red"
    assert "numFiles" not in properties
    assert [each["names"] for each in json.loads(properties["schema.name-mapping.default"])] == [
        ["id"],
        ["carrier"],
        ["delay"],
        ["month"],
    ]
    parameters = lake.pointer.rows[FLIGHTS].parameters
    assert parameters["table_type"] == "ICEBERG"
    assert parameters[HIVE_TABLE].startswith(f"file:{lake.folder()}/_iceberg/hive-table-")


def test_nothing_but_metadata_stays_and_all_of_it_in_the_hidden_folder(lake: Lake) -> None:
    lake.table(MONTHS)
    lake.migrate()
    ends = sorted(each.rpartition(".")[2] for each in lake.hidden())
    assert ends == ["avro"] * 3 + ["json"] * 2
    assert not [each for each in lake.hidden() if each.startswith("migration/")]


def test_a_table_without_partitions_has_the_files_of_its_folder(lake: Lake) -> None:
    lake.table({"": [0, 3]}, keys=())
    report = lake.migrate()
    assert (report.files, [each.name for each in report.partitions]) == (2, [""])
    assert lake.data_files() == {"hive/flights/000": {}, "hive/flights/003": {}}


@pytest.mark.parametrize("spelling", ["file:{}/", "file://{}", "file://{}/", "{}"])
def test_a_location_may_be_spelled_in_any_way(lake: Lake, spelling: str) -> None:
    lake.table(MONTHS, location=spelling.format(lake.folder()))
    assert lake.migrate().files == 3
    found = lake.catalog.load(FLIGHTS).metadata
    assert not found.location.endswith("/")
    assert found.properties["write.metadata.path"].endswith("flights/_iceberg")
    assert lake.late().count == 0
    reversal.undo(lake.catalog, "nyc.flights")
    assert lake.hidden() == []


def test_an_empty_table_has_no_snapshot(lake: Lake) -> None:
    lake.table({"month=1": []})
    report = lake.migrate()
    assert (report.outcome, report.files, report.snapshot_id) == ("done", 0, None)
    assert report.metadata_location is not None
    assert lake.catalog.load(FLIGHTS).metadata.snapshots == ()
    assert lake.is_migrated()


def test_a_problem_refuses_the_table_and_names_file_and_partition(lake: Lake) -> None:
    lake.table(MONTHS)
    bad = unreadable(lake.folder() / "month=2")
    with pytest.raises(CannotMigrate) as failed:
        lake.migrate()
    assert f"{bad} (partition month=2)" in str(failed.value)
    report = failed.value.report
    assert (report.outcome, report.metadata_location, report.problem_count) == ("failed", None, 1)
    assert [(each.partition, each.location) for each in report.problems] == [("month=2", bad)]
    assert bad in report.error
    assert lake.is_hive()
    assert not [each for each in lake.hidden() if each.endswith((".metadata.json", "hive-table"))]
    (lake.folder() / "month=2" / "bad").unlink()
    assert lake.migrate().files == 3


def test_several_problems_are_counted(lake: Lake) -> None:
    lake.table(MONTHS)
    for number in range(3):
        unreadable(lake.folder() / "month=1", f"bad{number}")
    with pytest.raises(CannotMigrate, match="and 2 more problems"):
        lake.migrate()


def test_files_with_a_problem_are_left_out_if_the_caller_says_so(lake: Lake) -> None:
    lake.table(MONTHS)
    bad = unreadable(lake.folder() / "month=2")
    report = lake.migrate(skip_unreadable=True)
    assert (report.outcome, report.files, report.problem_count) == ("done", 3, 1)
    assert report.problems[0].location == bad
    assert lake.data_files() == PLACES
    assert lake.late().files == [bad]


def test_each_partition_whose_value_cannot_be_read_is_a_problem(lake: Lake) -> None:
    lake.table({**MONTHS, "month=may": [9], "month=june": [12]})
    report = lake.migrate(dry_run=True)
    assert [each.partition for each in report.problems] == ["month=may", "month=june"]
    assert "may is no value of type int" in report.problems[0].reason
    assert report.files == 3
    with pytest.raises(CannotMigrate, match=r"month=may.*and 1 more problems"):
        lake.migrate()
    assert lake.is_hive()
    assert lake.migrate(skip_unreadable=True).files == 3
    assert lake.late().count == 2


def test_two_partitions_of_one_folder_are_a_problem_however_far_apart(lake: Lake) -> None:
    lake.table({f"month={each}": [] for each in range(300)})
    row = lake.pointer.rows[FLIGHTS]
    same = f"file:{lake.folder()}/month=0"
    lake.pointer.rows[FLIGHTS] = replace(row, folders=(*row.folders[:-1], same))
    with pytest.raises(CannotMigrate, match="its folder is that of partition month=0"):
        lake.migrate()


def test_a_partition_whose_folder_is_gone_is_a_problem(lake: Lake) -> None:
    folder = lake.table({**MONTHS, "month=3": []})
    (folder / "month=3").rmdir()
    with pytest.raises(CannotMigrate, match="partition month=3"):
        lake.migrate()


@pytest.mark.parametrize(("recursive", "files"), [("true", 4), ("false", 3)])
def test_files_of_nested_folders_are_taken_or_left_out(lake: Lake, recursive: str, files: int) -> None:
    lake.table(MONTHS)
    write(lake.folder() / "month=1" / "in" / "009", rows(9))
    with pytest.raises(CannotMigrate, match="month=1/in"):
        lake.migrate()
    assert lake.migrate(recursive_directory=recursive).files == files


def test_a_dry_run_writes_no_file_and_changes_no_row(lake: Lake) -> None:
    lake.table(MONTHS)
    bad = unreadable(lake.folder() / "month=1")
    before, row = lake.files(), lake.pointer.rows[FLIGHTS]
    report = lake.migrate(dry_run=True)
    assert (report.outcome, report.files, report.records, report.metadata_location) == ("dry run", 3, 9, None)
    assert [each.location for each in report.problems] == [bad]
    assert lake.files() == before
    assert not (lake.folder() / "_iceberg").exists()
    assert lake.pointer.rows[FLIGHTS] == row


def test_a_dry_run_finds_what_a_run_finds(lake: Lake) -> None:
    lake.table(MONTHS)
    looked, done = lake.migrate(dry_run=True), lake.migrate()
    assert [looked.files, looked.records, looked.size] == [done.files, done.records, done.size]
    assert looked.partitions == done.partitions


def test_each_stage_is_heard_in_its_order(lake: Lake) -> None:
    lake.table(MONTHS)
    heard: list[str] = []
    lake.migrate(on_stage=heard.append)
    assert heard == ["read", "listed", "described", "described", "staged", "changed"]


@pytest.mark.parametrize(
    ("stage", "after", "reused"),
    [("read", 1, 0), ("listed", 1, 0), ("described", 1, 2), ("described", 2, 3), ("staged", 1, 3)],
)
def test_a_killed_run_leaves_the_hive_table_and_the_next_one_goes_on(
    lake: Lake, stage: str, after: int, reused: int
) -> None:
    lake.table(MONTHS)
    row = lake.pointer.rows[FLIGHTS]
    with pytest.raises(Killed):
        lake.migrate(on_stage=killed_at(stage, after))
    assert lake.pointer.rows[FLIGHTS] == row
    report = lake.migrate()
    assert (report.outcome, report.files, report.records, report.reused_files) == ("done", 3, 9, reused)
    assert lake.data_files() == PLACES


def test_a_run_killed_after_the_change_is_done(lake: Lake) -> None:
    lake.table(MONTHS)
    with pytest.raises(Killed):
        lake.migrate(on_stage=killed_at("changed"))
    assert lake.data_files() == PLACES
    location = lake.catalog.load(FLIGHTS).metadata_location
    report = lake.migrate()
    assert (report.outcome, report.metadata_location, report.files) == ("already done", location, 0)


@pytest.mark.parametrize("stage", ["read", "listed", "described", "staged"])
def test_a_run_that_another_overtakes_says_that_it_is_done(lake: Lake, stage: str) -> None:
    lake.table(MONTHS)
    others: list[MigrationReport] = []

    def overtake(now: str) -> None:
        if now == stage and not others:
            others.append(lake.migrate())

    report = lake.migrate(on_stage=overtake)
    assert [each.outcome for each in others] == ["done"]
    assert (report.outcome, report.metadata_location) == ("already done", others[0].metadata_location)
    assert lake.data_files() == PLACES


def test_a_run_whose_listing_is_gone_while_the_table_is_a_hive_table_fails(lake: Lake) -> None:
    lake.table(MONTHS)

    def lose(stage: str) -> None:
        if stage == "listed":
            shutil.rmtree(lake.folder() / "_iceberg" / "migration")

    with pytest.raises(MissingFile, match="listing"):
        lake.migrate(on_stage=lose)
    assert lake.is_hive()
    assert lake.migrate().outcome == "done"


def test_files_that_came_after_a_killed_run_are_in(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    with pytest.raises(Killed):
        lake.migrate(on_stage=killed_at("staged"))
    write(folder / "month=2" / "009", rows(9))
    report = lake.migrate()
    assert (report.files, report.reused_files) == (4, 2)
    assert lake.data_files() == {**PLACES, "hive/flights/month=2/009": {"month": 2}}


def test_an_altered_row_fails_the_run_and_nothing_has_changed(lake: Lake) -> None:
    lake.table(MONTHS)

    def alter(stage: str) -> None:
        if stage == "staged":
            row = lake.pointer.rows[FLIGHTS]
            lake.pointer.rows[FLIGHTS] = replace(row, parameters={**row.parameters, "colour": "blue"})

    with pytest.raises(CommitConflict, match="parameters"):
        lake.migrate(on_stage=alter)
    assert lake.is_hive()
    assert not [each for each in lake.hidden() if each.endswith(".metadata.json") or "hive-table" in each]
    assert not [each for each in lake.hidden() if each.startswith("snap-")]
    lake.migrate()
    assert lake.data_files() == PLACES


def test_a_partition_that_came_meanwhile_fails_the_run_and_the_next_one_has_it(lake: Lake) -> None:
    folder = lake.table(MONTHS)

    def add(stage: str) -> None:
        if stage == "staged":
            write(folder / "month=3" / "009", rows(9))
            row = lake.pointer.rows[FLIGHTS]
            lake.pointer.rows[FLIGHTS] = replace(row, folders=(*row.folders, f"file:{folder}/month=3"))

    with pytest.raises(CommitConflict, match="1 of its partitions are new, and 0 are gone"):
        lake.migrate(on_stage=add)
    report = lake.migrate()
    assert (report.files, report.reused_files) == (4, 3)


def test_an_unknown_outcome_keeps_all_files_and_the_next_run_says_what_became_of_it(lake: Lake) -> None:
    lake.table(MONTHS)
    lake.pointer.atomic = False
    lake.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        lake.migrate()
    assert lake.is_hive()
    lake.pointer.deliver_delayed()
    assert lake.migrate().outcome == "already done"
    assert lake.data_files() == PLACES


def test_progress_that_cannot_be_deleted_does_not_fail_a_run_that_is_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table(MONTHS)

    def refused(*_: Any) -> Any:
        raise StorageError("the store is away")

    def break_store(stage: str) -> None:
        if stage == "changed":
            monkeypatch.setattr(RoutedFiles, "list_files", refused)

    assert lake.migrate(on_stage=break_store).outcome == "done"


def test_an_iceberg_table_that_no_migration_made_is_refused(lake: Lake) -> None:
    lake.catalog.create_table(FLIGHTS, {"type": "struct", "fields": []})
    with pytest.raises(AlreadyIceberg):
        lake.migrate()


def test_what_is_no_table_of_files_is_refused_before_anything_is_written(lake: Lake) -> None:
    lake.table(MONTHS, parameters={"transactional": "true"})
    before = lake.files()
    with pytest.raises(InvalidInput, match="transactional"):
        lake.migrate()
    assert lake.files() == before


def test_a_table_in_the_folder_of_one_that_was_migrated_is_refused_before_its_files_are_read(lake: Lake) -> None:
    lake.table(MONTHS)
    other = TableName("nyc", "same")
    lake.table(MONTHS, name=other, location=f"file://{lake.folder()}/")
    lake.migrate()
    before = lake.files()
    with pytest.raises(InvalidInput, match=r"as nyc\.flights does"):
        lake.migrate(other)
    assert lake.files() == before
    reversal.undo(lake.catalog, "nyc.flights")
    assert lake.migrate(other).files == 3
    with pytest.raises(InvalidInput, match=r"as nyc\.same does"):
        lake.migrate()


def test_a_table_whose_row_has_a_placeholder_for_its_folder_is_refused_at_once(lake: Lake) -> None:
    lake.table(MONTHS)
    row = lake.hive.load_row(FLIGHTS)
    elsewhere = replace(row, location="file:/placeholder")
    metadata = table_for(TABLE, ["month"])
    with pytest.raises(InvalidInput, match="its Iceberg metadata says"):
        lake.catalog.services.coordinator.kind_changes(lake.hive).check(elsewhere, metadata)


def test_a_table_that_is_not_there_is_an_error(lake: Lake) -> None:
    with pytest.raises(NoSuchTable):
        lake.migrate()


def test_what_users_call_opens_the_driver(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table(MONTHS, keys=(HiveColumn("month", "string"),))
    monkeypatch.setattr(in_place, "driver_of", lake.opens_driver())
    heard: list[str] = []
    report = migrate(SPARK, "nyc.flights", dry_run=True, progress=False, on_stage=heard.append)
    assert (report.table, report.outcome) == ("nyc.flights", "dry run")
    assert heard == ["read"]
    unreadable(lake.folder() / "month=1")
    write(lake.folder() / "month=1" / "in" / "009", rows(9))
    report = migrate(SPARK, "nyc.flights", recursive_directory="true", skip_unreadable=True, progress=False)
    assert (report.files, report.problem_count) == (4, 1)
    assert lake.data_files()["hive/flights/month=1/in/009"] == {"month": "1"}
