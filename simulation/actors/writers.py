"""Writers with a coordinator, and foreign writers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Change, Update
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.live_files import NEW_FILES
from iceberg_hms.changes.requirements import assert_table_uuid
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import (
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    InvariantViolated,
    RequirementFailed,
)
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from simulation.actors.foreign import ForeignMetastore
from simulation.actors.requests import assert_create, assert_ref_snapshot_id, for_update_table
from simulation.engine.scheduler import Process
from simulation.world.cluster import TABLE, Cluster, ClusterNode
from simulation.world.faults import CRITICAL_SHARE
from simulation.world.first_table import empty_table
from simulation.world.history import Answer, WriteAttempt, WriterKind
from simulation.world.metastore import METADATA_LOCATION

#: How often a client sends a change with an unknown outcome again, at most.
_RESENDS = 2
#: Seconds within which it does so.
_RESEND_WITHIN = 300.0
#: How often a foreign writer retries after a conflict.
_FOREIGN_RETRIES = 4
#: Seconds of its first wait (`commit.retry.min-wait-ms`); each further one is twice as long.
_FIRST_BACKOFF = 0.1
#: How likely a foreign writer gives up after a conflict.
_GIVES_UP = 0.3


def key_of(operation: str) -> str | None:
    """The idempotency key of an operation. Every other operation has none, and is known by its snapshot id."""
    return operation if operation.endswith("1") else None


class CoordinatorWriter:
    """A client with its coordinator in one process.

    resume: the operations of a crashed writer, sent again under their keys. shared: the operations that other writers
    have as well: the same files at the same time, without keys, twice each. names: of the tables, one of which each
    change goes to. starts_within: seconds within which it begins. without_lock_api: see `ClusterNode`. rest: how likely
    an append is sent as a stock client of the REST server sends it.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        changes: int,
        *,
        rest: float = 0.0,
        resume: Sequence[str] = (),
        shared: Sequence[str] = (),
        names: Sequence[TableName] = (TABLE,),
        starts_within: float = 0.1,
        without_lock_api: bool = False,
    ) -> None:
        self.node = ClusterNode(
            cluster, name, skew_ms=cluster.random.below(7_200_000) - 3_600_000, without_lock_api=without_lock_api
        )
        self._coordinator = self.node.coordinator()
        self._random = self.node.random
        self._operations = tuple(resume) or (*(f"{name}.{index + 1}" for index in range(changes)), *shared, *shared)
        self._shared = frozenset(shared)
        self._resumes = bool(resume)
        self._names = tuple(names)
        self._starts_within = starts_within
        self._rest = rest

    def start(self) -> None:
        self.node.runtime.spawn("client", self._run)

    def _run(self) -> None:
        runtime = self.node.runtime
        runtime.sleep(self._random.between(0.0, self._starts_within))
        if self._random.chance(0.5):
            for operation in self._operations:
                runtime.spawn(f"client {operation}", partial(self._fulfil, operation))
            return
        for operation in self._operations:
            self._fulfil(operation)

    def _fulfil(self, operation: str) -> None:
        name = self._random.pick(self._names)
        if self._resumes or operation in self._shared or self._random.chance(0.6):
            self._append(operation, name)
            return
        try:
            attempt, change = self._other_change(operation, name)
        except IcebergHmsError:
            return
        self._commit(attempt, change, name)

    def _append(self, operation: str, name: TableName) -> None:
        key, shared = key_of(operation), operation in self._shared
        attempt = self.node.new_append(operation, same_file=shared or key is not None)
        sent: Sequence[Update] = ()
        try:
            if not shared and self._random.chance(self._rest):
                base = self._coordinator.load(name).metadata
                sent = self.node.sent_append(attempt, base, key)
                requirements = for_update_table(base, sent)
        except IcebergHmsError:
            self.node.cluster.history.record_answer(attempt, Answer.FAILED)
            return
        for _ in range(_RESENDS + 1):
            if sent:
                change: Change = from_request(list(requirements), list(sent))
            else:
                change = self._looked_ahead(self.node.append(attempt, key), name, often=shared)
            self._commit(attempt, change, name)
            if attempt.answer is not Answer.UNKNOWN or self._random.chance(0.5):
                break
            self.node.sleep_beside(_RESEND_WITHIN)
        of_this_file = [each for each in self.node.cluster.history.attempts if each.data_file == attempt.data_file]
        if all(each.answer is Answer.FAILED for each in of_this_file):
            # A failure proves that the file is not in the table.
            self.node.cluster.storage.delete(attempt.data_file or "")

    def _looked_ahead(self, change: Append, name: TableName, *, often: bool) -> Append:
        """An append as `Table.append` passes it on. often: look ahead at times, because others add the same file."""
        if often and self._random.chance(0.5):
            with contextlib.suppress(IcebergHmsError):
                change.look_ahead(self._coordinator.load(name).metadata, self.node.manifests())
        return change

    def _other_change(self, operation: str, name: TableName) -> tuple[WriteAttempt, Change]:
        """A change of properties, perhaps with a tag that only one writer can create; it may require a snapshot."""
        base = self._coordinator.load(name).metadata
        main = base.current_snapshot_id
        attempt = WriteAttempt(operation, self.node.process.name, mark=f"mark-{operation}")
        requirements = [assert_table_uuid(base.uuid or "")]
        changes = [updates.set_properties({attempt.mark or "": "1"})]
        if self._random.chance(0.7):
            requirements.append(assert_ref_snapshot_id(MAIN_BRANCH, main))
            attempt.requires_main = (True, main)
        if main is not None and self._random.chance(0.5):
            requirements.append(assert_ref_snapshot_id("release", None))
            changes.append(updates.set_snapshot_ref("release", main, kind="tag"))
            attempt.ref = ("release", main)
        return self.node.cluster.history.begin(attempt), from_request(requirements, changes)

    def _commit(self, attempt: WriteAttempt, change: Change, name: TableName) -> None:
        cluster, process = self.node.cluster, self.node.process
        wait = self._random.pick(cluster.waits)
        # A job with a key is recognized by it, whichever of its runs is in the table.
        runs = (
            [each for each in cluster.history.attempts if each.operation == attempt.operation]
            if key_of(attempt.operation)
            else [attempt]
        )
        present = any(cluster.present(each) for each in runs)
        try:
            self._coordinator.commit(name, change, wait_seconds=wait)
        except CommitStateUnknown as error:
            answer, detail = Answer.UNKNOWN, error.message.partition(": ")[0]
        except IcebergHmsError as error:
            answer, detail = Answer.FAILED, f"{type(error).__name__}: {error.message}"
            attempt.called_invalid = isinstance(error, InvariantViolated)
            attempt.refused_while_present = present and isinstance(error, InvalidInput | RequirementFailed)
            attempt.refused_as_duplicate = isinstance(error, RequirementFailed) and error.name == NEW_FILES
        else:
            answer, detail = Answer.COMMITTED, ""
        cluster.wire.note(process, f"{attempt.operation} is answered {answer.value}", detail)
        cluster.history.record_answer(attempt, answer)


