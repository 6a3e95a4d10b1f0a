"""What the scenes share: the servers that run, and how things are told to a person."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from iceberg_hms.cli import output
from iceberg_hms.cli.demo.folder import DemoFolder
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from iceberg_hms.catalog.catalog import Catalog

_INDENT: Final = 2
#: Wider lines are hard to read, however wide the terminal is.
_WIDTH_MAX: Final = 132


def console() -> Console:
    """Stdout, no wider than a person reads."""
    made = output.console()
    made.width = min(made.width, _WIDTH_MAX)
    return made


@dataclass
class Stage:
    """Where a scene plays: it is handed on from scene to scene.

    metastore_uri, warehouse: of the metastore that runs. `spark` and `catalog` raise until the first scene set them.
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
            raise EngineError("The Spark session is not there yet")
        return self.session

    @property
    def catalog(self) -> Catalog:
        if self.opened is None:
            raise EngineError("The catalog is not open yet")
        return self.opened

    def scene(self, number: int, title: str, about: str) -> None:
        """A heading, and in one paragraph what is to be seen."""
        heading = Text(f"{number}. {title}", style="bold cyan")
        self.console.print()
        self.console.print(Panel(Group(heading, Text(about)), border_style="cyan", padding=(0, 1)))

    def tell(self, text: str, *, style: str = "") -> None:
        """A line of explanation."""
        self._print(Text(text, style=style))

    def code(self, text: str) -> None:
        """Code that a reader could type: shown as it is run."""
        self._print(Text(text, style="green"))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Rows for people."""
        self.show(output.table(title, columns, rows))

    def show(self, renderable: Table) -> None:
        """A table that is built already, with air around it."""
        self.console.print()
        self._print(renderable)
        self.console.print()

    def check(self, claim: str, holds: bool) -> None:
        """Something that the demo promises. Raises EngineError if it does not hold: the demo then failed."""
        if not holds:
            raise EngineError(f"The demo saw something that should not be: not true that {claim}")
        self._print(Text.assemble(("✓ ", "bold green"), claim))

    @contextlib.contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Something that takes a while: a spinner on a terminal, and in any case a line with its time at the end."""
        started = self.clock.monotonic()
        with self.console.status(Text(f"{doing} ..."), spinner="dots"):
            yield
        self._print(Text(f"{doing} ({self.clock.monotonic() - started:.1f} s)", style="dim"))

    def run(self, statement: str, doing: str = "") -> None:
        """Show a SQL statement and run it. doing: what takes a while, for the line with its time."""
        self.code(statement + ";")
        with self.step(doing) if doing else self.console.status(Text("running ...")):
            self.spark.sql(statement).collect()

    def query(self, statement: str, title: str = "") -> list[tuple[Any, ...]]:
        """Show a SQL query and its rows; returns them."""
        self.code(statement + ";")
        with self.console.status(Text("running ...")):
            frame = self.spark.sql(statement)
            rows = [tuple(row) for row in frame.collect()]
        self.table(title, frame.columns, [[_readable(value) for value in row] for row in rows])
        return rows

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query that is not shown."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def value(self, statement: str) -> Any:
        """The only value of a query that is not shown."""
        return self.rows(statement)[0][0]

    def _print(self, renderable: Table | Text) -> None:
        self.console.print(Padding(renderable, (0, 0, 0, _INDENT), expand=False))


def _readable(value: Any) -> Any:
    """Floats with two digits, truth as words, rows as their parts, lists on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if hasattr(value, "asDict"):
        return ", ".join(f"{key}={part}" for key, part in value.asDict().items())
    return value
