"""The rules of style that no other tool checks, each as a function from a source file to findings.

Time, sleep, randomness and ids must come from one place, or no test and no simulation can decide them; a long file or
function is where the next defect hides; `assert` is gone under `python -O`. test_tidy.py runs the rules over the
project and shows each rule a bad example; tidy_project.py has the rules that need more than one file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

CLOCK = "iceberg_hms/clock.py"
_USE_CLOCK = "take a Clock (default iceberg_hms.clock.SYSTEM_CLOCK), or the Runtime port"

#: Dotted name -> what to use instead. A name covers all below it: `random` covers `random.uniform`.
BANNED: dict[str, str] = {
    "time": _USE_CLOCK,
    "random": f"{_USE_CLOCK}: jitter()",
    "uuid.uuid1": f"{_USE_CLOCK}: uuid()",
    "uuid.uuid3": f"{_USE_CLOCK}: uuid()",
    "uuid.uuid4": f"{_USE_CLOCK}: uuid()",
    "uuid.uuid5": f"{_USE_CLOCK}: uuid()",
    "datetime.datetime.now": f"{_USE_CLOCK}: now_ms()",
    "datetime.datetime.utcnow": f"{_USE_CLOCK}: now_ms()",
    "datetime.datetime.today": f"{_USE_CLOCK}: now_ms()",
    "datetime.date.today": f"{_USE_CLOCK}: now_ms()",
    "print": "log with logging.getLogger(__name__); the command line writes with rich's Console",
    "builtins.print": "log with logging.getLogger(__name__); the command line writes with rich's Console",
}

_WAIT_FOR_IT = "wait for the event itself (a queue, an Event, a process's end), with a timeout"

#: The same for tests.
BANNED_IN_TESTS: dict[str, str] = {
    "time.sleep": _WAIT_FOR_IT,
    "iceberg_hms.clock.SYSTEM_CLOCK.sleep": _WAIT_FOR_IT,
    "unittest.mock": "write a small fake that passes the port's contract suite",
    "mock": "write a small fake that passes the port's contract suite",
    "pytest.skip": "make the test run, or delete it",
    "pytest.mark.skip": "make the test run, or delete it",
    "pytest.mark.skipif": "make the test run, or delete it",
    "pytest.mark.xfail": "make the test pass, or delete it",
}

# Written apart, so that this file passes its own rule.
_LEFT_FOR_LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")


#: What the package ships for tests: its callers are elsewhere.
FOR_TESTS = "iceberg_hms/testing/"
#: Users of the Python API call the public methods of these.
FOR_USERS = (
    "iceberg_hms/catalog/catalog.py",
    "iceberg_hms/catalog/namespaces.py",
    "iceberg_hms/catalog/operations/",
    "iceberg_hms/catalog/snapshot_changes.py",
    "iceberg_hms/catalog/transaction.py",
    "iceberg_hms/catalog/watching/",
    "iceberg_hms/expressions/",
    "iceberg_hms/migration/database.py",
    "iceberg_hms/migration/more_files.py",
    "iceberg_hms/pyiceberg/catalog.py",
)
#: Names without a caller in the package, and who has one.
CALLED_ELSEWHERE = {
    "refresh": "users of the Python API",
    "snapshot_by_name": "the same",
    "snapshot_as_of_timestamp": "the same",
    "AGENT_INFO_MAX": "tests: the metastore's column has that many characters",
    "prepare": "logging's QueueHandler",
    "_create_staged_table": "PyIceberg's create_table_transaction",
    "_delete_old_metadata": "PyIceberg's Table, after each commit",
    "addInPlace": "PySpark's accumulators",
    "zero": "the same",
    "readAll": "Thrift",
    "cstringio_buf": "Thrift's C code",
    "cstringio_refill": "Thrift's C code",
}


#: Who may ask for the port that reads whatever manifest is named. All else asks `guarded_manifests.manifests_for`: what
#: a client's table names is the client's choice.
READ_ANY_MANIFEST = {
    "iceberg_hms/coordinator/locations/guarded_manifests.py": "it is the guard",
    "iceberg_hms/coordinator/group/commit_group.py": "each change is guarded as it is staged, and a fence reads none",
    "iceberg_hms/catalog/catalog.py": "for callers of the Python API, who have the process's rights",
    "iceberg_hms/catalog/scan.py": "the same",
    "iceberg_hms/catalog/table.py": "the same",
    "iceberg_hms/catalog/transaction.py": "the same",
    "iceberg_hms/catalog/maintenance/reachable_files.py": "the same",
    "iceberg_hms/migration/more_files.py": "the same",
    "iceberg_hms/migration/takeover.py": "the same",
    "iceberg_hms/pyiceberg/scans.py": "the same",
}
#: Rooms of such callers.
_FOR_OPERATORS = ("iceberg_hms/cli/", "iceberg_hms/inspect/", "iceberg_hms/testing/")


@dataclass(frozen=True)
class Finding:
    """path and line of what is wrong; message: what, and what to do instead."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    """One Python file. path: relative to the project, with forward slashes."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        return cls(path, text, ast.parse(text, path))

    @property
    def in_package(self) -> bool:
        return PurePosixPath(self.path).parts[0] == "iceberg_hms"

    def finding(self, line: int, message: str) -> Finding:
        return Finding(self.path, line, message)


