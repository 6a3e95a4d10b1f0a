"""The memory that a process needs while something runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SAMPLE_SECONDS: Final = 0.005
_MIB: Final = 1_024


@contextmanager
def peak_of(pid: int) -> Iterator[Callable[[], float]]:
    """The largest RssAnon of a process while the block runs, in MiB. A thread looks at it every few milliseconds."""
    ended, found = threading.Event(), [0]
    status = Path(f"/proc/{pid}/status")

    def look() -> None:
        while True:
            lines = status.read_text(encoding="utf-8").splitlines()
            found[0] = max(found[0], next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")))
            if ended.wait(_SAMPLE_SECONDS):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: found[0] / _MIB
    finally:
        ended.set()
        thread.join()
