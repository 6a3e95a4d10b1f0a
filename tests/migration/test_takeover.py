"""What all migrations have in common: the work of their tasks, and the snapshot that they make."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, CommitConflict, CommitStateUnknown, StorageError
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.migration.found_files import FoundFiles
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.takeover import Options, Takeover, with_name_mapping
from iceberg_hms.migration.work import Problem, SourcePartition, Work
from tests.catalog.parquet import table_for
from tests.migration.hive_files import TABLE, rows, write
from tests.migration.lake import Lake

NAME = TableName("nyc", "flights")


def table(lake: Lake, version: int = 2) -> TableMetadata:
    properties = {"write.metadata.path": f"file:{lake.path}/t/_iceberg"}
    return with_name_mapping(table_for(TABLE, ["month"], version=version, properties=properties))


def folders(lake: Lake) -> list[SourcePartition]:
    write(lake.path / "t" / "a" / "1", rows())
    return [SourcePartition("month=1", f"file:{lake.path}/t/a", {"month": 1}, "parquet")]


def takeover(lake: Lake, version: int = 2, **options: Any) -> Takeover:
    return Takeover(lake.driver, NAME, table(lake, version), Options(**{"progress": False, **options}))


def snapshots(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["snapshot"] for each in updates if each["action"] == "add-snapshot"]


def nothing() -> FoundFiles:
    return FoundFiles((), (), 0, 0, 0, (), 0, 0)


def test_the_work_of_tasks_is_the_table_and_where_they_write(lake: Lake) -> None:
    work = takeover(lake, recursive_directory="true", skip_unreadable=True, dry_run=True).work
    folder = f"file:{lake.path}/t/_iceberg"
    assert (work.manifest_folder, work.progress_folder) == (folder, f"{folder}/migration/{work.snapshot_id}")
    resumed = Takeover(lake.driver, NAME, table(lake), Options(), resumes=True).work
    assert resumed.progress_folder == f"{folder}/migration"
    assert (work.recursive_directory, work.skip_unreadable, work.dry_run) == ("true", True, True)
    assert work.release == iceberg_hms.__version__
    assert metadata_file.decode(work.metadata, folder).properties == table(lake).properties
    assert pickle.loads(pickle.dumps(work)) == work


def test_what_travels_shows_no_secret() -> None:
    keys = {"s3_access_key_id": "who", "s3_secret_access_key": "hidden-word", "s3_session_token": "hidden-token"}
    work = Work(Settings.load(keys, environ={}), b"", 1, "file:/m", "file:/p")
    assert "hidden" not in repr(work)
    assert "hidden" not in str(work)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_become_a_snapshot_of_their_manifests(lake: Lake, version: int) -> None:
    taken = takeover(lake, version)
    found = taken.find(folders(lake), Problems())
    with taken.creation(found) as updates:
        (snapshot,) = snapshots(updates)
    assert snapshot["snapshot-id"] == taken.work.snapshot_id
    assert snapshot["summary"]["added-data-files"] == "1"
    assert snapshot["summary"]["added-records"] == "3"
    assert Path(snapshot["manifest-list"].removeprefix("file:")).exists()
    assert taken.report(found, "file:/m.json").snapshot_id == taken.work.snapshot_id
    assert taken.report(found).snapshot_id is None


def test_without_files_there_is_no_snapshot(lake: Lake) -> None:
    taken = takeover(lake)
    with taken.creation(nothing()) as updates:
        assert snapshots(updates) == []
    assert taken.report(nothing(), "file:/m.json").snapshot_id is None


@pytest.mark.parametrize(
    ("error", "stays"),
    [(CommitConflict("moved"), False), (StorageError("full"), True), (CommitStateUnknown("lost"), True)],
)
def test_the_manifest_list_of_a_creation_that_is_proved_to_have_failed_is_deleted(
    lake: Lake, error: Exception, stays: bool
) -> None:
    taken = takeover(lake)
    found = taken.find(folders(lake), Problems())
    with pytest.raises(type(error)), taken.creation(found):
        raise error
    lists = list((lake.path / "t" / "_iceberg").glob("snap-*"))
    assert bool(lists) is stays
    assert all(Path(each.manifest_path.removeprefix("file:")).exists() for each in found.manifests)


def test_problems_of_partitions_and_of_tasks_are_counted_together(lake: Lake) -> None:
    problems = Problems()
    problems.add("month=may", "file:/may", StorageError("no number"))
    places = folders(lake)
    (lake.path / "t" / "a" / "2").write_bytes(b"no data file")
    found = takeover(lake).find(places, problems)
    assert [each.partition for each in found.problems] == ["month=may", "month=1"]
    assert found.problem_count == 2


def test_the_first_problem_is_the_error_and_says_how_many_there_are(lake: Lake) -> None:
    some = [Problem("month=1", "file:/a", "it is damaged", "mend it"), Problem("", "file:/b", "gone")]
    found = FoundFiles((), (), 0, 0, 0, some, 7, 0)
    with pytest.raises(CannotMigrate) as failed:
        takeover(lake).check(found)
    said = "nyc.flights cannot take over file:/a (partition month=1): it is damaged; and 6 more problems"
    assert failed.value.message == said
    assert failed.value.next_step == "mend it"
    assert (failed.value.report.outcome, failed.value.report.error) == ("failed", said)
    with pytest.raises(CannotMigrate, match="cannot take over file:/b: gone") as failed:
        takeover(lake).check(FoundFiles((), (), 0, 0, 0, some[1:], 1, 0))
    assert failed.value.next_step == CannotMigrate.default_next_step
    takeover(lake, skip_unreadable=True).check(found)


def test_a_report_says_how_long_it_took(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 190.0])
    monkeypatch.setattr(type(lake.catalog.services.ports.runtime), "now", lambda _: next(times))
    assert takeover(lake).report(nothing()).seconds == 90


def test_a_name_mapping_that_the_table_has_stays(lake: Lake) -> None:
    own = table_for(TABLE, properties={NAME_MAPPING: "[]", "colour": "red"})
    assert with_name_mapping(own).properties == own.properties
    made = with_name_mapping(table_for(TABLE)).properties[NAME_MAPPING]
    assert '"carrier"' in made
