"""The expected outcomes, as cells; and docs/outcomes.md, made of them.

`python -m tests.outcomes.table` writes the page anew.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
DATA: Final = Path(__file__).parent / "outcomes.toml"
DOCS: Final = ROOT / "docs" / "outcomes.md"
BEGIN, END = "<!-- outcomes: begin -->", "<!-- outcomes: end -->"
ISOLATIONS: Final = ("serializable", "snapshot")
#: What Java leaves where it replays what we refuse.
JAVA_LEAVES: Final = {
    "twice": "Java replays it, and the rows are there twice",
    "back": "Java replays it, and the deleted row is back",
    "unreadable": "Java replays it, and can no longer plan a scan",
}
KINDS: Final = {
    "data": "Rows and files",
    "evolution": "Schema, layout, properties",
    "refs": "Branches, tags, snapshots",
}


@dataclass(frozen=True, order=True)
class Cell:
    """One case. isolation: None for operations that take none."""

    in_flight: str
    landed: str
    relation: str
    isolation: str | None = None

    def __str__(self) -> str:
        isolation = f"-{self.isolation}" if self.isolation else ""
        return f"{self.in_flight}{isolation}-after-{self.landed}-{self.relation}"


@dataclass(frozen=True)
class Refusal:
    """Why cells are refused. by: the names of the assumptions, one of which the error has. follows: Java's method, or
    the section of the specification. java: a key of `JAVA_LEAVES`, where Java replays what we refuse."""

    by: tuple[str, ...]
    why: str
    follows: str
    java: str | None = None


@dataclass(frozen=True)
class Expected:
    """An operation that nobody overtakes. name: of its case in `alone.py`. does: what it does to which table. by: the
    assumption that refuses it, or InvalidInput; None: it is made. java: what Java does instead; None: the same."""

    name: str
    does: str
    why: str
    follows: str
    by: str | None = None
    java: str | None = None


@dataclass(frozen=True)
class Outcomes:
    """operations, relations: as in the data file. refused: the cells that are; all others are replayed. alone: the
    operations that nobody overtakes."""

    operations: Mapping[str, Mapping[str, Any]]
    relations: Mapping[str, str]
    cells: tuple[Cell, ...]
    refused: Mapping[Cell, Refusal]
    alone: tuple[Expected, ...]


@cache
def read() -> Outcomes:
    """The data file. Raises ValueError for a pair or a refused cell that is named twice or not at all."""
    raw = tomllib.loads(DATA.read_text(encoding="utf-8"))
    operations, relations = raw["operations"], raw["relations"]
    domain: dict[tuple[str, str], Sequence[str]] = {}
    for rule in raw["pairs"]:
        for pair in _pairs(rule):
            if pair in domain:
                raise ValueError(f"{pair} is named twice")
            if not relations.keys() >= set(rule["relations"]):
                raise ValueError(f"{pair} has an unknown relation")
            domain[pair] = rule["relations"]
    every = {(one, other) for one in operations for other in operations}
    if domain.keys() != every:
        raise ValueError(f"no relations of {sorted(every - domain.keys())}; unknown {sorted(domain.keys() - every)}")
    order = sorted(domain, key=lambda pair: [list(operations).index(name) for name in pair])
    cells = tuple(
        Cell(*pair, relation, isolation)
        for pair in order
        for isolation in (ISOLATIONS if operations[pair[0]].get("isolation") else (None,))
        for relation in domain[pair]
    )
    refused = _refused(raw["refused"], operations, domain)
    return Outcomes(operations, relations, cells, refused, tuple(Expected(**each) for each in raw["alone"]))


def _pairs(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((one, other) for one in rule["in_flight"] for other in rule["landed"])


def _refused(
    rules: Sequence[Mapping[str, Any]],
    operations: Mapping[str, Mapping[str, Any]],
    domain: Mapping[tuple[str, str], Sequence[str]],
) -> dict[Cell, Refusal]:
    """A rule may name a relation that some of its pairs cannot have, not one that none of them has."""
    found: dict[Cell, Refusal] = {}
    for rule in rules:
        refusal = Refusal(tuple(rule["by"]), rule["why"], rule["follows"], rule.get("java"))
        unused = set(rule["relations"])
        for pair in _pairs(rule):
            known = ISOLATIONS if operations[pair[0]].get("isolation") else (None,)
            levels = [each for each in known if each is None or rule.get("isolation") in (None, each)]
            for relation in rule["relations"]:
                if relation not in domain[pair]:
                    continue
                unused.discard(relation)
                for isolation in levels:
                    cell = Cell(*pair, relation, isolation)
                    if cell in found:
                        raise ValueError(f"{cell} is refused twice")
                    found[cell] = refusal
        if unused:
            raise ValueError(f"no cell of {rule['in_flight']} after {rule['landed']} has the relation {unused}")
    return found


def generate(outcomes: Outcomes) -> str:
    """The text between the page's markers."""
    lines: list[str] = []
    for kind, heading in KINDS.items():
        lines += ["", f"## {heading}"]
        for name, operation in outcomes.operations.items():
            if operation["kind"] == kind:
                lines += _section(name, operation, outcomes)
    lines += _alone(outcomes)
    lines += ["", "## Relations", "", "| relation | means |", "|---|---|"]
    lines += [f"| {_words(name)} | {means} |" for name, means in outcomes.relations.items()]
    return "\n".join(lines[1:])


