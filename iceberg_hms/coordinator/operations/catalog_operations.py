"""Create, register, rename and drop tables. Each is a swap of its own kind, with its own compare-and-swap.

    create, register      the metastore refuses a taken name: that is the compare-and-swap. No lock is needed. Two that
                          look for others in one folder at the same time see nobody: so each looks once more when its
                          row is there, and removes it again if another table has the folder.
    register (overwrite)  a lock, a re-read, and a swap to a *copy* of the given file: using a metadata location twice
                          would open an A-B-A hole in every writer's compare-and-swap. Its outcome is found as a
                          commit's.
    rename, drop          as those of views: `row_operations`.

After a refusal or a lost reply the metastore is asked before anything is believed, and no file is deleted without proof
(`status_check`, `row_operations`). A creation that is sent again after it landed finds its own table under the name. It
is acknowledged: the answer "the name is taken" would tell its client to delete files that the table names.
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
from iceberg_hms.coordinator.operations.row_operations import TABLE, RowOperations, find_taken, perhaps_created
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import CommitPorts, LockUse, Manifests, Pointer, SwapAnswer, Swapped, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.sending.operation_requests import Operation, retry_with_full_lease
from iceberg_hms.coordinator.sending.status_check import TableSwap
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
)
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import measured

logger = logging.getLogger(__name__)


class CatalogOperations(RowOperations[TableMetadata]):
    """The operations on tables."""

    def __init__(self, ports: CommitPorts, cache: MetadataCache, settings: Settings, uuid_lookup: UuidLookup) -> None:
        super().__init__(ports, settings, ports.pointer, TABLE)
        self._cache = cache
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
        return published(self._ports, lambda: self._create(name, change, owner, guard, sharing, insert, look_again))

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
            return self._report_if_ours(taken, change, manifests)
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
                return self._report_if_ours(other, change, manifests)
            raise shared_folder(metadata.location, other.name)
        location = metadata_file.new_location(metadata, None, self._ports.runtime.uuid())
        data = metadata_file.encode(metadata, self._cache.bounds)
        lists, _ = self._ports.runtime.gather([manifests.flush, lambda: self._ports.files.write(location, data)])
        self._cache.put(location, metadata)
        operation = self._operation("creation", name)
        try:
            answer = operation.send(lambda _: insert(name, location, metadata, owner))
        except IcebergHmsError:
            delete_files(self._ports, name, [location, *lists, *staged.files])
            raise
        # It was sent, so its files stay whatever its outcome: a sweep for orphans finds them when they are old.
        another = self._settle_creation(operation, answer, location, metadata, new_file=True)
        if another is not None:
            return self._report_if_ours(another, change, manifests)
        if isinstance(answer, Swapped):
            self._take_back_if_shared(name, location, metadata, lambda: look_again(metadata))
        return report_of(name, location, metadata, None, change.identity.snapshot_ids)

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
        (`own_files`). new_file: as `_settle_creation` has it. Raises CommitStateUnknown."""

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
                operation = self._operation("drop", name)
                removed = self._remove(operation, self._settings.lock_timeout_seconds, check)
            except CommitStateUnknown:
                raise
            except IcebergHmsError as error:
                logger.warning("%s stays: %s; %s", name, shared.message, error)
                return
            if removed is None:
                raise perhaps_created(name, f"it was to be removed again: {shared.message}") from None
            if not self._was_renamed(name, location, metadata, new_file=new_file):
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

        operation = self._operation("registration", name)

        def register() -> CommitReport:
            taken = find_taken(self._ports, name)
            table_guard = guard if guard is None or taken is None else guard.with_table(taken)
            metadata = self._registered(name, location, table_guard, self._cache.read_anew)
            if table_guard is not None:
                table_guard.check_metadata(None, metadata, metadata.snapshot_rows)
            if check is not None:
                check(metadata, self._cache.version(taken).metadata if taken is not None and overwrite else None)
            if taken is not None and not overwrite:
                raise AlreadyExists(f"Table already exists: {name}")
            look = partial(is_known_to_be_free, self._ports, name, metadata.location, hive=HiveRows.UNREAD, root=root)
            if taken is None or not same_folder(taken.location, metadata.location):
                look()
            refuse_shared_paths(self._ports, name, metadata.location, _paths(metadata))
            if taken is None:
                return self._register(operation, location, metadata, owner, look)
            copy = metadata_file.new_location(metadata, taken.metadata_location, self._ports.runtime.uuid())
            data = metadata_file.encode(metadata, self._cache.bounds)
            self._ports.files.write(copy, data)
            self._cache.put(copy, metadata)
            return self._register_over(operation, copy, metadata, wait_seconds, check)

        def publish() -> CommitReport:
            return published(self._ports, register, "registered")

        return operation.run(publish) if overwrite else publish()

    def _register(
        self,
        operation: Operation,
        location: str,
        metadata: TableMetadata,
        owner: str | None,
        look_again: Callable[[], object],
    ) -> CommitReport:
        name = operation.name
        answer = operation.send(lambda _: self._ports.pointer.create(name, location, metadata, owner))
        another = self._settle_creation(operation, answer, location, metadata, new_file=False)
        if another is not None:
            # A file that was registered twice gives two tables one UUID.
            raise perhaps_created(name, f"{another.name} has the uuid {metadata.uuid}")
        if isinstance(answer, Swapped):
            self._take_back_if_shared(name, location, metadata, look_again, new_file=False)
        return report_of(name, location, metadata, None)

    def _register_over(
        self,
        operation: Operation,
        copy: str,
        metadata: TableMetadata,
        wait_seconds: float,
        check: Callable[[TableMetadata, TableMetadata], None] | None,
    ) -> CommitReport:
        """Swap a table to metadata that does not follow from its own. copy: the file that holds it."""
        name = operation.name
        sent = False

        def swap_to_copy(use: LockUse) -> str:
            """Returns the metadata location that this replaced."""
            nonlocal sent
            with operation.locked([name], wait_seconds, use):
                for _ in range(self._settings.commit_retry_num_retries + 1):
                    # What is registered owns no folder: its metadata names whatever its writer put there.
                    pointer = self._ports.pointer.load(name).without_record()
                    base = self._cache.version(pointer)
                    if check is not None:
                        check(metadata, base.metadata)
                    swap = TableSwap(self._ports, self._cache, CommitAttempt(base, metadata, copy))
                    answer = operation.send(swap.send)
                    sent = True
                    if operation.is_made(swap, answer):
                        return pointer.metadata_location
            raise operation.moved_every_time()

        try:
            previous = retry_with_full_lease(swap_to_copy)
        except IcebergHmsError:
            if not sent:
                delete_files(self._ports, name, [copy])
            raise
        return report_of(name, copy, metadata, previous)

    def drop(self, name: TableName, *, wait_seconds: float) -> TableVersion | None:
        """Remove a table's row; its files stay. Returns the table as it was, for a caller that purges it. None: the
        name is gone, but the metadata cannot be read, or it is not proved that this call removed this very table
        (another writer may have renamed it meanwhile). Then no file of it may be deleted.

        Raises NoSuchTable, NotAnIcebergTable, LockNotAcquired, CommitStateUnknown.
        """
        operation = self._operation("drop", name)

        def drop() -> TableVersion | None:
            row = self._remove(operation, wait_seconds)
            if row is None:
                logger.warning("%s is gone, but it is not proved that this drop removed it: its files are kept", name)
                return None
            try:
                return self._cache.version(row)
            except IcebergHmsError as error:
                logger.warning("the metadata of the dropped table %s cannot be read: %s", name, error)
                return None

        return operation.run(drop)

    def _read(self, location: str) -> TableMetadata:
        return self._cache.get(location)

    def _find(self, uuid: str, folder: str, last_known: TableName) -> Sequence[Pointer]:  # noqa: ARG002 - most rows name the UUID
        return [each.pointer for each in self._uuid_lookup.find(uuid, last_known)]

    def _came_from(self, row: Pointer, location: str, metadata: TableMetadata, *, new_file: bool) -> CommitStatus:  # noqa: ARG002 - a table's log tells
        is_seen = check_status(self._cache, row.metadata_location, ours=location, base="") is CommitStatus.SUCCESS
        return CommitStatus.SUCCESS if is_seen else CommitStatus.FAILURE

    def _was_renamed(self, name: TableName, location: str, metadata: TableMetadata, *, new_file: bool) -> bool:
        """Whether a creation made a table that has another name by now, though it has none of this name any more: a
        metastore that retries inside may make a table again that was renamed meanwhile. new_file: as for
        `_settle_creation`. Raises CommitStateUnknown if that is not known."""
        found = self._find_others(metadata, name)
        if found is not None and not found:
            return False
        came = partial(self._came_from, location=location, metadata=metadata, new_file=new_file)
        if found and new_file and any(came(each) is CommitStatus.SUCCESS for each in found):
            return True
        raise perhaps_created(name, f"another table may have its uuid {metadata.uuid}")

    def _report_if_ours(self, taken: Pointer, change: Change, manifests: Manifests) -> CommitReport:
        """The report of a change that made the table which has its name. Raises AlreadyExists if the table is another;
        CommitStateUnknown if that is not known of a change whose snapshots the table may have, or may have had.

        A staged table gets its UUID when it is staged, so two creations with one UUID are one creation, sent twice.
        """
        ids = change.identity.snapshot_ids
        refused = AlreadyExists(f"Table already exists: {taken.name}")
        try:
            metadata = self._cache.get(taken.metadata_location)
        except IcebergHmsError as error:
            if not ids:
                raise refused from error
            raise perhaps_created(taken.name, f"its metadata cannot be read: {error}") from error
        uuid = _assigned_uuid(change, manifests)
        same = uuid is not None and metadata.has_uuid(uuid)
        present = [id_ for id_ in ids if metadata.snapshot_by_id(id_) is not None]
        if len(present) == len(ids) and (same or (uuid is None and ids)):
            return CommitReport(
                table=taken.name,
                metadata_location=taken.metadata_location,
                metadata=metadata,
                previous_metadata_location=taken.previous_metadata_location,
                snapshot_ids=ids,
                already_committed=True,
            )
        if present:
            raise perhaps_created(
                taken.name, f"it has {present} of the snapshots {list(ids)}, and uuid {metadata.uuid}"
            )
        if same:
            # Files of expired snapshots may live on in later ones.
            raise perhaps_created(taken.name, f"it has the uuid {uuid}, and none of the snapshots {list(ids)}")
        raise refused


