"""Reruns: a job that runs again under its idempotency key must be the same job (`changes.change.Job`).

A digest in the snapshot's summary tells. Snapshots of older releases, and those that came as updates, have none: of
these only the data files that they added are compared, which their own manifests list whatever was compacted or
deleted since. When a snapshot expires, its key goes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange
from iceberg_hms.changes.summary import JOB
from iceberg_hms.errors import IcebergHmsError, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that both uses of a key are one job.
SAME_JOB: Final = "idempotency-key"
#: How many files of each kind an error names.
_NAMED_MAX: Final = 3


def refuse_another_job(identity: ChangeIdentity, snapshot: Snapshot, manifests: Manifests) -> None:
    """Raise RequirementFailed if the snapshot with a change's key is of another job than the change.

    A change of which nobody says what its job does (`ChangeIdentity.job`) passes. Raises MissingFile, CorruptFile or
    StorageError if the snapshot's manifests are needed and cannot be read: whether it is the same job is unknown then.
    """
    job, recorded = identity.job, snapshot.summary.get(JOB)
    if job is None or recorded == job.digest or (recorded is None and not job.added):
        return
    added = _added_by(snapshot, manifests)
    differences = (("did not add", job.added - added), ("also added", added - job.added))
    differs = [f"{what} {_named(files)}" for what, files in differences if files]
    if recorded is None and not differs:
        return
    raise RequirementFailed(
        SAME_JOB,
        f"idempotency key {identity.idempotency_key} belongs to snapshot {snapshot.snapshot_id}, which "
        f"{' and '.join(differs) or 'is of another operation, filter, or files to delete'}",
        expected=f"{len(job.added)} files",
        found=f"{len(added)} files",
        next_step="use another key for another job, and rerun a job with all files and the filter of its first run; "
        "delete none of the files, the table may have some of them",
        rests_on=frozenset({snapshot.snapshot_id}),
    )


def _added_by(snapshot: Snapshot, manifests: Manifests) -> frozenset[str]:
    """The keys of the data files that a snapshot added."""
    id_ = snapshot.snapshot_id

    def is_added(entry: ManifestEntry) -> bool:
        is_data = entry.data_file.content == FileContent.DATA
        return is_data and entry.status == EntryStatus.ADDED and entry.snapshot_id == id_

    own = [each for each in manifests.list(snapshot) if each.added_snapshot_id == id_]
    return frozenset(file_key(entry.data_file.file_path) for entry in manifests.entries(own, is_added))


@dataclass(frozen=True)
class Rerun:
    """A job whose files cannot be read, or no longer fit the table: a rerun, or a first run that fails.

    An earlier run may have been committed, and its files may be gone since. The coordinator looks for the key before it
    calls `check`, so it raises `error` only if no snapshot has the key.
    """

    identity: ChangeIdentity
    error: IcebergHmsError

    def check(self, base: TableMetadata | None) -> None:  # noqa: ARG002 - as the port says
        raise self.error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:  # noqa: ARG002 - as the port says
        raise self.error


def _named(files: Collection[str]) -> str:
    more = [f"{len(files) - _NAMED_MAX} more"] if len(files) > _NAMED_MAX else []
    return ", ".join([*sorted(files)[:_NAMED_MAX], *more])
