"""Scene 3 believes no writer: what was acknowledged is compared with what is in the table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.cli.demo import together
from iceberg_hms.cli.demo.together import Commit, Ledger
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import EngineError
from tests.cli.demo import tables
from tests.cli.demo.theatre import printed, stage, statements

TOTAL = together.SPARK_WRITERS * together.SPARK_BATCHES + together.PYTHON_WRITERS * together.PYTHON_BATCHES


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    """With a snapshot for each commit of the scene. The tests only read it."""
    with tables.catalog() as made:
        tables.departures(made, TOTAL)
        yield made


def ledger(commits: int = TOTAL) -> Ledger:
    return Ledger([Commit("python-1", number, 5, 10.0) for number in range(commits)])


def report(folder: Path, catalog: Catalog, told: Ledger, found: list[tuple[str, int, int]], files: int = TOTAL) -> str:
    made = stage(folder, {"GROUP BY writer": found, ".files": [(files, TOTAL)]}, catalog)
    try:
        together._report(made, told, 1.0)
    finally:
        text = printed(made)
    return text


FOUND = [("python-1", number, 5) for number in range(TOTAL)]


def test_what_was_acknowledged_and_is_there_passes(tmp_path: Path, catalog: Catalog) -> None:
    text = report(tmp_path, catalog, ledger(), FOUND)
    assert f"all {TOTAL} commits were acknowledged" in text
    assert text.count("✓") == 4


@pytest.mark.parametrize(
    ("told", "found", "files", "claim"),
    [
        (ledger(TOTAL - 1), FOUND, TOTAL, "commits were acknowledged"),
        (ledger(), FOUND[1:], TOTAL, "every acknowledged commit is in the table"),
        (ledger(), [*FOUND[1:], ("python-1", 0, 10)], TOTAL, "every acknowledged commit is in the table"),
        (ledger(), [*FOUND, ("python-1", 99, 5)], TOTAL, "every acknowledged commit is in the table"),
        (ledger(), FOUND, TOTAL + 1, "data files is there once"),
    ],
)
def test_a_lost_a_doubled_or_an_unknown_commit_fails_the_demo(
    tmp_path: Path, catalog: Catalog, told: Ledger, found: list[tuple[str, int, int]], files: int, claim: str
) -> None:
    with pytest.raises(EngineError, match=claim):
        report(tmp_path, catalog, told, found, files)


def test_a_snapshot_too_few_in_the_history_fails_the_demo(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        tables.departures(catalog, TOTAL - 1)
        with pytest.raises(EngineError, match="history is one line"):
            report(tmp_path, catalog, ledger(), FOUND)


def scene(folder: Path, answers: dict[str, Any]) -> together._Scene:
    made = stage(folder, answers)
    progress = Progress(console=made.console, disable=True)
    return together._Scene(
        made, Ledger(), progress, (progress.add_task("a"), progress.add_task("b")), threading.Event()
    )


def test_a_spark_thread_notes_each_commit_with_the_rows_of_its_day(tmp_path: Path) -> None:
    played = scene(tmp_path, {})
    together._spark_thread(played, 2, {day: day * 10 for day in range(1, 32)})
    first = together.SPARK_BATCHES + 1
    noted = played.ledger.commits[0]
    assert (noted.writer, noted.batch, noted.rows) == ("spark-2", first, first * 10)
    assert len(statements(played.stage)) == together.SPARK_BATCHES


def test_a_failed_insert_is_counted_as_a_failure(tmp_path: Path) -> None:
    played = scene(tmp_path, {"INSERT": RuntimeError("conflict\nand a stack")})
    together._spark_thread(played, 1, dict.fromkeys(range(1, 32), 1))
    assert played.ledger.commits == []
    assert played.ledger.failures[0] == "spark-1, day 1: conflict"


def test_a_stopped_thread_begins_nothing(tmp_path: Path) -> None:
    played = scene(tmp_path, {})
    played.stopped.set()
    together._spark_thread(played, 1, {})
    assert statements(played.stage) == []


class FakeProcess:
    name = "python-1"
    log = Path("python-1.log")

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events

    def events(self) -> Any:
        return iter(self._events)


COMMIT = {"event": "commit", "batch": 1, "rows": 2, "milliseconds": 3.0}


def listened(folder: Path, *events: dict[str, Any]) -> Ledger:
    played = scene(folder, {})
    process: Any = FakeProcess(*events)
    together._listen(played, process)
    return played.ledger


def test_what_a_process_says_is_noted(tmp_path: Path) -> None:
    heard = listened(tmp_path, COMMIT, {"event": "failed", "batch": 2, "error": "no lock"}, {"event": "done"})
    assert heard.commits == [Commit("python-1", 1, 2, 3.0)]
    assert heard.failures == ["python-1, day 2: no lock"]


def test_a_process_that_ends_early_is_a_failure(tmp_path: Path) -> None:
    assert listened(tmp_path, COMMIT).failures == ["python-1 ended early; see python-1.log"]


def test_a_process_that_cannot_start_is_told_and_is_gone(tmp_path: Path) -> None:
    made = stage(tmp_path)
    (tmp_path / "logs").mkdir()
    made.metastore_uri, made.warehouse = "thrift://127.0.0.1:1", "file:/wh"
    with together._Process(made, 1) as process, pytest.raises(EngineError, match="did not start"):
        process.expect_ready()
    assert process._process.poll() is not None


def test_writers_that_do_not_finish_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    thread = threading.Thread(target=never.wait, daemon=True)
    thread.start()
    monkeypatch.setattr(together, "_PATIENCE", 0.0)
    with pytest.raises(EngineError, match="did not finish"):
        together._wait_for([thread], SYSTEM_CLOCK)
    never.set()
    thread.join()
