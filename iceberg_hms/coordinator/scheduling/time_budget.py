"""A bound on the share of all time that something may take."""

from __future__ import annotations


class TimeBudget:
    """percent: of all time; after each use so much time must pass that the share is kept. Times in seconds, by
    `Runtime.now()`."""

    def __init__(self, percent: int) -> None:
        self._share = percent / 100
        self._not_before = float("-inf")

    def is_left(self, now: float) -> bool:
        """Whether it may begin now."""
        return now >= self._not_before

    def used(self, begun: float, ended: float) -> None:
        """It took from `begun` to `ended`."""
        self._not_before = ended + (ended - begun) * (1 / self._share - 1)
