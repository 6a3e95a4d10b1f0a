"""The two lists of table metadata that grow with every commit: its snapshots, and the log of them.

A table of ten thousand snapshots gets one more, or sixty-four in a group, and keeps the rest. So these lists are never
copied: `Rows` holds them in blocks that never change and that later versions of the table share. What is found out
about a full block, its JSON text above all, is found out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import is_
from typing import Any, Final, overload

import orjson

from iceberg_hms.format.metadata.gzip_parts import deflated

Row = Mapping[str, Any]

#: Rows in a block. What is not in a full block is written as JSON with every version, so that a larger one costs more
#: with each commit; a smaller one makes more blocks to go through.
BLOCK_ROWS: Final = 128
#: Rows that `ById` copies with each one that comes; more make a new index of all.
RECENT_ROWS: Final = 64


class Block:
    """A full part of a list. Equal to no other block, and never changed; what it has computed is kept."""

    __slots__ = ("_by_value", "_deflated", "_json", "_last_number", "rows")

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._json: bytes | None = None
        self._deflated: bytes | None = None
        self._last_number: int | None = None
        self._by_value: dict[tuple[str, ...], dict[str, list[Row]]] = {}

    @property
    def json(self) -> bytes:
        """The rows as JSON, without the array's brackets. Raises TypeError for what JSON cannot express."""
        if self._json is None:
            self._json = _inner_json(self.rows)
        return self._json

    @property
    def deflated(self) -> bytes:
        """The same text compressed, for `gzip_parts`."""
        if self._deflated is None:
            self._deflated = deflated(self.json)
        return self._deflated

    @property
    def last_number(self) -> int:
        """The highest sequence number of its snapshots; 0 where none has one."""
        if self._last_number is None:
            self._last_number = max(row.get("sequence-number") or 0 for row in self.rows)
        return self._last_number

    def holding(self, path: tuple[str, ...], value: str) -> Sequence[Row]:
        """As `Rows.holding`."""
        index = self._by_value.get(path)
        if index is None:
            index = {}
            for row in self.rows:
                found = _value_at(row, path)
                if isinstance(found, str):
                    index.setdefault(found, []).append(row)
            self._by_value[path] = index
        return index.get(value, ())


class Rows(Sequence[Row]):
    """An immutable list of JSON objects. A longer one shares the full blocks of the one that it was made from."""

    __slots__ = ("blocks", "rest")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        remaining = iter(rows)
        blocks: list[Block] = []
        while len(taken := tuple(islice(remaining, BLOCK_ROWS))) == BLOCK_ROWS:
            blocks.append(Block(taken))
        self.blocks: tuple[Block, ...] = tuple(blocks)
        #: The last rows, fewer than a block holds.
        self.rest: tuple[Row, ...] = taken

    def plus(self, row: Row) -> Rows:
        """A list with one more row at the end."""
        longer = Rows()
        longer.blocks, longer.rest = self.blocks, (*self.rest, row)
        if len(longer.rest) == BLOCK_ROWS:
            longer.blocks, longer.rest = (*self.blocks, Block(longer.rest)), ()
        return longer

    def extends(self, other: Rows) -> bool:
        """Whether the rows of `other`, the very same objects, stand at the beginning of this list. True is certain;
        False may only mean that the two were read or built apart."""
        full = len(other.blocks)
        if full > len(self.blocks) or not all(map(is_, other.blocks, self.blocks)):
            return False
        after = self.blocks[full].rows if full < len(self.blocks) else self.rest
        return len(other.rest) <= len(after) and all(map(is_, other.rest, after))

    def holding(self, path: tuple[str, ...], value: str) -> list[Row]:
        """The rows that have a string at a place, such as ("summary", "operation"), in their order."""
        found = [row for block in self.blocks for row in block.holding(path, value)]
        return found + [row for row in self.rest if _value_at(row, path) == value]

    def numbered_from(self, number: int) -> list[Row]:
        """The snapshots whose sequence number is `number` or higher, in their order. A snapshot of format version 1
        counts as 0."""
        # With every conflict: no call for each row.
        parts = [*(block.rows for block in self.blocks if block.last_number >= number), self.rest]
        return [row for part in parts for row in part if (row.get("sequence-number") or 0) >= number]

    def json_parts(self) -> list[bytes | Block]:
        """The JSON array in parts, full blocks as such. Raises TypeError for what JSON cannot express."""
        parts: list[bytes | Block] = [b"["]
        for block in self.blocks:
            parts += (block, b",")
        if self.rest:
            parts += (_inner_json(self.rest), b"]")
        elif self.blocks:
            parts[-1] = b"]"
        else:
            parts.append(b"]")
        return parts

    def __len__(self) -> int:
        return len(self.blocks) * BLOCK_ROWS + len(self.rest)

    def __iter__(self) -> Iterator[Row]:
        return chain(chain.from_iterable(block.rows for block in self.blocks), self.rest)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        number, place = divmod(at, BLOCK_ROWS)
        return (self.blocks[number].rows if number < len(self.blocks) else self.rest)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows({list(self)!r})"


class ById(Mapping[int, Row]):
    """Snapshots by their id, immutable: one more costs no copy of all."""

    __slots__ = ("_old", "_recent")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._old: dict[int, Row] = {row["snapshot-id"]: row for row in rows}
        #: None of them is in `_old`.
        self._recent: dict[int, Row] = {}

    def plus(self, row: Row) -> ById:
        """An index with one more snapshot; it takes the place of another with its id."""
        snapshot_id = row["snapshot-id"]
        grown = ById()
        if len(self._recent) < RECENT_ROWS and snapshot_id not in self._old:
            grown._old, grown._recent = self._old, {**self._recent, snapshot_id: row}
        else:
            grown._old = {**self._old, **self._recent, snapshot_id: row}
        return grown

    def __getitem__(self, snapshot_id: int) -> Row:
        row = self._recent.get(snapshot_id)
        return self._old[snapshot_id] if row is None else row

    def get(self, snapshot_id: int, default: Any = None) -> Any:
        """As of a dict, and as fast."""
        row = self._recent.get(snapshot_id)
        return self._old.get(snapshot_id, default) if row is None else row

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._recent or snapshot_id in self._old

    def __iter__(self) -> Iterator[int]:
        return chain(self._old, self._recent)

    def __len__(self) -> int:
        return len(self._old) + len(self._recent)

    def __repr__(self) -> str:
        return f"ById({len(self)})"


def _inner_json(rows: tuple[Row, ...]) -> bytes:
    return orjson.dumps(rows)[1:-1]


def _value_at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row
