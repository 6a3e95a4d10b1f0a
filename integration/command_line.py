"""`iceberg-hms` as its users start it: a command that ends, or a server for as long as a test needs it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PROGRAM = Path(sys.executable).with_name("iceberg-hms")
#: For a JVM on a busy machine; seconds.
START, END = 120, 60


def clean_environment(**more: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("ICEBERG_HMS_")} | more


def program(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=START,
        env=clean_environment(**environ),
    )


def line_of(stream: IO[str]) -> str:
    """The next line, or a failure when it does not come in time."""
    ready, _, _ = select.select([stream], [], [], START)
    assert ready, "no line came in time"
    return stream.readline()


@contextmanager
def running(
    *arguments: str,
    stderr: IO[str] | int = subprocess.PIPE,
    launcher: Sequence[str] = (),
    descriptors: Sequence[int] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server command and its announcement; it is killed if the test did not end it.

    stderr: give a file if it logs much, since nobody reads the pipe. launcher: a command that becomes the program,
    whose path and arguments follow. descriptors: what it inherits. environ: its settings.
    """
    process = subprocess.Popen(
        [*launcher, PROGRAM, *arguments],
        pass_fds=descriptors,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=clean_environment(**(environ or {})),
    )
    with process:
        try:
            assert process.stdout is not None
            line = line_of(process.stdout)
            assert line, "it ended" if process.stderr is None else process.stderr.read()
            yield process, json.loads(line)
        finally:
            process.kill()
