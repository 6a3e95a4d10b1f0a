"""A writer commits the flights of one day at a time, with field ids, and reports the outcome of every commit."""

from __future__ import annotations

import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.cli.demo import writer
from iceberg_hms.errors import CommitConflict, InvalidInput

COLUMNS = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay", "distance", "writer", "batch"]
#: As the table has them, with ids that are not their positions.
SCHEMA: Any = SimpleNamespace(fields=[SimpleNamespace(name=name, id=10 + n) for n, name in enumerate(COLUMNS)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Hive table's folder: two days of flights in month 2, in two files, beside files that are none."""
    folder = tmp_path / "hive table" / "month=2"
    folder.mkdir(parents=True)
    for number, days in enumerate(([1, 1, 2], [2, 2])):
        count = len(days)
        rows = pa.table({
            "year": pa.array([2013] * count, pa.int32()),
            "day": pa.array(days, pa.int32()),
            "dep_delay": pa.array([None] * count, pa.int32()),
            "carrier": ["UA"] * count,
            "flight": pa.array(range(count), pa.int32()),
            "origin": ["EWR"] * count,
            "dest": ["IAH"] * count,
            "distance": pa.array([100] * count, pa.int32()),
            "time_hour": pa.array([1_359_700_000_000_000_000] * count, pa.timestamp("ns")),
        })  # fmt: skip
        pq.write_table(rows, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").touch()
    return folder.parent


def options(source: Path, batches: int = 2) -> Namespace:
    return Namespace(table="nyc.departures", name="python-1", source=source, month=2, batches=batches)


def test_a_days_flights_come_from_all_files_of_the_partition(source: Path) -> None:
    rows = writer.departures(source, 2, 2, "python-1")
    assert len(rows) == 3
    assert set(rows.column_names) == set(COLUMNS)
    assert rows.schema.field("time_hour").type == pa.timestamp("us", tz="UTC")
    assert set(rows["batch"].to_pylist()) == {2}


def test_columns_get_the_tables_order_and_its_field_ids(source: Path) -> None:
    rows = writer.with_field_ids(writer.departures(source, 2, 1, "python-1"), SCHEMA)
    assert rows.column_names == COLUMNS
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in rows.schema] == list(range(10, 19))


def test_a_column_that_the_table_lacks_is_refused(source: Path) -> None:
    rows = writer.departures(source, 2, 1, "python-1").append_column("more", pa.array([1, 2]))
    with pytest.raises(InvalidInput, match="no column more"):
        writer.with_field_ids(rows, SCHEMA)


class FakeTable:
    """Acknowledges appends, but for those of the given days."""

    def __init__(self, folder: Path, failing: tuple[int, ...] = ()) -> None:
        self.metadata = SimpleNamespace(location=f"file:{folder}/a table")
        self.schema = lambda: SCHEMA
        self.failing = failing
        self.files: list[str] = []

    def append(self, files: list[str]) -> Any:
        self.files += files
        if len(self.files) in self.failing:
            raise CommitConflict("the table moved too often")
        return SimpleNamespace(replays=1, snapshot_ids=(7,))


def reported(table: Any, options: Namespace, stopped: threading.Event) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    writer.commit_batches(table, options, lambda event, **values: events.append((event, values)), lambda: 0.0, stopped)
    return events


def test_each_batch_is_a_file_an_append_and_a_message(source: Path, tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    events = reported(table, options(source), threading.Event())
    assert [(event, values["batch"], values["rows"]) for event, values in events] == [
        ("commit", 1, 2),
        ("commit", 2, 3),
    ]
    assert [pq.read_metadata(file.removeprefix("file:")).num_rows for file in table.files] == [2, 3]


def test_a_failed_commit_is_reported_and_the_next_one_runs(source: Path, tmp_path: Path) -> None:
    events = reported(FakeTable(tmp_path, failing=(1,)), options(source), threading.Event())
    assert [event for event, _ in events] == ["failed", "commit"]
    assert "the table moved too often" in events[0][1]["error"]


def test_a_writer_that_is_stopped_begins_no_new_commit(source: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    assert reported(FakeTable(tmp_path), options(source), stopped) == []


def test_the_command_line_is_understood_with_spaces() -> None:
    given = ["--metastore-uri=thrift://h:1", "--warehouse=file:/a b", "--source=/a b/c", "--table=a.b", "--name=n"]
    parsed = writer.parse([*given, "--month=2", "--batches=3"])
    where = {"metastore_uri": "thrift://h:1", "warehouse": "file:/a b", "table": "a.b"}
    assert vars(parsed) == {**where, "name": "n", "source": Path("/a b/c"), "month": 2, "batches": 3}


def test_an_unreachable_metastore_is_one_message_without_a_trace() -> None:
    arguments = "--metastore-uri=thrift://127.0.0.1:1 --warehouse=file:/wh --table=a.b --name=n --month=2 --batches=3"
    done = subprocess.run(
        [sys.executable, "-m", "iceberg_hms.cli.demo.writer", *arguments.split(), "--source=/a"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 1
    assert '"event":"failed"' in done.stdout
    assert "Traceback" not in done.stderr
