"""`iceberg-hms migrate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.migration import driver, in_place, more_files
from tests.cli.fakes import Asked, run
from tests.migration.hive_files import rows, write
from tests.migration.lake import FLIGHTS, Lake, unreadable

MONTHS = {"month=1": [0, 3], "month=2": [6]}


class Nyc(Lake):
    """A lake with the table nyc.flights, on which the command runs; masters: of the sessions that it asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.table(MONTHS)
        self.masters: list[str | None] = []

    def run(self, *arguments: str, **world: Any) -> Any:
        return run("migrate", "nyc.flights", *arguments, catalog=_Open(self.catalog), **world)

    def answer(self, *arguments: str, exit_code: int = 0) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)


class _Open:
    """Stays open when a command ends."""

    def __init__(self, catalog: Any) -> None:
        self.catalog = catalog

    def __enter__(self) -> Any:
        return self.catalog

    def __exit__(self, *error: object) -> None: ...


@pytest.fixture
def nyc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nyc]:
    found = Nyc(tmp_path)

    @contextmanager
    def spark_session(master: str | None) -> Iterator[object]:
        found.masters.append(master)
        yield object()

    monkeypatch.setattr(driver, "spark_session", spark_session)
    monkeypatch.setattr(in_place, "driver_of", found.opens_driver())
    monkeypatch.setattr(more_files, "driver_of", found.opens_driver())
    with found.catalog:
        yield found


def test_a_table_is_migrated_and_the_report_says_how_much_that_was(nyc: Nyc) -> None:
    result = nyc.run()
    assert result.exit_code == 0, result.output
    assert nyc.is_migrated()
    shown = dict(line.split() for line in result.stdout.splitlines() if len(line.split()) == 2)
    assert (shown["outcome"], shown["files"], shown["rows"], shown["partitions"]) == ("done", "3", "9", "2")
    assert "nyc.flights" in result.stdout
    assert nyc.masters == [None]


def test_the_report_as_json_has_all_of_it(nyc: Nyc) -> None:
    report = nyc.answer("--master", "local[3]")
    assert (report["outcome"], report["files"], report["records"]) == ("done", 3, 9)
    assert report["metadata_location"] == nyc.catalog.load(FLIGHTS).metadata_location
    assert nyc.masters == ["local[3]"]
    assert nyc.answer()["outcome"] == "already done"


def test_a_dry_run_shows_partitions_and_problems_and_writes_nothing(nyc: Nyc) -> None:
    bad = unreadable(nyc.folder() / "month=2")
    before = nyc.files()
    result = nyc.run("--dry-run")
    assert result.exit_code == 0
    assert {"dry", "run", "month=1", "month=2", "damaged:"} <= set(result.stdout.split())
    report = nyc.answer("--dry-run")
    assert [each["name"] for each in report["partitions"]] == ["month=1", "month=2"]
    assert [each["location"] for each in report["problems"]] == [bad]
    assert nyc.files() == before
    assert nyc.is_hive()


def test_a_table_that_cannot_be_taken_over_is_an_error_with_a_report(nyc: Nyc) -> None:
    bad = unreadable(nyc.folder() / "month=2")
    result = nyc.run()
    assert result.exit_code == 1
    assert f"error: nyc.flights cannot take over {bad} (partition month=2)" in result.stderr
    assert "next: " in result.stderr
    assert "damaged" in result.stdout
    report = nyc.answer(exit_code=1)
    assert (report["outcome"], report["problem_count"]) == ("failed", 1)
    assert nyc.is_hive()


def test_bad_files_and_nested_folders_are_left_out_or_taken_as_the_options_say(nyc: Nyc) -> None:
    unreadable(nyc.folder() / "month=2")
    write(nyc.folder() / "month=1" / "in" / "009", rows(9))
    report = nyc.answer("--skip-unreadable", "--recursive-directory", "true")
    assert (report["files"], report["problem_count"]) == (4, 1)


def test_a_check_names_late_files_and_fails_if_there_are_some(nyc: Nyc) -> None:
    nyc.run()
    assert nyc.answer("--check") == {"table": "nyc.flights", "count": 0, "files": []}
    late = write(nyc.folder() / "month=1" / "100", rows(100))
    assert nyc.answer("--check", exit_code=1) == {"table": "nyc.flights", "count": 1, "files": [late]}
    result = nyc.run("--check", "--master", "local[1]")
    assert (result.exit_code, result.stdout.split()) == (1, [late])
    assert "1 files are in the folders of nyc.flights" in result.stderr
    assert nyc.masters[-1] == "local[1]"


def test_undo_and_keep_need_no_spark(nyc: Nyc, monkeypatch: pytest.MonkeyPatch) -> None:
    nyc.run()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = nyc.run("--undo")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nyc.flights is the Hive table again that it was" in result.stderr
    assert nyc.is_hive()
    result = nyc.run()
    assert result.exit_code == 1
    assert "pip install 'iceberg-hms[spark]'" in result.stderr
    monkeypatch.undo()


def test_undo_and_keep_answer_as_json(nyc: Nyc) -> None:
    nyc.run()
    assert nyc.answer("--undo") == {"table": "nyc.flights", "outcome": "undone"}
    nyc.run()
    assert nyc.answer("--keep") == {"table": "nyc.flights", "outcome": "kept"}
    assert not nyc.is_migrated()
    result = nyc.run("--undo")
    assert result.exit_code == 2
    assert "given up" in result.stderr
    assert "owns its files now" in nyc.run("--keep").stderr


@pytest.mark.parametrize("options", [("--undo", "--keep"), ("--dry-run", "--check"), ("--check", "--undo")])
def test_what_excludes_each_other_is_refused_and_nothing_is_done(nyc: Nyc, options: tuple[str, str]) -> None:
    result = nyc.run(*options)
    assert result.exit_code == 2
    assert "--dry-run, --check, --undo and --keep exclude each other" in result.stderr
    assert nyc.is_hive()
    assert nyc.masters == []


@pytest.mark.parametrize("arguments", [("--recursive-directory", "maybe"), ("--set", "no-sign")])
def test_a_wrong_option_is_refused(nyc: Nyc, arguments: tuple[str, ...]) -> None:
    assert nyc.run(*arguments).exit_code == 2
    assert nyc.is_hive()


def test_a_table_that_is_not_there_is_an_error(nyc: Nyc) -> None:
    del nyc.pointer.rows[TableName("nyc", "flights")]
    result = nyc.run()
    assert result.exit_code == 1
    assert "error: Table does not exist: nyc.flights" in result.stderr


def test_the_settings_of_the_command_line_are_used(nyc: Nyc) -> None:
    asked = Asked()
    nyc.run("--warehouse", "file:/elsewhere", "--set", "lock=none", asked=asked)
    assert (asked.settings[0].warehouse, asked.settings[0].lock) == ("file:/elsewhere", "none")


def test_a_key_of_the_row_refuses_the_table_until_it_is_named(nyc: Nyc) -> None:
    nyc.table(MONTHS, parameters={"parquet.new": "1", "hive.new": "1"})
    refused = nyc.run("--ignore-key", "parquet.new")
    assert refused.exit_code != 0
    assert "'hive.new'" in refused.output
    assert "'parquet.new'" not in refused.output
    assert nyc.answer("--ignore-key", "parquet.new", "--ignore-key", "hive.new")["outcome"] == "done"
