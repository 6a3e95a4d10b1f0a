"""Whether a process has ended, asked in another PID namespace than the one that /proc shows: as in a container with the
host's /proc."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Ways to begin a PID namespace without a /proc of its own; the second needs no root where users may have namespaces.
UNSHARE = (["unshare", "--pid", "--fork"], ["unshare", "--user", "--map-root-user", "--pid", "--fork"])

#: Run as the first process of a namespace: asks of itself, of a child that lives, and of one that was collected.
ASK = """
import os, subprocess, sys
from pathlib import Path
from iceberg_hms.metastore.locks.holder_identity import has_ended, parse

CHILD = "import sys; from iceberg_hms.metastore.locks.holder_identity import agent_info; "
CHILD += "print(agent_info('r'), flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
holder = parse(child.stdout.readline().strip())
assert holder.pid == child.pid, "the child does not know its own number"
seen = Path("/proc/self/stat").read_text().split()[0]
lives = has_ended(holder)
child.communicate("")
print(os.getpid(), seen, lives, has_ended(holder))
"""


def works(unshare: list[str]) -> bool:
    """Whether this machine lets us create a namespace in this way."""
    try:
        return subprocess.run([*unshare, "true"], capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(params=[" ".join(way) for way in UNSHARE if works(way)][:1])
def unshare(request: pytest.FixtureRequest) -> list[str]:
    """The first way that works on this machine; without one these tests cannot run."""
    return str(request.param).split()


def asked_within(unshare: list[str]) -> tuple[int, int, bool, bool]:
    """Our own process id, the one that /proc shows, whether a living process has ended, and whether an ended one has;
    by a process in a namespace of its own."""
    command = [*unshare, sys.executable, "-c", ASK]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    return int(printed[0]), int(printed[1]), printed[2] == "True", printed[3] == "True"


def test_the_proc_of_another_namespace_does_not_make_a_living_process_seem_ended(unshare: list[str]) -> None:
    own, shown, seems_ended, _ = asked_within(unshare)
    assert own == 1
    assert shown != own, "/proc is of our namespace: the test shows nothing"
    assert not seems_ended


def test_with_the_proc_of_the_namespace_the_living_and_the_ended_are_distinguished(unshare: list[str]) -> None:
    own, shown, seems_ended, ended = asked_within([*unshare, "--mount-proc"])
    assert own == shown == 1
    assert (seems_ended, ended) == (False, True)
