"""Waits for what no event announces."""

from __future__ import annotations

from collections.abc import Callable
from operator import not_
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_exponential

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], seconds: float = 60.0) -> Found:
    """Ask until the condition holds, and for so long at most: its last value."""

    def last(state: RetryCallState) -> Found:
        assert state.outcome is not None
        found: Found = state.outcome.result()
        return found

    polling = Retrying(
        retry=retry_if_result(not_),
        stop=stop_after_delay(seconds),
        # Most conditions hold at once; others ask a server, which has better things to do.
        wait=wait_exponential(multiplier=0.002, max=0.02),
        retry_error_callback=last,
    )
    return polling(condition)
