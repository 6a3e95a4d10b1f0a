"""The coordinator's world in production: real threads, and the clock that it is given."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Event


class ThreadRuntime:
    """Implements `coordinator.ports.Runtime`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.monotonic()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def jitter(self) -> float:
        return self._clock.jitter()

    def uuid(self) -> str:
        return self._clock.uuid()

    def event(self) -> Event:
        return threading.Event()

    def mutex(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        # A process that ends waits for a commit under way, so that no lock entry is left for a lease to end.
        threading.Thread(target=function, name=name, daemon=background).start()

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all but the first on threads of their own, the first on the caller's; in the caller's context."""
        if not functions:
            return []
        results: list[Any] = [None] * len(functions)
        errors: list[BaseException] = []

        def run(index: int) -> None:
            try:
                results[index] = functions[index]()
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                errors.append(error)

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(run, index))
            for index in range(1, len(functions))
        ]
        for thread in threads:
            thread.start()
        run(0)
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results
