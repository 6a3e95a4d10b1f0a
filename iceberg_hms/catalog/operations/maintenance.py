"""What keeps a table small and its planning quick: rewriting manifests, expiring snapshots, and removing files that
nothing leads to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from iceberg_hms.catalog.maintenance.expired_files import ExpiredFiles
from iceberg_hms.catalog.maintenance.orphan_files import OrphanFiles, Prefixes, PrefixMismatch
from iceberg_hms.catalog.maintenance.reports import ExpiryReport, OrphanReport, Progress
from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.catalog.time_travel import Timestamp, as_millis
from iceberg_hms.changes.operations.files.rewrite_manifests import RewriteManifests
from iceberg_hms.changes.operations.snapshots.expire_snapshots import ExpireSnapshots
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.updates.apply import apply

_DAY_MS: Final = 24 * 3_600_000
#: How old a file is before it counts as an orphan, if the caller does not say (Java: 3 days), and at least, unless
#: forced (Java's procedure: 24 hours).
ORPHAN_AGE_MS: Final = 3 * _DAY_MS
ORPHAN_AGE_MIN_MS: Final = _DAY_MS


class ManifestOperations(Submitter[Result]):
    """What keeps planning quick."""

    def rewrite_manifests(
        self,
        *,
        spec_id: int | None = None,
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """List the branch's files in fewer manifests, sorted by partition, so that readers plan quicker. No file and no
        row changes. A table that needs no rewrite is left as it is.

        spec_id: rewrite the manifests of this partition spec alone; None: all.
        The table property `commit.manifest.target-size-bytes` gives the size of the new manifests.
        branch, snapshot_properties, idempotency_key, stage_only, wap_id, wait_seconds: as for `append`. A rewrite that
        finds nothing to do stages nothing.
        Applies to the current table, however often it moves. Raises InvalidInput (no such spec), RequirementFailed
        (another table has the name now), CommitStateUnknown.
        """
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        new = new.of_job("rewrite_manifests", scope=None if spec_id is None else f"spec {spec_id}")
        return self._submit_operation(RewriteManifests(new, spec_id=spec_id), wait_seconds=wait_seconds)


class MaintenanceOperations(Submitter[CommitReport]):
    """Both calls delete files that the table no longer needs. They are no steps of a transaction: whether a file may go
    is known only once a commit has landed.

    A file is deleted only if nothing leads to it in metadata that was read after that commit, and if it lies in the
    folder that the table's row names and in no other table's. What cannot be deleted is reported, not raised.
    `dry_run=True` says what would go, and changes nothing.
    on_progress: called now and then with what is being done and for how many files.
    """

    def expire_snapshots(
        self,
        older_than: Timestamp | None = None,
        retain_last: int | None = None,
        snapshot_ids: Iterable[int] | None = None,
        *,
        clean_expired_metadata: bool = False,
        dry_run: bool = False,
        on_progress: Progress | None = None,
        wait_seconds: float | None = None,
    ) -> ExpiryReport:
        """Remove old snapshots, and the files that only they lead to. Nobody can read, or roll back to, these states of
        the table afterwards.

        older_than: expire what was made before it; a datetime with a time zone, or milliseconds since 1970 UTC; None:
        `history.expire.max-snapshot-age-ms` (5 days) ago. retain_last: how many snapshots to keep of each branch,
        however old; None: `history.expire.min-snapshots-to-keep` (1). Settings of a branch or tag go before both; refs
        older than their maximum age are removed.
        snapshot_ids: expire these, however young, and nothing else unless older_than or retain_last is given: an empty
        list expires nothing.
        clean_expired_metadata: also remove schemas and partition specs that no snapshot uses any more.
        wait_seconds: for the commit; None: long enough to outlive a dead writer's lock.

        Raises InvalidInput if the property `gc.enabled` is not true; RequirementFailed if a branch or tag names one of
        snapshot_ids, or the table has no such snapshot; CommitStateUnknown, after which no file was deleted: call it
        again, and `remove_orphan_files` later.
        """
        services, tell = self._access.services, on_progress or _tell_nobody
        change = ExpireSnapshots(
            self.metadata,
            now_ms=services.ports.runtime.now_ms(),
            older_than_ms=None if older_than is None else as_millis(older_than),
            retain_last=retain_last,
            snapshot_ids=snapshot_ids,
            clean_expired_metadata=clean_expired_metadata,
            caller=services.settings.user,
        )
        files = ExpiredFiles(services.ports, services.manifest_columns.uncached(), self._load_version, tell)
        if dry_run:
            return self._preview(change, files)
        report = self._submit(change, wait_seconds=wait_seconds)
        done = change.staged
        if done is None:
            raise InvalidInput("the commit of an expiration was not staged", next_step="report it; no file was deleted")
        deleted = files.delete(done.base, done.snapshot_ids)
        return ExpiryReport(done.snapshot_ids, done.refs, done.schema_ids, done.spec_ids, deleted, report)

    def remove_orphan_files(
        self,
        older_than: Timestamp | None = None,
        location: str | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        prefix_mismatch: PrefixMismatch = "error",
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        on_progress: Progress | None = None,
    ) -> OrphanReport:
        """Delete files in the table's folder that no snapshot, log or statistics entry leads to: what failed, killed
        and refused commits left, of any writer. Names that begin with `_` or `.` are left alone.

        older_than: delete what was written before it; None: 3 days ago. A younger file may belong to a commit that is
        under way, so a time within the last 24 hours is refused unless force is true: then be sure that no writer is
        at work.
        location: look below this folder of the table alone.
        prefix_mismatch: a file that the table names with another scheme or authority: "error" refuses, "ignore" keeps
        it, "delete" deletes it. equal_schemes, equal_authorities: names that mean the same, such as
        `{"nn1,nn2": "cluster"}`; s3a, s3n and s3 do anyway.

        Raises InvalidInput for a time that is too young, a location that is not the table's own, a folder that another
        table shares, a prefix mismatch, and if the property `gc.enabled` is not true; RequirementFailed if another
        table has the name now; MissingFile, CorruptFile, StorageError if a manifest or list cannot be read;
        MetastoreError. Nothing is deleted then.
        """
        services = self._access.services
        now_ms = services.ports.runtime.now_ms()
        before = now_ms - ORPHAN_AGE_MS if older_than is None else as_millis(older_than)
        if before > now_ms - ORPHAN_AGE_MIN_MS and not force:
            raise InvalidInput(
                "files younger than 24 hours may belong to a commit that is under way",
                next_step="name an earlier time; or, if surely no writer is at work, pass force=True",
            )
        prefixes = Prefixes(prefix_mismatch, equal_schemes or {}, equal_authorities or {})
        read, tell = services.coordinator.read_metadata, on_progress or _tell_nobody
        columns = services.manifest_columns.uncached()
        orphans = OrphanFiles(services.ports, columns, self._load_version, read, tell)
        return orphans.remove(self.metadata.uuid, before, location, prefixes, dry_run=dry_run)

    def _preview(self, change: ExpireSnapshots, files: ExpiredFiles) -> ExpiryReport:
        now = self._load_version()
        change.check(now.metadata)
        plan = change.plan(now.metadata, self._open_manifests())
        metadata = apply(now.metadata, tuple(plan.updates()), now_ms=now.metadata.last_updated_ms)
        found = files.preview(TableVersion(now.pointer, metadata), now.metadata, plan.snapshot_ids)
        return ExpiryReport(plan.snapshot_ids, plan.refs, plan.schema_ids, plan.spec_ids, found, None)

    def _load_version(self) -> TableVersion:
        return self._access.services.coordinator.load(self._name)


def _tell_nobody(_what: str, _count: int) -> None:
    """For callers that do not ask."""
