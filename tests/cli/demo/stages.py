"""A stage without servers: Spark answers from a script, and what is printed is kept."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from iceberg_hms.cli.demo.stage import DemoFolder, Stage

Rows = Sequence[tuple[Any, ...]]


class Frame:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.columns = [f"c{number}" for number in range(len(rows[0]) if rows else 0)]

    def collect(self) -> Rows:
        return self.rows


class Reader:
    """spark.read, as far as the demo chains it."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self


class Views:
    def __init__(self) -> None:
        self.dropped: list[str] = []

    def dropTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.dropped.append(name)


class ScriptedSpark:
    """Answers a statement with the rows of the first key that is part of it; with none otherwise."""

    def __init__(self, answers: Mapping[str, Rows | Exception]) -> None:
        self.answers = answers
        self.statements: list[str] = []
        self.read = Reader()
        self.catalog = Views()

    def sql(self, statement: str) -> Frame:
        self.statements.append(statement)
        for part, answer in self.answers.items():
            if part in statement:
                if isinstance(answer, Exception):
                    raise answer
                return Frame(answer)
        return Frame([])


def stage(folder: Path, answers: Mapping[str, Rows | Exception] | None = None, catalog: Any = None) -> Stage:
    """A stage whose console writes into memory; `printed` reads it."""
    console = Console(file=io.StringIO(), width=132, markup=False, highlight=False)
    spark: Any = ScriptedSpark(answers or {})
    return Stage(DemoFolder(folder), console=console, session=spark, opened=catalog)


def printed(on: Stage) -> str:
    assert isinstance(on.console.file, io.StringIO)
    return on.console.file.getvalue()


def statements(on: Stage) -> list[str]:
    spark: Any = on.session
    return list(spark.statements)
