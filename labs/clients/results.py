"""What came of a check of one client, and the files that keep it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

Outcome = Literal["works", "differs", "refused"]

RECORDED: Final = Path(__file__).parent / "recorded"
FRESH: Final = Path(__file__).parent.parent.parent / "build" / "clients" / "results"


@dataclass(frozen=True)
class Verdict:
    """What a check found. note: the cause, with the place in the engine's source; empty if there is nothing to say."""

    outcome: Outcome
    note: str = ""


WORKS: Final = Verdict("works")


def works(note: str) -> Verdict:
    """It works, and there is a figure or a condition to tell."""
    return Verdict("works", note)


def differs(note: str) -> Verdict:
    """It does something else than other engines do."""
    return Verdict("differs", note)


def refused(note: str) -> Verdict:
    """The engine or the server refuses it with a clear error, and nothing changed."""
    return Verdict("refused", note)


@dataclass(frozen=True)
class Result:
    """One check of one client. engine: the client's name, such as "Trino, REST". version: the engine's."""

    engine: str
    version: str
    check: str
    outcome: Outcome
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.engine, self.check


def read(module: str, folder: Path = RECORDED) -> list[Result]:
    """The results of an engine's module; none if it has no file."""
    path = folder / f"{module}.json"
    return [Result(**each) for each in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def write(module: str, results: Iterable[Result], folder: Path = RECORDED) -> None:
    """One line a result, so that a difference is easy to read."""
    lines = [json.dumps(asdict(each)) for each in results]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """The old ones in their order, each replaced by a new one of the same client and check; then the other new ones."""
    return list({each.key: each for each in (*old, *new)}.values())


def changes(recorded: Iterable[Result], fresh: Iterable[Result]) -> list[str]:
    """In words, which outcomes are other ones than recorded. A check that has no record is no change."""
    known = {each.key: each for each in recorded}
    return [
        f"{each.engine}, {each.check}: {each.outcome} ({each.note}), recorded: {known[each.key].outcome}"
        for each in fresh
        if each.key in known and known[each.key].outcome != each.outcome
    ]
