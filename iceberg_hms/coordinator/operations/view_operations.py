"""Create, replace, register, rename and drop views. Each is a swap of the view's row, sent and judged as a table's.

    create, register   the metastore refuses a taken name: that is the compare-and-swap. No lock is needed.
    commit             a lock, a re-read, the client's changes replayed on what was read, and a swap.
    rename, drop       as those of tables: `row_operations`.

Views are rare, so each commit takes the lock for itself. A view has no log of metadata files: after a swap without a
trusted answer only the row tells what became of it, by its metadata location and the one before (`ViewSwap`). No file
is deleted that a sent swap named, and none of a view that was dropped: nobody knows which other view or table was made
of the same file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.locations.folder_overlaps import HiveRows, is_known_to_be_free, refuse_shared_paths
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationGuard
from iceberg_hms.coordinator.operations.row_operations import VIEW, RowOperations, perhaps_created, taken
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import CommitPorts, LockUse, Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.coordinator.reading.metadata_reader import MetadataReader
from iceberg_hms.coordinator.reading.uuid_lookup import search_twice
from iceberg_hms.coordinator.sending.operation_requests import Operation, retry_with_full_lease
from iceberg_hms.coordinator.view_ports import ViewPointer
from iceberg_hms.errors import IcebergHmsError, proved
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.views import view_file
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.memory_budget import MemoryBudget

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedView:
    """A view at one moment. metadata_location: of the file that holds `metadata`."""

    name: TableName
    metadata_location: str
    metadata: ViewMetadata


@dataclass(frozen=True, slots=True)
class ViewBase:
    """What a swap replaces: a view's row in the metastore, and the metadata that the row points at."""

    row: Pointer
    metadata: ViewMetadata

    @property
    def view(self) -> LoadedView:
        return LoadedView(self.row.name, self.row.metadata_location, self.metadata)


