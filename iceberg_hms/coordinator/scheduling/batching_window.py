"""How many callers a group waits for before it begins: those that the last group answered and that commit again at
once.

Clients that send one commit after another come back together. A group that began with the first of them would make the
others wait for a group of one, or split a table's writers into two halves that wait for each other. But a client that
writes files before its next commit does not come back in time, and waiting for it delays everyone else. So the window
learns how many callers come back. Constants here, and in metastore/locks/queue_position.py, made 11 % fewer commits
with 16 in flight and 8 % fewer with 64 (python -m benchmarks commit --only fresh,many-commits: medians of two).
"""

from __future__ import annotations

import math
from typing import Final

#: Expect this much more than came back lately, to notice callers that have become faster.
_PROBE_SHARE: Final = 1 / 8
#: After a miss, wait this many groups before probing again; doubles on each miss.
_GROUPS_BETWEEN_PROBES_MIN: Final = 2
_GROUPS_BETWEEN_PROBES_MAX: Final = 64


class BatchingWindow:
    """What one table's groups learned of its callers. Not safe for threads: a table has one worker at a time."""

    def __init__(self) -> None:
        #: Of the callers that were answered together, how many came back in time.
        self._returning_share = 1.0
        self._groups_until_probe = 0
        self._groups_after_next_miss = _GROUPS_BETWEEN_PROBES_MIN

    def expected(self, answered: int) -> int:
        """How many of the callers that were just answered are worth waiting for. Follow each call by `record`."""
        if self._groups_until_probe:
            return round(answered * self._returning_share)
        return min(answered, math.ceil(answered * (self._returning_share + _PROBE_SHARE)))

    def record(self, returned: int, expected: int, answered: int) -> None:
        """Of the callers that were answered, `returned` came back in time; the group waited for `expected`."""
        self._returning_share = min(1.0, returned / answered)
        if returned < expected:
            self._groups_until_probe = self._groups_after_next_miss
            self._groups_after_next_miss = min(self._groups_after_next_miss * 2, _GROUPS_BETWEEN_PROBES_MAX)
        elif self._groups_until_probe:
            self._groups_until_probe -= 1
        else:
            self._groups_after_next_miss = _GROUPS_BETWEEN_PROBES_MIN
