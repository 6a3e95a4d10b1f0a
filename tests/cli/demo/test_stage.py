"""The demo empties no folder but its own, prints for people, and fails when a claim does not hold."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from iceberg_hms.cli.demo.stage import MARKER, DemoFolder, Stage, console, demo_folder
from iceberg_hms.errors import ConfigError, EngineError
from tests.cli.demo.stages import printed, stage, statements


def test_it_is_made_with_a_space_in_its_path(tmp_path: Path) -> None:
    with demo_folder(tmp_path / "a b" / "demo") as folder:
        assert folder.logs.is_dir()
        assert folder.warehouse.parent == folder.path == tmp_path / "a b" / "demo"


def test_a_second_run_finds_nothing_of_the_first(tmp_path: Path) -> None:
    with demo_folder(tmp_path) as folder:
        (folder.path / "metastore").mkdir()
        (folder.path / "metastore" / "db").write_text("x")
        (folder.path / "file").write_text("x")
    with demo_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {MARKER, "logs"}


def test_a_link_in_it_is_removed_and_what_it_points_at_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    with demo_folder(tmp_path / "demo") as folder:
        (folder.path / "link").symlink_to(precious, target_is_directory=True)
    with demo_folder(tmp_path / "demo") as folder:
        assert not (folder.path / "link").exists()
    assert (precious / "data").read_text() == "x"


def test_a_folder_with_other_data_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="is not empty"), demo_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_at_once_are_refused_and_one_after_the_other_is_not(tmp_path: Path) -> None:
    with demo_folder(tmp_path) as first:
        (first.path / "warehouse").mkdir()
        with pytest.raises(ConfigError, match="Another demo runs"), demo_folder(tmp_path):
            pass
        assert (first.path / "warehouse").is_dir()
    with demo_folder(tmp_path):
        pass


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(EngineError, match="Cannot create the folder"), demo_folder(tmp_path / "file" / "demo"):
        pass


def test_a_statement_is_shown_and_run(tmp_path: Path) -> None:
    made = stage(tmp_path)
    made.run("CREATE DATABASE a")
    assert statements(made) == ["CREATE DATABASE a"]
    assert "CREATE DATABASE a;" in printed(made)


def test_a_slow_statement_is_printed_with_its_duration(tmp_path: Path) -> None:
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


def test_a_claim_that_holds_gets_a_tick_and_one_that_does_not_fails(tmp_path: Path) -> None:
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
