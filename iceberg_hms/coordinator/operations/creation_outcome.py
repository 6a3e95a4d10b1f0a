"""What became of a creation, and whether a table that has its name is the one that it made.

A creation that is sent again after it landed finds its own table under the name. It is acknowledged: the answer "the
name is taken" would tell its client to delete files that the table names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.ports import CommitPorts, Manifests, Pointer, Refused, SwapAnswer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.coordinator.reading.uuid_lookup import UuidLookup
from iceberg_hms.coordinator.sending.operation_requests import points_at, raise_not_made, was_made
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    IcebergHmsError,
    NoSuchTable,
    NotAnIcebergTable,
    proved,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)


class CreationOutcome:
    """Safe for threads."""

    def __init__(self, ports: CommitPorts, cache: MetadataCache, settings: Settings, uuid_lookup: UuidLookup) -> None:
        self._ports = ports
        self._cache = cache
        self._settings = settings
        self._uuid_lookup = uuid_lookup

    def settle(
        self, answer: SwapAnswer, name: TableName, location: str, metadata: TableMetadata, *, new_file: bool = True
    ) -> Pointer | None:
        """What became of a creation that was sent. None: it was made. A table: it has our UUID, and as far as its
        metadata files tell this creation did not make it. Raises the refusal, proved, or CommitStateUnknown.
        new_file: nobody else can have made a table of the file.

            the name                            our UUID                what the caller gets
            points at our file, or at one       -                       made
            that came after it
            is another table's, or free         a table has it, and     made: another writer has renamed it since
                                                came after our file
            is another table's, or free         another table has it    what `report_if_ours` says
            is another table's                  nowhere                 a refusal; without an answer: unknown
            is free                             nowhere                 a refusal that the name is taken: unknown, since
                                                                        ours may have been made, refused by a metastore
                                                                        that retries inside, and dropped by another; any
                                                                        other refusal; without an answer: unknown
            whatever                            the lookup failed       unknown; or, if the name is free, a refusal for
                                                                        a reason other than the name, which proves
                                                                        nothing

        After a refusal that is not in doubt the creation cannot be made any more. So a table that is nowhere then was
        not made (`uuid_lookup` says what that rests on). A refusal in doubt counts as no answer.
        """
        what = f"creation of {name}"
        load = self._ports.pointer.load
        if was_made(self._ports, self._settings, name, answer, lambda: points_at(load, name, location)):
            return None
        free = False
        try:
            if self._came_from(self._ports.pointer.load(name), location):
                return None
        except NotAnIcebergTable:
            pass
        except NoSuchTable:
            free = True
        except IcebergHmsError as error:
            logger.warning("the outcome of the creation of %s could not be looked up: %s", name, error)
            raise_not_made(answer, unchanged=False, what=what)
        conflict = isinstance(answer, Refused) and answer.conflict
        found = self._find_by_uuid(metadata, name)
        if found is None:
            raise_not_made(answer, unchanged=free and not conflict, what=what)
        if not found:
            perhaps_dropped = free and conflict
            if isinstance(answer, Refused) and not answer.in_doubt and not perhaps_dropped:
                answer = replace(answer, error=proved(answer.error))
            raise_not_made(answer, unchanged=not perhaps_dropped, what=what)
        return None if new_file and any(self._came_from(each, location) for each in found) else found[0]

    def has_another_name(self, name: TableName, location: str, metadata: TableMetadata, *, new_file: bool) -> bool:
        """Whether a creation made a table that has another name by now, though it has none of this name any more: a
        metastore that retries inside may make a table again that was renamed meanwhile. new_file: as for `settle`.
        Raises CommitStateUnknown if that is not known."""
        found = self._find_by_uuid(metadata, name)
        if found is not None and not found:
            return False
        if found and new_file and any(self._came_from(each, location) for each in found):
            return True
        raise perhaps_created(name, f"another table may have its uuid {metadata.uuid}")

    def report_if_ours(self, taken: Pointer, change: Change, manifests: Manifests) -> CommitReport:
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
        same = uuid is not None and metadata.uuid is not None and uuid.lower() == metadata.uuid.lower()
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

    def _came_from(self, found: Pointer, location: str) -> bool:
        """Whether a table points at a metadata file, or did."""
        return check_status(self._cache, found.metadata_location, ours=location, base="") is CommitStatus.SUCCESS

    def _find_by_uuid(self, metadata: TableMetadata, last_known: TableName) -> Sequence[Pointer] | None:
        """All tables with the UUID of a new one. None: the lookup failed."""
        if metadata.uuid is None:
            return None
        try:
            return [version.pointer for version in self._uuid_lookup.find(metadata.uuid, last_known)]
        except IcebergHmsError as error:
            logger.warning("%s could not be looked up under other names: %s", last_known, error)
            return None


def perhaps_created(name: TableName, why: str) -> CommitStateUnknown:
    """The error for a creation that may have made a table."""
    return CommitStateUnknown(
        f"it is not known whether this creation made the table {name}: {why}",
        next_step="look at the table's snapshots before you try again, and delete nothing",
    )


def _assigned_uuid(change: Change, manifests: Manifests) -> str | None:
    """The UUID that a creation gives its table. Raises as the change does."""
    change.check(None)
    staged = change.stage(None, manifests)
    manifests.discard(staged.files)
    return next((update["uuid"] for update in staged.updates if update["action"] == "assign-uuid"), None)
