"""Whom a group waits for before it begins: the callers that the last one answered, if they are of the kind that comes
back at once.

Clients that send one commit after the other come back together. Whoever began with the first of them would make the
others wait for a group of one, or split a table's writers into two parts that wait for each other. But a client that
has to write files before its next commit does not come back in time, and to wait for it costs all that are there. So it
is learned how many do. Constants here, and in metastore/locks/queue_position.py, made 11 % fewer commits with 16 in
flight and 8 % fewer with 64 (benchmarks.bench_commit --only fresh,many-commits: medians of two).
"""

from __future__ import annotations

import math
from typing import Final

#: By how much more than came back lately is hoped for, to learn of callers that have become faster.
_STEP: Final = 1 / 8
#: After a hope that was vain it is hoped again only after so many groups; after one more, twice as many, and so on.
_REST_MIN: Final = 2
_REST_MAX: Final = 64


class BatchingWindow:
    """What was learned of one table's callers. Not safe for threads: a table has one worker at a time."""

    def __init__(self) -> None:
        #: Of those that were answered together, how many came back in time.
        self._share = 1.0
        self._rest = 0
        self._next_rest = _REST_MIN

    def expected(self, answered: int) -> int:
        """How many of so many that were answered just now are worth waiting for. Each call is followed by `came`."""
        if self._rest:
            return round(answered * self._share)
        return min(answered, math.ceil(answered * (self._share + _STEP)))

    def came(self, back: int, expected: int, answered: int) -> None:
        """So many changes came while `expected` were waited for."""
        self._share = min(1.0, back / answered)
        if back < expected:
            self._rest = self._next_rest
            self._next_rest = min(self._next_rest * 2, _REST_MAX)
        elif self._rest:
            self._rest -= 1
        else:
            self._next_rest = _REST_MIN
