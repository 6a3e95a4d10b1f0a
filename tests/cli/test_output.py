"""How values look."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from iceberg_hms.cli import output


def shown(renderable: object, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)
    console.print(renderable)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (2**70, "1048576.0 PiB"), (None, None)],
)
def test_sizes_have_units(number: int | None, text: str | None) -> None:
    assert output.size(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "yes"), (False, "no"), (7, "7"), ({"a": 1, "b": None}, "a=1\nb="), (["x", "y"], "x\ny")],
)
def test_cells_are_readable(value: object, text: str) -> None:
    assert output.cell(value) == text


def test_names_are_data_and_neither_markup_nor_orders_to_the_terminal() -> None:
    text = shown(output.table("[red]t[/red]", ("c",), [["[bold]x[/bold]"], ["a\x1b[2Jb"], [":smile:"]]))
    assert "[red]t[/red]" in text
    assert "[bold]x[/bold]" in text
    assert "a\\x1b[2Jb" in text
    assert ":smile:" in text
    assert "\x1b" not in text


def test_long_values_are_folded_and_never_cut() -> None:
    text = shown(output.table("", ("c", "d"), [["x" * 100, "y"]]), width=40)
    assert text.count("x") == 100
    assert "…" not in text


def test_numbers_are_put_to_the_right() -> None:
    lines = shown(output.table("", ("n",), [[1], [1000], [None]])).splitlines()
    assert any(line.rstrip().endswith("   1") for line in lines)


def test_a_table_without_rows_still_has_its_columns() -> None:
    assert "snapshot" in shown(output.table("t", ("snapshot",), []))


def test_facts_are_names_and_values() -> None:
    assert shown(output.facts("Facts", {"uuid": "u", "none": None})).splitlines()[1].split() == ["uuid", "u"]


def test_json_is_one_document_and_an_event_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a": [1, {"ü": None}]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, {"ü": None}]}
    output.print_event("listening", uri="http://127.0.0.1:1", text="a\nb")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"event": "listening", "uri": "http://127.0.0.1:1", "text": "a\nb"}


def test_notes_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("starting")
    assert capsys.readouterr() == ("", "starting\n")


def test_without_a_terminal_the_console_is_wide(capsys: pytest.CaptureFixture[str]) -> None:
    output.console().print("x" * output.PIPE_WIDTH)
    assert capsys.readouterr().out == "x" * output.PIPE_WIDTH + "\n"
