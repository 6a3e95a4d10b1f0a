"""Who holds a lock: the text that goes into a lock's `agentInfo`, from which anybody can tell whether it still lives.

    iceberg-hms/<boot id>/<pid namespace>/<pid>-<start time>/<request>.<attempt>/<cas|cas-SECONDS|unproven|blind>

The boot id (without dashes) and the pid namespace say where the process is, its id and start time which one it is. The
attempt, a counter of this process, makes the text unique, so that a lock whose reply was lost is found by it. The last
part says what protects the swap beside the lock, by what the process knew when it asked for the lock: SwapProtection.
With seconds it announces a lease that is shorter than the server's: the holder sends nothing that does not compare, and
gives the lock up for lost when it could not renew it for so long. Who does not know of that takes such a text for
somebody else's, and leaves the entry alone.
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
_PROC = Path("/proc")
_UNKNOWN = "-"
#: Position of `starttime` after the command name in /proc/<pid>/stat (proc(5): field 22).
_START_TIME_FIELD = 19
#: States in /proc/<pid>/stat of a process that has ended and was not collected by its parent yet.
_ENDED = frozenset({"Z", "X"})
#: Linux's largest.
_PID_MAX = 4_194_304
_TEXT = re.compile(
    r"iceberg-hms/([0-9a-f]{32}|-)/([0-9]+|-)/([0-9]{1,7})-([0-9]+|-)/[^/]+/(cas|unproven|blind)(?:(?<=cas)-([1-9][0-9]{0,4}))?"
)

_attempts = itertools.count()


@dataclass(frozen=True, slots=True)
class LockHolder:
    """One of our processes, as it tells of itself. boot_id, pid_namespace, start_time: "-" where it could not tell.
    lease_seconds: what it announces; None: it lives by the server's."""

    boot_id: str
    pid_namespace: str
    pid: int
    start_time: str
    word: SwapProtection
    lease_seconds: int | None = None


def parse(text: str) -> LockHolder | None:
    """Who wrote an agentInfo; None if it was none of ours."""
    match = _TEXT.fullmatch(text)
    if match is None or not 0 < int(match[3]) <= _PID_MAX:
        return None
    return LockHolder(
        match[1], match[2], int(match[3]), match[4], SwapProtection(match[5]), int(match[6]) if match[6] else None
    )


def has_ended(holder: LockHolder) -> bool:
    """Whether the process is no longer there: it ran on this boot of this machine, among the processes that we see, and
    its id is free or somebody else's. False whenever that cannot be told.

    Two clones of one virtual machine have one boot id and the same namespaces, so this alone proves no death: a process
    that lives on the other clone goes on renewing its entry."""
    if _UNKNOWN in (holder.boot_id, holder.pid_namespace):
        return False
    if (holder.boot_id, holder.pid_namespace) != (_boot_id(), _pid_namespace()) or not _proc_shows_our_namespace():
        return False
    try:
        # /proc may hide other users' processes; this tells them from those that are not there.
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    fields = _stat(str(holder.pid))
    if len(fields) <= _START_TIME_FIELD:
        return False
    return fields[0] in _ENDED or holder.start_time not in (_UNKNOWN, fields[_START_TIME_FIELD])


def agent_info(request: str, word: SwapProtection = SwapProtection.UNPROVEN, lease_seconds: int | None = None) -> str:
    """A new agentInfo of this process for a request, at most AGENT_INFO_MAX characters; no two calls give the same.
    lease_seconds: to announce, up to a day; the word is `cas` then.
    Raises InvalidInput for a request that is not [0-9a-z-]{1,36}."""
    if not _REQUEST.fullmatch(request):
        raise InvalidInput(f"A lock's request is at most 36 of the characters 0-9, a-z and -: {request!r}")
    process = f"{os.getpid()}-{_start_time()}"
    last = last_part(word, lease_seconds)
    return f"iceberg-hms/{_boot_id()}/{_pid_namespace()}/{process}/{request}.{_attempt()}/{last}"


def last_part(word: SwapProtection, lease_seconds: int | None) -> str:
    """The end of an agentInfo."""
    return str(word) if lease_seconds is None else f"{SwapProtection.CAS}-{lease_seconds}"


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


def _proc_shows_our_namespace() -> bool:
    """Whether /proc has us under the id that we have here. In a container it may be the host's: there our ids are other
    processes'. NSpid has our id in each namespace from that of /proc down to our own."""
    own = str(os.getpid())
    ids = [line.split()[1:] for line in _read(_PROC / "self/status").splitlines() if line.startswith("NSpid:")]
    return _read(_PROC / "self/stat").partition(" ")[0] == own and ids == [[own]]


def _stat(process: str) -> list[str]:
    # The command name is in brackets and may hold anything, brackets too.
    return _read(_PROC / process / "stat").rpartition(")")[2].split()


def _start_time() -> str:
    fields = _stat("self")
    return fields[_START_TIME_FIELD] if len(fields) > _START_TIME_FIELD else _UNKNOWN


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
