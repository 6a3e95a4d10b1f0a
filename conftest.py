"""For every test run: an interrupt ends it in order, so that fixtures stop the servers that they started."""

from __future__ import annotations

import signal
from types import FrameType


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_configure() -> None:
    # Ctrl-C is KeyboardInterrupt already; TERM comes from `kill`, from CI, and from setpriv when make was killed.
    signal.signal(signal.SIGTERM, _interrupt)
