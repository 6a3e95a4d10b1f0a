"""Files that exist become files of an Iceberg table that exists, and which ones a migrated table has not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, InvalidInput, MetastoreRefused, NotAnIcebergTable, RequirementFailed
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField, parse_type
from iceberg_hms.migration import more_files, reversal
from iceberg_hms.migration.more_files import add_files, late_files, take_files
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.takeover import Options
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.migration.hive_files import TABLE, Loop, rows, write
from tests.migration.lake import FLIGHTS, SPARK, Lake, unreadable

EVENTS = TableName("nyc", "events")
MONTHS = {"month=1": [0, 3], "month=2": [6], "month=__HIVE_DEFAULT_PARTITION__": [9]}


@pytest.fixture
def events(lake: Lake) -> Lake:
    """With an Iceberg table that is partitioned as the Hive table."""
    lake.table(MONTHS)
    lake.catalog.create_table(EVENTS, TABLE, partition_spec=["month"])
    return lake


def take(
    lake: Lake,
    source: str | Sequence[str] = "nyc.flights",
    partition_filter: dict[str, Any] | None = None,
    **options: Any,
) -> MigrationReport:
    return take_files(lake.driver, EVENTS, source, partition_filter or {}, Options(**{"progress": False, **options}))


def taken(lake: Lake) -> dict[str, Any]:
    return {path.removeprefix("hive/flights/"): each for path, each in lake.data_files(EVENTS).items()}


def progress_of(lake: Lake) -> list[str]:
    return [each for each in lake.files() if "/metadata/migration/" in each]


class Reads:
    """Counts the tasks that describe or list."""

    def __init__(self) -> None:
        self.tasks = 0

    def executors(self) -> Loop:
        counted = self

        class Counting(Loop):
            def map(
                self, function: Callable[..., Any], items: Sequence[Any], *, done: Callable[[Any], None]
            ) -> list[Any]:
                counted.tasks += len(items)
                return super().map(function, items, done=done)

        return Counting()


def test_the_files_of_a_hive_table_have_the_values_of_its_partitions(events: Lake) -> None:
    before = events.files()
    report = take(events)
    assert (report.table, report.outcome, report.files, report.records) == ("nyc.events", "done", 4, 12)
    assert taken(events) == {
        "month=1/000": {"month": 1},
        "month=1/003": {"month": 1},
        "month=2/006": {"month": 2},
        "month=__HIVE_DEFAULT_PARTITION__/009": {"month": None},
    }
    loaded = events.catalog.load(EVENTS)
    assert (report.metadata_location, report.snapshot_id) == (
        loaded.metadata_location,
        loaded.metadata.current_snapshot_id,
    )
    assert "schema.name-mapping.default" in loaded.metadata.properties
    assert progress_of(events) == []
    assert events.is_hive()
    assert {key: events.files()[key] for key in before if "hive/" in key} == {
        key: value for key, value in before.items() if "hive/" in key
    }


@pytest.mark.parametrize(
    ("partition_filter", "files"),
    [
        ({"month": 1}, ["month=1/000", "month=1/003"]),
        ({"MONTH": "02"}, ["month=2/006"]),
        ({"month": None}, ["month=__HIVE_DEFAULT_PARTITION__/009"]),
    ],
)
def test_a_filter_takes_the_partitions_with_its_values(
    events: Lake, partition_filter: dict[str, Any], files: list[str]
) -> None:
    take(events, partition_filter=partition_filter)
    assert sorted(taken(events)) == files


def test_a_filter_that_no_partition_passes_or_of_another_column_is_refused(events: Lake) -> None:
    with pytest.raises(InvalidInput, match="no partition with month=7"):
        take(events, partition_filter={"month": 7})
    with pytest.raises(InvalidInput, match="not partitioned by day"):
        take(events, partition_filter={"day": 7})
    assert taken(events) == {}


def test_the_partition_column_may_have_another_case_in_the_iceberg_table(events: Lake) -> None:
    events.catalog.drop_table(EVENTS)
    schema = pa.schema([*TABLE.remove(3), ("Month", pa.int32())])
    events.catalog.create_table(EVENTS, schema, partition_spec=["Month"])
    take(events, partition_filter={"month": 1})
    assert taken(events) == {"month=1/000": {"Month": 1}, "month=1/003": {"Month": 1}}


def test_the_files_of_a_folder_are_placed_by_their_folders(events: Lake) -> None:
    report = take(events, f"file:{events.folder()}", recursive_directory="true")
    assert report.files == 4
    assert taken(events)["month=2/006"] == {"month": 2}
    assert taken(events)["month=__HIVE_DEFAULT_PARTITION__/009"] == {"month": None}


def test_single_files_are_appended_without_a_task(events: Lake) -> None:
    reads = Reads()
    events.driver = replace(events.driver, executors=reads.executors())
    files = [f"file:{events.folder()}/month=1/000", f"file:{events.folder()}/month=2/006"]
    report = take(events, files)
    assert (report.files, reads.tasks) == (2, 0)
    assert report.snapshot_id == events.catalog.load(EVENTS).metadata.current_snapshot_id
    assert sorted(taken(events)) == ["month=1/000", "month=2/006"]
    with pytest.raises(RequirementFailed):
        take(events, files[:1])


@pytest.mark.parametrize("source", ["folder", "files"])
def test_a_filter_is_for_hive_tables_alone(events: Lake, source: str) -> None:
    folder = f"file:{events.folder()}/month=1"
    with pytest.raises(InvalidInput, match="partition_filter is for Hive tables"):
        take(events, folder if source == "folder" else [f"{folder}/000"], {"month": 1})


def test_files_that_the_table_has_are_refused_before_a_footer_is_read(events: Lake) -> None:
    take(events, partition_filter={"month": 1})
    before, reads = taken(events), Reads()
    events.driver = replace(events.driver, executors=reads.executors())
    first = f"file:{events.folder()}/month=1/000"
    with pytest.raises(InvalidInput, match=f"has 2 of these files already: {first}"):
        take(events)
    assert reads.tasks == 0
    assert taken(events) == before
    take(events, partition_filter={"month": 2})
    assert len(taken(events)) == 3


def test_many_known_files_are_counted_and_some_named(events: Lake) -> None:
    for number in range(10, 18):
        write(events.folder() / "month=2" / f"{number:03}", rows(number))
    take(events, partition_filter={"month": 2})
    with pytest.raises(InvalidInput, match=r"has 9 of these files already: .*, \.\.\."):
        take(events)


def test_files_that_the_table_had_and_deleted_may_come_again(events: Lake) -> None:
    take(events)
    events.catalog.load_table(EVENTS).delete_files([f"file:{events.folder()}/month=2/006"])
    assert take(events, partition_filter={"month": 2}).files == 1


@pytest.mark.parametrize("spec", [[], ["id"], ["bucket(4, month)"]])
def test_a_table_that_is_partitioned_otherwise_is_refused(events: Lake, spec: list[Any]) -> None:
    events.catalog.drop_table(EVENTS)
    events.catalog.create_table(EVENTS, TABLE, partition_spec=spec)
    with pytest.raises(InvalidInput, match="is partitioned by month, and the Iceberg table by"):
        take(events)


def test_an_unpartitioned_hive_table_goes_into_an_unpartitioned_table(lake: Lake) -> None:
    lake.table({"": [0]}, keys=())
    lake.catalog.create_table(EVENTS, TABLE)
    assert take(lake).files == 1
    assert taken(lake) == {"000": {}}


def test_names_that_differ_by_case_from_those_of_a_table_that_is_there_are_a_problem(events: Lake) -> None:
    write(events.folder() / "month=2" / "100", rows(100).rename_columns(["Id", "carrier", "delay"]))
    with pytest.raises(CannotMigrate, match=r"Id \(readers do not take it for id"):
        take(events)
    assert taken(events) == {}


def test_a_problem_refuses_the_whole(events: Lake) -> None:
    bad = unreadable(events.folder() / "month=2")
    with pytest.raises(CannotMigrate, match="partition month=2") as failed:
        take(events)
    assert failed.value.report.problems[0].location == bad
    assert taken(events) == {}
    report = take(events, skip_unreadable=True)
    assert (report.files, report.problem_count, report.reused_files) == (4, 1, 0)
    assert progress_of(events) == []


def manifests_of(events: Lake) -> list[Path]:
    return sorted(events.path.rglob("events/metadata/*-m*.avro"))


def test_a_commit_that_is_proved_to_have_failed_leaves_nothing_of_the_run(events: Lake) -> None:
    events.pointer.answers.extend([ScriptedAnswer.REFUSED] * 20)
    with pytest.raises(MetastoreRefused):
        take(events)
    events.pointer.answers.clear()
    assert manifests_of(events) == []
    assert progress_of(events) == []
    report = take(events)
    assert (report.files, report.reused_files) == (4, 0)
    assert manifests_of(events)
    assert len(taken(events)) == 4


def test_nothing_to_take_is_no_commit(events: Lake) -> None:
    (events.path / "empty").mkdir()
    before = events.catalog.load(EVENTS).metadata_location
    report = take(events, f"file:{events.path}/empty")
    assert (report.outcome, report.files, report.snapshot_id, report.metadata_location) == ("done", 0, None, None)
    assert events.catalog.load(EVENTS).metadata_location == before


def test_a_hive_table_is_no_target(events: Lake) -> None:
    with pytest.raises(NotAnIcebergTable):
        take_files(events.driver, FLIGHTS, "nyc.flights", {}, Options())


def test_late_files_are_named_and_can_be_added(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    lake.migrate()
    assert (lake.late().count, lake.late().files) == (0, [])
    write(folder / "month=1" / "100", rows(100))
    write(folder / "month=2" / "in" / "101", rows(101))
    write(folder / "month=3" / "102", rows(102))
    (folder / "month=1" / "_SUCCESS").write_bytes(b"x")
    row = lake.pointer.rows[FLIGHTS]
    lake.pointer.rows[FLIGHTS] = replace(row, folders=(*row.folders, f"file:{folder}/month=3"))
    late = lake.late()
    names = ["month=1/100", "month=2/in/101", "month=3/102"]
    assert (late.count, late.files) == (3, [f"file:{folder}/{each}" for each in names])
    take_files(lake.driver, FLIGHTS, late.files, {}, Options())
    assert lake.late().count == 0
    assert lake.data_files()["hive/flights/month=3/102"] == {"month": 3}


def test_links_that_came_late_are_named(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    lake.migrate()
    (folder / "month=2" / "link").symlink_to(folder / "month=1" / "000")
    (folder / "month=2" / "in").symlink_to(folder / "month=1")
    late = lake.late()
    assert (late.count, late.files) == (2, [f"file:{folder}/month=2/in", f"file:{folder}/month=2/link"])


def test_files_that_the_iceberg_table_has_deleted_are_not_late(lake: Lake) -> None:
    folder = lake.table(MONTHS)
    lake.migrate()
    lake.catalog.load_table(FLIGHTS).delete_files([f"file:{folder}/month=1/000"])
    assert lake.late().count == 0


def test_more_late_files_than_are_named_are_counted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lake.table(MONTHS)
    lake.migrate()
    monkeypatch.setattr(more_files, "LATE_FILES_MAX", 2)
    for number in range(100, 103):
        write(folder / "month=1" / str(number), rows(number))
    assert (lake.late().count, len(lake.late().files)) == (3, 2)


def test_only_a_migrated_table_is_checked_for_late_files(events: Lake) -> None:
    with pytest.raises(NotAnIcebergTable):
        events.late()
    with pytest.raises(InvalidInput, match="not migrated in place"):
        events.late(EVENTS)
    events.migrate()
    reversal.keep(events.catalog, "nyc.flights")
    with pytest.raises(InvalidInput, match="given up"):
        events.late()


def test_what_users_call_opens_the_driver(events: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(more_files, "driver_of", events.opens_driver())
    unreadable(events.folder() / "month=1")
    write(Path(events.folder()) / "month=1" / "in" / "100", rows(100))
    report = add_files(
        SPARK,
        "nyc.events",
        "nyc.flights",
        partition_filter={"month": 1},
        recursive_directory="true",
        skip_unreadable=True,
        progress=False,
    )
    assert (report.files, report.problem_count) == (3, 1)
    assert sorted(taken(events)) == ["month=1/000", "month=1/003", "month=1/in/100"]
    events.migrate(skip_unreadable=True, recursive_directory="true")
    assert late_files(SPARK, "nyc.flights").count == 1


def test_hive_columns_of_the_source_must_fit(events: Lake) -> None:
    row = events.pointer.rows[FLIGHTS]
    events.pointer.rows[FLIGHTS] = replace(row, partition_keys=(HiveColumn("month", "int"), HiveColumn("day", "int")))
    with pytest.raises(InvalidInput, match="is partitioned by month, day"):
        take(events)


# What the catalog says of the source.


def test_keys_of_the_source_that_change_rows_refuse_it_and_late_files_do_not_ask(lake: Lake) -> None:
    lake.table(MONTHS, parameters={"parquet.new": "1"})
    lake.catalog.create_table(EVENTS, TABLE, partition_spec=["month"])
    with pytest.raises(InvalidInput, match=r"Cannot migrate nyc.flights: 'parquet.new'"):
        take(lake)
    assert taken(lake) == {}
    assert take(lake, ignore_keys=["parquet.new"]).files == 4
    lake.migrate(ignore_keys=["parquet.new"])
    assert lake.late().count == 0


def test_a_column_that_would_have_another_value_where_files_lack_it_is_refused(lake: Lake) -> None:
    lake.table(MONTHS)
    columns = {"id": "long", "carrier": "string", "delay": "double", "month": "int"}
    fields = [NestedField(at, name, parse_type(type_)) for at, (name, type_) in enumerate(columns.items(), 1)]
    fields[2] = replace(fields[2], initial_default=1.5)
    table = Schema.of(fields)
    lake.catalog.create_table(EVENTS, table, partition_spec=["month"], properties={"format-version": "3"})
    with pytest.raises(InvalidInput, match=r"column delay: files that lack it have null .* have 1.5") as caught:
        take(lake)
    assert "EXISTS_DEFAULT" in caught.value.next_step
    assert take(lake, ignore_keys=["EXISTS_DEFAULT"]).files == 4
