"""Lines of JSON for logs, which no client can forge or make long, and a limit for the lines that clients cause.

A line has only ASCII, with all else as `\\u....`, so that nothing in it ends it or steers a terminal.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

#: How much a line repeats of each text that a client sent.
TEXT_MAX: Final = 256
#: How many keys of a limit have room of their own at a time. Beyond that, other callers share the room of a cause.
KEYS_MAX: Final = 1_024

_encode: Final = json.JSONEncoder().encode
#: A line that is no longer has no text that is too long: beside any text it has its time.
_SHORT: Final = TEXT_MAX + len('{"time": "2026-11-22T16:12:48.031Z", "": ""}')


class JsonLog:
    """A logger whose lines are JSON. Any thread may write."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._logger = logging.getLogger(name)
        self._clock = clock

    def wants(self, level: int = logging.INFO) -> bool:
        """Whether lines of this level are logged."""
        return self._logger.isEnabledFor(level)

    def write(
        self, fields: dict[str, Any], *, level: int = logging.INFO, most: int | None = None, **bounded: Any
    ) -> bool:
        """Write a line: the time, the fields with all texts cut, and the fields that its writer has bounded. The
        default warehouse is not named. False for a line of more than `most` characters, which is not written."""
        if not self.wants(level):
            return True
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        line = {"time": now.replace("+00:00", "Z"), **fields}
        if line.get("warehouse") == DEFAULT_WAREHOUSE:
            del line["warehouse"]
        text = _encode(line)
        if len(text) > _SHORT:
            text = _encode(_cut(line))
        if bounded:
            text = f"{text[:-1]}, {_encode(bounded)[1:]}"
        text = text.replace("\x7f", "\\u007f")
        if most is not None and len(text) > most:
            return False
        # Not `log`, which looks for the caller's line of code.
        self._logger.handle(self._logger.makeRecord(self._logger.name, level, __file__, 0, text, (), None))
        return True


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else cut(value)
    if isinstance(value, dict):
        return {name: _cut(part) for name, part in value.items()}
    return [_cut(part) for part in value] if isinstance(value, (list, tuple)) else value


def cut(text: str, most: int = TEXT_MAX) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... {len(text)} characters"


class LineLimit:
    """Room for so many lines of one cause and caller in so many seconds. Only the event loop uses it.

    tell: gets how many more there were of a cause and caller when these seconds are over.
    """

    def __init__(self, lines: int, seconds: float, tell: Callable[[str, str | None, int], None]) -> None:
        self._lines = lines
        self._seconds = seconds
        self._tell = tell
        self._counts: Counter[tuple[str, str | None]] = Counter()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def has_room(self, cause: str, caller: str | None, now: float) -> bool:
        """Whether one more line may be written. cause: one of few. now: seconds on a clock that never goes back."""
        if now - self._since >= self._seconds:
            self.flush()
            self._since = now
        key = (cause, caller)
        if key not in self._counts and len(self._counts) >= KEYS_MAX:
            key = (cause, None)
        self._counts[key] += 1
        if self._counts[key] <= self._lines:
            return True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.flush)
        return False

    def flush(self) -> None:
        """Tell how many lines had no room, and make room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, Counter()
        for (cause, caller), count in counts.items():
            if count > self._lines:
                self._tell(cause, caller, count - self._lines)