def module_is_short(source: Source) -> Iterator[Finding]:
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES_MAX:
        yield source.finding(1, f"{lines} lines, more than {MODULE_LINES_MAX}: make two rooms of it")


def functions_are_short(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield source.finding(node.lineno, f"{node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}")


def nothing_banned(source: Source) -> Iterator[Finding]:
    """Also a name that is only passed on: `sleep=time.sleep` is as much a clock of its own as a call."""
    if source.path == CLOCK:
        return
    banned = BANNED if source.in_package else BANNED_IN_TESTS
    for line, name in _names_used(source.tree):
        for bad, instead in banned.items():
            if name == bad or name.startswith(bad + "."):
                yield source.finding(line, f"{name} is banned: {instead}")


def nothing_left_for_later(source: Source) -> Iterator[Finding]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := _LEFT_FOR_LATER.search(line):
            yield source.finding(number, f"{found.group()}: do it, or open an issue and say what holds today")


def no_assert_in_the_package(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assert) and source.in_package:
            yield source.finding(node.lineno, "assert is gone under `python -O`: raise an error of iceberg_hms.errors")


def constants_are_defined_once(source: Source) -> Iterator[Finding]:
    """The second definition hides the first, and no other tool finds it when both have the same value."""
    classes = (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))
    scopes: list[ast.Module | ast.ClassDef] = [source.tree, *classes]
    for scope in scopes:
        seen: set[str] = set()
        for node in scope.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and not isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor):
                    if target.id in seen:
                        yield source.finding(node.lineno, f"{target.id} is defined a second time: keep one definition")
                    seen.add(target.id)


def manifests_are_read_through_the_guard(source: Source) -> Iterator[Finding]:
    if not source.in_package or source.path in READ_ANY_MANIFEST or source.path.startswith(_FOR_OPERATORS):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(("ports.manifests", "catalog.manifests")):
            yield source.finding(node.lineno, "ask guarded_manifests.manifests_for: a client chose what is read")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    module_is_short,
    functions_are_short,
    nothing_banned,
    nothing_left_for_later,
    no_assert_in_the_package,
    constants_are_defined_once,
    manifests_are_read_through_the_guard,
)


def check(source: Source) -> list[Finding]:
    """All that is wrong with one file, sorted by line, each once."""
    findings = {finding for rule in RULES for finding in rule(source)}
    return sorted(findings, key=lambda finding: (finding.line, finding.message))


def uncalled(sources: Sequence[Source]) -> list[Finding]:
    """Functions, methods, classes and constants of the package that nothing in it mentions but their own definition.
    A name that is used for another thing elsewhere hides one."""
    package = [source for source in sources if source.in_package]
    known = CALLED_ELSEWHERE.keys() | {name for source in package for name in _mentioned(source.tree)}
    return [
        source.finding(line, f"{name} has no caller in the package: remove it, with its tests")
        for source in package
        if not source.path.startswith(FOR_TESTS)
        for line, name in defined(source.tree)
        if name not in known and not name.startswith("__")
        if not (source.path.startswith(FOR_USERS) and not name.startswith("_"))
    ]


def _mentioned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr


def defined(scope: ast.Module | ast.ClassDef) -> Iterator[tuple[int, str]]:
    """What others can name: not fields of records, nor what a protocol asks of others."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef) and not any("Protocol" in ast.unparse(base) for base in node.bases):
            yield from defined(node)
        elif isinstance(scope, ast.Module) and isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((node.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def _names_used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every name in the file, with what it was imported as undone; imports count as uses, except
    of a bare package: `import uuid` is how a uuid is parsed."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                aliases[bound] = alias.name if alias.asname else bound
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node)):
            first, _, rest = dotted.partition(".")
            if first in aliases or not rest:
                name = aliases.get(first, first)
                yield node.lineno, f"{name}.{rest}" if rest else name


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None
