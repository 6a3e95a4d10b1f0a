"""One question at a time: many who ask the same share few answers, and none is older than its asker.

A table that many clients load is looked up in the metastore once for all that came meanwhile, not once for each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from iceberg_hms.coordinator.ports import Runtime, ThreadEvent
from iceberg_hms.errors import IcebergHmsError

#: Who has waited for so many seconds for others asks for itself, beside them.
WAIT_SECONDS: Final = 5.0

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class _Round(Generic[Answer]):
    """One question, and those who wait for its answer. answers: one, or none if it failed."""

    def __init__(self, done: ThreadEvent) -> None:
        self.done = done
        self.answers: list[Answer] = []
        self.error: Exception | None = None


class Coalesced(Generic[Key, Answer]):
    """A function of a key, called for several callers at once. Safe for threads.

    Who comes while a call is under way waits for the *next* one: the one under way may have seen what it asks about
    before something was done that the caller knows of. So however many ask at the same time cause two calls, and an
    answer is never older than the question.

    ask: raises IcebergHmsError; each caller gets an error of its own. wait_seconds: the most that a caller waits for
    others before it asks for itself; what it takes beyond that is `ask`'s own time.
    """

    def __init__(self, runtime: Runtime, ask: Callable[[Key], Answer], *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._runtime = runtime
        self._ask = ask
        self._wait_seconds = wait_seconds
        self._mutex = self._runtime.mutex()
        #: Both hold a key for as long as somebody asks about it.
        self._under_way: dict[Key, _Round[Answer]] = {}
        self._next: dict[Key, _Round[Answer]] = {}

    def get(self, key: Key) -> Answer:
        """The answer, of a call that began after this one did. Raises what the call raised."""
        with self._mutex:
            before = self._under_way.get(key)
            joined = self._next.get(key)
            if joined is None:
                mine = _Round[Answer](self._runtime.event())
                rounds = self._under_way if before is None else self._next
                rounds[key] = mine
        if joined is None:
            return self._lead(key, mine, before)
        if joined.done.wait(self._wait_seconds):
            for answer in joined.answers:
                return answer
            if isinstance(joined.error, IcebergHmsError):
                raise copy.copy(joined.error) from joined.error
        # It takes too long, or it ended in a way that is its caller's own, such as an interrupt.
        return self._ask(key)

    def _lead(self, key: Key, mine: _Round[Answer], before: _Round[Answer] | None) -> Answer:
        """Ask for all who join the round until it begins, once the one before it is over."""
        try:
            if before is not None:
                before.done.wait(self._wait_seconds)
                with self._mutex:
                    # In a child that was forked meanwhile it is no longer there.
                    self._next.pop(key, None)
                    self._under_way[key] = mine
            answer = self._ask(key)
            mine.answers.append(answer)
        except Exception as error:
            mine.error = error
            raise
        finally:
            with self._mutex:
                for rounds in (self._next, self._under_way):
                    if rounds.get(key) is mine:
                        del rounds[key]
            mine.done.set()
        return answer
