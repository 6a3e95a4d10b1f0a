"""The glossary names what exists: each class, function and module that it gives a term."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from tests.tidy import Source, defined

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = ("iceberg_hms", "simulation")


def quoted(text: str) -> list[str]:
    """What the last column of each table names as code."""
    rows = [line.rstrip(" |").rpartition(" | ")[2] for line in text.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def names_by_module(sources: list[Source]) -> dict[str, set[str]]:
    """Dotted module below its package, and each package of modules -> its classes, functions, methods and constants."""
    names: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        path = Path(source.path).with_suffix("")
        parts = path.parts[1:-1] if path.name == "__init__" else path.parts[1:]
        for depth in range(1, len(parts) + 1):
            names[".".join(parts[:depth])] |= (
                {name for _, name in defined(source.tree)} if depth == len(parts) else set()
            )
    return names


def exists(name: str, names: Mapping[str, Set[str]]) -> bool:
    """name: a module's dotted path or the end of one; or a class, with its module's before it and a member behind."""
    parts = name.split(".")
    for end in range(len(parts) + 1):
        module, members = ".".join(parts[:end]), parts[end:]
        matching = [names[each] for each in names if not module or each == module or each.endswith("." + module)]
        if any(set(members) <= has for has in matching):
            return True
    return False


def test_the_glossary_names_what_exists() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = names_by_module(
        [Source.parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
    )
    named = quoted(GLOSSARY.read_text(encoding="utf-8"))
    assert len(named) > 20
    missing = [name for name in named if not exists(name, names)]
    assert not missing, "docs/glossary.md names what is not there: " + ", ".join(missing)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("a.b", True),
        ("b", True),
        ("a.b.Row", True),
        ("b.Row", True),
        ("Row", True),
        ("Row.find", True),
        ("b.Row.find", True),
        ("c", False),
        ("a.Row", False),
        ("Row.lost", False),
        ("b.find_all", False),
    ],
)
def test_a_name_that_is_not_there_is_found(name: str, there: bool) -> None:
    source = Source.parse("package/a/b.py", "class Row:\n    size: int\n    def find(self): ...\n")
    assert exists(name, names_by_module([source])) is there


def test_the_last_column_alone_is_read() -> None:
    assert quoted("| term | `not this` | `this`, `that` |\n\nNor `this`.\n|---|---|\n| x | y | |\n") == ["this", "that"]
