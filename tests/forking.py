"""Processes of their own, for tests: what a fork leaves to its child, and what runs at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def said_by(code: str, *arguments: str) -> str:
    """What a Python process that runs this code prints."""
    # Later Pythons warn of every fork of a process with threads, which is what is tested.
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout
