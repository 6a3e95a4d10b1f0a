"""Attempts again what a store failed to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_exponential,
)

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import CorruptFile, ResourceExhausted, StorageError, StorageRefused
from iceberg_hms.work import stop_if_caller_left

Result = TypeVar("Result")

#: Seconds before the first retry, and at most before a later one; give or take half.
WAIT_SECONDS: Final = (0.1, 5.0)
#: The errors after which another attempt may succeed; memory is the caller's to wait for.
_TRANSIENT: Final = retry_if_exception_type(StorageError) & retry_if_not_exception_type(
    (CorruptFile, ResourceExhausted, StorageRefused)
)


class Retries:
    """Calls attempts until one succeeds, with exponential backoff and jitter.

    count: how often to try again. total_seconds: no attempt begins later than so long after the first one. Safe to
    share between threads.
    """

    def __init__(
        self,
        count: int = 0,
        *,
        wait_seconds: tuple[float, float] = WAIT_SECONDS,
        total_seconds: float = float("inf"),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._count = count
        self._wait = wait_exponential(multiplier=wait_seconds[0], exp_base=4, max=wait_seconds[1])
        self._total_seconds = total_seconds
        self._clock = clock

    def call(self, attempt: Callable[[], Result]) -> Result:
        """What the first successful attempt returns. Raises the last attempt's error, and CommitFailed if the caller
        leaves meanwhile."""
        started = self._clock.monotonic()
        try:
            return attempt()
        except StorageError as error:
            # Retrying calls sixty functions around an attempt that succeeds, so it only learns of one that failed.
            first = [error]

        def again() -> Result:
            if first:
                raise first.pop()
            return attempt()

        return self._retrying(started)(again)

    def _retrying(self, started: float) -> Retrying:
        def wait(state: RetryCallState) -> float:
            # Jitter: those who overload a store together must not come back together.
            return self._wait(state) * (0.5 + self._clock.jitter())

        def is_done(state: RetryCallState) -> bool:
            begins = self._clock.monotonic() - started + state.upcoming_sleep
            return begins >= self._total_seconds or state.attempt_number > self._count

        def sleep(seconds: float) -> None:
            stop_if_caller_left()
            self._clock.sleep(seconds)

        return Retrying(
            retry=_TRANSIENT,
            stop=is_done,
            wait=wait,
            sleep=sleep,
            reraise=True,
        )
