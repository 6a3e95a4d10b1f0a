"""Checks all invariants after every step, and reports the first that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from simulation.checks.contents import ContentsReader
from simulation.checks.invariants import broken
from simulation.checks.observed_table import ObservedTable
from simulation.checks.view import View
from simulation.world.history import Answer, CatalogCall, CatalogCallKind, History, WriteAttempt, WriterKind
from simulation.world.metastore import RowChange
from simulation.world.storage import Storage


@dataclass(frozen=True, slots=True)
class Promises:
    """What a scenario promises, beyond what always holds.

    kept: whose acknowledged changes are never lost. all_commit: no append may fail.
    in_order: one server, and nothing goes wrong: commits are served in the order in which they came.
    steady: no process sleeps, and no call hangs. tidy: a commit that fails leaves no list and no manifest behind.
    tables_move: tables are renamed, dropped and replaced meanwhile.
    """

    protected: frozenset[WriterKind] = frozenset((WriterKind.OURS,))
    all_commit: bool = False
    in_order: bool = False
    steady: bool = True
    tidy: bool = False
    tables_move: bool = False


class Checker:
    """Keeps what the tables are, and calls `fail` with the first broken invariant.

    fail: called with what broke. ours: the names of our processes. now: simulated seconds.
    registrable: the metadata files of tables that were dropped and not purged, which callers may register.
    """

    def __init__(
        self,
        promises: Promises,
        storage: Storage,
        history: History,
        fail: Callable[[str], None],
        ours: Callable[[], Iterable[str]],
        settings: Settings,
        now: Callable[[], float],
    ) -> None:
        self.registrable: list[str] = []
        self._promises = promises
        self._storage = storage
        self._reader = ContentsReader(storage)
        self._history = history
        self._fail = fail
        self._ours = ours
        self._settings = settings
        self._now = now
        #: The processes of foreign writers.
        self.foreign: set[str] = set()
        #: The metadata files of swaps that the metastore refused.
        self.refused: set[str] = set()
        #: The processes that expire snapshots.
        self.expirers: frozenset[str] = frozenset()
        self._tables: dict[TableName, ObservedTable] = {}
        self._last = ObservedTable("", None)
        self._past_locations: set[str] = set()
        self._registered_again: set[str] = set()
        self._dropped: set[str] = set()
        self._purged: set[str] = set()
        self._excused_files: set[str] = set()
        self._purged_tables: list[ObservedTable] = []
        storage.on_delete = self.on_delete
        history.on_answer = self.check

    def begin(self, name: TableName, location: str) -> None:
        """Start with a table that exists from the beginning."""
        self._last = self._tables[name] = ObservedTable.read(self._reader, location)
        self._past_locations.add(location)

    @property
    def tables(self) -> tuple[ObservedTable, ...]:
        """All tables that exist."""
        return tuple(self._tables.values())

    @property
    def has_excused_files(self) -> bool:
        """Whether files of a living table were purged on purpose."""
        return bool(self._excused_files)

    def has(self, attempt: WriteAttempt) -> bool:
        """Whether an attempt is in a table now."""
        return any(table.has(attempt) for table in self._tables.values())

    def on_row_change(self, change: RowChange) -> None:
        """Called when a row changed: record the change, and check what it can break."""
        name = change.renamed_from or change.table
        self._history.row_changes.append((change.process, self._now()))
        before = self._tables.pop(name, None)
        call = self._match_call(change)
        self._forget_replaced_creations(before, call)
        if change.location is None:
            if before is not None:
                self._drop(before, call)
            return
        if before is not None and before.location == change.location:
            now = before
        else:
            now = ObservedTable.read(self._reader, change.location)
        self._last = self._tables[change.table] = now
        foreign = change.expected is None and change.process not in self._ours()
        # Nobody was acknowledged a change in doubt, so a blind swap of another writer may remove it. A writer that
        # slept past its lease may remove what others wrote.
        unseen = change.slept_past_lease or (change.replaced_unseen and not now.follows(change.replaced))
        blindly = before if foreign or unseen else None
        if change.slept_past_lease and before is not None:
            self._excuse_removed(before, now)
        for attempt in self._history.attempts:
            if attempt.landed and blindly is not None and blindly.has(attempt) and not now.has(attempt):
                # A blind swap removes without a trace what came since its writer read the table: it never landed.
                attempt.landed = False
            if not attempt.landed and now.has(attempt):
                attempt.landed = True
                if attempt.replaces and before is not None:
                    self._excuse(before)
        if before is not None and change.process in self.expirers:
            # An expired snapshot's rows are in later ones; or one of those deleted them, and nobody can tell which.
            self._excuse_removed(before, now)
        if call is not None and call.kind in (CatalogCallKind.REGISTER, CatalogCallKind.OVERWRITE):
            for purged in self._purged_tables:
                self._excuse_files(now, purged)
            if before is not None:
                self._excuse(before)
        if call is not None and call.kind is CatalogCallKind.CREATE and change.location in self._past_locations:
            self._excuse_a_repeated_creation(now)
        self.check(before=None if unseen else before, row_change=change)
        if change.replaced is None and change.location in self._past_locations:
            self._registered_again.add(change.location)
        self._past_locations.add(change.location)

    def on_delete(self, location: str) -> None:
        """Called before a file is deleted."""
        self.check(deleted=location)

    def check(
        self,
        *,
        before: ObservedTable | None = None,
        row_change: RowChange | None = None,
        deleted: str | None = None,
        at_rest: bool = False,
        alive: Iterable[str] = (),
        locks: Sequence[str] = (),
    ) -> None:
        """Check the invariants of this step."""
        view = View(
            now=self._last,
            tables=self.tables,
            history=self._history,
            before=before,
            row_change=row_change,
            deleted=deleted,
            protected=self._promises.protected,
            kept_files=frozenset(self._dropped - self._purged) if deleted is not None else frozenset(),
            excused_files=self._excused_files,
            past_locations=self._past_locations,
            registered_again=self._registered_again,
            branches=self._promises.tables_move,
            expires=bool(self.expirers),
            at_rest=at_rest,
            alive=frozenset(alive),
            locks=tuple(locks),
            all_commit=self._promises.all_commit,
            ours=frozenset(self._ours()),
            in_order=self._promises.in_order,
            steady=self._promises.steady,
            tidy=self._promises.tidy,
            at=self._now(),
            settings=self._settings,
            on_disk=self._storage.made() if at_rest else frozenset(),
            refused=self._refused() if at_rest and self._promises.tidy else frozenset(),
            foreign=frozenset(self.foreign),
        )
        found = broken(view)
        if found is not None:
            self._fail(found)

    def _refused(self) -> frozenset[str]:
        """The existing files that refused swaps carried."""
        there = [each for each in self.refused if each in self._storage.files]
        return frozenset[str]().union(*(ObservedTable.read(self._reader, each).needed for each in there))

    def _match_call(self, change: RowChange) -> CatalogCall | None:
        """The call of one of our processes that made this change; None if none did."""
        made = None
        for call in self._history.catalog_calls:
            if not _has_effect_of(call, change):
                continue
            if call.answer is Answer.NOTHING:
                call.effect_seen = True
            if call.caller == change.process:
                call.made, call.location = True, change.location
                made = call
        return made

    def _forget_replaced_creations(self, before: ObservedTable | None, call: CatalogCall | None) -> None:
        """A creation cannot be proved any more once another process has changed the created table. Under another name
        the table is found."""
        if call is not None and call.kind is CatalogCallKind.RENAME:
            return
        for creation in self._history.catalog_calls:
            creates = creation.kind in (CatalogCallKind.CREATE, CatalogCallKind.REGISTER)
            if creates and before is not None and call not in (None, creation) and creation.location in before.needed:
                creation.made = False

    def _drop(self, table: ObservedTable, call: CatalogCall | None) -> None:
        self._excuse(table)
        if call is not None and call.kind is CatalogCallKind.PURGE:
            self._purged |= table.needed
            self._purged_tables.append(table)
            for other in self._tables.values():
                self._excuse_files(other, table)
        else:
            self._dropped |= table.needed
            self.registrable.append(table.location)

    def _excuse_files(self, table: ObservedTable, purged: ObservedTable) -> None:
        """A purge of one of two tables that share files excuses the other: one was registered from those files."""
        if table.metadata is None or purged.metadata is None or table.metadata.uuid == purged.metadata.uuid:
            self._excused_files |= purged.needed | table.needed

    def _excuse_a_repeated_creation(self, table: ObservedTable) -> None:
        """A metastore that retries inside may carry out a creation twice, the second time after a purge: a creation has
        no expected value, so no client can prevent it."""
        for purged in self._purged_tables:
            if table.location in purged.needed:
                self._excused_files |= purged.needed | table.needed

    def _excuse_removed(self, before: ObservedTable, now: ObservedTable) -> None:
        for attempt in self._history.attempts:
            attempt.excused = attempt.excused or (before.has_well(attempt) and not now.has_well(attempt))

    def _excuse(self, table: ObservedTable) -> None:
        for attempt in self._history.attempts:
            attempt.excused = attempt.excused or table.has(attempt)


def _has_effect_of(call: CatalogCall, change: RowChange) -> bool:
    """Whether a row change is what a call asked for, or has the same effect."""
    match call.kind:
        case CatalogCallKind.RENAME:
            return change.renamed_from == call.name and change.table == call.to
        case CatalogCallKind.DROP | CatalogCallKind.PURGE:
            # A caller that finds the name gone may answer that it is gone, whichever process removed it.
            return call.name in (change.table if change.location is None else None, change.renamed_from)
        case CatalogCallKind.CREATE | CatalogCallKind.REGISTER:
            return change.process == call.caller and change.replaced is None
        case CatalogCallKind.OVERWRITE:
            # Another caller may have registered the very file.
            is_the_file = call.source is not None and (change.table, change.location) == (call.name, call.source)
            return change.process == call.caller or is_the_file
        case CatalogCallKind.REPLACE:
            return change.process == call.caller