class ForeignWriter:
    """A writer without a coordinator: it builds real metadata, and commits in its own way."""

    kind: WriterKind
    #: Seconds within which it begins.
    starts_within: float = 100.0
    #: Its calls are never late, so that it never loses its lock.
    swift: bool = False

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.node = ClusterNode(cluster, name)
        self.metastore = ForeignMetastore(self.node.network(swift=self.swift), name)
        self._operation = name

    def start(self) -> None:
        self.node.runtime.spawn("foreign", self._run)

    def _run(self) -> None:
        wire = self.node.cluster.wire
        # Soon, beside the first commits, or when some of their outcomes have become unknown.
        soon = self.node.random.chance(0.5)
        within = self.starts_within
        self.node.runtime.sleep(wire.random_duration(within) if soon else wire.between(0.0, within))
        attempt = self.node.new_append(self._operation, self.kind)
        try:
            answer = self._write(attempt)
        except IcebergHmsError as error:
            self.node.cluster.wire.note(self.node.process, "gives up", error)
            answer = Answer.UNKNOWN
        self.node.cluster.wire.note(self.node.process, f"{attempt.operation} is answered {answer.value}", "")
        self.node.cluster.history.record_answer(attempt, answer)

    def _write(self, attempt: WriteAttempt) -> Answer:
        raise NotImplementedError

    def _read(self) -> tuple[Any, TableMetadata]:
        """The table's row, and its metadata."""
        row = self.metastore.row(TABLE)
        location = row.parameters[METADATA_LOCATION]
        return row, metadata_file.decode(self.node.files.read(location), location)

    def _build(self, row: Any, base: TableMetadata, attempt: WriteAttempt) -> str:
        """Write the next metadata file; returns its location."""
        manifests, runtime = self.node.manifests(), self.node.runtime
        change = self.node.append(attempt, check_duplicates=False)
        metadata, _ = stage_one(base, change, RecordedWrites(manifests), runtime.now_ms)
        before = row.parameters[METADATA_LOCATION]
        metadata = metadata.with_metadata_log_entry(before, base.last_updated_ms)
        location = metadata_file.new_location(metadata, before, runtime.uuid())
        manifests.flush()
        self.node.files.write(location, metadata_file.encode(metadata))
        return location