class ViewOperations(RowOperations[ViewMetadata]):
    """The operations on views. Several processes on one view are safe too."""

    def __init__(self, ports: CommitPorts, pointer: ViewPointer, settings: Settings) -> None:
        super().__init__(ports, settings, pointer, VIEW)
        self.pointer = pointer
        self._bounds = FileBounds.of(settings.as_dict())
        self._reader = MetadataReader(ports.files, self._bounds)

    def use_memory(self, budget: MemoryBudget) -> None:
        """As `MetadataCache.use_memory`."""
        self._reader.memory = budget

    def load(self, name: TableName) -> LoadedView:
        """The view as it is now: one metastore call and its file. Raises NoSuchView, NotAnIcebergView, MissingFile,
        CorruptFile, UnsupportedFormat, MetastoreError, StorageError."""
        return self._base(name).view

    def create(self, name: TableName, metadata: ViewMetadata, *, owner: str | None) -> LoadedView:
        """Create a view. Raises AlreadyExists, NoSuchNamespace, InvalidInput, CommitStateUnknown, MetastoreError,
        StorageError."""
        self._refuse_taken(name)
        location = view_file.new_location(metadata, None, self._ports.runtime.uuid())
        self._ports.files.write(location, view_file.encode(metadata, self._bounds))
        operation = self._operation("creation", name)
        try:
            answer = operation.send(lambda _: self.pointer.create(name, location, metadata, owner))
        except IcebergHmsError:
            delete_files(self._ports, name, [location])
            raise
        return self._created(operation, answer, location, metadata, new_file=True)

    def register(
        self,
        name: TableName,
        location: str,
        *,
        owner: str | None,
        root: str | None = None,
        guard: LocationGuard | None = None,
        check: Callable[[ViewMetadata], None] | None = None,
    ) -> LoadedView:
        """Point a new view at an existing metadata file. root: the folder of the database. guard: of the locations that
        the caller and the file may name; None: all. check: raises to refuse what the file holds. Raises as `create`,
        and MissingFile, CorruptFile, LocationNotAllowed."""
        self._refuse_taken(name)
        metadata = self._registered(name, location, guard, self._read)
        if guard is not None:
            check_locations(guard, None, metadata)
        if check is not None:
            check(metadata)
        refuse_view_folder(self._ports, name, metadata, root=root)
        refuse_view_paths(self._ports, name, None, metadata)
        operation = self._operation("registration", name)
        answer = operation.send(lambda _: self.pointer.create(name, location, metadata, owner))
        return self._created(operation, answer, location, metadata, new_file=False)

    def _created(
        self, operation: Operation, answer: SwapAnswer, location: str, metadata: ViewMetadata, *, new_file: bool
    ) -> LoadedView:
        another = self._settle_creation(operation, answer, location, metadata, new_file=new_file)
        if another is not None:
            raise perhaps_created(operation.name, f"{another.name} has the uuid {metadata.uuid}")
        return LoadedView(operation.name, location, metadata)

    def commit(
        self, name: TableName, change: ViewCommit, *, wait_seconds: float, locations: ClientLocations | None = None
    ) -> LoadedView:
        """Commit a client's changes. locations: which ones they may name (LocationNotAllowed); None: all.

        Raises NoSuchView, InvalidInput; CommitFailed and its subtypes when it is proved that nothing changed;
        CommitStateUnknown when that is not known; MetastoreError and StorageError before anything was sent."""
        operation = Operation(self._ports, self._settings, name, f"commit to the view {name}")

        def commit() -> LoadedView:
            try:
                base = self._base(name)
                metadata = self._replay(change, base, locations)
                if metadata is base.metadata:
                    return base.view
                if metadata.location != base.metadata.location:
                    refuse_view_folder(self._ports, name, metadata)
                refuse_view_paths(self._ports, name, base.metadata, metadata)
                return retry_with_full_lease(lambda use: self._commit(operation, change, wait_seconds, locations, use))
            except IcebergHmsError as error:
                # Whatever was sent is proved not to be made, unless this says that it is unknown.
                raise proved(error) from error.__cause__

        return operation.run(commit)

    def _commit(
        self,
        operation: Operation,
        change: ViewCommit,
        wait_seconds: float,
        locations: ClientLocations | None,
        use: LockUse,
    ) -> LoadedView:
        with operation.locked([operation.name], wait_seconds, use):
            for _ in range(self._settings.commit_retry_num_retries + 1):
                base = self._base(operation.name)
                metadata = self._replay(change, base, locations)
                if metadata is base.metadata:
                    return base.view
                swap = self._written(base, metadata)
                try:
                    answer = operation.send(swap.send)
                except IcebergHmsError:
                    # Nothing was sent.
                    delete_files(self._ports, operation.name, [swap.location])
                    raise
                if operation.is_made(swap, answer):
                    return LoadedView(operation.name, swap.location, metadata)
        raise operation.moved_every_time()

    def drop(self, name: TableName, *, wait_seconds: float) -> None:
        """Remove a view's row; its files stay. Raises NoSuchView, LockNotAcquired, CommitStateUnknown."""
        operation = self._operation("drop", name)
        operation.run(lambda: self._remove(operation, wait_seconds))

    def _base(self, name: TableName) -> ViewBase:
        row = self.pointer.load(name)
        return ViewBase(row, self._read(row.metadata_location))

    def _read(self, location: str) -> ViewMetadata:
        return self._reader.read(location, ViewMetadata.parse)

    def _replay(self, change: ViewCommit, base: ViewBase, locations: ClientLocations | None) -> ViewMetadata:
        metadata = change.replay(base.metadata, now_ms=self._ports.runtime.now_ms())
        if locations is not None and metadata is not base.metadata:
            check_locations(locations.of_view(base.row), base.metadata, metadata)
        return metadata

    def _written(self, base: ViewBase, metadata: ViewMetadata) -> ViewSwap:
        """The swap to new metadata, whose file is written."""
        unique = self._ports.runtime.uuid()
        location = view_file.new_location(metadata, base.row.metadata_location, unique)
        self._ports.files.write(location, view_file.encode(metadata, self._bounds))
        return ViewSwap(self.pointer, base, location, metadata)

    def _refuse_taken(self, name: TableName) -> None:
        holder = self._holder(name)
        if holder is not None:
            raise taken(name, holder, VIEW)

    def _came_from(self, row: Pointer, location: str, metadata: ViewMetadata, *, new_file: bool) -> CommitStatus:
        """A view has no log of its metadata files, so its UUID decides where both locations are others. If the creation
        wrote the file, no other view has that UUID. A file that was registered may have made several."""
        if location in (row.metadata_location, row.previous_metadata_location):
            return CommitStatus.SUCCESS
        try:
            is_ours = self._has_uuid(row, metadata.uuid)
        except IcebergHmsError as error:
            logger.warning("the metadata of %s cannot be read: %s", row.name, error)
            return CommitStatus.UNKNOWN
        if not is_ours:
            return CommitStatus.FAILURE
        return CommitStatus.SUCCESS if new_file else CommitStatus.UNKNOWN

    def _find(self, uuid: str, folder: str, last_known: TableName) -> Sequence[Pointer]:
        unread: list[IcebergHmsError] = []

        def within(namespace: str, remaining: Callable[[], float]) -> Iterator[Pointer]:
            for row in self._ports.pointer.find_by_folder(namespace, folder, timeout_seconds=remaining()):
                try:
                    is_it = row.is_view and self._has_uuid(row, uuid)
                except IcebergHmsError as error:
                    unread.append(error)
                else:
                    if is_it:
                        yield row

        found = search_twice(self._ports, last_known, self._settings.uuid_lookup_total_timeout_ms / 1000, within)
        if unread and not found:
            # The view may be one that cannot be read.
            raise unread[0]
        return found

    def _has_uuid(self, row: Pointer, uuid: str) -> bool:
        return self._read(row.metadata_location).uuid.lower() == uuid.lower()


