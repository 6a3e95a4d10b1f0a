"""What processes used of the machine, as Linux tells it in /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
#: Of /proc/<pid>/stat, counted behind the program's name, which may hold any character.
_USER, _CHILDREN_SYSTEM = 11, 14


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process that is there and of its children that ended (Java starts programs for files' modes).
    Raises FileNotFoundError if it is not there."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) / _TICKS


class CpuMeter:
    """CPU seconds of groups of processes since it was made.

    groups: the ids of the processes by the group's name. All must be there when it is made and when it is read.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        self._groups = groups
        self._before = self._read()

    def used(self) -> dict[str, float]:
        after = self._read()
        return {name: round(after[name] - self._before[name], 2) for name in after}

    def _read(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, pids)) for name, pids in self._groups.items()}
