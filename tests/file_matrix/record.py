"""What readers were measured to make of each shape: the record beside this file, and the page of docs/ made of it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.file_matrix import avro_shapes, orc_shapes, parquet_shapes
from tests.file_matrix.shapes import Shape, cases_of

#: The outcome where a reader gives the writer's values, under each filter.
READ: Final = "read"
#: The outcome where a reader cannot have a column of the type at all, whatever file it is in.
NO_TYPE: Final = "no such type"
#: The readers, as the record names them -> as the page does.
READERS: Final[Mapping[str, str]] = {
    "pyiceberg": "PyIceberg",
    "java": "Java",
    "spark": "Spark",
    "spark rows": "Spark, not vectorized",
}
#: Each format as the page names it -> its shapes. Its record has the name in small letters.
FORMATS: Final[Mapping[str, Sequence[Shape]]] = {
    "Parquet": parquet_shapes.SHAPES,
    "Avro": avro_shapes.SHAPES,
    "ORC": orc_shapes.SHAPES,
}
PAGE: Final = Path(__file__).parents[2] / "docs" / "readable-files.md"
#: A filter at which a reader fails, or leaves other rows.
_WITH_SIGN: Final = re.compile(r"(=|>=|<|>|IS NULL)(:| leaves)")
#: The name of a shape, and what distinguishes one of several that have it: `decimal128(7, 2), bare`.
_VARIANT: Final = re.compile(r"((?:[^,(]|\([^)]*\))*)(?:, (.*))?")
_START: Final = "<!-- made by tests/file_matrix from here on -->\n"


@dataclass(frozen=True)
class Record:
    """outcomes: of each case, by place and then by reader. files: those of Java's writers, by shape, flat."""

    outcomes: Mapping[str, Mapping[str, Mapping[str, str]]]
    files: Mapping[str, bytes]

    def failing(self, shape: Shape, type_: str, version: int) -> Mapping[str, str]:
        """The readers that do not read a shape as a type in a table of a version, each with its first outcome. Empty:
        all read it, at each place."""
        found: dict[str, str] = {}
        for case in cases_of([shape]):
            if (case.type, case.version) == (type_, version):
                for by_reader in self.outcomes[case.name].values():
                    for reader, outcome in by_reader.items():
                        if outcome not in (READ, NO_TYPE):
                            found.setdefault(reader, outcome)
        return found


def path_of(file_format: str) -> Path:
    return Path(__file__).parent / f"measured_{file_format}.json"


def load(file_format: str) -> Record:
    raw = json.loads(path_of(file_format).read_text(encoding="utf-8"))
    files = {name: zlib.decompress(base64.b64decode(text)) for name, text in raw["files"].items()}
    return Record(raw["outcomes"], files)


def save(file_format: str, record: Record) -> None:
    files = {name: base64.b64encode(zlib.compress(data, 9)).decode() for name, data in record.files.items()}
    text = json.dumps({"outcomes": record.outcomes, "files": files}, ensure_ascii=False, indent=1, sort_keys=True)
    path_of(file_format).write_text(text + "\n", encoding="utf-8")


def page() -> str:
    """The page as it has to be: what was written by hand, then a part for each format."""
    by_hand = PAGE.read_text(encoding="utf-8").partition(_START)[0]
    parts = [f"## {name}\n\n{_part(shapes, load(name.lower()))}" for name, shapes in FORMATS.items()]
    return f"{by_hand}{_START}\n" + "\n".join(parts)


def _part(shapes: Sequence[Shape], record: Record) -> str:
    lines: list[str] = []
    for group, found in groupby(shapes, key=lambda each: each.group):
        heading = [f"### {group}", ""] if group else []
        lines += [*heading, "| the file has | taken as | refused as |", "|---|---|---|"]
        lines += _rows(list(found), record)
        lines.append("")
    return "\n".join(lines)


def _rows(shapes: Sequence[Shape], record: Record) -> list[str]:
    """One for shapes with equal outcomes, which come one after the other and whose names begin with the same text."""
    rows: list[str] = []
    last: tuple[str, str] | None = None
    for shape in shapes:
        cells = _cells(shape, record)
        found = _VARIANT.fullmatch(shape.name)
        base, variant = (shape.name, None) if found is None else found.groups()
        if last == (base, cells) and variant:
            row = rows.pop()
            name, _, rest = row.partition(" | ")
            rows.append(f"{name}; {variant} | {rest}")
            continue
        last = base, cells
        rows.append(f"| {shape.name.replace('<', '&lt;')} | {cells} |")
    return rows


def _cells(shape: Shape, record: Record) -> str:
    taken: list[str] = []
    refused: dict[tuple[str, str], list[str]] = {}
    for type_, versions in _types(shape).items():
        found: dict[tuple[str, str] | None, list[int]] = {}
        for version in versions:
            failing = record.failing(shape, type_, version)
            reader = next(iter(failing), None)
            why_not = None if reader is None else (READERS[reader], _shown(failing[reader]))
            found.setdefault(why_not, []).append(version)
        for why_not, some in found.items():
            names = taken if why_not is None else refused.setdefault(why_not, [])
            names.append(type_ if some == versions else f"{type_} in version {some[0]}")
    why = [
        f"{', '.join(names).replace('<', '&lt;')}: {reader} {outcome}" for (reader, outcome), names in refused.items()
    ]
    return f"{', '.join(taken).replace('<', '&lt;') or '-'} | {'<br>'.join(why) or '-'}"


def _types(shape: Shape) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for case in cases_of([shape]):
        versions = found.setdefault(case.type, [])
        if case.version not in versions:
            versions.append(case.version)
    return found


def _shown(outcome: str) -> str:
    """An outcome in a cell of a table: errors without their words, which the record has."""
    sign = _WITH_SIGN.match(outcome)
    if outcome.startswith("reads "):
        return outcome.replace("|", "\\|").replace("<", "&lt;")
    if sign is None:
        return "fails"
    return f"fails at `{sign[1]}`" if sign[2] == ":" else f"leaves other rows at `{sign[1]}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
