"""The bar of a migration: drawn where somebody looks."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from iceberg_hms.migration.progress_bar import progress_bar


def drawn(total: int | None, *, terminal: bool = True, shown: bool = True, done: int = 3) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, color_system=None, legacy_windows=False)
    with progress_bar("Describing", total, shown=shown, console=console) as advance:
        for _ in range(done):
            advance(1_000)
    return text.getvalue()


def test_a_bar_says_what_is_done_how_much_of_how_much_and_how_fast() -> None:
    text = drawn(4_000)
    assert "Describing" in text
    assert "3000/4000" in text
    assert "files/s" in text


def test_a_bar_without_a_known_total_counts() -> None:
    assert "3000/?" in drawn(None)


@pytest.mark.parametrize(("terminal", "shown"), [(False, True), (True, False)])
def test_nothing_is_drawn_where_nobody_looks_or_wants_it(terminal: bool, shown: bool) -> None:
    assert drawn(4_000, terminal=terminal, shown=shown).strip() == ""


def test_an_error_of_the_block_goes_through() -> None:
    with pytest.raises(ValueError, match="no"), progress_bar("Listing", None, shown=False):
        raise ValueError("no")