def _section(name: str, operation: Mapping[str, Any], outcomes: Outcomes) -> Iterator[str]:
    yield from ("", f"### {_words(name)}", "")
    yield f"In flight: {operation['action']}. It replays since, or as long as, {operation['replays']}."
    own = [cell for cell in outcomes.cells if cell.in_flight == name]
    refused = {cell: outcomes.refused[cell] for cell in own if cell in outcomes.refused}
    yield f"Of {len(own)} cells {len(own) - len(refused)} are replayed."
    if not refused:
        return
    yield from ("", "| refused after | relation | isolation | by | because | follows |", "|---|---|---|---|---|---|")
    after: dict[tuple[str, str, Refusal], list[str]] = {}
    for cell, refusal in refused.items():
        levels = [refused.get(Cell(name, cell.landed, cell.relation, level)) for level in ISOLATIONS]
        shown = cell.isolation if cell.isolation and levels[0] != levels[1] else "any"
        landed = after.setdefault((_words(cell.relation), shown, refusal), [])
        if _words(cell.landed) not in landed:
            landed.append(_words(cell.landed))
    rows: dict[tuple[str, str, Refusal], list[str]] = {}
    for (relation, isolation, refusal), landed in after.items():
        rows.setdefault((", ".join(landed), isolation, refusal), []).append(relation)
    for (landed_names, isolation, refusal), relations in rows.items():
        by = " or ".join(f"`{each}`" for each in refusal.by)
        follows = refusal.follows if refusal.java is None else f"{refusal.follows}; {JAVA_LEAVES[refusal.java]}"
        cells = (landed_names, ", ".join(relations), isolation, by, refusal.why, follows)
        yield f"| {' | '.join(cells)} |"


def _alone(outcomes: Outcomes) -> Iterator[str]:
    yield from ("", "## Without others", "")
    yield "What the operation and the table decide, whatever others commit. Each case is compared with Java's API, too."
    yield from ("", "| the operation | is | because | follows | Java |", "|---|---|---|---|---|")
    for each in outcomes.alone:
        outcome = "made" if each.by is None else f"refused by `{each.by}`"
        yield f"| {' | '.join((each.does, outcome, each.why, each.follows, each.java or 'the same'))} |"


def _words(name: str) -> str:
    return name.replace("_", " ")


def page(text: str, outcomes: Outcomes) -> str:
    """A page with new tables. Raises ValueError if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{begin}\n{generate(outcomes)}\n{end}{after}"


if __name__ == "__main__":
    DOCS.write_text(page(DOCS.read_text(encoding="utf-8"), read()), encoding="utf-8")
