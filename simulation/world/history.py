"""What every client asked for, and what it was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH


class Answer(Enum):
    """What a client knows of an attempt. A failed one is proved to be absent: it deletes its data files then."""

    NOTHING = "nothing"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class WriterKind(Enum):
    """Who wrote it. OURS: a coordinator. LOCKED: a foreign writer with the lock and a blind swap. SWAPPED: a foreign
    writer with compare-and-swap and no lock. STRAY: a foreign writer that swaps blindly after it lost its lock."""

    OURS = "ours"
    LOCKED = "locked"
    SWAPPED = "swapped"
    LOST_LOCK = "stray"


@dataclass(slots=True, eq=False)
class WriteAttempt:
    """One change object that was given to a coordinator, or built by a foreign writer.

    wish: what the client wants; several attempts may serve one, and at most one of them may be in the table.
    snapshot_id, data_file: of an append. mark: the property that any other change sets.
    ref: the tag that it makes, and the snapshot that the tag names. assumes_main: (True, main's snapshot) if the change
    requires main to be there, (False, None) if it does not care.
    denied: it was in the table when it was sent again, and was refused for what it is.
    said_there: it was refused because the table is said to have its data file.
    blamed: it was refused as one that is malformed, or would break the table, and is neither.
    replaces: it takes main's history away, as CREATE OR REPLACE does.
    landed: it was in a table once. excused: that table was dropped, replaced, or registered over with it, or
    its snapshot expired.

    Of those that stock clients send:

    branch: where its snapshot goes. takes: the rows that it deletes. rewrites: its data file has rows of others.
    seen: the snapshots on which its client made it, time after time. stays: it must stand on one of those.
    lists: its client's manifest lists that are in the server's care. left: when its client was told of its commit, in
    simulated seconds. litter: the manifests that its client left when it was refused, and whether they were merged.
    sent: when it was sent and came into the queue, each time. lost: when it was told that others had taken its
    branch's place, each time. waited: for an answer, at most, in seconds.
    ahead: those that stood in the queue when it came, and how often they had been made by then.
    moot: what it is about was gone from the table, so its client gave up.
    """

    operation: str
    writer: str
    kind: WriterKind = WriterKind.OURS
    snapshot_id: int | None = None
    data_file: str | None = None
    mark: str | None = None
    ref: tuple[str, int] | None = None
    requires_main: tuple[bool, int | None] = (False, None)
    answer: Answer = Answer.NOTHING
    refused_while_present: bool = False
    refused_as_duplicate: bool = False
    called_invalid: bool = False
    replaces: bool = False
    landed: bool = False
    excused: bool = False
    branch: str = MAIN_BRANCH
    deleted_rows: frozenset[str] = frozenset()
    rewrites: bool = False
    parents_seen: list[int | None] = field(default_factory=list)
    never_rebased: bool = False
    lists: set[str] = field(default_factory=set)
    left_at: float | None = None
    left_manifests: dict[str, bool] = field(default_factory=dict)
    sent_at: list[float] = field(default_factory=list)
    lost_at: list[float] = field(default_factory=list)
    ahead: tuple[tuple[WriteAttempt, int], ...] = ()
    waited: float = 0.0
    obsolete: bool = False

    @property
    def row(self) -> str | None:
        """The row that it adds."""
        return None if self.rewrites else self.data_file


@dataclass(frozen=True, slots=True)
class Pause:
    """A table's queue was held back, or the table rested; simulated seconds. process: whose queue."""

    process: str
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class WastedLock:
    """A foreign writer gave a table's lock back without having moved it. at: simulated seconds. behind: our processes
    that waited for it and had seen who was before them."""

    at: float
    behind: frozenset[str]


class CatalogCallKind(StrEnum):
    """A move of a whole table. PURGE: a drop with its files. OVERWRITE: a registration over a table."""

    RENAME = "rename"
    DROP = "drop"
    PURGE = "purge"
    CREATE = "create"
    REGISTER = "register"
    OVERWRITE = "overwrite"
    REPLACE = "replace"


@dataclass(slots=True, eq=False)
class CatalogCall:
    """One move that one process of its own makes.

    to: where a rename goes. attempt: the change of a replacement. location: where a creation, or any other move that
    was made, left the pointer.
    made: the metastore made it, as far as the schedule knows. as_good: it, or one with the same effect since it began.
    """

    kind: CatalogCallKind
    caller: str
    name: TableName
    to: TableName
    attempt: WriteAttempt | None = None
    answer: Answer = Answer.NOTHING
    made: bool = False
    effect_seen: bool = False
    location: str | None = None


@dataclass(slots=True)
class History:
    """All attempts and moves, in the order in which they began. on_told: called after each answer.

    held_back: times for which queues were held back for those that lost. rested: for which tables rested.
    in_vain: locks that foreign writers had in vain. moved: which process moved a table, and when."""

    attempts: list[WriteAttempt] = field(default_factory=list)
    catalog_calls: list[CatalogCall] = field(default_factory=list)
    priority_waits: list[Pause] = field(default_factory=list)
    backoffs: list[Pause] = field(default_factory=list)
    wasted_locks: list[WastedLock] = field(default_factory=list)
    row_changes: list[tuple[str, float]] = field(default_factory=list)
    on_answer: Callable[[], None] | None = None

    def begin(self, attempt: WriteAttempt) -> WriteAttempt:
        self.attempts.append(attempt)
        return attempt

    def record_answer(self, attempt: WriteAttempt, answer: Answer) -> None:
        """Note an answer. Once it was unknown whether an attempt is in the table, a later failure proves nothing."""
        if attempt.answer is Answer.UNKNOWN and answer is Answer.FAILED:
            return
        attempt.answer = answer
        if self.on_answer is not None:
            self.on_answer()

    def reopen(self, attempt: WriteAttempt) -> None:
        """What was answered as failed is sent once more, under the same snapshot id."""
        attempt.answer = Answer.NOTHING

    def record_catalog_answer(self, call: CatalogCall, answer: Answer) -> None:
        """Note the answer to a move."""
        call.answer = answer
        if self.on_answer is not None:
            self.on_answer()

    def by_operation(self) -> dict[str, list[WriteAttempt]]:
        attempts_by_operation: defaultdict[str, list[WriteAttempt]] = defaultdict(list)
        for attempt in self.attempts:
            attempts_by_operation[attempt.operation].append(attempt)
        return attempts_by_operation
