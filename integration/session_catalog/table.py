"""docs/session-catalog.md: its chapters and its differences from `type=hive`, as they are listed.

`python -m integration.session_catalog.table` writes the page anew.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from integration.session_catalog.chapters import CHAPTERS
from integration.session_catalog.differences import REASONS

DOCS: Final = Path(__file__).parent.parent.parent / "docs" / "session-catalog.md"
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"


def page(text: str) -> str:
    """The page with the tables of today."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n" + "\n".join(_tables()) + f"\n{END}{tail}"


def _tables() -> Iterator[str]:
    count = sum(len(chapter.statements) for chapter in CHAPTERS)
    differing = sum(len(reason.statements) for reason in REASONS)
    yield f"{count} statements in {len(CHAPTERS)} chapters; {differing} are answered otherwise than with `type=hive`."
    yield ""
    yield "| chapter | statements | answered otherwise |"
    yield "|---|---|---|"
    for chapter in CHAPTERS:
        mine = sum(name == chapter.name for reason in REASONS for name, _ in reason.statements)
        yield f"| {chapter.about} | {len(chapter.statements)} | {mine or ''} |"
    for reason in REASONS:
        yield ""
        yield f"### {reason.name}"
        yield ""
        yield textwrap.fill(reason.why, 120)
        yield ""
        yield "| statement | iceberg-hms | `type=hive` |"
        yield "|---|---|---|"
        for (_, statement), (ours, hive) in reason.statements.items():
            yield f"| {_code(statement)} | {_code(ours)} | {_code(hive)} |"


def _code(text: str) -> str:
    quote = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{quote}{space}{text}{space}{quote}".replace("|", "\\|")


if __name__ == "__main__":
    DOCS.write_text(page(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
