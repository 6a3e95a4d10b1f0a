"""The keys of a catalog entry as docs/migration.md lists them.

python -m tests.migration.key_table    # writes them there
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from iceberg_hms.migration.known_keys import INTERPRETED, KEYS, KeyPlace, RowKey, Verdict

DOCS: Final = Path(__file__).parents[2] / "docs" / "migration.md"
_BEGIN: Final = "<!-- the keys, by python -m tests.migration.key_table -->\n"
_END: Final = "<!-- the end of the keys -->\n"
_PLACES: Final = {
    frozenset({KeyPlace.OPTION}): "option",
    frozenset({KeyPlace.PARAMETER}): "parameter",
    frozenset({KeyPlace.OPTION, KeyPlace.PARAMETER}): "both",
    frozenset({KeyPlace.COLUMN}): "column",
}


def text_of_keys() -> str:
    """The table: a line for the keys that share their place, what becomes of them, and why."""
    counts = ", ".join(f"{sum(key.verdict is each for key in KEYS)} are {each}" for each in Verdict)
    begins = ", ".join(f"`{each}`" for each in INTERPRETED)
    lines = [
        f"{len(KEYS)} keys: {counts}. Unknown parameters are refused that begin with {begins}, or have `.parquet.`"
    ]
    lines += ["or `.orc.` in them.", "", "| keys | where | what becomes of them |", "|---|---|---|"]
    lines += [_line(list(group)) for _, group in groupby(KEYS, key=_outcome)]
    return "\n".join(lines) + "\n"


def listed_keys() -> str:
    """What docs/migration.md has now."""
    return DOCS.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]


def write_keys() -> None:
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(_BEGIN)
    DOCS.write_text(before + _BEGIN + text_of_keys() + _END + rest.partition(_END)[2], encoding="utf-8")


def _outcome(key: RowKey) -> tuple[object, ...]:
    return (key.places, key.verdict, key.why, key.harmless, key.formats)


def _line(keys: list[RowKey]) -> str:
    first = keys[0]
    names = ", ".join(f"`{key.name}`" for key in keys)
    said = f"{first.verdict}: {first.why}"
    if first.formats:
        said += f"; in tables of {', '.join(sorted(first.formats))} alone"
    if harmless := sorted(each or "empty" for each in first.harmless):
        said += f"; not with the value {' or '.join(harmless)}"
    return f"| {names} | {_PLACES[first.places]} | {said} |"


if __name__ == "__main__":
    write_keys()
