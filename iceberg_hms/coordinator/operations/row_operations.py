"""What operations on tables and on views have in common: rename, drop, and whether a creation was made.

rename   locks on both names, a re-read, and an expected value. That one is right again when the row was renamed
         there and back, so the locks outlast the request.
drop     a lock and a re-read; the metastore takes no expected value here. So only an answer that the lock covered
         proves which row was dropped: another writer may have renamed one whose name is gone. Without an answer it
         is searched for under other names: a drop that is still under way removes what has the name by then.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Generic, TypeVar

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.ports import CommitPorts, LockUse, Pointer, Refused, SwapAnswer, TableName, TablePointer
from iceberg_hms.coordinator.sending.operation_requests import Operation
from iceberg_hms.coordinator.view_ports import ViewPointer
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    NoSuchTable,
    NoSuchView,
    NotAnIcebergTable,
    NotAnIcebergView,
    ResourceExhausted,
    StorageError,
    UnsupportedFormat,
    proved,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.views.view_metadata import ViewMetadata

logger = logging.getLogger(__name__)

Metadata = TypeVar("Metadata", TableMetadata, ViewMetadata)

#: What has a name, for messages.
TABLE: Final = "Table"
VIEW: Final = "View"


class RowOperations(ABC, Generic[Metadata]):
    """Safe for threads; needs no queue, since the metastore orders these operations. kind: TABLE or VIEW."""

    def __init__(self, ports: CommitPorts, settings: Settings, rows: TablePointer | ViewPointer, kind: str) -> None:
        self._ports = ports
        self._settings = settings
        self._rows = rows
        self._kind = kind

    @abstractmethod
    def _read(self, location: str) -> Metadata:
        """The metadata in a file."""

    @abstractmethod
    def _find(self, uuid: str, folder: str, last_known: TableName) -> Sequence[Pointer]:
        """All rows that have a UUID, under any name. folder: of the row when it was last known. Raises IcebergHmsError
        if that is not known."""

    @abstractmethod
    def _came_from(self, row: Pointer, location: str, metadata: Metadata, *, new_file: bool) -> CommitStatus:
        """SUCCESS: the row points at this file, or at one that came after it. FAILURE: not as far as its files tell.
        UNKNOWN: they do not tell whose the row is. new_file: nobody else can have made a row of the file."""

    def rename(self, name: TableName, to: TableName, *, wait_seconds: float, what: str | None = None) -> None:
        """Give a table or view another name. what: cannot be done, as in "Cannot rename a.t to a.u".
        Raises NoSuchTable or NoSuchView, NoSuchNamespace, AlreadyExists, LockNotAcquired, CommitStateUnknown."""
        operation = self._operation("rename", name)
        what = what or f"Cannot rename {name} to {to}"

        def rename() -> None:
            with operation.locked({name, to}, wait_seconds, LockUse.BLIND):
                if (holder := self._holder(to)) is not None:
                    raise AlreadyExists(f"{what}. {holder} already exists")
                row = self._rows.load(name)
                operation.make(partial(self._rows.rename, row, to), partial(self._look_for_rename, row, to))

        operation.run(rename)

    def _remove(
        self, operation: Operation, wait_seconds: float, check: Callable[[Pointer], None] | None = None
    ) -> Pointer | None:
        """Remove a row; returns it. None: the name is gone, but it is not proved that this removed the row. check:
        raises, under the lock, to keep this row. Raises NoSuchTable or NoSuchView, LockNotAcquired, CommitStateUnknown,
        and as the check."""
        # A drop carries no expected value: one that is sent after its lease would remove later commits of others.
        with operation.locked([operation.name], wait_seconds, LockUse.BLIND):
            row = self._rows.load(operation.name)
            if check is not None:
                check(row)
            is_proved = operation.make(partial(self._rows.drop, row), partial(self._look_for_drop, row))
            return row if is_proved else None

    def _settle_creation(
        self,
        operation: Operation,
        answer: SwapAnswer,
        location: str,
        metadata: Metadata,
        *,
        new_file: bool,
    ) -> Pointer | None:
        """What became of a creation that was sent. None: it was made. A row: it has our UUID, and as far as its
        metadata files tell this creation did not make it. Raises the refusal, proved, or CommitStateUnknown.
        new_file: nobody else can have made a row of the file.

            the name                            our UUID                what the caller gets
            points at our file, or at one       -                       made
            that came after it
            is another's, or free               a row has it, and       made: another writer has renamed it since
                                                came after our file
            is another's, or free               another row has it      that row
            is another's                        nowhere                 a refusal; without an answer: unknown
            is free                             nowhere                 a refusal that the name is taken: unknown, since
                                                                        ours may have been made, refused by a metastore
                                                                        that retries inside, and dropped by another; any
                                                                        other refusal; without an answer: unknown
            whatever                            the lookup failed       unknown; or, if the name is free, a refusal for
                                                                        a reason other than the name, which proves
                                                                        nothing

        After a refusal that is not in doubt the creation cannot be made any more. So a row that is nowhere then was not
        made (`uuid_lookup` says what that rests on). A refusal in doubt counts as no answer.
        """
        name = operation.name
        if operation.status(answer, partial(self._look_for_creation, name, location)) is CommitStatus.SUCCESS:
            return None
        came = partial(self._came_from, location=location, metadata=metadata, new_file=new_file)
        holder, status = None, CommitStatus.FAILURE
        try:
            row = self._rows.load(name)
            holder, status = self._kind, came(row)
        except (NotAnIcebergTable, NotAnIcebergView) as other:
            holder = _kind_of(other)
        except (NoSuchTable, NoSuchView):
            pass
        except IcebergHmsError as error:
            logger.warning("the outcome of the %s could not be looked up: %s", operation.what, error)
            status = CommitStatus.UNKNOWN
        if status is CommitStatus.SUCCESS:
            return None
        if status is CommitStatus.UNKNOWN:
            operation.raise_not_made(answer, status)
        conflict = isinstance(answer, Refused) and answer.conflict
        perhaps_dropped = conflict and holder is None
        found = self._find_others(metadata, name)
        if found is None:
            is_free = holder is None and not conflict
            operation.raise_not_made(answer, CommitStatus.FAILURE if is_free else CommitStatus.UNKNOWN)
        if not found:
            if isinstance(answer, Refused) and not answer.in_doubt and not perhaps_dropped:
                refusal = answer.error if holder is None or not conflict else taken(name, holder, self._kind)
                answer = replace(answer, error=proved(refusal))
            operation.raise_not_made(answer, CommitStatus.UNKNOWN if perhaps_dropped else CommitStatus.FAILURE)
        return None if new_file and any(came(each) is CommitStatus.SUCCESS for each in found) else found[0]

    def _find_others(self, metadata: Metadata, last_known: TableName) -> Sequence[Pointer] | None:
        """All rows with the UUID of what was created. None: the lookup failed."""
        if metadata.uuid is None:
            return None
        try:
            return self._find(metadata.uuid, metadata.location, last_known)
        except IcebergHmsError as error:
            logger.warning("%s could not be looked up under other names: %s", last_known, error)
            return None

    def _registered(
        self, name: TableName, location: str, guard: LocationGuard | None, read: Callable[[str], Metadata]
    ) -> Metadata:
        """The metadata in a file that a caller names. Raises LocationNotAllowed, for the file before it is touched."""
        if guard is None:
            return read(location)
        guard.check_read(location, "the metadata file")
        try:
            return read(location)
        except ResourceExhausted:
            raise
        except (StorageError, UnsupportedFormat) as error:
            # Why would tell what is in a file that may be none of the caller's.
            logger.info("%r is not registered as %s: %s", location, name, error)
            raise InvalidInput(
                f"The metadata file cannot be read, or is not {self._kind.lower()} metadata that this server supports",
                next_step="name another metadata file; nothing was registered",
            ) from error

    def _operation(self, verb: str, name: TableName) -> Operation:
        return Operation(self._ports, self._settings, name, f"{verb} of {name}")

    def _holder(self, name: TableName) -> str | None:
        """What has a name: VIEW (an Iceberg one), TABLE (whatever else), or None if it is free."""
        try:
            self._ports.pointer.load(name)
        except NotAnIcebergTable as other:
            return _kind_of(other)
        except NoSuchTable:
            return None
        return TABLE

    def _look_for_creation(self, name: TableName, location: str) -> CommitStatus:
        return CommitStatus.SUCCESS if self._points_at(name, location) else CommitStatus.UNKNOWN

    def _look_for_rename(self, row: Pointer, to: TableName) -> CommitStatus:
        if self._points_at(to, row.metadata_location):
            return CommitStatus.SUCCESS
        is_unchanged = self._points_at(row.name, row.metadata_location)
        return CommitStatus.FAILURE if is_unchanged else CommitStatus.UNKNOWN

    def _look_for_drop(self, row: Pointer) -> CommitStatus:
        """A row that is gone may have another name: others rename without a lock. One that nobody can search for counts
        as dropped."""
        try:
            is_unchanged = self._rows.load(row.name).metadata_location == row.metadata_location
        except (NoSuchTable, NoSuchView):
            return CommitStatus.UNKNOWN if self._has_another_name(row) else CommitStatus.SUCCESS
        return CommitStatus.FAILURE if is_unchanged else CommitStatus.UNKNOWN

    def _has_another_name(self, row: Pointer) -> bool:
        try:
            return bool(self._find_others(self._read(row.metadata_location), row.name))
        except IcebergHmsError as error:
            logger.warning("%s is gone, and its metadata cannot be read: %s", row.name, error)
            return False

    def _points_at(self, name: TableName, location: str) -> bool:
        """Whether a row is seen to have this metadata location; False also if it cannot be loaded."""
        try:
            return self._rows.load(name).metadata_location == location
        except IcebergHmsError:
            return False


def _kind_of(other: NotAnIcebergTable | NotAnIcebergView) -> str:
    return VIEW if isinstance(other, NotAnIcebergTable) and other.is_view else TABLE


def find_taken(ports: CommitPorts, name: TableName) -> Pointer | None:
    """The Iceberg table that has a name; None if the name is free. Raises AlreadyExists if a view or another kind of
    table has it."""
    try:
        return ports.pointer.load(name)
    except NotAnIcebergTable as error:
        raise taken(name, _kind_of(error), TABLE) from error
    except NoSuchTable:
        return None


def taken(name: TableName, holder: str, kind: str) -> AlreadyExists:
    """The error for who makes a table or view (`kind`) under a name that another one (`holder`) has."""
    return AlreadyExists(f"{holder}{'' if holder == kind else ' with same name'} already exists: {name}")


def perhaps_created(name: TableName, why: str) -> CommitStateUnknown:
    """The error for a creation that may have made a table or view."""
    return CommitStateUnknown(
        f"it is not known whether this creation made {name}: {why}",
        next_step="look at it, and at its snapshots, before you try again, and delete nothing",
    )