class ViewSwap:
    """status_check.ResolvableSwap of one attempt to commit to a view: `base` is replaced by the file at `location`."""

    def __init__(self, pointer: ViewPointer, base: ViewBase, location: str, metadata: ViewMetadata) -> None:
        self._pointer = pointer
        self._base = base
        self._metadata = metadata
        self.location = location
        self.name = base.row.name
        self.base_location = base.row.metadata_location

    def send(self, sending: Sending) -> SwapAnswer:
        """As the protocol says."""
        return self._pointer.swap(self._base.row, self.location, self._metadata, self._base.metadata, sending)

    def look(self) -> tuple[str, CommitStatus]:
        """As the protocol says: the row's metadata location, or the one before it, is ours (SUCCESS) or our base's
        (FAILURE). Else several others came in between, and nothing tells what the first of them replaced."""
        row = self._pointer.load(self.name)
        for each in (row.metadata_location, row.previous_metadata_location):
            if each == self.location:
                return row.metadata_location, CommitStatus.SUCCESS
            if each == self.base_location:
                return row.metadata_location, CommitStatus.FAILURE
        return row.metadata_location, CommitStatus.UNKNOWN


def check_locations(guard: LocationGuard, base: ViewMetadata | None, new: ViewMetadata) -> None:
    """Check what new metadata names and `base` does not, and the folder of the next file. Raises LocationNotAllowed."""
    if base is None or base.location != new.location:
        guard.check_folder(new.location, "location")
    for key, path in new_paths({} if base is None else base.properties, new.properties):
        guard.check_folder(path, key)
    guard.check_written_folder(view_file.folder(new), "the folder of the view's metadata")


def refuse_view_folder(ports: CommitPorts, name: TableName, metadata: ViewMetadata, root: str | None = None) -> None:
    """Raises InvalidInput if the folder of a view is, contains or lies in that of another table or view, Hive's too, as
    far as one is found in time. root: a folder around which they do not count. Raises MetastoreError."""
    is_known_to_be_free(ports, name, metadata.location, hive=HiveRows.NEAR, root=root, for_view=True)


def refuse_view_paths(ports: CommitPorts, name: TableName, base: ViewMetadata | None, new: ViewMetadata) -> None:
    """Raises as `refuse_shared_paths` for the folders that new metadata names and `base` does not."""
    paths = new_paths({} if base is None else base.properties, new.properties)
    refuse_shared_paths(ports, name, new.location, [path for _, path in paths])
