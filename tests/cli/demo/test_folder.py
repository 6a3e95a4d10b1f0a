"""The demo's folder is its own: emptied at the start, used by one, and never somebody else's data."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.cli.demo.folder import MARKER, DemoFolder
from iceberg_hms.errors import ConfigError, EngineError


def test_it_is_made_with_a_space_in_its_path(tmp_path: Path) -> None:
    with DemoFolder(tmp_path / "a b" / "demo") as folder:
        assert folder.logs.is_dir()
        assert folder.warehouse.parent == folder.path == tmp_path / "a b" / "demo"


def test_a_second_run_finds_nothing_of_the_first(tmp_path: Path) -> None:
    with DemoFolder(tmp_path) as folder:
        (folder.path / "metastore").mkdir()
        (folder.path / "metastore" / "db").write_text("x")
        (folder.path / "file").write_text("x")
    with DemoFolder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {MARKER, "logs"}


def test_a_link_in_it_is_removed_and_what_it_points_at_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    with DemoFolder(tmp_path / "demo") as folder:
        (folder.path / "link").symlink_to(precious, target_is_directory=True)
    with DemoFolder(tmp_path / "demo") as folder:
        assert not (folder.path / "link").exists()
    assert (precious / "data").read_text() == "x"


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="is not empty"), DemoFolder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_at_once_are_refused_and_one_after_the_other_is_not(tmp_path: Path) -> None:
    with DemoFolder(tmp_path) as first:
        (first.path / "warehouse").mkdir()
        with pytest.raises(ConfigError, match="Another demo runs"), DemoFolder(tmp_path):
            pass
        assert (first.path / "warehouse").is_dir()
    with DemoFolder(tmp_path):
        pass


def test_a_place_where_no_folder_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(EngineError, match="Cannot make the folder"), DemoFolder(tmp_path / "file" / "demo"):
        pass
