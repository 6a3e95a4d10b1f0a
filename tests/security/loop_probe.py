"""`iceberg-hms` with a probe of its event loop: how long did everything wait for it?

    python -m tests.security.loop_probe STALLS serve --port 0 ...

STALLS is a file: the probe appends a line for each stall, when it ended (`time.monotonic()`) and how long it was, in
seconds. A stall is a timer of the server's event loop that fires late: another callback ran, or other threads kept the
interpreter.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import uvicorn

from iceberg_hms.cli.main import run

#: How often the probe's timer fires, and how late it must be to count; seconds.
PROBE_SECONDS = 0.01
STALL_SECONDS = 0.02


def stalls_of(file: Path, start: float, end: float) -> list[float]:
    """The stalls, in seconds, that ended between two times of `time.monotonic()`."""
    lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    return [float(seconds) for ended, seconds in lines if start <= float(ended) <= end]


async def probe(file: Path) -> None:
    """Write the stalls of the running event loop to the file, for ever."""
    with file.open("a", encoding="ascii", buffering=1) as lines:
        while True:
            due = time.monotonic() + PROBE_SECONDS
            await asyncio.sleep(PROBE_SECONDS)
            now = time.monotonic()
            if now - due > STALL_SECONDS:
                lines.write(f"{now} {now - due}\n")


def main() -> None:
    file = Path(sys.argv.pop(1))
    started = uvicorn.Server.startup
    probes = []

    async def startup(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await started(server, sockets)
        probes.append(asyncio.ensure_future(probe(file)))

    uvicorn.Server.startup = startup  # type: ignore[method-assign]
    run()


if __name__ == "__main__":
    main()
