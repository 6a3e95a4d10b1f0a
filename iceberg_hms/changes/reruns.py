"""A job that runs again under its idempotency key must be the same job.

An append that names its files has the same ones whenever it runs. If the snapshot that carries its key added others,
the key was used for two jobs, and answering "committed" would lose the second one's rows without a word. What the
snapshot added stands in its own manifests, whatever was compacted or deleted since; once the snapshot has expired, its
key is gone too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes.change import ChangeIdentity, Manifests, Staged
from iceberg_hms.errors import IcebergHmsError, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import Content, ManifestEntry, Status
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The assumption that a key is that of the same job, as `RequirementFailed.name` says it.
SAME_JOB: Final = "idempotency-key"
#: How many files an error names of each kind.
_NAMED_MAX: Final = 3


def refuse_another_job(identity: ChangeIdentity, snapshot: Snapshot, manifests: Manifests) -> None:
    """Raise RequirementFailed if a change names other files than the snapshot that carries its key added.

    Nothing is compared for a change that does not name its files (`ChangeIdentity.files`). Raises MissingFile,
    CorruptFile or StorageError where the snapshot's manifests cannot be read: whether it is the same job is unknown."""
    if not identity.files:
        return
    id_ = snapshot.snapshot_id

    def is_added(entry: ManifestEntry) -> bool:
        is_data = entry.data_file.content == Content.DATA
        return is_data and entry.status == Status.ADDED and entry.snapshot_id == id_

    own = [each for each in manifests.list(snapshot) if each.added_snapshot_id == id_]
    added = {file_key(entry.data_file.file_path) for entry in manifests.entries(own, is_added)}
    lacks, has = added - identity.files, identity.files - added
    if not lacks and not has:
        return
    differs = [f"{what} {_named(files)}" for what, files in (("did not add", has), ("added besides", lacks)) if files]
    raise RequirementFailed(
        SAME_JOB,
        f"idempotency key {identity.idempotency_key} is that of snapshot {id_}, which {' and '.join(differs)}",
        expected=f"{len(identity.files)} files",
        found=f"{len(added)} files",
        next_step="give another job another key, and a rerun all files of its first run; delete none of the files, the "
        "table may have some of them",
        rests_on=frozenset({id_}),
    )


@dataclass(frozen=True)
class Rerun:
    """An append of a job whose files cannot be described any more: a rerun, or a first run that fails.

    The job's first run may have landed, and its files may be gone by now, or may not fit the table any more. The
    coordinator looks for the key before it calls `check`, so the caller hears `error` only if no snapshot has the key.
    """

    identity: ChangeIdentity
    error: IcebergHmsError

    def check(self, base: TableMetadata | None) -> None:  # noqa: ARG002 - as the port says
        """Raises the error."""
        raise self.error

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> Staged:  # noqa: ARG002 - as the port says
        """Raises the error."""
        raise self.error


def _named(files: Collection[str]) -> str:
    more = [f"{len(files) - _NAMED_MAX} more"] if len(files) > _NAMED_MAX else []
    return ", ".join([*sorted(files)[:_NAMED_MAX], *more])
