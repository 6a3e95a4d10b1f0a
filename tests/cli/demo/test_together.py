"""Scene 3 trusts no writer: it compares the acknowledged commits with the table."""

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
from tests.cli.demo.stages import printed, stage, statements

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
        together.report(made, told, 1.0)
    finally:
        text = printed(made)
    return text


FOUND = [("python-1", number, 5) for number in range(TOTAL)]


def test_a_table_with_exactly_the_acknowledged_commits_passes(tmp_path: Path, catalog: Catalog) -> None:
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
        (ledger(), FOUND, TOTAL + 1, "names each of its"),
    ],
)
def test_a_lost_a_doubled_or_an_unknown_commit_fails_the_demo(
    tmp_path: Path, catalog: Catalog, told: Ledger, found: list[tuple[str, int, int]], files: int, claim: str
) -> None:
    with pytest.raises(EngineError, match=claim):
        report(tmp_path, catalog, told, found, files)


def test_a_snapshot_that_is_missing_from_the_history_fails_the_demo(tmp_path: Path) -> None:
    with tables.catalog() as catalog:
        tables.departures(catalog, TOTAL - 1)
        with pytest.raises(EngineError, match="history is one line"):
            report(tmp_path, catalog, ledger(), FOUND)


def scene(folder: Path, answers: dict[str, Any]) -> together.Scene:
    made = stage(folder, answers)
    progress = Progress(console=made.console, disable=True)
    return together.Scene(made, Ledger(), progress, (progress.add_task("a"), progress.add_task("b")), threading.Event())


def test_a_spark_thread_records_each_commit_with_the_rows_of_its_day(tmp_path: Path) -> None:
    played = scene(tmp_path, {})
    together.insert_batches(played, 2, {day: day * 10 for day in range(1, 32)})
    first = together.SPARK_BATCHES + 1
    noted = played.ledger.commits[0]
    assert (noted.writer, noted.batch, noted.rows) == ("spark-2", first, first * 10)
    assert len(statements(played.stage)) == together.SPARK_BATCHES


def test_a_failed_insert_is_counted_as_a_failure(tmp_path: Path) -> None:
    played = scene(tmp_path, {"INSERT": RuntimeError("conflict\nand a stack")})
    together.insert_batches(played, 1, dict.fromkeys(range(1, 32), 1))
    assert played.ledger.commits == []
    assert played.ledger.failures[0] == "spark-1, day 1: conflict"


def test_a_stopped_thread_begins_nothing(tmp_path: Path) -> None:
    played = scene(tmp_path, {})
    played.stopped.set()
    together.insert_batches(played, 1, {})
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
    together.record_answers(played, process)
    return played.ledger


def test_the_answers_of_a_process_are_recorded(tmp_path: Path) -> None:
    heard = listened(tmp_path, COMMIT, {"event": "failed", "batch": 2, "error": "no lock"}, {"event": "done"})
    assert heard.commits == [Commit("python-1", 1, 2, 3.0)]
    assert heard.failures == ["python-1, day 2: no lock"]


def test_a_process_that_ends_early_is_a_failure(tmp_path: Path) -> None:
    assert listened(tmp_path, COMMIT).failures == ["python-1 ended early; see python-1.log"]


def test_a_process_that_cannot_start_fails_the_demo_and_ends(tmp_path: Path) -> None:
    made = stage(tmp_path)
    (tmp_path / "logs").mkdir()
    made.metastore_uri, made.warehouse = "thrift://127.0.0.1:1", "file:/wh"
    with together.WriterProcess(made, 1) as process, pytest.raises(EngineError, match="did not start"):
        process.expect_ready()
    assert process.end() == 1


def test_the_demo_fails_when_writers_do_not_finish_in_time() -> None:
    never = threading.Event()
    thread = threading.Thread(target=never.wait, daemon=True)
    thread.start()
    with pytest.raises(EngineError, match="did not finish"):
        together.wait_for([thread], SYSTEM_CLOCK, timeout=0.0)
    never.set()
    thread.join()
