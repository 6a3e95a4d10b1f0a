"""Append data files by manifests that are there already (Java: AppendFiles.appendManifest)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that the table has the format version of the manifests.
FILES_FORMAT: Final = "files-format-version"


class AppendManifests(SnapshotOperation):
    """Adds the files of some manifests to a branch. It reads no manifest, and merges none: their number of files may be
    too large for one process.

    fit: no files, with the schema, the spec and the name mapping by which the manifests' files were described.
    format_version: of the manifests. manifests: of added data files alone, with the snapshot's id; they are the
    caller's, who deletes them if the append fails. files, records, size, partitions: how many they have, for the
    summary; size in bytes. The caller knows that the branch has none of the files.
    """

    _creates_branch: ClassVar[bool] = True

    def __init__(
        self,
        new: NewSnapshot,
        fit: NewDataFiles,
        manifests: Sequence[ManifestFile],
        *,
        format_version: int,
        files: int,
        records: int,
        size: int,
        partitions: int,
    ) -> None:
        super().__init__(new)
        self._fit = fit
        self._manifests = tuple(manifests)
        self._format_version = format_version
        counts = {"added-data-files": files, "added-records": records, "added-files-size": size}
        shown = {name: str(count) for name, count in counts.items() if count > 0}
        self._metrics = {**shown, "changed-partition-count": str(partitions)}

    def _check(self, base: TableMetadata) -> None:
        self._fit.check(base)
        if base.format_version != self._format_version:
            raise RequirementFailed(
                FILES_FORMAT,
                f"the manifests have format version {self._format_version}, and the table {base.format_version} by now",
                expected=self._format_version,
                found=base.format_version,
            )

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:  # noqa: ARG002 - it reads none
        return SnapshotContent(
            operation=summaries.APPEND,
            manifests=(*self._manifests, *state.manifests),
            metrics=self._metrics,
            kept=len(state.manifests),
            updates=self._fit.name_mapping_update(state.metadata),
        )
