"""What operations have in common that remove files of a branch, and add others (Java: MergingSnapshotProducer)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests, Update
from iceberg_hms.changes.operations.manifests.conflicts import Conflicts
from iceberg_hms.changes.operations.manifests.file_scope import EveryRow, RowFilter, Where
from iceberg_hms.changes.operations.manifests.live_files import DuplicateFiles, listed_names
from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter
from iceberg_hms.changes.operations.manifests.manifest_merge import ManifestMerge
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.manifests.new_delete_files import DeleteNumbers, NewDeleteFiles
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.changes.summary import file_metrics
from iceberg_hms.errors import IcebergHmsError, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that the branch has the files that an operation removes.
FILES_EXIST: Final = "files-exist"


class FileChanges(SnapshotOperation):
    """Base of these operations.

    operation: the snapshot's (spec: snapshots). filter_: what it removes. where: the rows whose files it removes
    besides; None: none. added, added_deletes: the files that it adds. paths: the data files that it names, in the
    caller's spelling.
    """

    def __init__(
        self,
        new: NewSnapshot,
        operation: str,
        filter_: ManifestFilter,
        *,
        where: Where | EveryRow | None = None,
        added: NewDataFiles | None = None,
        added_deletes: NewDeleteFiles | None = None,
        paths: Sequence[str] = (),
    ) -> None:
        super().__init__(new)
        self._operation = operation
        self._filter = filter_
        self._where = where
        self._added = added
        self._deletes = added_deletes or NewDeleteFiles((), snapshot_id=new.snapshot_id)
        self._paths = {file_key(path): path for path in paths}
        self._conflicts = Conflicts(new)
        self._merge = ManifestMerge(new.snapshot_id)
        self._duplicates = DuplicateFiles(added, new.snapshot_id)

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        self._duplicates.find(state.manifests, manifests)
        filtered = self._filtered(state, self._own_data(state.metadata, manifests), manifests)
        self._own_deletes(state.metadata, filtered, manifests)

    def _check(self, base: TableMetadata) -> None:
        if self._added is not None:
            self._added.check(base)
        self._deletes.check(base)
        self._rows(base)

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        self._refuse_conflicts(state, manifests)
        self._duplicates.refuse(self._new.branch, state.manifests, manifests)
        data = self._own_data(state.metadata, manifests)
        filtered = self._filtered(state, data, manifests)
        self._refuse_missing(filtered, state, manifests)
        self._verify(filtered, state, manifests)
        own = (*data, *self._own_deletes(state.metadata, filtered, manifests), *filtered.rewritten)
        return self._merge.apply(
            state.metadata,
            own,
            filtered.kept,
            manifests,
            operation=self._operation,
            metrics=self._metrics(filtered),
            updates=self._updates(state.metadata),
            replaced=filtered.replaced,
        )

    def _rows(self, base: TableMetadata) -> RowFilter | None:
        """The filter of the rows that the operation removes. Raises as `Where.bind`."""
        return None if self._where is None else self._where.bind(base)

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        """Raises RequirementFailed for what others committed since the start."""

    def _verify(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
        """Raises what refuses the operation once it is known which files it removes."""

    def _metrics(self, filtered: FilteredManifests) -> dict[str, str]:
        added = [] if self._added is None else [*self._added.files]
        removed = [each.data_file for each in filtered.removed]
        return file_metrics([*added, *self._deletes.files], removed, duplicates=filtered.duplicates)

    def _updates(self, base: TableMetadata) -> list[Update]:
        return [] if self._added is None else self._added.name_mapping_update(base)

    def _delete_numbers(self, filtered: FilteredManifests) -> DeleteNumbers | None:  # noqa: ARG002 - see below
        """The data sequence numbers of added delete files; None: the snapshot's. Only a rewrite states others."""
        return None

    def _own_data(self, base: TableMetadata, manifests: Manifests) -> tuple[ManifestFile, ...]:
        return () if self._added is None else self._added.manifests(base, manifests)

    def _own_deletes(
        self, base: TableMetadata, filtered: FilteredManifests, manifests: Manifests
    ) -> tuple[ManifestFile, ...]:
        return self._deletes.manifests(base, manifests, self._delete_numbers(filtered))

    def _filtered(self, state: BranchState, own: Sequence[ManifestFile], manifests: Manifests) -> FilteredManifests:
        base = state.metadata
        return self._filter.apply(base, state.manifests, manifests, own=own, rows=self._rows(base))

    def _refuse_missing(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
        if filtered.missing:
            self._refuse_gone(sorted(filtered.missing), state, manifests)
        if filtered.missing_deletes:
            paths = sorted(path for path, _ in filtered.missing_deletes)
            raise RequirementFailed(
                FILES_EXIST,
                f"{self._new.branch} does not have {len(paths)} of the delete files: {listed_names(paths)}",
                expected="live delete files",
                found=tuple(paths),
            )

    def _refuse_gone(self, keys: Sequence[str], state: BranchState, manifests: Manifests) -> None:
        """Raise RequirementFailed that names data files which the branch does not have, and who removed the first."""
        remover = None
        with contextlib.suppress(IcebergHmsError):
            remover = self._conflicts.remover_of(self._conflicts.since_start(state), keys[0], manifests)
        paths = [self._paths.get(key, key) for key in keys]
        who = "" if remover is None else f"; snapshot {remover.snapshot_id} ({remover.operation}) removed {paths[0]}"
        raise RequirementFailed(
            FILES_EXIST,
            f"{self._new.branch} does not have {len(paths)} of the files: {listed_names(paths)}{who}",
            expected="live data files",
            found=tuple(paths),
            rests_on=frozenset() if remover is None else frozenset({remover.snapshot_id}),
        )