class LockWriter(ForeignWriter):
    """PyIceberg's order: lock, read, write, swap blindly, unlock. It is never paused, so it never loses its lock."""

    kind = WriterKind.LOCKED
    swift = True

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        cluster.wire.never_paused.add(name)

    def _write(self, attempt: WriteAttempt) -> Answer:
        with self.metastore.locked(TABLE, 300.0):
            row, base = self._read()
            location = self._build(row, base, attempt)
            # It holds the lock while it writes to a slow storage.
            self.node.runtime.sleep(
                self.node.cluster.wire.random_duration(self.node.cluster.lease_seconds * CRITICAL_SHARE)
            )
            self.metastore.swap(TABLE, row, location, blindly=True)
        return Answer.COMMITTED


class JavaWriter(LockWriter):
    """The order of Java's HiveCatalog in lock mode: read, write, lock, and swap blindly if the table has not changed
    since. If it has, it retries after a while, or gives up."""

    starts_within = 0.5

    def _write(self, attempt: WriteAttempt) -> Answer:
        node = self.node
        for turn in range(_FOREIGN_RETRIES + 1):
            row, base = self._read()
            location = self._build(row, base, attempt)
            with self.metastore.locked(TABLE, 300.0):
                if self.metastore.row(TABLE).parameters[METADATA_LOCATION] == row.parameters[METADATA_LOCATION]:
                    self.metastore.swap(TABLE, row, location, blindly=True)
                    return Answer.COMMITTED
                node.record_wasted_lock(TABLE)
            if node.random.chance(_GIVES_UP):
                break
            node.runtime.sleep(_FIRST_BACKOFF * 2**turn)
        return Answer.UNKNOWN


class LostLockWriter(LockWriter):
    """A lock-mode writer that may lose its lock while it sleeps, and swaps all the same."""

    kind = WriterKind.LOST_LOCK
    swift = False

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        cluster.wire.never_paused.discard(name)


class CasWriter(ForeignWriter):
    """Java's order without locks: read, write, compare-and-swap; a retry after a conflict."""

    kind = WriterKind.SWAPPED

    def _write(self, attempt: WriteAttempt) -> Answer:
        for _ in range(_FOREIGN_RETRIES):
            row, base = self._read()
            if base.snapshot_by_id(attempt.snapshot_id or 0) is not None:
                return Answer.COMMITTED
            try:
                self.metastore.swap(TABLE, row, self._build(row, base, attempt), blindly=False)
            except ServerFault as fault:
                if fault.fault is not Fault.TABLE_MODIFIED:
                    break
            else:
                return Answer.COMMITTED
        return Answer.UNKNOWN


class Auditor:
    """The last writer: after all others ended and all faults are over, it must be able to commit."""

    def __init__(self, cluster: Cluster, *, expects_success: bool) -> None:
        self._site = cluster
        self._expects_success = expects_success
        self.process = Process("auditor")

    def run(self) -> None:
        """Commit once without faults; fail the schedule if the commit should succeed and does not."""
        node = ClusterNode(self._site, "auditor")
        coordinator = node.coordinator()
        attempt = node.new_append("auditor.1")
        try:
            if TABLE not in self._site.metastore.rows:
                metadata = empty_table(node.runtime.uuid(), {}, node.runtime.now_ms())
                change = from_request([assert_create()], create_updates(metadata))
                coordinator.operations.create(TABLE, change)
            # In ZooKeeper, a writer that follows an expired session waits for the swap that the session sent.
            under_way = node.settings.unanswered_swap_timeout_ms / 1000 if self._site.ensemble is not None else 0.0
            wait = under_way + 10 * self._site.lease_seconds
            coordinator.commit(TABLE, node.append(attempt), wait_seconds=wait)
        except IcebergHmsError as error:
            self._site.history.record_answer(
                attempt, Answer.UNKNOWN if isinstance(error, CommitStateUnknown) else Answer.FAILED
            )
            self._site.wire.note(node.process, "audit", error)
            if self._expects_success:
                self._site.scheduler.fail(f"recovers: a new writer could not commit: {error}")
        else:
            self._site.history.record_answer(attempt, Answer.COMMITTED)
