"""What commands print: tables for people, JSON for programs. Results go to stdout, all else to stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Width when stdout is no terminal: wide enough for long values, and a person can still read the lines in a log.
PIPE_WIDTH = 200
#: Heading -> the field of a record, or what makes the cell of a record.
Columns = Mapping[str, str | Callable[[Any], object]]
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def console() -> Console:
    """Stdout for people. Text is printed as it is: names and values are data, never markup."""
    plain = Console(markup=False, highlight=False, emoji=False)
    if not plain.is_terminal:
        return Console(markup=False, highlight=False, emoji=False, width=PIPE_WIDTH)
    return plain


def print_json(value: object) -> None:
    """One JSON document, indented."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())


def print_event(event: str, **values: object) -> None:
    """Print one JSON line and flush it, for the program that started this one."""
    typer.echo(orjson.dumps({"event": event, **values}).decode())


def note(text: str) -> None:
    """A line for people on stderr."""
    typer.echo(text, err=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table for people: aligns numbers to the right, folds long values and never cuts them."""
    rows = [list(row) for row in rows]
    built = Table(title=printable(title), title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        values = [row[index] for row in rows if row[index] is not None]
        numbers = bool(values) and all(isinstance(value, int | float) for value in values)
        built.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        built.add_row(*(Text(cell(value)) for value in row))
    return built


def records(title: str, rows: Iterable[Mapping[str, Any]], columns: Columns) -> Table:
    """A table of records, one a line."""
    cells = [[row[made] if isinstance(made, str) else made(row) for made in columns.values()] for row in rows]
    return table(title, list(columns), cells)


def facts(title: str, values: Mapping[str, object]) -> Table:
    """A table of names and values, without a heading."""
    built = Table(title=printable(title), title_justify="left", title_style="bold", show_header=False, box=None)
    built.add_column(style="dim", no_wrap=True)
    built.add_column(overflow="fold")
    for name, value in values.items():
        built.add_row(name, Text(cell(value)))
    return built


def cell(value: Any) -> str:
    """A value as text for people; None is an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "\n".join(f"{printable(str(key))}={cell(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "\n".join(cell(part) for part in value)
    return printable(str(value))


def printable(text: str) -> str:
    """Text in which escapes replace the control characters, which a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def size(number_of_bytes: int | None) -> str | None:
    """Bytes as `1.5 MiB`."""
    if number_of_bytes is None:
        return None
    value = float(number_of_bytes)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{number_of_bytes} B" if unit == "B" else f"{value:.1f} {unit}"
