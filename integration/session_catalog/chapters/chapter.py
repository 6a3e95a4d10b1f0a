"""One chapter: statements in order, in text that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Begins a Python expression among the statements; `integration/session_catalog/frames.py` has its names.
PYTHON: Final = ">>> "


@dataclass(frozen=True)
class Chapter:
    """name: a word. about: one line for people. keeps: what plain Spark must read afterwards in each Hive table of the
    chapter's databases, rows as text; a table that is not named here must not be there.

    text: a statement a line; a line that begins with a space goes on with the one before. DB and OTHER stand for the
    chapter's databases, DIR for a location of its own, OUT for one that a server elsewhere does not allow.
    `@snapshot(t, 1)` and the like: `run.py`. A line that begins with `--` is a comment.
    """

    name: str
    about: str
    text: str
    keeps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def statements(self) -> list[str]:
        return list(_statements(self.text))


def _statements(text: str) -> Iterator[str]:
    parts: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("--"):
            continue
        if parts and not line.startswith(" "):
            yield " ".join(parts)
            parts = []
        parts.append(line.strip())
    if parts:
        yield " ".join(parts)
