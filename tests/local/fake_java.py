"""A program named `java` that does what a test says instead of starting a JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ANNOUNCE = "sys.stdout.write('12345\\nthe-token\\n'); sys.stdout.flush()\n"
#: A gateway as py4j speaks to it, which knows no name but of packages, and ends without its token.
GATEWAY = """
import os, socket, threading

def serve():
    client = server.accept()[0].makefile("rwb")
    if [client.readline(), client.readline()] != [b"A\\n", b"the-token\\n"]:
        os._exit(1)
    client.write(b"!yv\\n")
    client.flush()
    while client.readline() not in (b"e\\n", b""):
        pass
    client.write(b"!yp\\n")
    client.flush()

server = socket.create_server(("127.0.0.1", 0))
sys.stdout.write(f"{server.getsockname()[1]}\\nthe-token\\n")
sys.stdout.flush()
threading.Thread(target=serve, daemon=True).start()
"""
UNTIL_THE_PIPE_BREAKS = "sys.stdin.read()\n"
FOR_EVER = "import threading; threading.Event().wait()\n"


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Make JAVA_HOME a folder whose java runs this Python code."""
    program = folder / "java home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    source = program.with_suffix(".py")
    source.write_text(f"import sys\n{code}")
    # Not by a `#!` line of Python's own: that cannot name a path with a space in it.
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{source}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(program.parent.parent))
