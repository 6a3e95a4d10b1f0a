"""What a table must have, by the meaning of the operations alone: for each snapshot which data files it has, and which
of their rows are live. The model knows no manifests, no sequence numbers and no delete files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.random_operations.file_writer import WrittenFile
from tests.random_operations.independent_reader import require
from tests.random_operations.shapes import COLUMNS, Shape, Values
from tests.random_operations.specification_values import comparable

MAIN = "main"
#: Location of a data file -> the ids of its live rows.
Files = Mapping[str, frozenset[int]]
#: What an operation makes of the files of a branch. Raises Broken if it must be refused there.
Effect = Callable[[Files], Files]


@dataclass(frozen=True)
class Column:
    """A column of the current schema."""

    id: int
    name: str
    type: str


@dataclass
class Written:
    """Everything that was ever written. rows: by their ids. files: by location."""

    rows: dict[int, Values] = field(default_factory=dict)
    files: dict[str, WrittenFile] = field(default_factory=dict)


@dataclass
class Model:
    """refs: branch or tag -> snapshot. history: snapshot -> its files. parents: snapshot -> the one before it. replays:
    snapshot -> what a cherry-pick of it does elsewhere; only of those that can be picked onto any main. defaults:
    column id -> what rows have that were written before it was added, if that is not null. spec: fields of the default
    partition spec, as pairs of transform and column id, without those that are void."""

    written: Written
    version: int
    refs: dict[str, int] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    history: dict[int, Files] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    replays: dict[int, Effect] = field(default_factory=dict)
    columns: tuple[Column, ...] = tuple(Column(each["id"], each["name"], each["type"]) for each in COLUMNS)
    last_column_id: int = len(COLUMNS)
    defaults: dict[int, Any] = field(default_factory=dict)
    spec: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def of(cls, shape: Shape) -> Model:
        """Of a new table."""
        ids = {each["name"]: each["id"] for each in COLUMNS}
        spec = frozenset((transform, ids[column]) for transform, column in shape.spec)
        return cls(Written(), shape.version, spec=spec)

    def copy(self) -> Model:
        """Another model of the same table, which shares what was written."""
        return replace(
            self,
            refs=dict(self.refs),
            tags=set(self.tags),
            history=dict(self.history),
            parents=dict(self.parents),
            replays=dict(self.replays),
            defaults=dict(self.defaults),
        )

    def files(self, ref: str) -> Files:
        """What a ref has; a branch that does not exist would begin as main."""
        snapshot = self.refs.get(ref, self.refs.get(MAIN))
        return {} if snapshot is None else self.history[snapshot]

    def commit(self, branch: str | None, effect: Effect, snapshot_id: int, *, replays: bool = False) -> None:
        """An operation added a snapshot. branch: None: it was staged on main, and no ref moved. replays: whether it can
        be picked onto any main."""
        on = branch or MAIN
        self.history[snapshot_id] = effect(self.files(on))
        self.parents[snapshot_id] = self.refs.get(on, self.refs.get(MAIN))
        if branch is not None:
            self.refs[branch] = snapshot_id
        if replays:
            self.replays[snapshot_id] = effect

    def pick(self, picked: int, added: Sequence[int]) -> None:
        """A cherry-pick. added: the snapshot that it made; none if main moved to the picked one."""
        if not added:
            require(self.parents[picked] == self.refs.get(MAIN), f"main was not at the parent of {picked}")
            self.refs[MAIN] = picked
            return
        require(picked in self.replays, f"{picked} can be published on its parent alone")
        self.commit(MAIN, self.replays[picked], added[0], replays=True)

    def ancestors(self, snapshot_id: int) -> list[int]:
        """A snapshot and those before it, as far as they are there."""
        found: list[int] = []
        at: int | None = snapshot_id
        while at is not None and at in self.history:
            found.append(at)
            at = self.parents[at]
        return found

    def expire(self, keep: int) -> None:
        """All that is not a ref, nor among the newest `keep` of a branch (spec: Snapshot Retention Policy)."""
        kept = set(self.refs.values())
        for name, head in self.refs.items():
            if name not in self.tags:
                kept.update(self.ancestors(head)[:keep])
        self.history = {id_: files for id_, files in self.history.items() if id_ in kept}

    def expected(self, id_: int, columns: Iterable[int]) -> tuple[Any, ...]:
        """The values that a row has in these columns, comparable."""
        row = self.written.rows[id_]
        return tuple(comparable(row.get(each, self.defaults.get(each))) for each in columns)


def added(files: Sequence[WrittenFile]) -> Effect:
    """New files come to those that are there."""

    def effect(before: Files) -> Files:
        twice = [each.location for each in files if each.location in before]
        require(not twice, f"files were added that the branch has: {twice}")
        return {**before, **{each.location: frozenset(each.ids) for each in files}}

    return effect


def removed(locations: Sequence[str]) -> Effect:
    """Files go, which must be there."""

    def effect(before: Files) -> Files:
        missing = [each for each in locations if each not in before]
        require(not missing, f"files were removed that the branch does not have: {missing}")
        return {location: rows for location, rows in before.items() if location not in locations}

    return effect


def deleted_where(written: Written, matches: Callable[[Values], bool]) -> Effect:
    """Files go of which all rows match; the operation must be refused if others have some."""

    def effect(before: Files) -> Files:
        after = {}
        for location, live in before.items():
            found = [matches(written.rows[id_]) for id_ in written.files[location].ids]
            if not all(found):
                require(not any(found), f"{location} has rows that match and others, and was not refused")
                after[location] = live
        return after

    return effect


def replaced_partitions(written: Written, files: Sequence[WrittenFile], *, whole_table: bool) -> Effect:
    """New files replace all of their partitions."""
    partitions = {each.partition for each in files}

    def effect(before: Files) -> Files:
        kept = {
            location: live
            for location, live in before.items()
            if not whole_table and written.files[location].partition not in partitions
        }
        return added(files)(kept)

    return effect


def rewritten(old: Sequence[str], new: Sequence[WrittenFile]) -> Effect:
    """New files have the rows of old ones."""

    def effect(before: Files) -> Files:
        kept = removed(old)(before)
        live = frozenset[int]().union(*(before[each] for each in old))
        moved = frozenset[int]().union(*(each.ids for each in new))
        require(live <= moved, f"a rewrite lost the rows {sorted(live - moved)}")
        return {**kept, **{each.location: live & frozenset(each.ids) for each in new}}

    return effect


def without_rows(gone: Mapping[str, frozenset[int]]) -> Effect:
    """Rows of certain files go, by their positions. The files must be there."""

    def effect(before: Files) -> Files:
        missing = [each for each in gone if each not in before]
        require(not missing, f"rows were deleted of files that the branch does not have: {missing}")
        return {location: live - gone.get(location, frozenset()) for location, live in before.items()}

    return effect


def without_equal(written: Written, in_reach: Callable[[WrittenFile], bool], is_gone: Callable[[int], bool]) -> Effect:
    """Rows go that equal others, of all files in reach."""

    def effect(before: Files) -> Files:
        return {
            location: frozenset(id_ for id_ in live if not (in_reach(written.files[location]) and is_gone(id_)))
            for location, live in before.items()
        }

    return effect


def one_after_the_other(*effects: Effect) -> Effect:
    """Several effects of one operation."""

    def effect(before: Files) -> Files:
        for each in effects:
            before = each(before)
        return before

    return effect


def unchanged(before: Files) -> Files:
    """Of what moves no row and no data file."""
    return before
