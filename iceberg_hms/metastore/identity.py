"""Who holds a lock: the text that goes into a lock's `agentInfo`, from which anybody can tell whether it still lives.

    iceberg-hms/<boot id>/<pid namespace>/<pid>-<start time>/<request>.<attempt>/unproven

The boot id (without dashes) and the pid namespace say where the process is, its id and start time which one it is. The
attempt, a counter of this process, makes the text unique, so that a lock whose reply was lost is found by it. The last
part says what protects the swap beside the lock: `unproven` means that compare-and-swap was not shown to be atomic.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from iceberg_hms.errors import InvalidInput

#: HIVE_LOCKS.HL_AGENT_INFO has 128 characters.
AGENT_INFO_MAX = 128

_REQUEST = re.compile(r"[0-9a-z-]{1,36}")
# 36**3 attempts: enough that none of a lease's time repeats, short enough for the column.
_ATTEMPTS = 46_656
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PROC = Path("/proc")
_UNKNOWN = "-"
#: Position of `starttime` after the command name in /proc/<pid>/stat (proc(5): field 22).
_START_TIME_FIELD = 19


_attempts = itertools.count()


def agent_info(request: str) -> str:
    """A new agentInfo of this process for a request, at most AGENT_INFO_MAX characters; no two calls give the same.
    Raises InvalidInput for a request that is not [0-9a-z-]{1,36}."""
    if not _REQUEST.fullmatch(request):
        raise InvalidInput(f"A lock's request is at most 36 of the characters 0-9, a-z and -: {request!r}")
    process = f"{os.getpid()}-{_start_time()}"
    return f"iceberg-hms/{_boot_id()}/{_pid_namespace()}/{process}/{request}.{_attempt()}/unproven"


def _attempt() -> str:
    number = next(_attempts) % _ATTEMPTS
    return _DIGITS[number // 1296] + _DIGITS[number // 36 % 36] + _DIGITS[number % 36]


def _boot_id() -> str:
    return _read(_PROC / "sys/kernel/random/boot_id").replace("-", "") or _UNKNOWN


def _pid_namespace() -> str:
    try:
        link = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return _UNKNOWN
    return "".join(character for character in link if character.isdigit()) or _UNKNOWN


def _start_time() -> str:
    # The command name is in brackets and may hold anything, brackets too.
    fields = _read(_PROC / "self/stat").rpartition(")")[2].split()
    return fields[_START_TIME_FIELD] if len(fields) > _START_TIME_FIELD else _UNKNOWN


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
