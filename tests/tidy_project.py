"""The rules of style over the whole project: what no single file shows. test_tidy.py runs them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.tidy import Finding, Source

#: What may reach into private names. zookeeper_sessions.py ends the session of a catalog as a server does: that takes
#: the session's password, and no user may have a way to it.
MAY_REACH_INTO_PRIVATES = frozenset({"integration/zookeeper_sessions.py"})

#: Private by their spelling alone: named tuples, `os._exit`, and PySpark's only way to the JVM.
PUBLIC_IN_FACT = frozenset({"_replace", "_asdict", "_fields", "_exit", "_jvm", "_jsc", "_jsparkSession"})

_PATCHES = frozenset({"setattr", "delattr"})
#: What may part two words: in prose that is wrapped, in adjacent strings, and in names.
_APART = r"[\s_#\"']+"
#: Turns of phrase that leave the reader to guess who does what. Written with hyphens, so that this file has none.
_RIDDLES = (
    "(is|are|was|were|be|been|being)-told",
    "to-be-had",
    "(is|was|be)-had",
    "it-(is|was)-(looked|hoped|waited)",
    "(is|are|was|were)-looked-for",
    "(is|are|was|were)-waited-for",
    "in-vain",
    "who-(comes|came|lost|oversleeps)",
    "who" + "ever",
)
_RIDDLE = re.compile(
    "|".join(rf"(?<![a-z])(?:{riddle.replace('-', _APART)})(?![a-z])" for riddle in _RIDDLES), re.IGNORECASE
)


def shared_class_names(sources: Sequence[Source]) -> dict[str, list[Finding]]:
    """Name -> where it is defined, of the public classes of a package that share their name with another."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(source.finding(node.lineno, f"{node.name}: two public classes of this name"))
    return {name: places for name, places in found.items() if len(places) > 1}


def import_circles(sources: Sequence[Source]) -> set[frozenset[str]]:
    """The groups of modules that import each other, by one import or by several. Imports in functions count, and those
    for type checkers."""
    modules = {_module(source.path): source for source in sources}
    imports = {
        name: {each for each in _imported(source.tree, modules) if each != name} for name, source in modules.items()
    }
    reached = {name: _reached_from(name, imports) for name in imports}
    circles = (frozenset({other for other in reached[name] if name in reached[other]}) for name in imports)
    return {circle for circle in circles if circle}


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module, modules: Mapping[str, Source]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules or node.module in modules:
                    yield inner if inner in modules else node.module


def _reached_from(start: str, imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for other in imports[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached


def private_accesses(source: Source) -> list[Finding]:
    """Where a test reads, imports or patches a private name of another object or module."""
    return [
        source.finding(line, f"{name} is private: test what its module shows")
        for line, name in _private_names(source.tree)
        if name not in PUBLIC_IN_FACT
    ]


def _private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Call) and _called(node) in _PATCHES:
            for argument in node.args:
                name = str(argument.value).rpartition(".")[2] if isinstance(argument, ast.Constant) else ""
                if _is_private(name):
                    yield node.lineno, name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


def _is_own(value: ast.expr) -> bool:
    """Whether the object is the test's own: `self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in {"self", "cls", "super"}


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def riddles(path: str, text: str) -> list[Finding]:
    """Phrases in a file's prose, messages and names that do not say who does what."""
    return [
        Finding(path, text.count("\n", 0, found.start()) + 1, f"{' '.join(found[0].split())!r}: say who does what")
        for found in _RIDDLE.finditer(text)
    ]
