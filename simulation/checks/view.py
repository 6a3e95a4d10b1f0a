"""What a judge hands to the invariants: the world after a step."""

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
    """What happened since the invariants were looked at last."""

    MOVE = auto()
    DELETION = auto()
    ANSWER = auto()
    REST = auto()


@dataclass(frozen=True)
class View:
    """What a predicate sees.

    before, now: the table before and after the last move. moved: the last move, if this step is one.
    tables: all that there are. pointed: what was a pointer before this step.
    kept: files of tables that were dropped and not purged. forgiven: files that were purged on purpose, under one of
    two names. branches: main may begin anew, and leave its history beside it.
    expires: old snapshots expire, so that histories begin anywhere.
    deleted: the file that is about to go, if this step is a deletion.
    protected: the kinds of writers whose acknowledged changes must be kept. at_rest: nothing runs any more.
    alive: processes that did not crash. locks: the processes that have lock entries. all_commit: none may fail.
    in_order: one server, and nothing goes wrong: who comes first is served first. tidy: who fails leaves nothing.
    steady: no process sleeps and no call hangs, so that its times are its own. at: simulated seconds.
    settings: of our processes; None where nothing depends on them.
    on_disk: metadata files, lists and manifests that are there, at rest. refused: what swaps carried that were refused,
    with all that it names; of those that are there. foreign: processes that are none of ours.
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
        """The ids of the snapshots that the last move added."""
        before = None if self.before is None else self.before.metadata
        if before is None or self.now.metadata is None:
            return frozenset()
        return frozenset(self.now.metadata.raw_snapshots_by_id) - frozenset(before.raw_snapshots_by_id)

    @cached_property
    def landed(self) -> list[WriteAttempt]:
        """The attempts whose snapshots the last move added."""
        new = self.new_snapshots
        return [each for each in self.history.attempts if each.snapshot_id in new] if new else []

    @cached_property
    def attempts_by_operation(self) -> dict[str, list[WriteAttempt]]:
        """The attempts, by what they are for."""
        return self.history.by_operation()


def name_of(location: str) -> str:
    """A file, for messages."""
    return short(location) or "nothing"
