"""`iceberg-hms` with a probe of its event loop: how long did everything wait for it?

    python -m labs.siege.loop_probe STALLS serve --port 0 ...

STALLS is a file: the probe appends a line for each stall, when it ended (`time.monotonic()`), how long it was, and the
CPU time that the process took in it, in seconds. A stall is a timer of the server's event loop that fires late: another
callback ran, other threads kept the interpreter, or other processes kept the processors. Of the last, the CPU time has
nothing.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

import uvicorn

from iceberg_hms.cli.main import run

#: How often the probe's timer fires, and how late it must be to count; seconds.
PROBE_SECONDS = 0.01
STALL_SECONDS = 0.02


class Stall(NamedTuple):
    """late, computed: seconds, of the second at most as many as of the first."""

    late: float
    computed: float


def stalls_of(file: Path, start: float, end: float) -> list[Stall]:
    """The stalls that ended between two times of `time.monotonic()`."""
    lines = [map(float, line.split()) for line in file.read_text(encoding="ascii").splitlines()]
    return [Stall(late, min(late, computed)) for ended, late, computed in lines if start <= ended <= end]


async def probe(file: Path) -> None:
    """Write the stalls of the running event loop to the file, for ever."""
    with file.open("a", encoding="ascii", buffering=1) as lines:
        while True:
            due, computed = time.monotonic() + PROBE_SECONDS, time.process_time()
            await asyncio.sleep(PROBE_SECONDS)
            now = time.monotonic()
            if now - due > STALL_SECONDS:
                lines.write(f"{now} {now - due} {time.process_time() - computed}\n")


def probe_servers(file: Path) -> None:
    """Probe the event loop of each server that this process starts from here on."""
    started = uvicorn.Server.startup
    probes = []

    async def startup(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await started(server, sockets)
        probes.append(asyncio.ensure_future(probe(file)))

    uvicorn.Server.startup = startup  # type: ignore[method-assign, assignment]


def main() -> None:
    probe_servers(Path(sys.argv.pop(1)))
    run()


if __name__ == "__main__":
    main()
