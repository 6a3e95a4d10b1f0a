"""Merges the small manifests that clients' appends leave.

PyIceberg and Spark add a manifest with each append. Clients that merge do so on the state that they read, which other
writers have left behind by the time that the commit arrives. So the server merges in a snapshot of its own (operation
`replace`), after the commit that makes the manifests too many. It does not merge in a client's snapshot, since clients
look for their own manifests when they send a commit again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from iceberg_hms.catalog.locations import client_locations
from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.files.rewrite_manifests import RewriteManifests
from iceberg_hms.changes.operations.manifests.manifest_merge import is_enabled, to_merge
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, LocationNotAllowed
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: How long to leave a table alone whose merge failed.
RETRY_SECONDS: Final = 60.0
#: How many such tables to remember.
FAILED_MAX: Final = 10_000
#: How many merges run at a time. A store that hangs keeps each for as long as it hangs; other tables are merged after a
#: later commit of theirs.
MERGES_MAX: Final = 8


class ManifestMerging:
    """A listener for events of commits (`Catalog.subscribe`), of one catalog.

    It merges on the branch `main`, at most one merge of a table at a time, each on a thread of its own: only the swap
    waits in the table's queue. A merge that fails is logged, and tried again with a commit after RETRY_SECONDS.

    locations: what clients may name; a merge reads nothing else. None: they may name everything.
    """

    def __init__(
        self, services: Callable[[], Services], wait_seconds: float, locations: LocationPolicy | None = None
    ) -> None:
        self._services = services
        self._wait_seconds = wait_seconds
        self._locations = locations
        self._mutex = services().ports.runtime.mutex()
        self._merging: set[TableName] = set()
        #: The table and the metadata file of the last event.
        self._looked_at: tuple[TableName, str] | None = None
        #: When the merge of a table may be tried again, by `Runtime.now()`; only of tables whose last merge failed.
        self._retry_at: dict[TableName, float] = {}

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Start a merge if a commit left too many small manifests."""
        report = event.get("report")
        if event["event"] != "committed" or not isinstance(report, CommitReport):
            return
        # The commits of a group have one result, and come one after the other.
        state = (report.table, report.metadata_location)
        if state == self._looked_at:
            return
        self._looked_at = state
        if not self._is_needed(report.metadata) or not self._begin(report.table):
            return
        try:
            self._services().ports.runtime.spawn(
                f"iceberg-hms-merge-{report.table}", lambda: self._merge(report.table, report.metadata)
            )
        except RuntimeError:
            # There is no thread.
            self._end(report.table, failed=True)

    def _is_needed(self, metadata: TableMetadata) -> bool:
        if not is_enabled(metadata) or metadata.current_snapshot is None:
            return False
        try:
            state = BranchState.read(metadata, MAIN_BRANCH, self._manifests(metadata))
        except LocationNotAllowed:
            return False
        return bool(to_merge(metadata, (), state.manifests))

    def _manifests(self, metadata: TableMetadata) -> Manifests:
        """What reads for a client's table no more than the client may name."""
        guard = None if self._locations is None else self._locations.guard(metadata.location, base=metadata)
        return manifests_for(self._services().ports, guard)

    def _begin(self, name: TableName) -> bool:
        """False: a merge of the table is under way, or has failed just now; or too many are under way."""
        with self._mutex:
            failed_just_now = self._services().ports.runtime.now() < self._retry_at.get(name, 0.0)
            if name in self._merging or failed_just_now or len(self._merging) >= MERGES_MAX:
                return False
            self._merging.add(name)
            return True

    def _end(self, name: TableName, *, failed: bool) -> None:
        with self._mutex:
            self._merging.discard(name)
            self._retry_at.pop(name, None)
            if failed:
                if len(self._retry_at) >= FAILED_MAX:
                    self._retry_at.pop(next(iter(self._retry_at)))
                self._retry_at[name] = self._services().ports.runtime.now() + RETRY_SECONDS

    def _merge(self, name: TableName, metadata: TableMetadata) -> None:
        merged = False
        try:
            with log_and_continue(f"merging manifests of {name}", SWEEP):
                merged = self._commit(name, metadata)
        finally:
            self._end(name, failed=not merged)

    def _commit(self, name: TableName, metadata: TableMetadata) -> bool:
        services = self._services()
        change = RewriteManifests(
            NewSnapshot(
                snapshot_id=services.new_snapshot_id(),
                table_uuid=metadata.uuid,
                now_ms=services.ports.runtime.now_ms,
                caller=services.settings.user,
            ),
            small_only=True,
        )
        manifests = RecordedWrites(self._manifests(metadata))
        try:
            change.look_ahead(metadata, manifests)
        except IcebergHmsError as error:
            delete_files(services.ports, name, manifests.written)
            logger.warning("manifests of %s were not merged: %s", name, error)
            return False
        # Unless an answer proves another one.
        outcome = "unknown"
        try:
            services.coordinator.commit(
                name,
                change,
                wait_seconds=self._wait_seconds,
                locations=client_locations(self._locations, name, None),
                prepared=tuple(manifests.written),
            )
            outcome = "done"
        except IcebergHmsError as error:
            logger.warning("manifests of %s were not merged: %s", name, error)
            if not isinstance(error, CommitStateUnknown):
                outcome = "refused"
        finally:
            event = {"event": "manifests-merged", "table": name, "snapshot_id": change.snapshot_id, "outcome": outcome}
            services.ports.events.publish(event)
        return outcome == "done"
