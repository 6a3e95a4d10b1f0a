"""The door: callers hand in changes, and get reports or errors.

Each table has a queue of its own (`scheduling/commit_queue.py`). Its worker starts when the first change arrives, takes
what is waiting as one group, and ends when the queue is empty; so a table that nobody writes to costs nothing, and
changes that arrive during a swap share the next one.

Between two groups the worker deletes the manifest lists that rebased commits replaced, pauses for a foreign writer, or
else waits a moment for the callers that it has just answered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from iceberg_hms.changes.change import Change, ChangeIdentity, Manifests
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.group.commit_group import CommitGroup
from iceberg_hms.coordinator.group.group_lock import abandoned
from iceberg_hms.coordinator.group.outages import Outages
from iceberg_hms.coordinator.hive_ports import HiveTables
from iceberg_hms.coordinator.locations.location_policy import ClientLocations
from iceberg_hms.coordinator.log_and_continue import REPORT, SWEEP, log_and_continue
from iceberg_hms.coordinator.operations.catalog_operations import CatalogOperations
from iceberg_hms.coordinator.operations.kind_changes import KindChanges
from iceberg_hms.coordinator.outcome.already_committed import AlreadyCommitted, LookupSources
from iceberg_hms.coordinator.outcome.outcome import CommitReport, Failed, Unknown, broke_off
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwaps
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.scheduling.commit_queue import CommitQueue
from iceberg_hms.coordinator.scheduling.table_state import TableState, TableStates
from iceberg_hms.coordinator.scheduling.table_workers import TableWorkers
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit, new_head
from iceberg_hms.errors import QueueFull, proved
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import owned_by

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RefusedChange:
    """A `Change` that every table refuses, since its door did: it is beyond a limit, say. error: for this reason.

    It is queued all the same where an earlier process may have sent it: only the group that holds the table's lock can
    exclude that such a swap is still made (`sent_swaps`)."""

    identity: ChangeIdentity
    error: Exception

    def check(self, base: TableMetadata | None) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises the error."""
        raise self.error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises the error."""
        raise self.error


class Coordinator:
    """Commits changes to tables. Safe for threads; several coordinators on one table are safe too."""

    def __init__(self, ports: CommitPorts, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings
        self._mutex = ports.runtime.mutex()
        self._queues: dict[TableName, CommitQueue] = {}
        #: The group of each table that is committed to, and when it began.
        self._groups: dict[TableName, tuple[float, Sequence[PendingCommit]]] = {}
        self._outages = Outages(ports.runtime)
        self._states = TableStates(ports, settings)
        self._workers = TableWorkers(ports.runtime, settings.commit_threads)
        self._cache = MetadataCache(
            ports.files,
            ports.runtime,
            max_bytes=settings.metadata_cache_max_bytes,
            bounds=FileBounds.of(settings.as_dict()),
        )
        uuid_lookup = UuidLookup(ports, self._cache, settings)
        self._sources = LookupSources(
            lambda name: self._cache.version(ports.pointer.load(name)),
            uuid_lookup.find,
            self._cache.peek,
            SentSwaps(ports.runtime),
        )
        #: Counts in a memory budget what is read and kept of metadata.
        self.use_memory = self._cache.use_memory
        #: The metadata in a file that is no longer the table's (`MetadataCache.peek`).
        self.read_metadata = self._cache.peek
        #: Create, register, rename, drop.
        self.operations = CatalogOperations(ports, self._cache, settings, uuid_lookup)

    def kind_changes(self, hive: HiveTables) -> KindChanges:
        """Turns Hive tables into Iceberg tables in place, and back."""
        return KindChanges(self._ports, hive, self._cache, self._settings)

    def load(self, name: TableName) -> TableVersion:
        """The table as it is now, for its readers: one metastore call, and the metadata from its file, or from the
        cache if the file is still there (`MetadataCache.present_version`).

        Raises NoSuchTable, NotAnIcebergTable, MissingFile, CorruptFile, MetastoreError, StorageError.
        """
        return self._cache.present_version(self._ports.pointer.load(name))

    def commit(
        self,
        name: TableName,
        change: Change,
        *,
        wait_seconds: float,
        size: int = 0,
        locations: ClientLocations | None = None,
        prepared: Sequence[str] = (),
    ) -> CommitReport:
        """Commit a change to an existing table; returns when it is in the table.

        wait_seconds: how long to wait for the group and for the lock, and for a metastore that is away. Once a swap
        with the change was sent, the caller waits for its outcome, however long that takes.
        size: the bytes that the change holds in the queue.
        locations: which locations the change may name (LocationNotAllowed); None: all.
        prepared: locations that the change wrote already; the coordinator deletes them with the others that the change
        writes if it is proved to have failed. After QueueFull they are the caller's.
        Raises NoSuchTable, NotAnIcebergTable, InvalidInput; CommitFailed and its subtypes when it is proved that
        nothing changed; CommitStateUnknown when that is not known (delete nothing); QueueFull, MetastoreError and
        StorageError before anything was sent. Ctrl-C withdraws the change and raises KeyboardInterrupt; but once a swap
        may have been sent, the call goes on to its outcome (`interrupts.wait_after_interrupt`).
        """
        commit = self._pending(name, change, wait_seconds, locations, prepared)
        commit.event_of_answer()
        try:
            self._queue(name, commit, size)
            return commit.wait()
        except KeyboardInterrupt as interrupt:
            return commit.wait_after(interrupt, f"commit to {name}")

    def submit(
        self,
        name: TableName,
        change: Change,
        *,
        wait_seconds: float,
        size: int = 0,
        locations: ClientLocations | None = None,
        prepared: Sequence[str] = (),
    ) -> PendingCommit:
        """Queue a change and return at once: `commit` for callers that must not block.

        The caller calls `PendingCommit.withdraw` after `wait_seconds`, and `PendingCommit.result`, which raises as
        `commit`, when the commit is settled; `result` blocks for one that was withdrawn. Raises QueueFull."""
        commit = self._pending(name, change, wait_seconds, locations, prepared)
        self._queue(name, commit, size)
        return commit

    def refusal(self, name: TableName, change: Change, error: Exception, *, wait_seconds: float) -> Exception:
        """What to raise for a change that is not queued because of `error`: that, or CommitStateUnknown if an earlier
        send of the change may be in the table, or may still come into it. Blocks, and raises nothing.

        wait_seconds: how long to wait for the table's lock, if only its holder can tell."""
        outcome = AlreadyCommitted(name, self._sources).failed_or_unknown(change.identity, error)
        if isinstance(outcome, Unknown) and self._sources.sent.can_be_excluded(change.identity):
            try:
                self.commit(name, RefusedChange(change.identity, error), wait_seconds=wait_seconds)
            except QueueFull:
                return outcome.error
            except Exception as refused:  # noqa: BLE001 - its own error, or why nobody can tell
                return refused
        return outcome.error if isinstance(outcome, Unknown) else proved(outcome.error)

    def close(self) -> None:
        """Hold no commit any more for a metastore that is away: its connections are about to be closed."""
        self._outages.close()

    def waiting(self) -> tuple[int, float]:
        """How many commits wait in the queues, and for how many seconds the oldest has; 0 if there is none."""
        with self._mutex:
            started = [commit.started for queue in self._queues.values() for commit in queue.commits()]
        return len(started), max(0.0, self._ports.runtime.now() - min(started)) if started else 0.0

    def _pending(
        self,
        name: TableName,
        change: Change,
        wait_seconds: float,
        locations: ClientLocations | None,
        prepared: Sequence[str],
    ) -> PendingCommit:
        already_committed, sent = AlreadyCommitted(name, self._sources), self._sources.sent
        return PendingCommit(
            self._ports.runtime,
            change,
            wait_seconds,
            already_committed,
            locations,
            prepared,
            ended=sent.remove_waiting,
            held_up=lambda: self._held_up(name),
            away=lambda: self._outages.away(name, has_turn=name in self._groups),
        )

    def _held_up(self, name: TableName) -> str:
        """Why no commit to a table gets its turn, as a clause; "" if nothing is wrong."""
        began, group = self._groups.get(name, (0.0, ()))
        if held_by := self._ports.lock_held_by(name):
            return f"; the lock of {name} is {held_by}"
        if not abandoned(group):
            return ""
        seconds = self._ports.runtime.now() - began
        return (
            f"; a group of {name} has been under way for {seconds:.0f} s, and nobody waits for it any more: look "
            "whether the store of its metadata and the metastore answer"
        )

    def _queue(self, name: TableName, commit: PendingCommit, size: int) -> None:
        """Raises QueueFull."""
        if self._enqueue(name, commit, size):
            try:
                self._workers.start(name, lambda: self._commit_for(name), lambda error: self._refuse_queue(name, error))
            except Exception as error:
                raise self._refuse_queue(name, error) from error

    def _enqueue(self, name: TableName, commit: PendingCommit, size: int) -> bool:
        """True if the table has no worker yet. Raises QueueFull."""
        with self._mutex:
            queue = self._queues.get(name)
            is_new = queue is None
            if queue is None:
                queue = self._queues[name] = self._new_queue(name)
            queue.add(commit, size)
            self._sources.sent.add_waiting(commit)
            return is_new

    def _new_queue(self, name: TableName) -> CommitQueue:
        def end() -> None:
            del self._queues[name]

        return CommitQueue(name, self._ports, self._settings, self._states, self._sources.sent, self._mutex, end)

    def _refuse_queue(self, name: TableName, error: BaseException) -> QueueFull:
        """Answer everyone in a queue that has no worker, because there was no thread for one, or because the worker
        failed. The next commit starts anew. Returns the answer."""
        full = QueueFull(f"the commits to {name} have no worker: {error.__class__.__name__}: {error}")
        # Before the mutex, which all tables share: the metastore may take long to unlock.
        kept_lock = self._states.get(name).kept_lock
        kept_lock.give_back(kept_lock.detach())
        with self._mutex:
            queue = self._queues.pop(name, None)
            held = self._states.forget(name)
        for commit in queue.commits() if queue is not None else ():
            commit.settle(Failed(full))
        for commit in held:
            commit.answer()
        return full

    def _commit_for(self, name: TableName) -> bool:
        # A group has changes of several callers, so it is the table's work and not theirs.
        with owned_by(f"table {name}"):
            return self._commit_next_group(name)

    def _commit_next_group(self, name: TableName) -> bool:
        """False: no commit is waiting, and the queue has ended."""
        try:
            state = self._states.get(name)
            commits = self._queues[name].next_group(state)
            if commits:
                self._commit_group(name, state, commits)
            return bool(commits)
        except BaseException as error:  # answer every waiting caller; the next commit starts anew
            logger.exception("the queue of %s broke off: its commits are refused, and may be sent again", name)
            self._refuse_queue(name, error)
            return False

    def _commit_group(self, name: TableName, state: TableState, commits: Sequence[PendingCommit]) -> None:
        def hold_answer(commit: PendingCommit) -> bool:
            head = new_head(commit)
            is_beaten = head is not None and not self._sources.sent.made(head)
            hold = is_beaten and state.kept_lock.note_beaten()
            return state.retry_priority.record_outcome(commit, self._ports.runtime.now(), hold=hold)

        self._groups[name] = self._ports.runtime.now(), commits
        try:
            group = CommitGroup(
                self._ports,
                self._cache,
                self._settings,
                name,
                commits,
                self._sources,
                state.last_group,
                hold_answer,
                self._outages,
            )
            state.last_group = group.commit(state.kept_lock.take())
        except BaseException as error:  # a defect: whatever was sent, nobody must wait for ever
            logger.exception("a group of %s ended without answers", name)
            self._answer_unknown(name, commits, error)
        else:
            self._after_group(name, state, len(commits), group.landed)
        finally:
            del self._groups[name]

    def _answer_unknown(self, name: TableName, commits: Sequence[PendingCommit], error: BaseException) -> None:
        """Answer the commits of a group that broke off: without an outcome, nobody knows whether they landed."""
        unknown = broke_off(name, error)
        for commit in commits:
            if commit.outcome is None:
                commit.decide(Unknown(unknown))
            commit.answer()

    def _after_group(self, name: TableName, state: TableState, answered: int, landed: Sequence[CommitAttempt]) -> None:
        last = state.last_group
        with log_and_continue(f"deleting old metadata files of {name}", SWEEP):
            state.own_files.delete_expired(landed)
        with log_and_continue(f"deleting replaced manifest lists of {name}", SWEEP):
            state.replaced_lists.add(each for attempt in landed for each in attempt.replaced_lists)
            if landed:
                state.replaced_lists.sweep(landed[0].base.pointer, landed[-1].metadata)
        paused = False
        with log_and_continue(f"pausing commits to {name} for a foreign writer", REPORT):
            paused = state.foreign_writer_backoff.pause_after_group(
                last.location, behind_foreign_writer=last.behind_foreign_writer, moved=last.contested
            )
        if not paused and answered > 1:
            with log_and_continue(f"waiting for the callers of {name}", REPORT):
                queue = self._queues[name]
                queue.wait_for_returning_callers(state.batching_window, answered, last.answered_at)
