"""Create, register, rename and drop tables. Each is a swap of its own kind, with its own compare-and-swap.

    create, register      the metastore refuses a taken name: that is the compare-and-swap. No lock is needed. Two that
                          look for others in one folder at the same time see nobody: so each looks once more when its
                          row is there, and removes it again if another table has the folder.
    register (overwrite)  a lock, a re-read, and a swap to a *copy* of the given file: using a metadata location twice
                          would open an A-B-A hole in every writer's compare-and-swap. Its outcome is found as a
                          commit's.
    rename                locks on both names, in the order of the names, a re-read, and an expected value. That one is
                          right again when the table was renamed there and back, so the locks outlast the request.
    drop                  a lock and a re-read; the metastore takes no expected value here. So only an answer that the
                          lock covered proves which table was dropped: another writer may have renamed a table whose
                          name is gone. Without an answer it is searched for under other names: a drop that is still
                          under way removes what has the name by then.

After a refusal or a lost reply the metastore is asked before anything is believed, and no file is deleted without proof
(`operation_requests`, `creation_outcome`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.locations.folder_overlaps import (
    HiveRows,
    is_known_to_be_free,
    refuse_shared_elsewhere,
    refuse_shared_folder,
    refuse_shared_paths,
    shared_folder,
    tables_sharing,
)
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.coordinator.operations.creation_outcome import CreationOutcome, perhaps_created
from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    LockUse,
    Pointer,
    Refused,
    SwapAnswer,
    Swapped,
    TableName,
    tell_nobody,
)
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.sending.operation_requests import (
    find_taken,
    held_until_now,
    is_dropped,
    locked,
    points_at,
    raise_not_made,
    refuse_taken,
    retry_with_full_lease,
    send,
    was_made,
)
from iceberg_hms.coordinator.sending.swap_outcome import SwapResolution, TableSwap
from iceberg_hms.coordinator.sending.unanswered_swaps import run_with_caller_timeout
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    ResourceExhausted,
    StorageError,
    UnsupportedFormat,
)
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import measured

logger = logging.getLogger(__name__)


class CatalogOperations:
    """Safe for threads; needs no queue, since the metastore orders these operations."""

    def __init__(self, ports: CommitPorts, cache: MetadataCache, settings: Settings, uuid_lookup: UuidLookup) -> None:
        self._ports = ports
        self._cache = cache
        self._settings = settings
        self._creations = CreationOutcome(ports, cache, settings, uuid_lookup)
        self._uuid_lookup = uuid_lookup

    def create(
        self,
        name: TableName,
        change: Change,
        *,
        owner: str | None = None,
        guard: LocationGuard | None = None,
        root: str | None = None,
        folder_is_free: bool = False,
        folder_is_new: bool = False,
        owns_folder: bool = False,
    ) -> CommitReport:
        """Create a table from a change whose base is nothing (`assert-create` and the updates that build the metadata).
        A change that made this very table before is reported as already committed, with the table as it is now. A
        folder that another table of the database has is refused.

        guard: of the locations that the change may name; None: all.
        root: the folder of the database. folder_is_free: the caller has just looked for such a table. folder_is_new: as
        `refuse_shared_folder` has it. owns_folder: the folder was empty, too, when it was chosen.
        Raises AlreadyExists, NoSuchNamespace, InvalidInput, CommitStateUnknown, MetastoreError, StorageError.
        """

        def sharing(metadata: TableMetadata) -> Sequence[Pointer]:
            refuse_shared_paths(self._ports, name, metadata.location, _paths(metadata))
            if folder_is_free:
                return ()
            found = tables_sharing(self._ports, name, metadata.location, root=root)
            if not found:
                refuse_shared_elsewhere(self._ports, name, metadata.location, root=root)
            return found

        def look_again(metadata: TableMetadata) -> None:
            refuse_shared_folder(self._ports, name, metadata.location, root=root, is_new=folder_is_new)

        insert = partial(self._ports.pointer.create, owns_folder=owns_folder)
        return self._published(lambda: self._create(name, change, owner, guard, sharing, insert, look_again))

    def _create(
        self,
        name: TableName,
        change: Change,
        owner: str | None,
        guard: LocationGuard | None,
        sharing: Callable[[TableMetadata], Sequence[Pointer]],
        insert: Callable[[TableName, str, TableMetadata, str | None], SwapAnswer],
        look_again: Callable[[TableMetadata], None],
    ) -> CommitReport:
        manifests = manifests_for(self._ports, guard)
        recorded = RecordedWrites(manifests)
        taken = find_taken(self._ports, name)
        if taken is not None:
            return self._creations.report_if_ours(taken, change, manifests)
        metadata, staged = stage_one(None, change, recorded, self._ports.runtime.now_ms, guard)
        try:
            others = sharing(metadata)
        except IcebergHmsError:
            manifests.discard(staged.files)
            raise
        for other in others:
            manifests.discard(staged.files)
            with suppress(AlreadyExists):
                # An earlier send may have made this table, which another writer has renamed since.
                return self._creations.report_if_ours(other, change, manifests)
            raise shared_folder(metadata.location, other.name)
        location = metadata_file.new_location(metadata, None, self._ports.runtime.uuid())
        data = metadata_file.encode(metadata, self._cache.bounds)
        lists, _ = self._ports.runtime.gather([manifests.flush, lambda: self._ports.files.write(location, data)])
        self._cache.put(location, metadata)
        try:
            answer = send(lambda _: insert(name, location, metadata, owner))
        except IcebergHmsError:
            delete_files(self._ports.files, [location, *lists, *staged.files])
            raise
        # It was sent, so its files stay whatever its outcome: a sweep for orphans finds them when they are old.
        another = self._creations.settle(answer, name, location, metadata)
        if another is not None:
            return self._creations.report_if_ours(another, change, manifests)
        if isinstance(answer, Swapped):
            self._take_back_if_shared(name, location, metadata, lambda: look_again(metadata))
        return _report(name, location, metadata, None, change.identity.snapshot_ids)

    def _take_back_if_shared(
        self,
        name: TableName,
        location: str,
        metadata: TableMetadata,
        look_again: Callable[[], object],
        *,
        new_file: bool = True,
    ) -> None:
        """Remove the row that was just made if another table has got its folder meanwhile, and raise the InvalidInput
        of `look_again` once that is proved. Its files stay, as all do that a request has named. A table that somebody
        has committed to, or that cannot be removed, stays: what may be deleted for it is judged at each deletion
        (`own_files`). new_file: as `CreationOutcome.settle` has it. Raises CommitStateUnknown."""

        def check(locked: Pointer) -> None:
            if locked.metadata_location != location:
                raise CommitConflict(f"{name} points at {locked.metadata_location} by now")
            with suppress(InvalidInput):
                # Without the lock the other may have been this very table, which was renamed, and renamed back.
                look_again()
                raise CommitConflict(f"nobody shares the folder of {name} any more")

        try:
            look_again()
        except InvalidInput as shared:
            try:
                removed = self._remove(name, self._settings.lock_timeout_ms / 1000, check)
            except CommitStateUnknown:
                raise
            except IcebergHmsError as error:
                logger.warning("%s stays: %s; %s", name, shared.message, error)
                return
            if removed is None:
                raise perhaps_created(name, f"it was to be removed again: {shared.message}") from None
            if not self._creations.has_another_name(name, location, metadata, new_file=new_file):
                raise
        except IcebergHmsError as error:
            logger.info("nobody looked again who shares the folder of %s: %s", name, error)

    def register(
        self,
        name: TableName,
        location: str,
        *,
        overwrite: bool,
        owner: str | None = None,
        wait_seconds: float,
        root: str | None = None,
        check: Callable[[TableMetadata, TableMetadata | None], None] | None = None,
        guard: LocationGuard | None = None,
    ) -> CommitReport:
        """Point a new table at an existing metadata file. With `overwrite` point the table that has this name at a copy
        of the file instead. root: the folder of the database. check: raises to refuse what the file holds; its second
        argument is what that replaces, if anything, and it is called again under the lock.
        guard: of the locations that the caller and the file may name; None: all.
        Raises as `create`, and MissingFile, StorageError or CorruptFile for the given file.

        Tables without a catalog use the names of their metadata files again (`v1.metadata.json`), so the file is read
        even if the cache has one of this name."""

        def register(overdue: Callable[[], None] = tell_nobody) -> CommitReport:
            taken = find_taken(self._ports, name)
            metadata = self._registered(name, location, taken, guard)
            if check is not None:
                check(metadata, self._cache.version(taken).metadata if taken is not None and overwrite else None)
            if taken is not None and not overwrite:
                raise AlreadyExists(f"Table already exists: {name}")
            look = partial(is_known_to_be_free, self._ports, name, metadata.location, hive=HiveRows.UNREAD, root=root)
            if taken is None or not same_folder(taken.location, metadata.location):
                look()
            refuse_shared_paths(self._ports, name, metadata.location, _paths(metadata))
            return self._register(name, location, metadata, taken, owner, wait_seconds, look, check, overdue)

        if not overwrite:
            return self._published(register, "registered")
        what = f"registration of {name}"
        return run_with_caller_timeout(
            self._ports, name, what, lambda overdue: self._published(lambda: register(overdue), "registered")
        )

    def _register(
        self,
        name: TableName,
        location: str,
        metadata: TableMetadata,
        taken: Pointer | None,
        owner: str | None,
        wait_seconds: float,
        look: Callable[[], object],
        check: Callable[[TableMetadata, TableMetadata], None] | None,
        overdue: Callable[[], None],
    ) -> CommitReport:
        if taken is None:
            answer = send(lambda _: self._ports.pointer.create(name, location, metadata, owner))
            another = self._creations.settle(answer, name, location, metadata, new_file=False)
            if another is not None:
                # A file that was registered twice gives two tables one UUID.
                raise perhaps_created(name, f"{another.name} has the uuid {metadata.uuid}")
            if isinstance(answer, Swapped):
                self._take_back_if_shared(name, location, metadata, look, new_file=False)
            return _report(name, location, metadata, None)
        copy = metadata_file.new_location(metadata, taken.metadata_location, self._ports.runtime.uuid())
        data = metadata_file.encode(metadata, self._cache.bounds)
        self._ports.files.write(copy, data)
        self._cache.put(copy, metadata)
        sent: list[CommitAttempt] = []

        def swap(use: LockUse) -> str:
            return self._swap_to(name, copy, metadata, wait_seconds, use, sent, check, overdue)

        try:
            previous = retry_with_full_lease(swap)
        except IcebergHmsError:
            if not sent:
                delete_files(self._ports.files, [copy])
            raise
        return _report(name, copy, metadata, previous)

    def _registered(
        self, name: TableName, location: str, taken: Pointer | None, guard: LocationGuard | None
    ) -> TableMetadata:
        """The metadata in a file that a caller names. Raises LocationNotAllowed, for the file before it is touched."""
        if guard is None:
            return self._cache.read_anew(location)
        if taken is not None:
            guard = guard.with_table(taken)
        guard.check_read(location, "the metadata file")
        try:
            metadata = self._cache.read_anew(location)
        except ResourceExhausted:
            raise
        except (StorageError, UnsupportedFormat) as error:
            # Why would tell what is in a file that may be none of the caller's.
            logger.info("%r is not registered as %s: %s", location, name, error)
            raise InvalidInput(
                "The metadata file cannot be read, or is not table metadata that this server supports",
                next_step="name another metadata file; nothing was registered",
            ) from error
        guard.check_metadata(None, metadata, metadata.snapshot_rows)
        return metadata

    def _swap_to(
        self,
        name: TableName,
        location: str,
        metadata: TableMetadata,
        wait_seconds: float,
        use: LockUse,
        sent: list[CommitAttempt],
        check: Callable[[TableMetadata, TableMetadata], None] | None,
        overdue: Callable[[], None],
    ) -> str:
        """Swap a table to metadata that does not follow from its own. Returns the metadata location that this replaced.
        sent: gets each swap that was sent. check: as for `register`."""
        with locked(self._ports, [name], wait_seconds, use=use) as locks:
            [lock] = locks
            for _ in range(self._settings.commit_retry_num_retries + 1):
                # What is registered owns no folder: its metadata names whatever its writer put there.
                pointer = self._ports.pointer.load(name).without_record()
                base = self._cache.version(pointer)
                if check is not None:
                    check(metadata, base.metadata)
                attempt = CommitAttempt(base, metadata, location)
                swap = TableSwap(self._ports, self._cache, attempt)
                answer = send(swap.send, locks, overdue=overdue)
                sent.append(attempt)
                resolution = SwapResolution(self._ports, self._settings, swap, lock, overdue=overdue)
                status = resolution.resolve(answer)
                if status is CommitStatus.SUCCESS:
                    return pointer.metadata_location
                if status is CommitStatus.UNKNOWN or not (isinstance(answer, Refused) and answer.conflict):
                    unchanged = status is CommitStatus.FAILURE
                    raise_not_made(answer, unchanged=unchanged, what=f"registration of {name}")
        raise CommitConflict(f"{name} moved under every attempt to register it, although its lock was held")

    def rename(self, name: TableName, to: TableName, *, wait_seconds: float) -> None:
        """Give a table another name. Raises NoSuchTable, NoSuchNamespace, AlreadyExists, LockNotAcquired,
        CommitStateUnknown."""

        run_with_caller_timeout(self._ports, name, f"rename of {name}", partial(self._rename, name, to, wait_seconds))

    def _rename(self, name: TableName, to: TableName, wait_seconds: float, overdue: Callable[[], None]) -> None:
        ports = self._ports
        with locked(ports, sorted({name, to}), wait_seconds, use=LockUse.BLIND) as locks:
            refuse_taken(ports, to, f"Cannot rename {name} to {to}")
            base = ports.pointer.load(name)
            answer = send(partial(ports.pointer.rename, base, to), locks, blind=True, overdue=overdue)
            load, location = ports.pointer.load, base.metadata_location
            if was_made(ports, self._settings, name, answer, lambda: points_at(load, to, location), locks, overdue):
                return
            raise_not_made(answer, unchanged=points_at(load, name, location), what=f"rename of {name}")

    def drop(self, name: TableName, *, wait_seconds: float) -> TableVersion | None:
        """Remove a table's row; its files stay. Returns the table as it was, for a caller that purges it. None: the
        name is gone, but the metadata cannot be read, or it is not proved that this call removed this very table
        (another writer may have renamed it meanwhile). Then no file of it may be deleted.

        Raises NoSuchTable, NotAnIcebergTable, LockNotAcquired, CommitStateUnknown.
        """
        return run_with_caller_timeout(self._ports, name, f"drop of {name}", partial(self._drop, name, wait_seconds))

    def _drop(self, name: TableName, wait_seconds: float, overdue: Callable[[], None]) -> TableVersion | None:
        pointer = self._remove(name, wait_seconds, overdue=overdue)
        if pointer is None:
            logger.warning("%s is gone, but it is not proved that this drop removed it: its files are kept", name)
            return None
        try:
            return self._cache.version(pointer)
        except IcebergHmsError as error:
            logger.warning("the metadata of the dropped table %s cannot be read: %s", name, error)
            return None

    def _remove(
        self,
        name: TableName,
        wait_seconds: float,
        check: Callable[[Pointer], None] | None = None,
        overdue: Callable[[], None] = tell_nobody,
    ) -> Pointer | None:
        """Remove a table's row; returns it. None: the name is gone, but it is not proved that this removed the row.
        check: raises, under the lock, to keep this row. Raises as `drop` and as the check."""
        ports = self._ports
        # A drop carries no expected value: one that is sent after its lease would remove later commits of others.
        with locked(ports, [name], wait_seconds, use=LockUse.BLIND) as locks:
            pointer = ports.pointer.load(name)
            if check is not None:
                check(pointer)
            answer = send(partial(ports.pointer.drop, pointer), locks, blind=True, overdue=overdue)
            is_made = partial(is_dropped, ports.pointer.load, name, lambda: self._others_of(pointer))
            if not was_made(ports, self._settings, name, answer, is_made, locks, overdue):
                unchanged = points_at(ports.pointer.load, name, pointer.metadata_location)
                raise_not_made(answer, unchanged=unchanged, what=f"drop of {name}")
            return pointer if isinstance(answer, Swapped) and held_until_now(locks) else None

    def _others_of(self, pointer: Pointer) -> Sequence[TableVersion]:
        """The tables that have the UUID of a table whose name is gone. Raises as `UuidLookup.find`."""
        uuid = self._cache.get(pointer.metadata_location).uuid
        return () if uuid is None else self._uuid_lookup.find(uuid, pointer.name)

    def _published(self, operation: Callable[[], CommitReport], event: str = "committed") -> CommitReport:
        """Run an operation, and publish its report with what it used, unless it was already committed."""
        started = self._ports.runtime.now()
        with measured() as usage:
            report = operation().with_usage(usage)
        report = replace(report, total_ms=(self._ports.runtime.now() - started) * 1000)
        if not report.already_committed:
            self._ports.events.publish({"event": event, "report": report})
        return report


def _paths(metadata: TableMetadata) -> list[str]:
    """The folders that its properties name."""
    return [path for _, path in new_paths({}, metadata.properties)]


def _report(
    name: TableName, location: str, metadata: TableMetadata, previous: str | None, snapshot_ids: tuple[int, ...] = ()
) -> CommitReport:
    return CommitReport(
        table=name,
        metadata_location=location,
        metadata=metadata,
        previous_metadata_location=previous,
        snapshot_ids=snapshot_ids,
        attempts=1,
        group_size=1,
    )
