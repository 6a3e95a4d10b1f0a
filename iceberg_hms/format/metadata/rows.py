"""The two lists of table metadata that grow with every commit: its snapshots, and the log of them.

A table of ten thousand snapshots gets one more, or sixty-four in a group, and keeps the rest. So these lists are never
copied: `Rows` holds them in immutable blocks that later versions of the table share. A full block computes its JSON
text and its indexes only once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import is_
from typing import Any, Final, NamedTuple, overload

import orjson

from iceberg_hms.format.metadata.gzip_parts import deflate
from iceberg_hms.format.metadata.parsed_size import TextSize

Row = Mapping[str, Any]

#: Rows in a block. Each version of the table encodes the rows that fill no block as JSON again, so larger blocks cost
#: more with each commit; smaller ones make more blocks to iterate over.
BLOCK_ROWS: Final = 128
#: How many rows `SnapshotIndex.with_row` copies at most before it builds a new index of all rows.
RECENT_ROWS: Final = 64


#: Summary property of a cherry-pick: the snapshot whose files it added (Java: SnapshotSummary).
SOURCE_SNAPSHOT_ID: Final = "source-snapshot-id"
_SOURCE: Final = ("summary", SOURCE_SNAPSHOT_ID)


class RowBlock:
    """A full, immutable part of a list; it caches what it computes. Blocks are compared by identity."""

    __slots__ = ("_by_value", "_deflated", "_json", "_max_sequence_number", "_text_size", "rows")

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._json: bytes | None = None
        self._deflated: bytes | None = None
        self._max_sequence_number: int | None = None
        self._text_size: TextSize | None = None
        self._by_value: dict[tuple[str, ...], dict[str, list[Row]]] = {}

    @property
    def json(self) -> bytes:
        """The rows as JSON, without the array's brackets. Raises TypeError for values that JSON cannot express."""
        if self._json is None:
            self._json = _inner_json(self.rows)
        return self._json

    @property
    def deflated(self) -> bytes:
        """The same text compressed, for `gzip_parts`."""
        if self._deflated is None:
            self._deflated = deflate(self.json)
        return self._deflated

    @property
    def text_size(self) -> TextSize:
        """Of the same text."""
        if self._text_size is None:
            self._text_size = TextSize.of(self.json)
        return self._text_size

    @property
    def max_sequence_number(self) -> int:
        """The highest sequence number of its snapshots; 0 if none has one."""
        if self._max_sequence_number is None:
            self._max_sequence_number = max(map(_number, self.rows))
        return self._max_sequence_number

    def where(self, path: tuple[str, ...], value: str) -> Sequence[Row]:
        """As `Rows.where`."""
        index = self._by_value.get(path)
        if index is None:
            index = {}
            for row in self.rows:
                found = _value_at(row, path)
                if isinstance(found, str):
                    index.setdefault(found, []).append(row)
            self._by_value[path] = index
        return index.get(value, ())


class Descent(NamedTuple):
    """What a list of snapshots says of where they come from.

    before: the highest sequence number of all that come before the last snapshots, as far as each of these is the child
    of the one before it and has a higher sequence number; -1 for none.
    picked: the ids, as text, of the snapshots that cherry-picks took their files from."""

    before: int
    picked: frozenset[str]


