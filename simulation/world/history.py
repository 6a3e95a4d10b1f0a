"""The record of a schedule: what each client asked for and was answered, and who waited for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH


class Answer(Enum):
    """What a client knows of its attempt. FAILED proves that the attempt is not in the table: the client deletes its
    data."""

    NOTHING = "nothing"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class WriterKind(Enum):
    """Who writes.

    OURS: a coordinator. LOCKED: a foreign writer that holds the lock and swaps blindly. SWAPPED: a foreign writer with
    compare-and-swap and no lock. LOST_LOCK: a foreign writer that swaps blindly after it lost its lock.
    """

    OURS = "ours"
    LOCKED = "locked"
    SWAPPED = "swapped"
    LOST_LOCK = "lost-lock"


@dataclass(slots=True, eq=False)
class WriteAttempt:
    """One change that a writer tries to commit: a coordinator's change object, or what a foreign writer built.

    operation: what the client wants; several attempts may serve one, and at most one of them may be in the table.
    snapshot_id, data_file: of an append. mark: the property that any other change sets.
    ref: the tag that it makes, and the tag's snapshot. requires_main: (True, main's snapshot) if the change requires
    main to be at that snapshot, else (False, None).
    refused_while_present: it was in the table when it was sent again, and was refused as invalid.
    refused_as_duplicate: it was refused because the table has its data file.
    called_invalid: it was refused as malformed or as breaking the table, and is neither.
    replaces: it replaces main's history, as CREATE OR REPLACE does.
    landed: it was in a table once. excused: that table was dropped, replaced, or registered over with it, or its
    snapshot expired.

    Of the attempts of stock clients:

    branch: where its snapshot goes. deleted_rows: the rows that it deletes. deletes_all: it deletes what others add
    meanwhile as well. committed_with: another attempt of the same swap. rewrites: its data file has others' rows.
    parents_seen: the branch's head each time its client made it. never_rebased: its parent must be one of those.
    lists: its client's manifest lists, which the server must keep. left_at: when the client learned of its commit, in
    simulated seconds; left_since: when the server may have answered, at the earliest. left_files: the lists and
    manifests that its client left after refusals.
    sent_at: each time that it was sent and queued. lost_at: each time that its client learned of a lost conflict.
    waited: its longest wait for an answer, in seconds.
    ahead: the attempts that were queued when it was sent, and how often they had been made by then.
    obsolete: the table no longer has what it is about, so its client gave up.
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
    deletes_all: bool = False
    committed_with: WriteAttempt | None = None
    rewrites: bool = False
    parents_seen: list[int | None] = field(default_factory=list)
    never_rebased: bool = False
    lists: set[str] = field(default_factory=set)
    left_at: float | None = None
    left_since: float | None = None
    left_files: set[str] = field(default_factory=set)
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
    """A time for which one process did not commit to the table, in simulated seconds."""

    process: str
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class WastedLock:
    """A foreign writer released a table's lock without swapping.

    at: simulated seconds. behind: our processes that waited for the lock and had seen who was before them.
    """

    at: float
    behind: frozenset[str]


class CatalogCallKind(StrEnum):
    """A catalog operation. PURGE: a drop with the table's files. OVERWRITE: a registration over a table."""

    RENAME = "rename"
    DROP = "drop"
    PURGE = "purge"
    CREATE = "create"
    REGISTER = "register"
    OVERWRITE = "overwrite"
    REPLACE = "replace"


@dataclass(slots=True, eq=False)
class CatalogCall:
    """One catalog operation, called by a process of its own.

    to: the new name of a rename. attempt: the change of a replacement. source: the metadata file that is registered.
    location: where the metastore left the pointer.
    made: the metastore carried it out, as far as the schedule knows. effect_seen: it, or another operation with the
    same effect, was carried out after it began.
    """

    kind: CatalogCallKind
    caller: str
    name: TableName
    to: TableName
    attempt: WriteAttempt | None = None
    source: str | None = None
    answer: Answer = Answer.NOTHING
    made: bool = False
    effect_seen: bool = False
    location: str | None = None


