"""Which verbs look the same on the wire: the committed file `cells.json`.

A cell has the name of its strictest verb, which stands for all of them beside other cells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.matrix.rows import BLIND, SERIALIZABLE
from labs.matrix.verb import Verb

FILE = Path(__file__).parent / "cells.json"

Shape = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """verbs: all that send it, the strictest first. sends: the shapes of their commits."""

    verbs: tuple[str, ...]
    sends: Sequence[Shape]

    @property
    def name(self) -> str:
        return self.verbs[0]

    def blind(self, verbs: Mapping[str, Verb]) -> str | None:
        """The first verb whose client validates nothing, where there is a stricter one: the wire does not tell which of
        them it was, but they end differently."""
        known = [name for name in self.verbs if name in verbs]
        blind = [name for name in known if verbs[name].meaning.promise == BLIND]
        return blind[0] if blind and blind[0] != known[0] else None

    @property
    def appends(self) -> bool:
        """Whether some commit of it might be taken for an append."""
        return any(snapshot.get("operation") == "append" for each in self.sends for snapshot in each["snapshots"])


def read(path: Path = FILE) -> list[Cell]:
    cells = json.loads(path.read_text(encoding="utf-8"))
    return [Cell(tuple(cell["verbs"]), cell["sends"]) for cell in cells]


def write(cells: Sequence[Cell], path: Path = FILE) -> None:
    path.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n", encoding="utf-8")


def group(captured: Mapping[str, Sequence[Shape]], verbs: Mapping[str, Verb]) -> list[Cell]:
    """Cells of what each verb sent. A verb that sent nothing has none."""
    by_shape: dict[str, list[str]] = {}
    for name, sends in captured.items():
        if sends:
            by_shape.setdefault(json.dumps(sends, sort_keys=True), []).append(name)

    def strictest_first(name: str) -> bool:
        verb = verbs.get(name)
        return verb is None or verb.meaning.promise != SERIALIZABLE

    return [Cell(tuple(sorted(names, key=strictest_first)), json.loads(text)) for text, names in by_shape.items()]


def cell_of(cells: Sequence[Cell], verb: str) -> Cell | None:
    return next((cell for cell in cells if verb in cell.verbs), None)
