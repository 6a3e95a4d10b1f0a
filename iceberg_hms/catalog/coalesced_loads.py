"""Request coalescing: concurrent loads of one key share a call, and no result is older than its request.

If many clients load a table, one call to the metastore serves all that arrived during the previous call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from iceberg_hms.coordinator.ports import Runtime, ThreadEvent
from iceberg_hms.errors import IcebergHmsError, ResourceExhausted, own_copy

#: After so many seconds of waiting for another caller's load, a caller loads by itself.
WAIT_SECONDS: Final = 5.0

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class _SharedLoad(Generic[Result]):
    """One load, and the callers that wait for it. results: one, or none if it failed."""

    def __init__(self, done: ThreadEvent) -> None:
        self.done = done
        self.results: list[Result] = []
        self.error: Exception | None = None


class CoalescedLoads(Generic[Key, Result]):
    """Calls a load function by key, once for several callers. Safe for threads.

    A caller that arrives during a call waits for the *next* one: the running call may have read before a change that
    the caller knows of. So any number of concurrent callers cause two calls.

    load: raises IcebergHmsError; each caller gets a copy of its own. wait_seconds: how long a caller waits for others
    before it loads by itself, beside them.
    """

    def __init__(self, runtime: Runtime, load: Callable[[Key], Result], *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._runtime = runtime
        self._load = load
        self._wait_seconds = wait_seconds
        self._mutex = self._runtime.mutex()
        # Both hold a key only while callers wait for it.
        self._under_way: dict[Key, _SharedLoad[Result]] = {}
        self._next: dict[Key, _SharedLoad[Result]] = {}

    def get(self, key: Key) -> Result:
        """The result of a call that began after this one. Raises what the call raised."""
        with self._mutex:
            before = self._under_way.get(key)
            joined = self._next.get(key)
            if joined is None:
                mine = _SharedLoad[Result](self._runtime.event())
                rounds = self._under_way if before is None else self._next
                rounds[key] = mine
        if joined is None:
            return self._lead(key, mine, before)
        if joined.done.wait(self._wait_seconds):
            for result in joined.results:
                return result
            # What one caller may hold says nothing of the others.
            if isinstance(joined.error, IcebergHmsError) and not isinstance(joined.error, ResourceExhausted):
                raise own_copy(joined.error) from joined.error
        # It takes too long, or ended with an exception of its own caller's, such as an interrupt.
        return self._load(key)

    def _lead(self, key: Key, mine: _SharedLoad[Result], before: _SharedLoad[Result] | None) -> Result:
        """Load for all callers that join before the load starts, which is when the previous one has ended."""
        try:
            if before is not None:
                before.done.wait(self._wait_seconds)
                with self._mutex:
                    # A child that forked meanwhile does not have it.
                    self._next.pop(key, None)
                    self._under_way[key] = mine
            result = self._load(key)
            mine.results.append(result)
        except Exception as error:
            mine.error = error
            raise
        finally:
            with self._mutex:
                for rounds in (self._next, self._under_way):
                    if rounds.get(key) is mine:
                        del rounds[key]
            mine.done.set()
        return result
