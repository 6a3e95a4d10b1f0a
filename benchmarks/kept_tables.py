"""Large tables that stay from one run of a benchmark to the next."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


def kept_table(folder: Path, make: Callable[[], str]) -> str:
    """The location of the metadata of a table, which `make` makes unless its folder has it whole."""
    pointer = folder / "location"
    if pointer.is_file():
        return pointer.read_text(encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"making the table in {folder}", flush=True)
    location = make()
    pointer.write_text(location, encoding="utf-8")
    return location
