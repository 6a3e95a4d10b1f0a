"""The table in docs/concurrent-writers.md, made from `cells.json` and `results.json`.

Written anew by `python -m labs.matrix.report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from labs.matrix import cells, results
from labs.matrix.cells import Cell
from labs.matrix.results import Result

DOCS = Path(__file__).parent.parent.parent / "docs" / "concurrent-writers.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
MODES = ("plain", "none", "all")

#: What happened to the overtaken one -> how the docs say it.
_SAID = {
    "committed": "lands as it is",
    "rebased": "rebased",
    "409, came back": "409, comes again",
    "409, refused by its client": "409, its client refuses",
    "409, did not come back": "409, the end",
}


def generate(known: Sequence[Cell], found: Sequence[Result]) -> str:
    """The text between the markers, without them."""
    seconds = {each.second for each in found}
    delivered = [cell for cell in known if cell.name in seconds]
    rest = [cell for cell in known if cell not in delivered]
    lines = [
        "| overtaken is | `plain` | `none` | `all` |",
        "|---|---|---|---|",
        *(_row(verb, found) for cell in delivered for verb in cell.verbs if verb in seconds),
        "",
        f"Delivered on the real server: {_counted(found)}. A verb stands for others whose requests look the same:",
        "",
        *_members(delivered),
    ]
    if rest:
        lines += [
            "",
            "Known by their recorded requests, and not delivered:",
            "",
            *_members(rest, alone=True),
        ]
    return "\n".join(lines)


def replaced(text: str, table: str) -> str:
    """A page with a new table. Raises ValueError if it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _row(verb: str, found: Sequence[Result]) -> str:
    return f"| {' | '.join([verb, *(_happened(verb, found, mode) for mode in MODES)])} |"


def _happened(verb: str, found: Sequence[Result], mode: str) -> str:
    mine = [each for each in found if each.mode == mode and each.second == verb]
    said = Counter(_SAID[each.happened] for each in mine)
    wrong = Counter(each.anomaly for each in mine if each.anomaly is not None)
    words = [what if len(said) == 1 else f"{what} ({count})" for what, count in said.most_common()]
    words += [f"**{what}** ({count})" for what, count in wrong.most_common()]
    return "; ".join(words) or "not run"


def _counted(found: Sequence[Result]) -> str:
    count = Counter(each.mode for each in found)
    return ", ".join(f"{count[mode]} ordered pairs under `{mode}`" for mode in MODES)


def _members(known: Sequence[Cell], *, alone: bool = False) -> Iterator[str]:
    for cell in known:
        if others := cell.verbs if alone else cell.verbs[1:]:
            yield f"- {', '.join(others)}" if alone else f"- {cell.name}: {'; '.join(others)}"


def main() -> None:
    text = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(replaced(text, generate(cells.read(), results.read())), encoding="utf-8")


if __name__ == "__main__":
    main()
