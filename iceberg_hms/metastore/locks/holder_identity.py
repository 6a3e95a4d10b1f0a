"""Who holds a lock: the text in a lock's `agentInfo`, from which others find out by which lease the holder lives.

    iceberg-hms/<boot id>/<pid namespace>/<pid>-<start time>/<request>.<attempt>/<protection>

    protection: cas | cas-SECONDS | unproven | unproven-SECONDS | blind

The boot id (without dashes) and the pid namespace say where the process runs, its id and start time which one it is.
The attempt, a counter of this process, makes the text unique, so that a lock whose reply was lost can be found by it.
The last part is the SwapProtection that the process knew of when it requested the lock. With seconds it announces a
lease that is shorter than the server's: the holder sends nothing that does not compare, and counts the lock as lost
when it could not renew it for so long. A version that does not know of short leases, or of `unproven-SECONDS`, takes
the text for a foreign writer's, and leaves the entry alone.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from iceberg_hms.errors import InvalidInput
from iceberg_hms.metastore.connection.cas_support import SwapProtection

#: HIVE_LOCKS.HL_AGENT_INFO has 128 characters.
AGENT_INFO_MAX = 128

_REQUEST = re.compile(r"[0-9a-z-]{1,36}")
# 36**3 attempts: enough that none of a lease's time repeats, short enough for the column.
_ATTEMPTS = 46_656
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
PROC = Path("/proc")
_UNKNOWN = "-"
#: Position of `starttime` after the command name in /proc/<pid>/stat (proc(5): field 22).
_START_TIME_FIELD = 19
#: States in /proc/<pid>/stat of a process that has ended and that its parent has not collected yet.
_ENDED = frozenset({"Z", "X"})
#: Linux's largest.
_PID_MAX = 4_194_304
_TEXT = re.compile(
    r"iceberg-hms/([0-9a-f]{32}|-)/([0-9]+|-)/([0-9]{1,7})-([0-9]+|-)/[^/]+/(cas|unproven|blind)(?:(?<!blind)-([1-9][0-9]{0,4}))?"
)

_attempts = itertools.count()


@dataclass(frozen=True, slots=True)
class LockHolder:
    """One of our processes, by its own account. boot_id, pid_namespace, start_time: "-" where it could not find out.
    lease_seconds: the lease that it announces; None: it lives by the server's."""

    boot_id: str
    pid_namespace: str
    pid: int
    start_time: str
    protection: SwapProtection
    lease_seconds: int | None = None


def parse(text: str) -> LockHolder | None:
    """Who wrote an agentInfo; None if it was none of ours."""
    match = _TEXT.fullmatch(text)
    if match is None or not 0 < int(match[3]) <= _PID_MAX:
        return None
    return LockHolder(
        match[1], match[2], int(match[3]), match[4], SwapProtection(match[5]), int(match[6]) if match[6] else None
    )


def has_ended(holder: LockHolder, *, proc: Path = PROC) -> bool:
    """Whether the process has ended: it ran on this boot of this machine, among the processes that we see, and its id
    is free or another process's. False if that cannot be found out.

    A hint for operators, never ground to remove a lock: clones of one virtual machine share boot id and namespaces, and
    the process may live on another clone."""
    if _UNKNOWN in (holder.boot_id, holder.pid_namespace):
        return False
    if (holder.boot_id, holder.pid_namespace) != (_boot_id(proc), _pid_namespace(proc)):
        return False
    if not _shows_our_namespace(proc):
        return False
    try:
        # /proc may hide other users' processes; this finds them.
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    fields = _stat(proc / str(holder.pid))
    if len(fields) <= _START_TIME_FIELD:
        return False
    return fields[0] in _ENDED or holder.start_time not in (_UNKNOWN, fields[_START_TIME_FIELD])


def agent_info(
    request: str,
    protection: SwapProtection = SwapProtection.UNPROVEN,
    lease_seconds: int | None = None,
    *,
    proc: Path = PROC,
) -> str:
    """A new agentInfo of this process for a request, at most AGENT_INFO_MAX characters; no two calls give the same.
    lease_seconds: to announce, up to a day; not with `blind`.
    Raises InvalidInput for a request that is not [0-9a-z-]{1,36}."""
    if not _REQUEST.fullmatch(request):
        raise InvalidInput(f"A lock's request is at most 36 of the characters 0-9, a-z and -: {request!r}")
    process = f"iceberg-hms/{_boot_id(proc)}/{_pid_namespace(proc)}/{os.getpid()}-{_start_time(proc)}"
    attempt = f"{_attempt()}/{last_part(protection, lease_seconds)}"
    # Only operators read the request. What identifies the entry and its lease must be whole.
    room = AGENT_INFO_MAX - len(f"{process}/.{attempt}")
    return f"{process}/{request[:room]}.{attempt}"


def last_part(protection: SwapProtection, lease_seconds: int | None) -> str:
    return str(protection) if lease_seconds is None else f"{protection}-{lease_seconds}"


def _attempt() -> str:
    number = next(_attempts) % _ATTEMPTS
    return _DIGITS[number // 1296] + _DIGITS[number // 36 % 36] + _DIGITS[number % 36]


def _boot_id(proc: Path) -> str:
    return _read(proc / "sys/kernel/random/boot_id").replace("-", "") or _UNKNOWN


def _pid_namespace(proc: Path) -> str:
    try:
        link = str((proc / "self/ns/pid").readlink())
    except OSError:
        return _UNKNOWN
    return "".join(character for character in link if character.isdigit()) or _UNKNOWN


def _shows_our_namespace(proc: Path) -> bool:
    """Whether /proc lists us under our own id. In a container /proc may be the host's, where our ids are other
    processes'. NSpid has our id in each namespace from that of /proc down to our own."""
    own = str(os.getpid())
    ids = [line.split()[1:] for line in _read(proc / "self/status").splitlines() if line.startswith("NSpid:")]
    return _read(proc / "self/stat").partition(" ")[0] == own and ids == [[own]]


def _stat(process: Path) -> list[str]:
    # The command name is in brackets and may hold anything, brackets too.
    return _read(process / "stat").rpartition(")")[2].split()


def _start_time(proc: Path) -> str:
    fields = _stat(proc / "self")
    return fields[_START_TIME_FIELD] if len(fields) > _START_TIME_FIELD else _UNKNOWN


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
