"""The progress of a migration on a terminal or in a notebook: files, files a second, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Advance(Protocol):
    """Says that so many more files are done."""

    def __call__(self, files: int) -> None: ...


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} files/s")


@contextmanager
def progress_bar(
    what: str, total: int | None, *, shown: bool = True, console: Console | None = None
) -> Iterator[Advance]:
    """A bar while the block runs. total: files; None: not known yet. Where nobody looks (no terminal, no notebook)
    nothing is drawn."""
    drawn = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn())
    is_watched = shown and (drawn.is_terminal or drawn.is_jupyter)
    with Progress(*columns, console=drawn, disable=not is_watched, transient=False) as progress:
        task = progress.add_task(what, total=total)

        def advance(files: int) -> None:
            progress.advance(task, files)

        yield advance
