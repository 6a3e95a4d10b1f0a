"""What the checker hands to the invariants: the state after a step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from iceberg_hms.config import Settings
from simulation.checks.observed_table import ObservedTable
from simulation.world.faults import short
from simulation.world.history import History, WriteAttempt, WriterKind
from simulation.world.metastore import RowChange


class StepKind(Enum):
    """What happened since the last check: a row changed, a file is being deleted, a client got an answer, all ended."""

    MOVE = auto()
    DELETION = auto()
    ANSWER = auto()
    REST = auto()


@dataclass(frozen=True)
class View:
    """What a predicate sees.

    before, now: the table before and after the last row change. row_change: that change, if this step is one.
    tables: all that exist. past_locations: every metadata location that was current before this step.
    registered_again: those of them that a registration made current again, and with them the expected values of swaps.
    kept_files: the files of tables that were dropped and not purged. excused_files: files that were purged on purpose,
    under one of two names. branches: main may be replaced, and leave its history beside it.
    expires: old snapshots expire, so that a history may begin anywhere.
    deleted: the file that is about to be deleted, if this step is a deletion.
    protected: the writers whose acknowledged changes must be kept. at_rest: nothing runs any more.
    alive: processes that did not crash. locks: the processes that have lock entries. all_commit: no commit may fail.
    in_order: one server and no faults, so that commits are served in the order in which they came.
    tidy: a commit that fails leaves no files. steady: no process sleeps and no call hangs, so that waits are bounded.
    at: simulated seconds. settings: of our processes; None where nothing depends on them.
    on_disk: the metadata files, lists and manifests that exist at the end. refused: of those, what refused
    swaps carried, with all files that it names. ours, foreign: processes with a coordinator, and without.
    """

    now: ObservedTable
    tables: tuple[ObservedTable, ...]
    history: History
    before: ObservedTable | None = None
    row_change: RowChange | None = None
    deleted: str | None = None
    protected: frozenset[WriterKind] = frozenset((WriterKind.OURS,))
    kept_files: frozenset[str] = frozenset()
    past_locations: frozenset[str] | set[str] = frozenset()
    registered_again: frozenset[str] | set[str] = frozenset()
    excused_files: frozenset[str] | set[str] = frozenset()
    branches: bool = False
    expires: bool = False
    at_rest: bool = False
    alive: frozenset[str] = frozenset()
    locks: tuple[str, ...] = ()
    all_commit: bool = False
    ours: frozenset[str] = frozenset()
    in_order: bool = False
    steady: bool = True
    tidy: bool = False
    at: float = 0.0
    settings: Settings | None = None
    on_disk: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()

    @property
    def step(self) -> StepKind:
        """What this view was taken after."""
        if self.at_rest:
            return StepKind.REST
        if self.deleted is not None:
            return StepKind.DELETION
        return StepKind.ANSWER if self.row_change is None else StepKind.MOVE

    @cached_property
    def new_snapshots(self) -> frozenset[int]:
        """The ids of the snapshots that the last row change added."""
        before = None if self.before is None else self.before.metadata
        if before is None or self.now.metadata is None:
            return frozenset()
        return frozenset(self.now.metadata.raw_snapshots_by_id) - frozenset(before.raw_snapshots_by_id)

    @cached_property
    def landed(self) -> list[WriteAttempt]:
        """The attempts whose snapshots the last row change added."""
        new = self.new_snapshots
        return [each for each in self.history.attempts if each.snapshot_id in new] if new else []

    @cached_property
    def attempts_by_operation(self) -> dict[str, list[WriteAttempt]]:
        """The attempts, by what their client wants."""
        return self.history.by_operation()


def name_of(location: str) -> str:
    """A file, for messages."""
    return short(location) or "nothing"
