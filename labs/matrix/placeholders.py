"""Replaces what differs from run to run in a recorded commit: ids, uuids, paths, times, sizes and user names.

Equal values get equal placeholders within one recording, numbered as they first occur, so two recordings of the same
verb are equal. Placeholders keep the type that the REST protocol asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PATH: Final = re.compile(r"(?:file:)?/.*")
#: Keys whose values are snapshot ids.
_SNAPSHOT_IDS: Final = frozenset({"snapshot-id", "parent-snapshot-id", "current-snapshot-id"})
#: Keys whose values are as they happen to be, and what stands for them.
_FIXED: Final[dict[str, Any]] = {
    "timestamp-ms": 0,
    "trino_query_id": "query",
    "trino_user": "user",
    "added-files-size": "1",
    "removed-files-size": "1",
    "total-files-size": "1",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
}


class Placeholders:
    """The placeholders of one recording."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, Any], Any] = {}
        self._counts: dict[str, int] = {}

    def replaced(self, value: Any, key: str = "") -> Any:
        """The same JSON value with placeholders. key: under which it stands."""
        if isinstance(value, dict):
            return {name: self.replaced(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.replaced(each, key) for each in value]
        if key in _FIXED:
            return _FIXED[key]
        if key in _SNAPSHOT_IDS and isinstance(value, int) and value != -1:
            return self._named("snapshot", value, lambda number: 1_000 + number)
        if not isinstance(value, str):
            return value
        if _UUID.fullmatch(value):
            return self._named("uuid", value, lambda number: f"00000000-0000-0000-0000-{number:012}")
        if _PATH.fullmatch(value):
            end = "" if "." not in value.rpartition("/")[2] else "." + value.rpartition(".")[2]
            return self._named("path", value, lambda number: f"file:/lake/{number}{end}")
        return value

    def _named(self, kind: str, value: Any, name: Callable[[int], Any]) -> Any:
        if (kind, value) not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[kind, value] = name(self._counts[kind])
        return self._given[kind, value]
