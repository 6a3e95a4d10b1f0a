"""MemoryFiles keeps the contract of the Files port."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.testing.contracts.files import CHECKS, all_spellings_of_a_local_file_name_one_file
from iceberg_hms.testing.memory_files import MemoryFiles


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("root", ["file:/w", "s3://bucket/w"])
def test_memory_files_keep_the_contract(check: Callable[[Files, str], None], root: str) -> None:
    check(MemoryFiles(), root)


def test_spellings_are_one_file() -> None:
    all_spellings_of_a_local_file_name_one_file(MemoryFiles(), "/w")


def test_files_can_be_listed_and_damaged() -> None:
    files = MemoryFiles()
    files.write("file:/w/b", b"1")
    files.write("/w/a", b"2")
    files.replace("file:///w/a", b"damaged")
    assert files.locations() == ("file:/w/b", "file:///w/a")
    assert files.read("/w/a") == b"damaged"


def test_open_gives_a_file_to_read_from() -> None:
    files = MemoryFiles()
    files.write("file:/w/b", b"0123")
    with files.open("file:/w/b") as file:
        file.seek(2)
        assert file.read() == b"23"
