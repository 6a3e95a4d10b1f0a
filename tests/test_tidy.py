"""The project is tidy, and each rule finds what it is there to find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import tidy, tidy_project

ROOT = Path(__file__).parent.parent
FOLDERS = ("iceberg_hms", "simulation", "tests", "integration", "benchmarks", "labs")
#: What people read besides.
PROSE = ("*.md", "docs/*.md", "conf/*", "conftest.py", "Makefile")


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.fixture(scope="module")
def project() -> list[tidy.Source]:
    """All of it, parsed once."""
    return [
        tidy.Source.parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sources()
    ]


def within(project: Sequence[tidy.Source], *folders: str) -> list[tidy.Source]:
    return [source for source in project if source.path.partition("/")[0] in folders]


def test_the_project_is_tidy(project: list[tidy.Source]) -> None:
    findings = [finding for source in project for finding in tidy.check(source)]
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_everything_in_the_package_has_a_caller(project: list[tidy.Source]) -> None:
    findings = tidy.uncalled(project)
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_what_nobody_calls_is_found() -> None:
    text = """
USED = 1
ALONE: int = USED

class Port(Protocol):
    def asked(self): ...

class Thing:
    field = 1

    def called(self): ...
    def uncalled(self): return self.called()

def main(port: Port): return Thing()
"""
    package = tidy.Source.parse("iceberg_hms/example.py", text)
    test = tidy.Source.parse("tests/test_example.py", "main(ALONE).uncalled()")
    assert [str(finding).partition(" has")[0] for finding in tidy.uncalled([package, test])] == [
        "iceberg_hms/example.py:3: ALONE",
        "iceberg_hms/example.py:12: uncalled",
        "iceberg_hms/example.py:14: main",
    ]
    for_users = tidy.Source.parse("iceberg_hms/catalog/operations/example.py", "def drop(): ...\ndef _hidden(): ...")
    assert [str(finding).partition(" has")[0] for finding in tidy.uncalled([for_users])] == [
        "iceberg_hms/catalog/operations/example.py:2: _hidden"
    ]


def test_the_rules_see_the_whole_project() -> None:
    seen = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert {"iceberg_hms/clock.py", "iceberg_hms/coordinator/ports.py", "tests/test_tidy.py"} <= seen


def messages(text: str, path: str = "iceberg_hms/example.py") -> list[str]:
    return [f"{finding.line}: {finding.message}" for finding in tidy.check(tidy.Source.parse(path, text))]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import time\ntime.sleep(1)\n", "time.sleep"),
        ("import time as t\nt.monotonic()\n", "time.monotonic"),
        ("from time import sleep\n\nsleep(1)\n", "time.sleep"),
        ("from time import sleep as wait\n\nwait(1)\n", "time.sleep"),
        ("import time\n\n\ndef f(sleep=time.sleep): ...\n", "time.sleep"),
        ("import random\nrandom.uniform(0, 1)\n", "random.uniform"),
        ("from random import Random\nRandom(1)\n", "random.Random"),
        ("import uuid\nuuid.uuid4()\n", "uuid.uuid4"),
        ("from uuid import uuid4\nuuid4()\n", "uuid.uuid4"),
        ("import datetime\ndatetime.datetime.now()\n", "datetime.datetime.now"),
        ("from datetime import datetime\ndatetime.now(tz=None)\n", "datetime.datetime.now"),
        ("import datetime as dt\ndt.datetime.utcnow()\n", "datetime.datetime.utcnow"),
        ("from datetime import date\ndate.today()\n", "datetime.date.today"),
        ("print('x')\n", "print"),
        ("log = print\n", "print"),
        ("def f():\n    import time\n    return time.time()\n", "time.time"),
    ],
)
def test_a_banned_name_is_found_and_its_replacement_named(text: str, name: str) -> None:
    assert any(f"{name} is banned: " in message for message in messages(text))


@pytest.mark.parametrize(
    "text",
    [
        "import uuid\nuuid.UUID('12345678-1234-5678-1234-567812345678')\n",
        "from datetime import datetime\ndatetime.fromtimestamp(0, tz=None)\n",
        "def f(table):\n    return table.time, table.random, table.print()\n",
        "class A:\n    def now(self):\n        return self.clock.now()\n",
        "from iceberg_hms import clock\nclock.SYSTEM_CLOCK.sleep(1)\n",
        '"""time.sleep(1) and print in prose."""\n',
    ],
)
def test_what_only_looks_alike_is_not_found(text: str) -> None:
    assert messages(text) == []


def test_the_clock_alone_may_read_the_clock() -> None:
    text = "import time\ntime.sleep(1)\n"
    assert messages(text, tidy.CLOCK) == []
    assert messages(text, "iceberg_hms/format/clock.py") != []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)\n",
        "from time import sleep\n",
        "from iceberg_hms.clock import SYSTEM_CLOCK\nSYSTEM_CLOCK.sleep(1)\n",
        "from unittest.mock import MagicMock\n",
        "from unittest import mock\n",
        "import unittest.mock\n",
        "import mock\n",
        "import pytest\n\n\n@pytest.mark.skip\ndef test_a(): ...\n",
        "import pytest\n\n\n@pytest.mark.xfail(reason='x')\ndef test_a(): ...\n",
        "import pytest\n\n\ndef test_a():\n    pytest.skip('x')\n",
    ],
)
@pytest.mark.parametrize("folder", ["tests", "integration", "benchmarks", "labs"])
def test_sleeps_mocks_and_skips_are_found_in_tests(text: str, folder: str) -> None:
    assert any("is banned" in message for message in messages(text, f"{folder}/test_a.py"))


def test_tests_may_print_and_measure_time() -> None:
    text = "import time\n\nprint(time.monotonic())\nassert True\n"
    assert messages(text, "tests/test_a.py") == []


def test_an_assert_is_found_in_the_package() -> None:
    assert messages("x = 1\nassert x\n") == [
        "2: assert is gone under `python -O`: raise an error of iceberg_hms.errors"
    ]


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"])
def test_what_was_left_for_later_is_found(word: str) -> None:
    assert messages(f"x = 1  # {word}: later\n") == [f"1: {word}: do it, or open an issue and say what holds today"]
    assert messages(f"x = '{word.lower()}'\n") == []


def function(lines: int, keyword: str = "def") -> str:
    return f"{keyword} f():\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_over_the_limit_is_found(keyword: str) -> None:
    limit = tidy.FUNCTION_LINES_MAX
    assert messages(function(limit, keyword)) == []
    assert messages(function(limit + 1, keyword)) == [f"1: f has {limit + 1} lines, more than {limit}"]


def test_a_long_method_in_a_class_is_found() -> None:
    body = function(tidy.FUNCTION_LINES_MAX + 1).replace("\n", "\n    ")
    assert messages("class A:\n    " + body.rstrip() + "\n") != []


def test_a_module_over_the_limit_is_found() -> None:
    limit = tidy.MODULE_LINES_MAX
    assert messages("f()\n" * limit) == []
    assert messages("f()\n" * (limit + 1)) == [f"1: {limit + 1} lines, more than {limit}: make two rooms of it"]


def test_a_constant_that_is_defined_twice_is_found() -> None:
    said = "N is defined a second time: keep one definition"
    assert messages("N = 1\nN: int = 1\n") == [f"2: {said}"]
    assert messages("class A:\n    N = 1\n    M = 2\n    N = 3\n") == [f"4: {said}"]
    assert messages("N = 1\nN += 1\nfor N in (): ...\n\n\nclass A:\n    N = 1\n") == []


def test_two_public_classes_never_share_a_name(project: list[tidy.Source]) -> None:
    shared = tidy_project.shared_class_names(within(project, "iceberg_hms", "simulation"))
    places = [str(place) for name in shared for place in shared[name]]
    assert not places, "\n" + "\n".join(places)


def example(**files: str) -> list[tidy.Source]:
    """One source a file: `a__b` is a/b.py."""
    return [tidy.Source.parse(f"{name.replace('__', '/')}.py", text) for name, text in files.items()]


def test_a_class_name_that_two_modules_use_is_found() -> None:
    found = tidy_project.shared_class_names(
        example(a="class Row: ...\nclass _Own: ...\nclass Page: ...", b="\nclass Row: ...\nclass _Own: ...")
    )
    assert {name: [(place.path, place.line) for place in places] for name, places in found.items()} == {
        "Row": [("a.py", 1), ("b.py", 2)]
    }


@pytest.mark.parametrize("package", FOLDERS)
def test_no_modules_import_each_other(project: list[tidy.Source], package: str) -> None:
    circles = tidy_project.import_circles(within(project, package))
    assert not circles, "\n" + "\n".join(" <-> ".join(sorted(circle)) for circle in circles)


@pytest.mark.parametrize(
    "back",
    [
        "import p.a\n",
        "from p import a\n",
        "from p.a import thing\n",
        "def f():\n    from p.a import thing\n",
        "if TYPE_CHECKING:\n    from p.a import thing\n",
        "from p.c import thing\n",
    ],
)
def test_a_circle_of_imports_is_found(back: str) -> None:
    modules = example(p____init__="", p__a="from p.b import thing\n", p__b=back, p__c="from p import a\n")
    (circle,) = tidy_project.import_circles(modules)
    assert {"p.a", "p.b"} <= circle


def test_imports_in_one_direction_are_no_circle() -> None:
    modules = example(p____init__="", p__a="import os\nfrom p import b, c\n", p__b="from p.c import thing\n", p__c="")
    assert tidy_project.import_circles(modules) == set()


def test_tests_use_what_modules_show(project: list[tidy.Source]) -> None:
    reaching = {
        source.path: found
        for source in within(project, "tests", "integration", "labs")
        if (found := tidy_project.private_accesses(source))
    }
    findings = [found for path in reaching.keys() - tidy_project.MAY_REACH_INTO_PRIVATES for found in reaching[path]]
    assert not findings, "\n" + "\n".join(sorted(map(str, findings)))
    assert reaching.keys() == tidy_project.MAY_REACH_INTO_PRIVATES, "an exception that nobody needs"


@pytest.mark.parametrize(
    "text",
    [
        "thing._inner\n",
        "thing.part._inner = 1\n",
        "make()._inner()\n",
        "from package.module import _inner\n",
        "monkeypatch.setattr(module, '_inner', 1)\n",
        "monkeypatch.setattr('package.module._inner', 1)\n",
    ],
)
def test_a_reach_into_a_private_name_is_found(text: str) -> None:
    (source,) = example(test_a=text)
    assert [str(finding) for finding in tidy_project.private_accesses(source)] == [
        "test_a.py:1: _inner is private: test what its module shows"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "class Fake:\n    def f(self): return self._own\n",
        "class Fake(Base):\n    def f(self): return super()._own\n",
        "row._replace(a=1)\n",
        "session._jvm\n",
        "thing.__class__\n",
        "_ = _helper()\n",
    ],
)
def test_a_private_name_of_its_own_is_no_reach(text: str) -> None:
    (source,) = example(test_a=text)
    assert tidy_project.private_accesses(source) == []


def test_sentences_name_who_does_what(project: list[tidy.Source]) -> None:
    texts = {source.path: source.text for source in project}
    for path in (path for pattern in PROSE for path in ROOT.glob(pattern) if path.is_file()):
        texts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    findings = [finding for path, text in sorted(texts.items()) for finding in tidy_project.riddles(path, text)]
    assert not findings, "\n" + "\n".join(map(str, findings))


# Written apart, so that this file passes its own rule.
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("It is", " told by its lock."), 1),
        (("x = 1  # Wait for who", "ever holds it."), 1),
        (("\n\n# A hope in", " vain."), 3),
        (("The lock was not to be", " had"), 1),
        (("def test_a_writer_is", "_told_why(): ..."), 1),
        (("Every second it is", "\n    # looked whether it waits."), 1),
    ],
)
def test_a_riddle_is_found(words: tuple[str, str], line: int) -> None:
    assert [finding.line for finding in tidy_project.riddles("a.py", "".join(words))] == [line]


def test_plain_words_are_no_riddle() -> None:
    text = "A writer told the server. Who holds the lock? The client that lost the race waits; it was asked to.\n"
    assert tidy_project.riddles("a.md", text) == []


@pytest.mark.parametrize("text", ["self._ports.manifests().list(x)\n", "def f(ports):\n    return ports.manifests()\n"])
def test_who_reads_manifests_past_the_guard_is_found(text: str) -> None:
    [found] = messages(text, "iceberg_hms/rest/example.py")
    assert "guarded_manifests.manifests_for" in found
    assert messages(text, "iceberg_hms/cli/example.py") == []


def test_all_who_may_read_any_manifest_do(project: list[tidy.Source]) -> None:
    readers = {source.path for source in project if ".manifests()" in source.text}
    assert tidy.READ_ANY_MANIFEST.keys() <= readers
