"""A Hive table becomes an Iceberg table in place, becomes a Hive table again, or stays an Iceberg table.

    to_iceberg   a lock; the row is read again, and must be what the caller saw; one alter sets `table_type` and
                 `metadata_location`. What is compared is when the row was changed last. The row as it was is kept in a
                 file, which the new row names (`HIVE_TABLE`).
    to_hive      a lock; the row and the metadata are read again; one alter writes the row as it was, with a mark where
                 the metadata location was, and a second one removes the mark. Either leaves a whole Hive table.
    keep         a swap that forgets the row as it was.

Readers find the one table or the other, never neither. While the row names what it was, nothing deletes files on behalf
of the table (`own_files`). A refusal or a lost reply is judged as that of a swap (`status_check`).

Nobody but the holder of the lock changes the kind of a table. All files of migrations lie in one folder, and an undo
deletes what it listed there before its alter. A migration that began earlier finds another row than it saw, and fails.
One that began later uses no file of an earlier one: the progress by which it would find them is deleted first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.cleanup import MIGRATION_PROGRESS, delete_files
from iceberg_hms.coordinator.hive_ports import DATA_FOLDER, HIDDEN_FOLDER, PROGRESS_FOLDER, HiveRow, HiveTables
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.operations import saved_row
from iceberg_hms.coordinator.operations.catalog_operations import published, report_of
from iceberg_hms.coordinator.operations.other_rows import refuse_other_rows
from iceberg_hms.coordinator.operations.saved_row import SavedRow
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import (
    HIVE_TABLE,
    CommitPorts,
    LockUse,
    Pointer,
    Sending,
    SwapAnswer,
    TableName,
)
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.sending.operation_requests import Operation, retry_with_full_lease
from iceberg_hms.coordinator.sending.status_check import TableSwap
from iceberg_hms.coordinator.staging.attempt import CommitAttempt, next_metadata
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import (
    AlreadyIceberg,
    CommitConflict,
    CommitStateUnknown,
    CorruptFile,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    NoSuchTable,
    NotAnIcebergTable,
    proved,
)
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.named_locations import DATA_PATH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import GC_ENABLED
from iceberg_hms.format.updates.apply import apply

logger = logging.getLogger(__name__)

_VIEW: Final = "VIEW"
#: How the names of files with rows as they were begin.
_SAVED: Final = "hive-table-"
#: What to do about a mark that stays.
_HARMLESS: Final = "nothing: the row is a Hive table's, and its parameter metadata_location says nothing"
_NEW_TABLE: Final = (
    "write its rows into a new Hive table, or give this up with `iceberg-hms migrate --keep`: the Iceberg table stays"
)


@dataclass(frozen=True)
class _RowChange:
    """A `ResolvableSwap` of a row. base_location: what identifies the row that it expects."""

    name: TableName
    base_location: str
    send: Callable[[Sending], SwapAnswer]
    look: Callable[[], tuple[str, CommitStatus]]


class KindChanges:
    """Safe for threads; several processes on one table are safe too."""

    def __init__(self, ports: CommitPorts, hive: HiveTables, cache: MetadataCache, settings: Settings) -> None:
        self._ports = ports
        self._hive = hive
        self._cache = cache
        self._settings = settings

    def to_iceberg(
        self, row: HiveRow, change: Change, *, partition_names: Sequence[str], wait_seconds: float
    ) -> CommitReport:
        """Turn a Hive table into an Iceberg table in place. Its partition keys and partitions stay in the metastore.

        row: as it was read before its files were listed. partition_names: as they were then. If either has changed, so
        may the files have. change: has nothing as its base, as that of a creation; its table lies where the Hive
        table lies, and its `write.metadata.path` is `_iceberg` there. wait_seconds: for the table's lock.

        What it writes is deleted if it is proved that nothing was changed. Raises CommitConflict (the table is not what
        was read: read it again), AlreadyIceberg, NoSuchTable, InvalidInput, LockNotAcquired, MetastoreError and
        StorageError: nothing was changed; CommitStateUnknown: delete nothing, and look at the table.
        """
        operation = Operation(self._ports, self._settings, row.name, f"migration of {row.name}")
        make = partial(self._to_iceberg, operation, row, change, partition_names, wait_seconds)
        return operation.run(lambda: published(self._ports, make))

    def _to_iceberg(
        self, operation: Operation, row: HiveRow, change: Change, partition_names: Sequence[str], wait_seconds: float
    ) -> CommitReport:
        ports, ids = self._ports, change.identity.snapshot_ids
        manifests = manifests_for(ports, None)
        recorded = RecordedWrites(manifests)
        metadata, staged = stage_one(None, change, recorded, ports.runtime.now_ms)
        files = [*recorded.lists, *staged.files]
        try:
            folder = self.check(row, metadata)
            location = metadata_file.new_location(metadata, None, ports.runtime.uuid())
            saved = f"{folder}/{_SAVED}{ports.runtime.uuid()}.json"
            data = metadata_file.encode(metadata, self._cache.bounds)
            kept = SavedRow(row, metadata.uuid or "", ids[0] if ids else None).to_bytes(self._hive)
            files += [location, saved]
            write = ports.files.write
            ports.runtime.gather([manifests.flush, lambda: write(location, data), lambda: write(saved, kept)])
            self._cache.put(location, metadata)

            def alter(use: LockUse) -> None:
                with operation.locked([row.name], wait_seconds, use):
                    found = self._unchanged(row, partition_names)
                    change_of_kind = self._iceberg_change(operation, found, location, metadata, saved)
                    if not operation.is_made(change_of_kind, operation.send(change_of_kind.send)):
                        raise _changed(row.name, "the metastore refused a change of the row that was read")

            retry_with_full_lease(alter)
        except CommitStateUnknown:
            raise
        except IcebergHmsError as error:
            manifests.discard(recorded.lists)
            delete_files(ports, row.name, files)
            raise proved(error) from error
        return report_of(row.name, location, metadata, None, ids)

    def check(self, row: HiveRow, metadata: TableMetadata) -> str:
        """Whether the place of a Hive table is one for `to_iceberg`, which asks the same. Returns the folder of what it
        writes as an Iceberg table. Raises InvalidInput: it is a view, its metadata would lie elsewhere, or another
        table in the same folder was migrated, whose metadata an undo of this one would delete."""
        if row.table_type.endswith(_VIEW):
            raise InvalidInput(f"{row.name} is a view", next_step="migrate the tables that it reads")
        folder = _hidden_folder(row, metadata)
        for each in [file.location for file in self._ports.files.list_files(folder)]:
            if not each.startswith(f"{folder}/{_SAVED}"):
                continue
            other = saved_row.name_in(self._ports.files, each)
            if other != row.name and not self._is_hive(other):
                raise InvalidInput(
                    f"{row.name} lies in {row.location} as {other} does, which is an Iceberg table by now: the undo of "
                    "one would delete the metadata of the other",
                    next_step=f"leave {row.name} a Hive table, or drop it; delete {each} if {other} is gone",
                )
        return folder

    def _is_hive(self, name: TableName) -> bool:
        try:
            self._hive.load_row(name)
        except (AlreadyIceberg, NoSuchTable):
            return False
        return True

    def _unchanged(self, row: HiveRow, partition_names: Sequence[str]) -> HiveRow:
        """The row as it is, under the lock. Raises CommitConflict if it is not what was read before."""
        found = self._hive.load_row(row.name)
        if found != row:
            names = ("table_type", "parameters", "columns", "partition_keys", "location", "input_format", "serde")
            what = ", ".join(each.replace("_", " ") for each in names if getattr(row, each) != getattr(found, each))
            raise _changed(row.name, f"its row has others of these: {what or 'its settings'}")
        before, now = set(partition_names), set(self._hive.partition_names(found))
        if before != now:
            raise _changed(row.name, f"{len(now - before)} of its partitions are new, and {len(before - now)} are gone")
        return found

    def _iceberg_change(
        self, operation: Operation, row: HiveRow, location: str, metadata: TableMetadata, saved: str
    ) -> _RowChange:
        """A row that is neither what was read nor ours proves that the change was not made only if nobody can have
        undone it meanwhile."""

        def send(sending: Sending) -> SwapAnswer:
            return self._hive.become_iceberg(row, location, metadata, saved, sending)

        def look() -> tuple[str, CommitStatus]:
            try:
                current = self._ports.pointer.load(row.name).metadata_location
            except NotAnIcebergTable:
                last_changed = self._hive.load_row(row.name).last_changed
                is_proof = last_changed == row.last_changed or operation.held_until_now()
                return last_changed or "", CommitStatus.FAILURE if is_proof else CommitStatus.UNKNOWN
            found = check_status(self._cache, current, ours=location, base="")
            is_another = found is CommitStatus.UNKNOWN and self._cache.get(current).uuid != metadata.uuid
            return current, CommitStatus.FAILURE if is_another and operation.held_until_now() else found

        return _RowChange(row.name, row.last_changed or "", send, look)

    def to_hive(self, name: TableName, *, wait_seconds: float) -> HiveRow:
        """Turn a table that was migrated in place back into the Hive table that it was, under the name that it has now,
        and delete the metadata that it had as an Iceberg table. Returns the row as it was.

        Raises InvalidInput if it was not migrated so, if that was given up, or if a commit has added, rewritten or
        deleted files; NoSuchTable, NotAnIcebergTable (it is a Hive table), CommitConflict, LockNotAcquired,
        MetastoreError, StorageError: nothing was changed; CommitStateUnknown.
        """
        operation = Operation(self._ports, self._settings, name, f"undo of the migration of {name}")
        return operation.run(lambda: self._to_hive(operation, wait_seconds))

    def _to_hive(self, operation: Operation, wait_seconds: float) -> HiveRow:
        name = operation.name
        mark = f"undone-{self._ports.runtime.uuid()}"

        def alter(use: LockUse) -> tuple[HiveRow, Sequence[str]]:
            with operation.locked([name], wait_seconds, use):
                for _ in range(self._settings.commit_retry_num_retries + 1):
                    base = self._ports.pointer.load(name)
                    row, folder = self._read_saved(base)
                    own = self._list_own(name, folder)
                    change = self._hive_change(base, row, mark)
                    if operation.is_made(change, operation.send(change.send)):
                        with log_and_continue(f"removing the mark of an undo from {name}", _HARMLESS):
                            self._clear_mark(operation, mark)
                        return row, own
            raise operation.moved_every_time()

        row, own = retry_with_full_lease(alter)
        with log_and_continue(f"deleting the Iceberg metadata of {name}", SWEEP):
            delete_files(self._ports, name, own, "undo")
        return row

    def _read_saved(self, base: Pointer) -> tuple[HiveRow, str]:
        """The row that a table had as a Hive table, and the folder of what it wrote since. Raises InvalidInput if the
        table cannot become that again."""
        name, location = base.name, _record_of(base)
        try:
            saved = saved_row.read(self._ports.files, self._hive, name, location)
        except MissingFile as error:
            raise _stays(
                name, f"{location}, with the row that it had, is gone", "restore that file from a copy of it"
            ) from error
        folder = location.rpartition("/")[0]
        if not _is_hidden_folder(folder, saved.row):
            raise _stays(name, f"{location} is not in the folder of the Hive table {saved.row.location}", _NEW_TABLE)
        _refuse_other_commits(name, self._cache.version(base).metadata, saved)
        return saved.row, folder

    def _hive_change(self, base: Pointer, row: HiveRow, mark: str) -> _RowChange:
        def look() -> tuple[str, CommitStatus]:
            try:
                current = self._ports.pointer.load(base.name).metadata_location
                # If the table does not follow from the one that was read, another migration came after this undo.
                return current, check_status(self._cache, current, ours=mark, base=base.metadata_location)
            except NotAnIcebergTable:
                found = self._hive.load_row(base.name).mark
                return found or "", CommitStatus.SUCCESS if found == mark else CommitStatus.UNKNOWN

        send = partial(self._hive.become_hive, base, row, mark)
        return _RowChange(base.name, base.metadata_location, send, look)

    def _clear_mark(self, operation: Operation, mark: str) -> None:
        """Remove the mark from the row. A row that keeps it is a Hive table all the same, and the next migration
        removes it."""
        row = self._hive.load_row(operation.name)
        if row.mark != mark:
            return

        def look() -> tuple[str, CommitStatus]:
            found = self._hive.load_row(row.name)
            return found.last_changed or "", CommitStatus.FAILURE if found.mark == mark else CommitStatus.SUCCESS

        change = _RowChange(row.name, row.last_changed or "", partial(self._hive.clear_mark, row), look)
        if not operation.is_made(change, operation.send(change.send)):
            raise _changed(row.name, "another program changed the row meanwhile")

    def _list_own(self, name: TableName, folder: str) -> Sequence[str]:
        """The files that the Iceberg table wrote; none if it is not certain that no migration finds them again."""
        with log_and_continue(f"listing {folder}", SWEEP):
            found = [each.location for each in self._ports.files.list_files(folder)]
            progress = [each for each in found if each.startswith(f"{folder}/{PROGRESS_FOLDER}/")]
            if not delete_files(self._ports, name, progress, MIGRATION_PROGRESS).failed:
                return [each for each in found if not each.startswith(f"{folder}/{PROGRESS_FOLDER}/")]
            logger.warning(
                "the Iceberg metadata of %s in %s is kept: a migration may go on from its progress", name, folder
            )
        return ()

    def hive_row(self, name: TableName) -> HiveRow:
        """The row that a table had as a Hive table, which `to_hive` would write back. Raises as that does, but for the
        commits since; changes nothing."""
        location = _record_of(self._ports.pointer.load(name))
        return saved_row.read(self._ports.files, self._hive, name, location).row

    def keep(self, name: TableName, *, wait_seconds: float) -> None:
        """Give up that a table can become a Hive table again: from now on its files are its own. If `gc.enabled` is
        false, it becomes what the Hive table's row said, or is removed; `write.metadata.path` and `write.data.path` are
        removed if they are folders which Hive does not read. Harmless twice.

        It reads the rows of all databases and all partitions first, however long that takes: what another row names is
        not this table's to delete. Raises InvalidInput if one has a folder that is, lies in or contains this table's,
        or that of one of its partitions; NoSuchTable, NotAnIcebergTable, LockNotAcquired, CommitConflict,
        MetastoreError, StorageError: nothing was changed; CommitStateUnknown.
        """
        operation = Operation(self._ports, self._settings, name, f"end of the migration of {name}")
        row = self._ports.pointer.load(name)
        if row.hive_table is not None:
            refuse_other_rows(self._ports, row)
            operation.run(lambda: self._keep(operation, wait_seconds))

    def _keep(self, operation: Operation, wait_seconds: float) -> None:
        written: list[str] = []

        def swap(use: LockUse) -> None:
            with operation.locked([operation.name], wait_seconds, use):
                for _ in range(self._settings.commit_retry_num_retries + 1):
                    row = self._ports.pointer.load(operation.name)
                    if row.hive_table is None:
                        return
                    attempt = self._write_kept(row, row.hive_table, written)
                    change = TableSwap(self._ports, self._cache, attempt)
                    if operation.is_made(change, operation.send(change.send)):
                        written.remove(attempt.location)
                        return
            raise operation.moved_every_time()

        try:
            retry_with_full_lease(swap)
        except CommitStateUnknown:
            raise
        except IcebergHmsError as error:
            delete_files(self._ports, operation.name, written)
            raise proved(error) from error
        delete_files(self._ports, operation.name, written)

    def _gc_enabled_before(self, name: TableName, record: str) -> str | None:
        try:
            return saved_row.read(self._ports.files, self._hive, name, record).row.gc_enabled
        except (MissingFile, CorruptFile):
            return None

    def _write_kept(self, row: Pointer, record: str, written: list[str]) -> CommitAttempt:
        """The swap after which the row has no such record, with its metadata file; notes that in `written`."""
        metadata = self._cache.version(row).metadata
        base = TableVersion(row.without_record(HIVE_TABLE), metadata)
        given = _properties_after(metadata, record.rpartition("/")[0], self._gc_enabled_before(row.name, record))
        changed = [updates.set_properties({key: value for key, value in given.items() if value is not None})]
        changed.append(updates.remove_properties([key for key, value in given.items() if value is None]))
        new = next_metadata(apply(metadata, changed, now_ms=self._ports.runtime.now_ms()), base)
        location = metadata_file.new_location(new, row.metadata_location, self._ports.runtime.uuid())
        written.append(location)
        self._ports.files.write(location, self._cache.encode(new, metadata))
        self._cache.put(location, new)
        return CommitAttempt(base, new, location)


def _properties_after(metadata: TableMetadata, folder: str, gc_enabled: str | None) -> dict[str, str | None]:
    """What becomes of the properties that a migration set, and that are as it set them; None: they are removed.
    gc_enabled: what the Hive table's row said."""
    properties = metadata.properties
    paths = {metadata_file.METADATA_PATH: folder, DATA_PATH: f"{folder}/{DATA_FOLDER}"}
    found: dict[str, str | None] = {key: None for key, path in paths.items() if same_folder(properties.get(key), path)}
    if properties.get(GC_ENABLED.name, "").lower() == "false":
        found[GC_ENABLED.name] = gc_enabled
    return found


