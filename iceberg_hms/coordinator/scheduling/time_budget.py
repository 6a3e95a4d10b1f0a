"""A bound on the share of all time that something may take."""

from __future__ import annotations


class TimeBudget:
    """After each use, enough time must pass unused to keep to the share. percent: of all time, at least 1. Times are
    seconds, by `Runtime.now()`."""

    def __init__(self, percent: int) -> None:
        self._share = percent / 100
        self._not_before = float("-inf")

    def allows(self, now: float) -> bool:
        """Whether a use may begin now."""
        return now >= self._not_before

    def seconds_until_allowed(self, now: float) -> float:
        """How long until a use may begin; 0: now."""
        return max(0.0, self._not_before - now)

    def spend(self, begun: float, ended: float) -> None:
        """Record a use."""
        self._not_before = ended + (ended - begun) * (1 / self._share - 1)