class ViewCallKind(StrEnum):
    """An operation of a view."""

    CREATE = "create"
    REPLACE = "replace"
    RENAME = "rename"
    DROP = "drop"


@dataclass(slots=True, eq=False)
class ViewCall:
    """One operation, called by one process.

    mark: the property that a creation or replacement sets. uuid: of the view that got the mark. made: it was carried
    out. effect_seen: it, or another operation with the same effect, was carried out after it began.
    """

    kind: ViewCallKind
    caller: str
    name: TableName
    mark: str
    answer: Answer = Answer.NOTHING
    uuid: str | None = None
    made: bool = False
    effect_seen: bool = False


class KindOfCall(StrEnum):
    """What is done to a table that changes its kind. COMMIT: to its properties. KEEP: gives up that it can go back."""

    MIGRATE = "migrate"
    UNDO = "undo"
    COMMIT = "commit"
    KEEP = "keep"


@dataclass(slots=True, eq=False)
class KindCall:
    """One operation on such a table, called by one process.

    mark: the UUID of the table that a migration makes; the property that a commit sets. made: it was carried out.
    effect_seen: it, or another operation of its process with the same effect, was carried out after it began.
    """

    kind: KindOfCall
    caller: str
    mark: str
    answer: Answer = Answer.NOTHING
    made: bool = False
    effect_seen: bool = False


@dataclass(slots=True)
class History:
    """All attempts and catalog calls, in the order in which they began.

    on_answer: called after each answer; on_view_answer: after each one to a call of `view_calls`; on_kind_answer: of
    `kind_calls`. hive_marks: what a program of Hive's has set, in order.
    priority_waits: when queues waited for a retry. backoffs: when processes backed off for foreign writers.
    locks_kept: when processes kept the table's lock for a retry.
    wasted_locks: locks that foreign writers released without a swap. row_changes: which process changed a table's row,
    and when.
    """

    attempts: list[WriteAttempt] = field(default_factory=list)
    catalog_calls: list[CatalogCall] = field(default_factory=list)
    priority_waits: list[Pause] = field(default_factory=list)
    backoffs: list[Pause] = field(default_factory=list)
    locks_kept: list[Pause] = field(default_factory=list)
    wasted_locks: list[WastedLock] = field(default_factory=list)
    row_changes: list[tuple[str, float]] = field(default_factory=list)
    on_answer: Callable[[], None] | None = None
    view_calls: list[ViewCall] = field(default_factory=list)
    on_view_answer: Callable[[], None] | None = None
    kind_calls: list[KindCall] = field(default_factory=list)
    on_kind_answer: Callable[[], None] | None = None
    hive_marks: list[str] = field(default_factory=list)

    def begin(self, attempt: WriteAttempt) -> WriteAttempt:
        self.attempts.append(attempt)
        return attempt

    def record_answer(self, attempt: WriteAttempt, answer: Answer) -> None:
        """Note an answer."""
        attempt.answer = answer
        if self.on_answer is not None:
            self.on_answer()

    def reopen(self, attempt: WriteAttempt) -> None:
        """The client sends a failed attempt once more, under the same snapshot id."""
        attempt.answer = Answer.NOTHING

    def record_catalog_answer(self, call: CatalogCall, answer: Answer) -> None:
        """Note the answer to a catalog call."""
        call.answer = answer
        if self.on_answer is not None:
            self.on_answer()

    def record_view_answer(self, call: ViewCall, answer: Answer) -> None:
        """Note the answer to an operation of a view."""
        call.answer = answer
        if self.on_view_answer is not None:
            self.on_view_answer()

    def record_kind_answer(self, call: KindCall, answer: Answer) -> None:
        """Note the answer to an operation on a table that changes its kind."""
        call.answer = answer
        if self.on_kind_answer is not None:
            self.on_kind_answer()

    def by_operation(self) -> dict[str, list[WriteAttempt]]:
        attempts_by_operation: defaultdict[str, list[WriteAttempt]] = defaultdict(list)
        for attempt in self.attempts:
            attempts_by_operation[attempt.operation].append(attempt)
        return attempts_by_operation
