"""Create, replace, register, rename and drop views. Each is a swap of the view's row, sent and judged as a table's.

    create, register   the metastore refuses a taken name: that is the compare-and-swap. No lock is needed.
    commit             a lock, a re-read, the client's changes replayed on what was read, and a swap.
    rename             locks on both names, in the order of the names, a re-read, and an expected value, which may be
                       right again later: the locks outlast the request.
    drop               a lock and a re-read; the metastore takes no expected value here.

Views are rare, so each commit takes the lock for itself. A view has no log of metadata files: after a swap without a
trusted answer only the row tells what became of it, by its metadata location and the one before (`ViewSwap`). No file
is deleted that a sent swap named, and none of a view that was dropped: nobody knows which other view or table was made
of the same file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from iceberg_hms.changes.view_commit import ViewCommit
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.locations.folder_overlaps import HiveRows, is_known_to_be_free, refuse_shared_paths
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationGuard
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Pointer,
    Refused,
    Sending,
    SwapAnswer,
    TableName,
)
from iceberg_hms.coordinator.reading.metadata_reader import MetadataReader
from iceberg_hms.coordinator.reading.uuid_lookup import search_twice
from iceberg_hms.coordinator.sending.operation_requests import (
    is_dropped,
    locked,
    points_at,
    raise_not_made,
    retry_with_full_lease,
    send,
    was_made,
)
from iceberg_hms.coordinator.sending.swap_outcome import SwapResolution
from iceberg_hms.coordinator.sending.unanswered_swaps import run_with_caller_timeout
from iceberg_hms.coordinator.view_ports import ViewPointer
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    IcebergHmsError,
    InvalidInput,
    NoSuchView,
    NotAnIcebergView,
    ResourceExhausted,
    StorageError,
    UnsupportedFormat,
    proved,
)
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.views import view_file
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.memory_budget import MemoryBudget

logger = logging.getLogger(__name__)

#: What has a name, for messages.
_TABLE: Final = "Table"
_VIEW: Final = "View"


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


class ViewOperations:
    """Safe for threads; several processes on one view are safe too."""

    def __init__(self, ports: CommitPorts, pointer: ViewPointer, settings: Settings) -> None:
        self._ports = ports
        self.pointer = pointer
        self._settings = settings
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
        try:
            answer = send(lambda _: self.pointer.create(name, location, metadata, owner))
        except IcebergHmsError:
            delete_files(self._ports.files, [location])
            raise
        self._settle_creation(answer, name, location, metadata, is_new=True)
        return LoadedView(name, location, metadata)

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
        metadata = self._registered(name, location, guard)
        if check is not None:
            check(metadata)
        refuse_view_folder(self._ports, name, metadata, root=root)
        refuse_view_paths(self._ports, name, None, metadata)
        answer = send(lambda _: self.pointer.create(name, location, metadata, owner))
        self._settle_creation(answer, name, location, metadata, is_new=False)
        return LoadedView(name, location, metadata)

    def commit(
        self, name: TableName, change: ViewCommit, *, wait_seconds: float, locations: ClientLocations | None = None
    ) -> LoadedView:
        """Commit a client's changes. locations: which ones they may name (LocationNotAllowed); None: all.

        Raises NoSuchView, InvalidInput; CommitFailed and its subtypes when it is proved that nothing changed;
        CommitStateUnknown when that is not known; MetastoreError and StorageError before anything was sent."""

        def commit(overdue: Callable[[], None]) -> LoadedView:
            try:
                base = self._base(name)
                metadata = self._replay(change, base, locations)
                if metadata is base.metadata:
                    return base.view
                if metadata.location != base.metadata.location:
                    refuse_view_folder(self._ports, name, metadata)
                refuse_view_paths(self._ports, name, base.metadata, metadata)
                return retry_with_full_lease(
                    lambda use: self._commit(name, change, wait_seconds, locations, use, overdue)
                )
            except IcebergHmsError as error:
                # Whatever was sent is proved not to be made, unless this says that it is unknown.
                raise proved(error) from error.__cause__

        return run_with_caller_timeout(self._ports, name, f"commit to the view {name}", commit)

    def _commit(
        self,
        name: TableName,
        change: ViewCommit,
        wait_seconds: float,
        locations: ClientLocations | None,
        use: LockUse,
        overdue: Callable[[], None],
    ) -> LoadedView:
        with locked(self._ports, [name], wait_seconds, use=use) as locks:
            [lock] = locks
            for _ in range(self._settings.commit_retry_num_retries + 1):
                base = self._base(name)
                metadata = self._replay(change, base, locations)
                if metadata is base.metadata:
                    return base.view
                swap = self._written(base, metadata)
                answer = self._sent(swap, lock, overdue)
                resolution = SwapResolution(self._ports, self._settings, swap, lock, overdue=overdue)
                status = resolution.resolve(answer)
                if status is CommitStatus.SUCCESS:
                    return LoadedView(name, swap.location, metadata)
                is_refused = isinstance(answer, Refused) and not answer.conflict
                if status is CommitStatus.UNKNOWN or is_refused:
                    unchanged = status is CommitStatus.FAILURE
                    raise_not_made(answer, unchanged=unchanged, what=f"commit to the view {name}")
        raise CommitConflict(f"{name} moved under every attempt to commit to it, although its lock was held")

    def rename(self, name: TableName, to: TableName, *, wait_seconds: float, what: str) -> None:
        """Give a view another name. what: cannot be done, as in "Cannot rename a.v to a.w".
        Raises NoSuchView, NoSuchNamespace, AlreadyExists, LockNotAcquired, CommitStateUnknown."""

        run_with_caller_timeout(
            self._ports, name, f"rename of {name}", partial(self._rename, name, to, wait_seconds, what)
        )

    def _rename(
        self, name: TableName, to: TableName, wait_seconds: float, what: str, overdue: Callable[[], None]
    ) -> None:
        ports, load = self._ports, self.pointer.load
        with locked(ports, sorted({name, to}), wait_seconds, use=LockUse.BLIND) as locks:
            base = load(name)
            holder = self._holder(to)
            if holder is not None:
                raise AlreadyExists(f"{what}. {holder} already exists")
            answer = send(partial(self.pointer.rename, base, to), locks, blind=True, overdue=overdue)
            location = base.metadata_location
            if was_made(ports, self._settings, name, answer, lambda: points_at(load, to, location), locks, overdue):
                return
            raise_not_made(answer, unchanged=points_at(load, name, location), what=f"rename of {name}")

    def drop(self, name: TableName, *, wait_seconds: float) -> None:
        """Remove a view's row; its files stay. Raises NoSuchView, LockNotAcquired, CommitStateUnknown."""
        run_with_caller_timeout(self._ports, name, f"drop of {name}", partial(self._drop, name, wait_seconds))

    def _drop(self, name: TableName, wait_seconds: float, overdue: Callable[[], None]) -> None:
        ports, load = self._ports, self.pointer.load
        # A drop carries no expected value: one that is sent after its lease would remove later commits of others.
        with locked(ports, [name], wait_seconds, use=LockUse.BLIND) as locks:
            base = load(name)
            answer = send(partial(self.pointer.drop, base), locks, blind=True, overdue=overdue)
            location = base.metadata_location
            is_made = partial(is_dropped, load, name, lambda: self._has_another_name(name, self._read(location)))
            if not was_made(ports, self._settings, name, answer, is_made, locks, overdue):
                raise_not_made(answer, unchanged=points_at(load, name, location), what=f"drop of {name}")

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

    def _sent(self, swap: ViewSwap, lock: HeldLock, overdue: Callable[[], None]) -> SwapAnswer:
        try:
            return send(swap.send, [lock], overdue=overdue)
        except IcebergHmsError:
            # Nothing was sent.
            delete_files(self._ports.files, [swap.location])
            raise

    def _registered(self, name: TableName, location: str, guard: LocationGuard | None) -> ViewMetadata:
        """The metadata in a file that a caller names. Raises LocationNotAllowed, for the file before it is touched."""
        if guard is None:
            return self._read(location)
        guard.check_read(location, "the metadata file")
        try:
            metadata = self._read(location)
        except ResourceExhausted:
            raise
        except (StorageError, UnsupportedFormat) as error:
            # Why would tell what is in a file that may be none of the caller's.
            logger.info("%r is not registered as %s: %s", location, name, error)
            raise InvalidInput(
                "The metadata file cannot be read, or is not view metadata that this server supports",
                next_step="name another metadata file; nothing was registered",
            ) from error
        check_locations(guard, None, metadata)
        return metadata

    def _holder(self, name: TableName) -> str | None:
        """What has a name: "View", "Table", or None if it is free."""
        try:
            self.pointer.load(name)
        except NotAnIcebergView:
            return _TABLE
        except NoSuchView:
            return None
        return _VIEW

    def _refuse_taken(self, name: TableName) -> None:
        holder = self._holder(name)
        if holder is not None:
            raise _taken(name, holder)

    def _settle_creation(
        self, answer: SwapAnswer, name: TableName, location: str, metadata: ViewMetadata, *, is_new: bool
    ) -> None:
        """Returns if a creation that was sent was made. Raises its refusal, or CommitStateUnknown.

        is_new: no other view can have its UUID. Then one that has it came from this creation, whatever it has become.
        A taken name is believed only while another view or table is seen to have it: a metastore that retries inside
        refuses its own creation so."""
        what = f"creation of {name}"
        load = self.pointer.load
        if was_made(self._ports, self._settings, name, answer, lambda: points_at(load, name, location)):
            return
        conflict = isinstance(answer, Refused) and answer.conflict
        final = isinstance(answer, Refused) and not answer.in_doubt
        try:
            row = load(name)
        except NotAnIcebergView:
            if final and conflict:
                if is_new and self._was_renamed(answer, name, metadata):
                    return
                raise _taken(name, _TABLE) from None
            raise_not_made(answer, unchanged=final and not conflict, what=what)
        except NoSuchView:
            raise_not_made(answer, unchanged=not conflict, what=what)
        except IcebergHmsError as error:
            logger.warning("the outcome of the creation of %s could not be looked up: %s", name, error)
            raise_not_made(answer, unchanged=False, what=what)
        if row.previous_metadata_location == location:
            return
        has_our_uuid = self._has_uuid(row, metadata.uuid)
        if is_new and has_our_uuid:
            return
        if final and conflict and has_our_uuid is False:
            if is_new and self._was_renamed(answer, name, metadata):
                return
            raise _taken(name, _VIEW)
        raise_not_made(answer, unchanged=final and not conflict and has_our_uuid is False, what=what)

    def _was_renamed(self, answer: SwapAnswer, name: TableName, metadata: ViewMetadata) -> bool:
        """Whether a creation that was refused for a taken name was made all the same: another writer renamed the view,
        and gave its name away. Raises CommitStateUnknown if that is not known."""
        elsewhere = self._has_another_name(name, metadata)
        if elsewhere is None:
            raise_not_made(answer, unchanged=False, what=f"creation of {name}")
        return elsewhere

    def _has_another_name(self, last_known: TableName, metadata: ViewMetadata) -> bool | None:
        """Whether a view is in any database; None if the search failed, or found one that may be it."""

        def within(namespace: str, remaining: Callable[[], float]) -> Iterator[bool | None]:
            rows = self._ports.pointer.find_by_folder(namespace, metadata.location, timeout_seconds=remaining())
            for row in rows:
                if row.is_view and (has_uuid := self._has_uuid(row, metadata.uuid)) is not False:
                    yield has_uuid

        try:
            found = search_twice(self._ports, last_known, self._settings.uuid_lookup_total_timeout_ms / 1000, within)
        except IcebergHmsError as error:
            logger.warning("the view with the uuid %s could not be looked up: %s", metadata.uuid, error)
            return None
        return True if True in found else None if found else False

    def _has_uuid(self, row: Pointer, uuid: str) -> bool | None:
        """Whether a view has a UUID; None if its file cannot be read."""
        try:
            return self._read(row.metadata_location).uuid.lower() == uuid.lower()
        except IcebergHmsError as error:
            logger.warning("the metadata of %s cannot be read: %s", row.name, error)
            return None


class ViewSwap:
    """swap_outcome.ResolvableSwap of one attempt to commit to a view: `base` is replaced by the file at `location`."""

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


def _taken(name: TableName, holder: str) -> AlreadyExists:
    what = "View" if holder == _VIEW else "Table with same name"
    return AlreadyExists(f"{what} already exists: {name}")
