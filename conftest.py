"""For every test run: where servers come from, the order of the files, and an end in order when it is interrupted."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

#: The files on real servers that take longest (`--durations=0`), the longest first: the last file must be a short
#: one, or the other processes wait for it.
LONGEST = (
    "integration/test_compatibility_kit.py",
    "integration/test_java_operations.py",
    "integration/test_spark_iceberg_tables.py",
    "integration/test_spark_session_catalog.py",
    "integration/test_metastore_compare_and_swap.py",
    "integration/test_server_killed.py",
    "integration/test_frozen_holders.py",
    "integration/test_concurrent_appends.py",
    "integration/test_spark_embedded.py",
    "integration/test_no_process_left.py",
)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--servers", choices=("local", "containers"), default="local", help="for integration/servers.py")


def pytest_configure() -> None:
    # Ctrl-C is KeyboardInterrupt already; TERM comes from `kill`, from CI, and from setpriv when make was killed.
    signal.signal(signal.SIGTERM, _interrupt)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The quick tests come first, since a process in which Spark ran is not the one that tests/spark/ expects.
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, int]:
    file = item.nodeid.partition("::")[0]
    return file.startswith(("integration/", "labs/")), LONGEST.index(file) if file in LONGEST else len(LONGEST)
