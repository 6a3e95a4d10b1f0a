"""Ctrl-C for the main thread, as a real signal."""

from __future__ import annotations

import signal
import threading
from types import FrameType

#: In seconds: how long the main thread may take to run the handler, and when the signal is sent again meanwhile.
NOTICED_WITHIN = 30.0
AGAIN_AFTER = 0.1


class CtrlC:
    """The handler of SIGINT. `send` has it raise one KeyboardInterrupt in the main thread.

    Python runs handlers between two instructions of the main thread. A signal that comes after the last of them and
    before a wait begins wakes nobody, so it is sent until the handler ran.
    """

    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._raised = threading.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._wanted.is_set():
            self._wanted.clear()
            self._raised.set()
            raise KeyboardInterrupt

    def send(self) -> None:
        """From another thread; returns when the main thread has it."""
        main = threading.main_thread()
        assert threading.current_thread() is not main
        self._raised.clear()
        self._wanted.set()
        for _ in range(round(NOTICED_WITHIN / AGAIN_AFTER)):
            signal.pthread_kill(main.ident or 0, signal.SIGINT)
            if self._raised.wait(AGAIN_AFTER):
                return
        raise AssertionError("the main thread did not notice Ctrl-C")
