"""The project is tidy, and each rule finds what it is there to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tidy

ROOT = Path(__file__).parent.parent
FOLDERS = ("iceberg_hms", "simulation", "tests", "integration", "benchmarks")


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_the_project_is_tidy() -> None:
    findings = [
        finding
        for path in sources()
        for finding in tidy.check(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_everything_in_the_package_has_a_caller() -> None:
    parsed = [
        tidy.Source.parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sources()
    ]
    findings = tidy.uncalled(parsed)
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


def test_the_rules_see_the_whole_project() -> None:
    seen = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert {"iceberg_hms/clock.py", "iceberg_hms/coordinator/ports.py", "tests/test_tidy.py"} <= seen


def messages(text: str, path: str = "iceberg_hms/example.py") -> list[str]:
    return [f"{finding.line}: {finding.message}" for finding in tidy.check(path, text)]


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
@pytest.mark.parametrize("folder", ["tests", "integration", "benchmarks"])
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
    assert messages("x = 1\n" * limit) == []
    assert messages("x = 1\n" * (limit + 1)) == [f"1: {limit + 1} lines, more than {limit}: make two rooms of it"]
