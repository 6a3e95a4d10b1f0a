"""What scenes say is said for people, and a promise that does not hold fails the demo."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from iceberg_hms.cli.demo.folder import DemoFolder
from iceberg_hms.cli.demo.stage import Stage, console
from iceberg_hms.errors import EngineError
from tests.cli.demo.theatre import printed, stage, statements


def test_a_statement_is_shown_and_run(tmp_path: Path) -> None:
    made = stage(tmp_path)
    made.run("CREATE DATABASE a")
    assert statements(made) == ["CREATE DATABASE a"]
    assert "CREATE DATABASE a;" in printed(made)


def test_what_takes_a_while_is_told_with_its_time(tmp_path: Path) -> None:
    made = stage(tmp_path)
    made.run("SELECT 1", "Looking")
    assert "Looking (0." in printed(made)


def test_rows_are_shown_readably_and_returned_as_they_are(tmp_path: Path) -> None:
    row = (1.23456, True, ["a", "b"], None, datetime.datetime(2021, 4, 1, 10), "[red]x[/red]")  # noqa: DTZ001
    made = stage(tmp_path, {"SELECT": [row]})
    assert made.query("SELECT") == [row]
    text = printed(made)
    for part in ("1.23", "yes", "a, b", "2021-04-01 10:00:00", "[red]x[/red]"):
        assert part in text
    assert "1.2345" not in text


def test_a_promise_that_holds_is_ticked_and_one_that_does_not_fails(tmp_path: Path) -> None:
    made = stage(tmp_path)
    made.check("2 is 2", True)
    assert "✓ 2 is 2" in printed(made)
    with pytest.raises(EngineError, match="not true that 2 is 3"):
        made.check("2 is 3", False)


def test_a_scene_has_its_number_its_title_and_what_it_is_about(tmp_path: Path) -> None:
    made = stage(tmp_path)
    made.scene(7, "A title", "what it is about")
    assert "7. A title" in printed(made)
    assert "what it is about" in printed(made)


def test_before_the_first_scene_there_is_neither_spark_nor_catalog(tmp_path: Path) -> None:
    made = Stage(DemoFolder(tmp_path))
    with pytest.raises(EngineError, match="Spark"):
        _ = made.spark
    with pytest.raises(EngineError, match="catalog"):
        _ = made.catalog


def test_the_console_is_no_wider_than_a_person_reads() -> None:
    assert console().width <= 132
