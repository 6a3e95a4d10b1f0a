"""The result of each pair of cells: the committed file `results.json`, and how the docs describe it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).parent / "results.json"


@dataclass(frozen=True, order=True)
class Result:
    """One ordered pair in one mode. first, second: verbs. happened: to the second one, see `pairs.Outcome.second`.

    anomaly: what is wrong with the rows; None if they are right.
    """

    mode: str
    first: str
    second: str
    happened: str
    anomaly: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.mode, self.first, self.second


def read(path: Path = FILE) -> list[Result]:
    if not path.exists():
        return []
    return [Result(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def write(results: Iterable[Result], path: Path = FILE) -> None:
    """One line a result, sorted, so that a difference is easy to read."""
    lines = [json.dumps({k: v for k, v in asdict(each).items() if v is not None}) for each in sorted_(results)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """The new ones, and the old ones that they do not replace."""
    found: Mapping[tuple[str, str, str], Result] = {each.key: each for each in (*old, *new)}
    return list(found.values())


def sorted_(results: Iterable[Result]) -> list[Result]:
    return sorted(results, key=lambda each: each.key)