class Rows(Sequence[Row]):
    """An immutable list of JSON objects. A list made by `with_row` shares the full blocks of the original."""

    __slots__ = ("_descent", "blocks", "rest")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        remaining = iter(rows)
        blocks: list[RowBlock] = []
        while len(taken := tuple(islice(remaining, BLOCK_ROWS))) == BLOCK_ROWS:
            blocks.append(RowBlock(taken))
        self.blocks: tuple[RowBlock, ...] = tuple(blocks)
        #: The last rows, fewer than a block holds.
        self.rest: tuple[Row, ...] = taken
        self._descent: Descent | None = None

    def with_row(self, row: Row) -> Rows:
        """A list with one more row at the end."""
        longer = Rows.__new__(Rows)
        longer.blocks, longer.rest, longer._descent = self.blocks, (*self.rest, row), None
        if len(longer.rest) == BLOCK_ROWS:
            longer.blocks, longer.rest = (*self.blocks, RowBlock(longer.rest)), ()
        if self._descent is not None:
            longer._descent = _lengthened(self._descent, self.last, row)
        return longer

    @property
    def last(self) -> Row | None:
        """The last row; None without one."""
        if self.rest:
            return self.rest[-1]
        return self.blocks[-1].rows[-1] if self.blocks else None

    def since(self, other: Rows) -> Sequence[Row] | None:
        """The rows that come after those of `other`, if this list starts with these, as the same objects. None: it does
        not, or the two were read or built separately."""
        full = len(other.blocks)
        if full > len(self.blocks) or not all(map(is_, other.blocks, self.blocks)):
            return None
        after = self.rest if full == len(self.blocks) else self.blocks[full].rows
        if len(other.rest) > len(after) or not all(map(is_, other.rest, after)):
            return None
        more = after[len(other.rest) :]
        if after is self.rest:
            return more
        return (*more, *chain.from_iterable(block.rows for block in self.blocks[full + 1 :]), *self.rest)

    def where(self, path: tuple[str, ...], value: str) -> list[Row]:
        """The rows with a string at a path such as ("summary", "operation"), in their order."""
        found = [row for block in self.blocks for row in block.where(path, value)]
        return found + [row for row in self.rest if _value_at(row, path) == value]

    @property
    def descent(self) -> Descent:
        """Of snapshots. The first call reads all; lists made by `with_row` then know their own."""
        if self._descent is None:
            found, last = Descent(-1, frozenset()), None
            for row in self:
                found, last = _lengthened(found, last, row), row
            self._descent = found
        return self._descent

    def roots_from(self, number: int) -> Sequence[Row]:
        """Of the snapshots whose sequence number is `number` or higher, in their order: each whose parent is none of
        them. Format version 1 counts as 0."""
        # Runs on every conflict. These are the newest ones of a branch as a rule, so bisection finds the only root.
        # Otherwise there is no call for each row.
        if self.descent.before < number:
            # Those that come before are lower, and from there on the numbers rise.
            first = bisect_left(self.blocks, number, key=_highest)
            rows = self.blocks[first].rows if first < len(self.blocks) else self.rest
            at = bisect_left(rows, number, key=_number)
            return [*rows[at : at + 1]]
        parts = [*(block.rows for block in self.blocks if block.max_sequence_number >= number), self.rest]
        return roots([row for part in parts for row in part if (row.get("sequence-number") or 0) >= number])

    def json_parts(self) -> list[bytes | RowBlock]:
        """The JSON array in parts; full blocks are parts. Raises TypeError for values that JSON cannot express."""
        parts: list[bytes | RowBlock] = [b"["]
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

    def __reversed__(self) -> Iterator[Row]:
        return chain(reversed(self.rest), chain.from_iterable(reversed(block.rows) for block in reversed(self.blocks)))

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        full = len(self.blocks) * BLOCK_ROWS
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if start >= full and step > 0:
                return [*self.rest[start - full : max(0, stop - full) : step]]
            return [self[each] for each in range(start, stop, step)]
        at = index + full + len(self.rest) if index < 0 else index
        if not 0 <= at < full + len(self.rest):
            raise IndexError(index)
        return self.rest[at - full] if at >= full else self.blocks[at // BLOCK_ROWS].rows[at % BLOCK_ROWS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows({list(self)!r})"


class SnapshotIndex(Mapping[int, Row]):
    """Snapshot id -> row; immutable. `with_row` does not copy all of it."""

    __slots__ = ("_old", "_recent")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._old: dict[int, Row] = {row["snapshot-id"]: row for row in rows}
        #: Disjoint from `_old`.
        self._recent: dict[int, Row] = {}

    def with_row(self, row: Row) -> SnapshotIndex:
        """An index with one more snapshot, which replaces one with the same id."""
        snapshot_id = row["snapshot-id"]
        grown = SnapshotIndex.__new__(SnapshotIndex)
        if len(self._recent) < RECENT_ROWS and snapshot_id not in self._old:
            grown._old, grown._recent = self._old, {**self._recent, snapshot_id: row}
        else:
            grown._old, grown._recent = {**self._old, **self._recent, snapshot_id: row}, {}
        return grown

    def __getitem__(self, snapshot_id: int) -> Row:
        row = self._recent.get(snapshot_id)
        return self._old[snapshot_id] if row is None else row

    def get(self, snapshot_id: int, default: Any = None) -> Any:
        """As for a dict, and as fast."""
        row = self._recent.get(snapshot_id)
        return self._old.get(snapshot_id, default) if row is None else row

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._recent or snapshot_id in self._old

    def __iter__(self) -> Iterator[int]:
        return chain(self._old, self._recent)

    def __len__(self) -> int:
        return len(self._old) + len(self._recent)

    def __repr__(self) -> str:
        return f"SnapshotIndex({len(self)})"


def roots(snapshots: Sequence[Row]) -> Sequence[Row]:
    """Those snapshots whose parent is none of them."""
    ids = {row["snapshot-id"] for row in snapshots}
    return [row for row in snapshots if row.get("parent-snapshot-id") not in ids]


def _highest(block: RowBlock) -> int:
    return block.max_sequence_number


def _number(row: Row) -> int:
    return row.get("sequence-number") or 0


def _lengthened(descent: Descent, last: Row | None, row: Row) -> Descent:
    """The same with one more snapshot after `last`."""
    source = _value_at(row, _SOURCE)
    if isinstance(source, str):
        descent = descent._replace(picked=descent.picked | {source})
    if last is None or (row.get("parent-snapshot-id") == last["snapshot-id"] and _number(row) > _number(last)):
        return descent
    return descent._replace(before=max(descent.before, _number(last)))


def _inner_json(rows: tuple[Row, ...]) -> bytes:
    return orjson.dumps(rows)[1:-1]


def _value_at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        # The exact type first: it costs a tenth of asking for the abstract one.
        if type(row) is not dict and not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row
