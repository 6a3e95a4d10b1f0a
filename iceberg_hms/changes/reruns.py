"""Reruns: a job that runs again under its idempotency key must be the same job.

An append of named files has the same files each time it runs. If the snapshot with its key added other files, the key
was used for two jobs, and reporting success would silently lose the second job's rows. The snapshot's own manifests
list what it added, whatever was compacted or deleted since; when the snapshot expires, its key goes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange
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
    """Raise RequirementFailed if the snapshot with a change's key added other files than the change names.

    A change that names no files (`ChangeIdentity.files`) passes. Raises MissingFile, CorruptFile or StorageError if the
    snapshot's manifests cannot be read: whether it is the same job is unknown then."""
    if not identity.files:
        return
    id_ = snapshot.snapshot_id

    def is_added(entry: ManifestEntry) -> bool:
        is_data = entry.data_file.content == FileContent.DATA
        return is_data and entry.status == EntryStatus.ADDED and entry.snapshot_id == id_

    own = [each for each in manifests.list(snapshot) if each.added_snapshot_id == id_]
    added = {file_key(entry.data_file.file_path) for entry in manifests.entries(own, is_added)}
    extra, missing = added - identity.files, identity.files - added
    if not extra and not missing:
        return
    differences = (("did not add", missing), ("also added", extra))
    differs = [f"{what} {_named(files)}" for what, files in differences if files]
    raise RequirementFailed(
        SAME_JOB,
        f"idempotency key {identity.idempotency_key} belongs to snapshot {id_}, which {' and '.join(differs)}",
        expected=f"{len(identity.files)} files",
        found=f"{len(added)} files",
        next_step="use another key for another job, and rerun a job with all files of its first run; delete none of "
        "the files, the table may have some of them",
        rests_on=frozenset({id_}),
    )


@dataclass(frozen=True)
class Rerun:
    """An append of a job whose files cannot be read, or no longer fit the table: a rerun, or a first run that fails.

    An earlier run may have been committed, and its files may be gone since. The coordinator looks for the key before it
    calls `check`, so it raises `error` only if no snapshot has the key.
    """

    identity: ChangeIdentity
    error: IcebergHmsError

    def check(self, base: TableMetadata | None) -> None:  # noqa: ARG002 - as the port says
        """Raises the error."""
        raise self.error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:  # noqa: ARG002 - as the port says
        """Raises the error."""
        raise self.error


def _named(files: Collection[str]) -> str:
    more = [f"{len(files) - _NAMED_MAX} more"] if len(files) > _NAMED_MAX else []
    return ", ".join([*sorted(files)[:_NAMED_MAX], *more])
