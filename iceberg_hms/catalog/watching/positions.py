"""How far a watcher has followed each table, and the text from which another one goes on there."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from iceberg_hms.catalog.watching.head_moves import Head
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput

#: How many tables one watcher follows at most. It bounds its memory and the size of its token.
TABLES_MAX: Final = 20_000
#: Characters of a token at most: about 300 for each table.
TOKEN_SIZE_MAX: Final = 2_000 * TABLES_MAX
#: How many tables differ from those that all positions share, before these are copied.
_RECENT_MAX: Final = 64
_KIND: Final = "iceberg-hms new snapshots"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far one table was followed.

    uuid: the table's; None in v1 only. metadata_location: of the metadata file that was followed to its end; "" before
    the first. head: where main was after the last change that a caller got; behind that file's while the changes of a
    later one are handed out."""

    uuid: str | None
    metadata_location: str = ""
    head: Head = field(default_factory=Head)


class Positions(Mapping[TableName, Position]):
    """Positions by table; immutable. Versions of it share what they have in common, so that each change of a long list
    can have its own."""

    __slots__ = ("_old", "_recent")

    def __init__(self, positions: Mapping[TableName, Position] | None = None) -> None:
        self._old: dict[TableName, Position] = dict(positions or {})
        #: What differs from `_old`; None: the table is gone.
        self._recent: dict[TableName, Position | None] = {}

    def with_position(self, name: TableName, position: Position) -> Positions:
        """The same with this position. Raises InvalidInput beyond `TABLES_MAX` tables."""
        if name not in self and len(self._old) + len(self._recent) >= TABLES_MAX and len(self) >= TABLES_MAX:
            raise InvalidInput(
                f"More than {TABLES_MAX:,} tables are to be watched", next_step="share them among several watchers"
            )
        return self._changed(name, position)

    def without(self, name: TableName) -> Positions:
        """The same without this table."""
        return self._changed(name, None)

    def _changed(self, name: TableName, position: Position | None) -> Positions:
        changed = Positions.__new__(Positions)
        changed._old, changed._recent = self._old, {**self._recent, name: position}
        return Positions(dict(changed.items())) if len(changed._recent) > _RECENT_MAX else changed

    def __getitem__(self, name: TableName) -> Position:
        found = self._recent[name] if name in self._recent else self._old[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[TableName]:
        yield from (name for name in self._old if name not in self._recent)
        yield from (name for name, position in self._recent.items() if position is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def to_token(watched: Iterable[str], positions: Positions) -> str:
    """The text of what is watched, namespaces and tables by name, and how far; one line of JSON."""
    tables = [
        [str(name), each.uuid, each.metadata_location, each.head.snapshot_id, each.head.sequence_number]
        for name, each in sorted(positions.items())
    ]
    state = [sorted(watched), tables]
    token = {"kind": _KIND, "version": _VERSION, "checksum": checksum(state), "state": state}
    return orjson.dumps(token).decode()


def from_token(token: str) -> tuple[frozenset[str], Positions]:
    """What is watched, and how far. Raises InvalidInput for a text that `to_token` did not make."""
    if not isinstance(token, str) or len(token) > TOKEN_SIZE_MAX:
        raise _unusable("is no text of a watcher")
    try:
        raw = orjson.loads(token)
    except orjson.JSONDecodeError:
        raise _unusable("is cut off or changed") from None
    if not isinstance(raw, dict) or raw.get("kind") != _KIND:
        raise _unusable("is of something else")
    if raw.get("version") != _VERSION:
        raise _unusable(f"is of version {raw.get('version')!r}, and this release reads version {_VERSION}")
    state = raw.get("state")
    if not isinstance(state, list) or raw.get("checksum") != checksum(state):
        raise _unusable("was changed")
    try:
        watched, tables = state
        found = {_name(name): _position(*parts) for name, *parts in tables}
    except (TypeError, ValueError):
        raise _unusable("was changed") from None
    return frozenset(watched), Positions(found)


def _name(text: str) -> TableName:
    namespace, _, name = text.partition(".")
    return TableName(namespace, name)


def _position(uuid: str | None, location: str, snapshot_id: int | None, number: int) -> Position:
    return Position(uuid, location, Head(snapshot_id, number))


def checksum(state: Any) -> int:
    """Finds what was damaged, not who would forge: a token gives nobody a right."""
    return zlib.crc32(orjson.dumps(state))


def _unusable(why: str) -> InvalidInput:
    return InvalidInput(
        f"The token of the watch {why}",
        next_step="pass a token as the watcher gave it; or begin anew without one, and read the tables as they are",
    )
