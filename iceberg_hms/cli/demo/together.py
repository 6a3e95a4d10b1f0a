"""Scene 3: many writers commit to one table at the same time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import orjson
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.clock import Clock
from iceberg_hms.errors import EngineError

TABLE: Final = "nyc.departures"
SPARK_WRITERS: Final = 3
SPARK_BATCHES: Final = 3
PYTHON_WRITERS: Final = 4
PYTHON_BATCHES: Final = 6
#: Time limit of all writers together; seconds.
WRITERS_TIMEOUT: Final = 240.0
_END_SECONDS: Final = 5.0

_CREATE: Final = f"""\
CREATE TABLE {TABLE} (
  carrier STRING, flight INT, origin STRING, dest STRING, time_hour TIMESTAMP,
  dep_delay INT, distance INT, writer STRING, batch INT)
USING iceberg
TBLPROPERTIES ('iceberg-hms.rebase-appends' = 'all')"""


@dataclass(frozen=True, slots=True)
class Commit:
    """An acknowledged commit. rows: how many it added. milliseconds: how long its writer waited for the answer."""

    writer: str
    batch: int
    rows: int
    milliseconds: float


@dataclass(slots=True)
class Ledger:
    """The answers that all writers got, to which each thread appends."""

    commits: list[Commit] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Scene:
    stage: Stage
    ledger: Ledger
    progress: Progress
    bars: tuple[TaskID, TaskID]
    stopped: threading.Event


def write_together(stage: Stage) -> None:
    """Let Spark threads and Python processes append to one table at once, then compare the table with their answers."""
    stage.scene(
        3,
        "Many writers, one table, at the same time",
        f"{SPARK_WRITERS} Spark threads INSERT and {PYTHON_WRITERS} Python processes append Parquet files through the "
        "Python API, all to one table. Each commit takes the metastore's lock, loads the table again, and swaps the "
        "pointer. If another commit came first, iceberg-hms applies the change again to the table as it is now. "
        "Spark's INSERTs too, because the table sets iceberg-hms.rebase-appends=all: the server puts their snapshots "
        "on the newest one, and Spark need not retry.",
    )
    stage.run(_CREATE)
    stage.tell("Each Python process runs this:")
    stage.code(
        f'table = iceberg_hms.connect(...).load_table("{TABLE}")\ntable.append(["file:/.../python-1-01.parquet"])'
    )
    ledger = Ledger()
    started = stage.clock.monotonic()
    with ExitStack() as stack:
        with stage.step("Starting the Python processes"):
            processes = [stack.enter_context(WriterProcess(stage, number)) for number in range(1, PYTHON_WRITERS + 1)]
            for process in processes:
                process.expect_ready()
        started = stage.clock.monotonic()
        _write(stage, ledger, processes)
    report(stage, ledger, stage.clock.monotonic() - started)


def _write(stage: Stage, ledger: Ledger, processes: Sequence[WriterProcess]) -> None:
    days = {
        row[0]: row[1] for row in stage.rows("SELECT day, count(*) FROM nyc.flights_hive WHERE month = 1 GROUP BY day")
    }
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stage.console) as progress:
        bars = (
            progress.add_task("commits by Spark threads", total=SPARK_WRITERS * SPARK_BATCHES),
            progress.add_task("commits by Python processes", total=PYTHON_WRITERS * PYTHON_BATCHES),
        )
        scene = Scene(stage, ledger, progress, bars, threading.Event())
        threads = [threading.Thread(target=record_answers, args=(scene, process), daemon=True) for process in processes]
        for number in range(1, SPARK_WRITERS + 1):
            threads.append(threading.Thread(target=insert_batches, args=(scene, number, days), daemon=True))
        try:
            for process in processes:
                process.go()
            for thread in threads:
                thread.start()
            wait_for(threads, stage.clock)
        finally:
            # After an interrupt each writer finishes its commit in flight, or ends with the servers.
            scene.stopped.set()
            for process in processes:
                process.release()


def wait_for(threads: Sequence[threading.Thread], clock: Clock, timeout: float = WRITERS_TIMEOUT) -> None:
    """Join all threads. Raises EngineError if one still runs after `timeout` seconds."""
    deadline = clock.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - clock.monotonic()))
        if thread.is_alive():
            raise EngineError(f"The writers did not finish in {timeout:.0f} s", next_step="read the logs of the demo")


def insert_batches(scene: Scene, number: int, days: dict[int, int]) -> None:
    """INSERT the flights of one day per commit; each thread has its own days."""
    writer = f"spark-{number}"
    clock: Clock = scene.stage.clock
    for batch in range(1, SPARK_BATCHES + 1):
        if scene.stopped.is_set():
            return
        day = (number - 1) * SPARK_BATCHES + batch
        started = clock.monotonic()
        try:
            scene.stage.spark.sql(
                f"INSERT INTO {TABLE} SELECT carrier, flight, origin, dest, time_hour, dep_delay, distance, "  # noqa: S608
                f"'{writer}', {day} FROM nyc.flights_hive WHERE month = 1 AND day = {day}"
            ).collect()
        except Exception as error:  # noqa: BLE001 - py4j and Spark raise many types; the ledger keeps any
            scene.ledger.failures.append(f"{writer}, day {day}: {_first_line(error)}")
        else:
            scene.ledger.commits.append(Commit(writer, day, days[day], (clock.monotonic() - started) * 1000))
        scene.progress.advance(scene.bars[0])


def record_answers(scene: Scene, process: WriterProcess) -> None:
    """Record the answers that a Python process reports, until it reports `done`."""
    for event in process.events():
        if event["event"] == "done":
            return
        if event["event"] == "commit":
            scene.ledger.commits.append(Commit(process.name, event["batch"], event["rows"], event["milliseconds"]))
        else:
            scene.ledger.failures.append(f"{process.name}, day {event.get('batch')}: {event.get('error')}")
        scene.progress.advance(scene.bars[1])
    if not scene.stopped.is_set():
        scene.ledger.failures.append(f"{process.name} ended early; see {process.log}")


class WriterProcess:
    """One `writer` process. It reports on one pipe, and ends when the other pipe closes."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.name = f"python-{number}"
        self.log: Path = stage.folder.logs / f"{self.name}.log"
        hive = stage.folder.warehouse / "nyc.db" / "flights_hive"
        options = {
            "metastore-uri": stage.metastore_uri,
            "warehouse": stage.warehouse,
            "table": TABLE,
            "name": self.name,
            "source": str(hive),
            "month": str(number + 1),
            "batches": str(PYTHON_BATCHES),
        }
        command = [sys.executable, "-m", "iceberg_hms.cli.demo.writer"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C signals the terminal's whole process group: the demo alone decides when its writers end.
                process_group=0,
            )

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._output.close()

    @property
    def _output(self) -> IO[bytes]:
        if self._process.stdout is None:
            raise EngineError(f"{self.name} has no output")
        return self._process.stdout

    def events(self) -> Iterator[dict[str, Any]]:
        """Its messages, one a line, until it ends."""
        for line in self._output:
            yield orjson.loads(line)

    def expect_ready(self) -> None:
        """Wait until the process has loaded the table. Raises EngineError if it ends instead."""
        message: dict[str, Any] = next(self.events(), {})
        if message.get("event") != "ready":
            raise EngineError(
                f"The Python process {self.name} did not start: {message.get('error', 'it wrote nothing')}",
                next_step=f"read {self.log}",
            )

    def go(self) -> None:
        """Tell the process to begin."""
        if self._process.stdin is not None:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def release(self) -> None:
        """Close its standard input: the process finishes its commit in flight and ends."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def end(self) -> int:
        """Wait until the process ends, and kill it if it does not; returns its exit code."""
        self.release()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def report(stage: Stage, ledger: Ledger, seconds: float) -> None:
    """Show the answers and check the table against them. Raises EngineError if a commit is lost, doubled or unknown."""
    names = sorted({commit.writer for commit in ledger.commits})
    by_writer = {name: [commit for commit in ledger.commits if commit.writer == name] for name in names}
    stage.table(
        "The answers that the writers got",
        ["writer", "commits acknowledged", "rows", "mean ms", "longest ms"],
        [
            [
                name,
                len(commits),
                sum(commit.rows for commit in commits),
                round(sum(commit.milliseconds for commit in commits) / len(commits)),
                round(max(commit.milliseconds for commit in commits)),
            ]
            for name, commits in by_writer.items()
        ],
    )
    for failure in ledger.failures:
        stage.tell(failure, style="red")
    acknowledged = {(commit.writer, commit.batch): commit.rows for commit in ledger.commits}
    found = stage.rows(f"SELECT writer, batch, count(*) FROM {TABLE} GROUP BY writer, batch")  # noqa: S608
    metadata = stage.catalog.load(TABLE).metadata
    chain = [snapshot.snapshot_id for snapshot in metadata.ancestors(metadata.current_snapshot_id or 0)]
    files = stage.rows(f"SELECT count(*), count(DISTINCT file_path) FROM {TABLE}.files")[0]  # noqa: S608
    total = SPARK_WRITERS * SPARK_BATCHES + PYTHON_WRITERS * PYTHON_BATCHES
    stage.check(f"all {total} commits were acknowledged in {seconds:.1f} s, none failed", len(ledger.commits) == total)
    stage.check(
        "every acknowledged commit is in the table with all its rows, and nothing else is",
        {(writer, batch): rows for writer, batch, rows in found} == acknowledged,
    )
    stage.check(f"the history is one line of {len(chain)} snapshots, one for each commit", len(set(chain)) == total)
    stage.check(f"the table names each of its {files[1]} data files once", files[0] == files[1])


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
