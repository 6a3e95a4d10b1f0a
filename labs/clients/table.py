"""The tables in docs/engines.md, made of what the runs found.

`python -m labs.clients.table` takes over the results below build/ into `recorded/`, and writes the page anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from labs.clients import engines, results
from labs.clients.checks import GROUPS
from labs.clients.results import Result

DOCS: Final = Path(__file__).parent.parent.parent / "docs" / "engines.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"


def generate(found: Sequence[Result]) -> str:
    """The text between the markers, without them. found: of all engines, in the order of their columns."""
    columns = list(dict.fromkeys((each.engine, each.version) for each in found))
    by_key = {each.key: each for each in found}
    notes: dict[tuple[str, str], list[str]] = {}
    lines = ["| client | version | works | differs | refused |", "|---|---|---|---|---|"]
    for engine, version in columns:
        count = Counter(each.outcome for each in found if each.engine == engine)
        lines.append(f"| {engine} | {version} | {count['works']} | {count['differs']} | {count['refused']} |")
    names = [engine for engine, _ in columns]
    for heading, checks in GROUPS.items():
        lines += ["", f"### {heading}", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for check, asks in checks.items():
            cells = [_cell(by_key.get((engine, check)), notes) for engine in names]
            lines.append(f"| {check}{': ' + asks if asks else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", "### Notes", "", *_said(notes)])


def _cell(result: Result | None, notes: dict[tuple[str, str], list[str]]) -> str:
    """notes: check and note -> the clients that have it, in the order of their numbers."""
    if result is None:
        return ""
    if not result.note:
        return result.outcome
    notes.setdefault((result.check, result.note), []).append(result.engine)
    return f"{result.outcome} ({list(notes).index((result.check, result.note)) + 1})"


def _said(notes: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    for number, ((check, note), names) in enumerate(notes.items(), 1):
        yield f"{number}. *{check}*, {' and '.join(names)}: {note}"


def replaced(text: str, table: str) -> str:
    """A page with new tables. Raises ValueError if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    found: list[Result] = []
    for module in engines.MODULES:
        known = results.merged(results.read(module), results.read(module, results.FRESH))
        if known:
            results.write(module, known)
            found += known
    DOCS.write_text(replaced(DOCS.read_text(encoding="utf-8"), generate(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
