"""Scene 2 loads both kinds of tables, and notices when rows are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.cli.demo import load
from iceberg_hms.cli.demo.flights import FLIGHTS
from iceberg_hms.errors import EngineError
from tests.cli.demo.theatre import printed, stage, statements


def test_hive_tables_come_first_and_iceberg_tables_are_loaded_from_them(tmp_path: Path) -> None:
    made = stage(tmp_path, {"SELECT count(*)": [(FLIGHTS,)]})
    load.play(made)
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
        load.play(stage(tmp_path, answers))