def _hidden_folder(row: HiveRow, metadata: TableMetadata) -> str:
    """The folder of the metadata of a Hive table that becomes an Iceberg table. Raises InvalidInput if the metadata
    names another one."""
    if not row.location or not same_folder(row.location, metadata.location):
        raise InvalidInput(f"{row.name} lies in {row.location}, and its Iceberg metadata says {metadata.location}")
    folder = metadata_file.folder(metadata)
    if not _is_hidden_folder(folder, row):
        raise InvalidInput(
            f"The Iceberg metadata of {row.name} would lie in {folder}, where Hive may read it",
            next_step=f"set `{metadata_file.METADATA_PATH}` to {HIDDEN_FOLDER} in the table's folder",
        )
    if metadata.format_version == 1:
        raise InvalidInput(f"{row.name} cannot be migrated to format version 1", next_step="choose a later version")
    return folder


def _is_hidden_folder(folder: str, row: HiveRow) -> bool:
    return same_folder(folder, f"{(row.location or '').rstrip('/')}/{HIDDEN_FOLDER}")


def _record_of(base: Pointer) -> str:
    if base.hive_table is None:
        raise _stays(
            base.name,
            "it was not migrated in place, or that it can be undone was given up with `iceberg-hms migrate --keep`",
            "write its rows into a Hive table",
        )
    return base.hive_table


def _refuse_other_commits(name: TableName, metadata: TableMetadata, saved: SavedRow) -> None:
    """Raises InvalidInput if the table has, or had, another snapshot than that with which it began."""
    if metadata.uuid != saved.uuid:
        raise _stays(name, "another metadata file was registered over it", _NEW_TABLE)
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id != saved.snapshot_id:
            what = snapshot.summary.get("operation", "commit")
            raise _stays(name, f"the snapshot {snapshot.snapshot_id} ({what}) came after its migration", _NEW_TABLE)
    if metadata.last_sequence_number > (0 if saved.snapshot_id is None else 1):
        raise _stays(name, "a snapshot came after its migration, and has expired since", _NEW_TABLE)


def _stays(name: TableName, why: str, next_step: str) -> InvalidInput:
    return InvalidInput(f"{name} cannot become a Hive table again: {why}", next_step=next_step)


def _changed(name: TableName, how: str) -> CommitConflict:
    return CommitConflict(
        f"{name} changed while its files were listed: {how}",
        next_step="stop what writes to it, and run the migration again; nothing was changed",
    )
