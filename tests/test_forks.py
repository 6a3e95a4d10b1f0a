from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

from iceberg_hms import forks

ROOT = Path(__file__).parents[1]


def said_by(code: str, *arguments: str) -> str:
    """What a process of its own prints, which forks and waits for its child."""
    # Later Pythons warn of every fork of a process with threads, which is what is tested.
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout


FORKING = """
import os
from iceberg_hms import forks

class Thing:
    told_in = ()
    def begin_in_forked_child(self):
        self.told_in += (os.getpid(),)

first, second = Thing(), Thing()
for thing in (first, second):
    forks.tell(thing)
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(first.told_in == second.told_in == (os.getppid(), os.getpid()))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) + (first.told_in == (os.getpid(),)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), first.told_in, second.told_in)
"""


def test_every_forked_child_is_told_and_its_parent_is_not() -> None:
    assert said_by(FORKING) == "2 () ()\n"


class Thing:
    told = 0

    def begin_in_forked_child(self) -> None:
        self.told = os.getpid()


def test_who_is_told_of_forks_is_not_kept_alive_by_it() -> None:
    thing = Thing()
    forks.tell(thing)
    assert thing in forks._alive
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None
