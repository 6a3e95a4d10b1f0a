"""Append data files: the operation that conflicts with no other one.

The new snapshot's list is the append's own manifests, then all of its parent's, merged where there are many small ones
(Java's MergeAppend, and its FastAppend if merging is off). A replay computes only the list, the numbers and the totals
again.

An append conflicts only with itself: adding a file that the branch already has would double its rows, so such an
append is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.duplicate_files import DuplicateFiles
from iceberg_hms.changes.operations.manifest_merge import ManifestMerge
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema


class Append(SnapshotOperation):
    """Adds data files to a branch. One instance serves one commit: a failure deletes its manifests, so make a new one.

    data_files: the files to add; their partition values follow the spec `spec_id`. No files make an empty snapshot.
    branch, summary, idempotency_key, snapshot_id, table_uuid, now_ms, caller, stage_only: see `NewSnapshot`. A job that
    runs again under its key must add the same files (`changes.reruns`).
    schema_id, spec_id, schema, spec, name_mapping: of the table that the files were written for; see `NewDataFiles`.
    check_duplicates: whether to refuse files that are live in the branch, in any partition and under any spelling of
    their location (`format.locations.file_key`). The specification leaves that to writers (spec: manifests).

    Raises InvalidInput for delete files, a file named twice, negative counts, partition values of another spec, and
    summary properties whose values are computed.
    """

    def __init__(
        self,
        data_files: Sequence[DataFile],
        *,
        branch: str = MAIN_BRANCH,
        summary: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        snapshot_id: int,
        schema_id: int,
        spec_id: int,
        table_uuid: str | None,
        now_ms: Callable[[], int],
        caller: str = "",
        name_mapping: str | None = None,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        check_duplicates: bool = True,
        stage_only: bool = False,
    ) -> None:
        self._added = NewDataFiles(
            data_files,
            snapshot_id=snapshot_id,
            schema_id=schema_id,
            schema=schema,
            specs={spec_id: spec},
            name_mapping=name_mapping,
        )
        new = NewSnapshot(
            snapshot_id=snapshot_id,
            table_uuid=table_uuid,
            now_ms=now_ms,
            branch=branch,
            stage_only=stage_only,
            summary=summary or {},
            idempotency_key=idempotency_key,
            caller=caller,
        )
        super().__init__(new, files=self._added.keys)
        paths = [each.file_path for each in self._added.files]
        self._duplicates = DuplicateFiles(self._added.keys if check_duplicates else frozenset(), paths, snapshot_id)
        self._merge = ManifestMerge(snapshot_id)

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Search the branch's manifests for the files before the append is queued."""
        with contextlib.suppress(IcebergHmsError):
            self._duplicates.look_ahead(BranchState.read(base, self._new.branch, manifests).manifests, manifests)

    def _check(self, base: TableMetadata) -> None:
        self._added.check(base)

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        self._duplicates.refuse(self._new.branch, state.manifests, manifests)
        own = self._added.manifests(state.metadata, manifests)
        merged = self._merge.apply(state.metadata, own, state.manifests, manifests)
        return SnapshotContent(
            operation=summaries.APPEND,
            manifests=merged.manifests,
            metrics=self._added.metrics(),
            kept=merged.kept,
            replaced=merged.replaced,
            written=merged.written,
            updates=self._added.name_mapping_update(state.metadata),
        )
