"""Operations as a caller plans them on the state of the table that it sees, and what each does to the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.random_operations.file_writer import FileWriter, WrittenFile, record_of
from tests.random_operations.independent_reader import Entry, SnapshotState, TableState
from tests.random_operations.independent_rows import Row, RowReader
from tests.random_operations.model import MAIN, Effect, Model, Written
from tests.random_operations.shapes import ID, Shape, Values

#: A table object, or a transaction.
Target = Any
#: Applies an operation to the model, given the ids of the snapshots that it added.
Apply = Callable[[Model, Sequence[int]], None]


@dataclass(frozen=True)
class Report:
    """What every report of a commit has."""

    snapshot_ids: tuple[int, ...]


#: Of an operation that changes files alone.
NOTHING_COMMITTED: Final = Report(())


@dataclass(frozen=True)
class Plan:
    """One operation. submit: makes it, and returns its report. may_be_refused: names of assumptions that may not hold
    even if nobody changed the table since it was planned. adds_snapshot: whether it adds one in any case."""

    what: str
    submit: Callable[[Target], Any]
    apply: Apply
    may_be_refused: frozenset[str] = frozenset()
    adds_snapshot: bool = False


@dataclass
class Bench:
    """What the planning of all operations on one table shares."""

    shape: Shape
    choose: random.Random
    writer: FileWriter
    rows: RowReader
    model: Model
    _next_id: int = field(default=1)

    @property
    def written(self) -> Written:
        """Everything that was ever written."""
        return self.model.written

    def new_rows(self, count: int, cell: Values) -> list[Values]:
        """Rows that the table never had. cell: what they share."""
        rows = [self.shape.row(self._next_id + at, cell) for at in range(count)]
        self._next_id += count
        return rows

    def has_rows_of(self, snapshot: SnapshotState) -> bool:
        """Whether main has rows of a snapshot's new files in other files."""
        new = {each.path for each in snapshot.data if each.snapshot_id == snapshot.snapshot_id}
        ids = {id_ for path in new for id_ in self.written.files[path].ids}
        return any(ids & rows for path, rows in self.model.files(MAIN).items() if path not in new)

    def new_number(self) -> int:
        """For names."""
        self._next_id += 1
        return self._next_id


class Planner:
    """Plans on one state of the table. state: what the caller sees. is_stale: whether others may have changed the table
    since. is_staged: whether no ref moves to the snapshot that is planned."""

    def __init__(self, bench: Bench, state: TableState, *, is_stale: bool = False, is_staged: bool = False) -> None:
        self.bench, self.state, self.is_stale, self.choose = bench, state, is_stale, bench.choose
        branches = [name for name, ref in state.metadata.get("refs", {}).items() if ref["type"] == "branch"]
        others = sorted(set(branches) - {MAIN})
        chosen = self.choose.choice(others) if others and self.choose.random() < 0.3 else MAIN
        self.branch = MAIN if is_staged else chosen
        self.options: dict[str, Any] = {"branch": self.branch}
        if is_staged:
            wap_id = {"wap_id": f"w{bench.new_number()}"}
            self.options = self.choose.choice(({"stage_only": True}, wap_id))
        #: The branch that the snapshot is for; None: it is staged.
        self.moves = None if is_staged else self.branch
        self.head = state.head(self.branch)
        self.data: list[Entry] = [] if self.head is None else sorted(self.head.data, key=lambda each: each.path)
        self.deletes: list[Entry] = [] if self.head is None else self.head.deletes
        self._live: dict[str, list[Row]] | None = None

    @property
    def live(self) -> dict[str, list[Row]]:
        """Data file -> its live rows."""
        if self._live is None:
            self._live = {each.path: [] for each in self.data}
            if self.head is not None:
                for row in self.bench.rows.rows(self.state, self.head, self.state.schema()):
                    self._live[row.path].append(row)
        return self._live

    @property
    def where(self) -> str:
        """In a message."""
        return self.moves or "staged"

    @property
    def isolation(self) -> dict[str, str]:
        return {"isolation": self.choose.choice(("serializable", "snapshot"))}

    def new_files(self, cell: Values | None = None, *, mixed: bool = False) -> list[WrittenFile]:
        """Files with new rows. cell: what the rows share. mixed: whether they share nothing."""
        count, shape = self.choose.randint(2, 5), self.bench.shape
        cells = [cell or shape.cell(self.choose)]
        if mixed:
            cells = [shape.cell(self.choose) for _ in range(count)]
        rows = [row for each in cells for row in self.bench.new_rows(1 if mixed else count, each)]
        return self.write(rows)

    def write(self, rows: Sequence[Values], lineage: dict[int, tuple[int, int]] | None = None) -> list[WrittenFile]:
        """Files with these rows; the model knows them from now on."""
        known = self.bench.written.rows
        columns = {each["id"]: each.get("initial-default") for each in self.state.schema()}
        for row in rows:
            known.setdefault(row[ID], {id_: row.get(id_, default) for id_, default in columns.items()})
        files = self.bench.writer.data_files(self.state, rows, lineage)
        self.bench.written.files.update((each.location, each) for each in files)
        return files

    def picked(self) -> Entry | None:
        """Any of the branch's data files."""
        return self.choose.choice(self.data) if self.data else None

    def of_partition(self, like: Entry) -> list[Entry]:
        """The data files of an entry's partition."""
        return [each for each in self.data if each.partition == like.partition]

    def column(self, id_: int) -> str:
        """What a column is called."""
        return next(str(each["name"]) for each in self.state.schema() if each["id"] == id_)

    def record(self, entry: Entry) -> Any:
        """The record of a live delete file."""
        return record_of(self.state, entry)

    def changes(
        self,
        what: str,
        submit: Callable[[Target], Any],
        effect: Effect,
        *,
        replays: bool = False,
        may_be_refused: frozenset[str] = frozenset(),
    ) -> Plan:
        """An operation that adds a snapshot to the branch. replays: whether it can be picked onto any main."""

        def apply(model: Model, snapshot_ids: Sequence[int]) -> None:
            model.commit(self.moves, effect, snapshot_ids[0], replays=replays)

        return Plan(f"{what} ({self.where})", submit, apply, may_be_refused, adds_snapshot=True)


def shown(files: Sequence[WrittenFile]) -> str:
    """New files in a message."""
    return ", ".join(f"{each.location.rpartition('/')[2]}{list(each.ids)}" for each in files)


def short(*locations: str) -> str:
    """Files in a message."""
    return ", ".join(each.rpartition("/")[2] for each in locations)