def published(ports: CommitPorts, operation: Callable[[], CommitReport], event: str = "committed") -> CommitReport:
    """Run an operation, and publish its report with what it used, unless it was already committed."""
    started = ports.runtime.now()
    with measured() as usage:
        report = operation().with_usage(usage)
    report = replace(report, total_ms=(ports.runtime.now() - started) * 1000)
    if not report.already_committed:
        ports.events.publish({"event": event, "report": report})
    return report


def _paths(metadata: TableMetadata) -> list[str]:
    """The folders that its properties name."""
    return [path for _, path in new_paths({}, metadata.properties)]


def report_of(
    name: TableName, location: str, metadata: TableMetadata, previous: str | None, snapshot_ids: tuple[int, ...] = ()
) -> CommitReport:
    """The report of an operation that commits alone. previous: the metadata location that it replaced."""
    return CommitReport(
        table=name,
        metadata_location=location,
        metadata=metadata,
        previous_metadata_location=previous,
        snapshot_ids=snapshot_ids,
        attempts=1,
        group_size=1,
    )


def _assigned_uuid(change: Change, manifests: Manifests) -> str | None:
    """The UUID that a creation gives its table. Raises as the change does."""
    change.check(None)
    staged = change.stage(None, manifests)
    manifests.discard(staged.files)
    return next((update["uuid"] for update in staged.updates if update["action"] == "assign-uuid"), None)
