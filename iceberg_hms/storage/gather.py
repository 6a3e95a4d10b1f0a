"""How stores run functions in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Runs functions in parallel, as `Runtime.gather` does.
Gather = Callable[[Sequence[Callable[[], None]]], object]


def run_sequentially(functions: Sequence[Callable[[], None]]) -> None:
    """A `Gather` without threads."""
    for function in functions:
        function()
