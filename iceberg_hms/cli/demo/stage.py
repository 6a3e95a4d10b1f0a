"""What the scenes of the demo share: its folder, the servers that run, and how it prints for a person."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from iceberg_hms.cli import output
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from iceberg_hms.catalog.catalog import Catalog

#: The demo created a folder that holds this file, and may empty it.
MARKER: Final = ".iceberg-hms-demo"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder that `demo_folder` made."""

    path: Path

    @property
    def logs(self) -> Path:
        """Folder for the logs of the servers, of Spark and of the libraries."""
        return self.path / "logs"

    @property
    def warehouse(self) -> Path:
        """The warehouse that Hive, Spark and iceberg-hms share."""
        return self.path / "warehouse"


@contextlib.contextmanager
def demo_folder(path: Path) -> Iterator[DemoFolder]:
    """The folder `path`, created or emptied, and locked within the block. It never holds other data.

    Raises ConfigError if the folder holds something else or another demo runs in it, and EngineError if it cannot be
    created.
    """
    folder = DemoFolder(path.expanduser().absolute())
    with contextlib.ExitStack() as stack:
        try:
            _lock(folder.path, stack)
            _empty(folder.path)
            folder.logs.mkdir()
        except OSError as error:
            raise EngineError(
                f"Cannot create the folder {folder.path}: {error.strerror}", next_step="name another with --dir"
            ) from error
        yield folder


def _lock(path: Path, stack: contextlib.ExitStack) -> None:
    """Create the folder and lock it until the stack ends."""
    path.mkdir(parents=True, exist_ok=True)
    marker = path / MARKER
    if not marker.exists() and any(path.iterdir()):
        raise ConfigError(
            f"The folder {path} is not empty, and the demo did not create it", next_step="name another with --dir"
        )
    lock = os.open(marker, os.O_RDWR | os.O_CREAT, 0o644)
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(
            f"Another demo runs in {path}", next_step="wait until it ends, or name another folder with --dir"
        ) from error


def _empty(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


_INDENT: Final = 2
#: Wider lines are hard to read, however wide the terminal is.
_WIDTH_MAX: Final = 132


def console() -> Console:
    """Standard output, at most as wide as a person reads with ease."""
    stdout = output.console()
    stdout.width = min(stdout.width, _WIDTH_MAX)
    return stdout


@dataclass
class Stage:
    """The state that each scene hands on to the next, and the ways to print.

    metastore_uri, warehouse: of the demo's metastore. `spark` and `catalog` raise EngineError until scene 1 sets them.
    """

    folder: DemoFolder
    console: Console = field(default_factory=console)
    clock: Clock = SYSTEM_CLOCK
    metastore_uri: str = ""
    warehouse: str = ""
    session: SparkSession | None = None
    opened: Catalog | None = None

    @property
    def spark(self) -> SparkSession:
        if self.session is None:
            raise EngineError("The Spark session has not started yet")
        return self.session

    @property
    def catalog(self) -> Catalog:
        if self.opened is None:
            raise EngineError("The catalog is not open yet")
        return self.opened

    def scene(self, number: int, title: str, about: str) -> None:
        """A heading, and one paragraph on what the scene shows."""
        heading = Text(f"{number}. {title}", style="bold cyan")
        self.console.print()
        self.console.print(Panel(Group(heading, Text(about)), border_style="cyan", padding=(0, 1)))

    def tell(self, text: str, *, style: str = "") -> None:
        """A line of explanation."""
        self._print(Text(text, style=style))

    def code(self, text: str) -> None:
        """Code that a reader could type, as it runs."""
        self._print(Text(text, style="green"))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Rows for people."""
        self.show(output.table(title, columns, rows))

    def records(self, title: str, rows: Iterable[Mapping[str, Any]], columns: output.Columns) -> None:
        """Records for people."""
        self.show(output.records(title, rows, columns))

    def show(self, renderable: Table) -> None:
        """A finished table, with empty lines around it."""
        self.console.print()
        self._print(renderable)
        self.console.print()

    def check(self, claim: str, holds: bool) -> None:
        """Print a claim of the demo. Raises EngineError, which ends the demo, if it does not hold."""
        if not holds:
            raise EngineError(f"The demo failed a check: it is not true that {claim}")
        self._print(Text.assemble(("✓ ", "bold green"), claim))

    @contextlib.contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Show a spinner on a terminal while the block runs, then print a line with its duration."""
        started = self.clock.monotonic()
        with self.console.status(Text(f"{doing} ..."), spinner="dots"):
            yield
        self._print(Text(f"{doing} ({self.clock.monotonic() - started:.1f} s)", style="dim"))

    def run(self, statement: str, doing: str = "") -> None:
        """Show a SQL statement and run it. doing: describes a slow statement; its duration is printed too."""
        self.code(statement + ";")
        with self.step(doing) if doing else self.console.status(Text("running ...")):
            self.spark.sql(statement).collect()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Show a SQL query and its rows; returns them."""
        self.code(statement + ";")
        with self.console.status(Text("running ...")):
            frame = self.spark.sql(statement)
            rows = [tuple(row) for row in frame.collect()]
        self.table("", frame.columns, [[_readable(value) for value in row] for row in rows])
        return rows

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a query without showing it; returns its rows."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def value(self, statement: str) -> Any:
        """Run a query without showing it; returns its only value."""
        return self.rows(statement)[0][0]

    def _print(self, renderable: Table | Text) -> None:
        self.console.print(Padding(renderable, (0, 0, 0, _INDENT), expand=False))


def _readable(value: Any) -> Any:
    """Round floats to two digits, print booleans as words, rows by their fields and lists on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if hasattr(value, "asDict"):
        return ", ".join(f"{key}={part}" for key, part in value.asDict().items())
    return value
