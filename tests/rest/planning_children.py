"""Finds the processes that plan scans for a server."""

from __future__ import annotations

from pathlib import Path


def planners_of(server: int) -> list[int]:
    """The ids of the processes that plan for this process."""
    found = []
    for children in Path(f"/proc/{server}/task").glob("*/children"):
        for child in children.read_text().split():
            if b"planning_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found
