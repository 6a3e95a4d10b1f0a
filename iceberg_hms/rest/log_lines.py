"""Lines of JSON for logs, which no client can forge or make long.

A line has only ASCII, with all else as `\\u....`, so that nothing in it ends it or steers a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from iceberg_hms.clock import Clock

#: How much a line repeats of each text that a client sent.
TEXT_MAX: Final = 256

_encode: Final = json.JSONEncoder().encode


def json_line(fields: Mapping[str, Any]) -> str:
    """The fields as one line."""
    return _encode(fields).replace("\x7f", "\\u007f")


def time_of(clock: Clock) -> str:
    """Now, in UTC to the millisecond, such as `2026-11-22T16:12:48.031Z`."""
    ended = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
    return ended.replace("+00:00", "Z")


def cut(text: str, most: int = TEXT_MAX) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... {len(text)} characters"
