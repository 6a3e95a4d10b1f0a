"""Cherry-pick: commit to main what a snapshot outside of main's history changed (Java: CherryPickOperation).

    an append                     its files are added again, in a new snapshot, on whatever main is
    a dynamic partition overwrite likewise, if main descends from what it was written on, no file was added to its
                                  partitions since, and the files that it replaced are still there
    any snapshot                  if its parent is main's snapshot, main moves to it; no snapshot is added

The new snapshot's summary names the picked one (`source-snapshot-id`), and the id under which that one was staged
(`published-wap-id`). What main's history has already is refused: the snapshot itself, a pick of it, another snapshot of
the same WAP id. Since that history expires, a pick is refused too if a file of it would be in main twice; Java does not
look for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests, StagedChange
from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter
from iceberg_hms.changes.operations.manifests.manifest_merge import ManifestMerge
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.changes.operations.snapshots.picked_files import (
    PICKABLE,
    OverwrittenPartitions,
    PickedFiles,
    refuse_gone,
    refuse_live,
)
from iceberg_hms.changes.operations.snapshots.ref_change import existing_snapshot, named
from iceberg_hms.changes.operations.snapshots.rollback import move_main
from iceberg_hms.changes.requirements import existing_table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.rows import SOURCE_SNAPSHOT_ID
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that main does not have the change yet.
PICKED_ONCE: Final = "cherry-pick-once"
#: `RequirementFailed.name` of the assumption that one snapshot is staged under a WAP id.
STAGED_ONCE: Final = "staged-wap-id"


class CherryPick(SnapshotOperation):
    """Commits to main what a snapshot changed.

    new: the snapshot that is added to main, unless main only moves forward.
    picked: the snapshot's id; or the WAP id under which it was staged (`wap.id` in its summary), as text.

    It applies to main as it is when this is committed, since it takes nothing out of main.
    Raises InvalidInput for an empty WAP id.
    """

    def __init__(self, new: NewSnapshot, picked: int | str) -> None:
        if isinstance(picked, str) and not picked.strip():
            raise InvalidInput("a WAP id must not be empty")
        super().__init__(new)
        self._picked = picked
        self._merge = ManifestMerge(new.snapshot_id)
        #: What the picked snapshot changed, and its added files; read once, since no snapshot changes.
        self._changes: tuple[PickedFiles, NewDataFiles] | None = None
        self._overwritten: OverwrittenPartitions | None = None
        self._filter: ManifestFilter | None = None

    def _check(self, base: TableMetadata) -> None:
        """Raises RequirementFailed if the snapshot is not in the table, or several are staged under the WAP id; if main
        has its change already; or if it is neither an append nor a dynamic overwrite and main is not at its parent."""
        picked = self._snapshot_of(base)
        _refuse_picked(base, picked)
        if _is_next(base, picked) or picked.operation == summaries.APPEND or _is_dynamic_overwrite(picked):
            return
        raise RequirementFailed(
            PICKABLE,
            f"snapshot {picked.snapshot_id} is neither an append nor a dynamic partition overwrite, and main is not at "
            f"its parent {picked.parent_snapshot_id}",
            expected=picked.parent_snapshot_id,
            found=base.current_snapshot_id,
            next_step="write it again on the table as it is; set_current_snapshot() would discard what main has",
        )

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        picked = self._snapshot_of(state.metadata)
        if not _is_next(state.metadata, picked):
            files, _ = self._read(state.metadata, picked, manifests)
            refuse_live(files, state.manifests, manifests)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """Move main forward, or stage a new snapshot. Raises RequirementFailed if a partition that the snapshot
        overwrote was changed since, a file that it replaces is gone, main has a file that it adds, or the schema gives
        the files' columns another meaning."""
        table = existing_table(base)
        picked = self._snapshot_of(table)
        if _is_next(table, picked):
            return StagedChange(move_main(table, picked.snapshot_id), snapshot_ids=())
        return super().stage(base, manifests)

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        base = state.metadata
        picked = self._snapshot_of(base)
        files, added = self._read(base, picked, manifests)
        added.check(base)
        refuse_live(files, state.manifests, manifests)
        if self._overwritten is not None and state.parent is not None:
            self._overwritten.check(base, state.parent.snapshot_id, manifests)
        own = added.manifests(base, manifests)
        filtered = self._filtered(state, own, manifests)
        refuse_gone(files, filtered.missing)
        removed = [each.data_file for each in filtered.removed]
        metrics = {**_carried(picked), **summaries.file_metrics(added.files, removed, duplicates=filtered.duplicates)}
        return self._merge.apply(
            base,
            (*own, *filtered.rewritten),
            filtered.kept,
            manifests,
            operation=str(picked.operation),
            metrics=metrics,
            replaced=filtered.replaced,
        )

    def _filtered(self, state: BranchState, own: Sequence[ManifestFile], manifests: Manifests) -> FilteredManifests:
        """Main's manifests without the files that the snapshot removed."""
        if self._filter is None:
            return FilteredManifests(state.manifests)
        return self._filter.apply(state.metadata, state.manifests, manifests, own=own)

    def _snapshot_of(self, base: TableMetadata) -> Snapshot:
        if isinstance(self._picked, int):
            return existing_snapshot(base, self._picked)
        staged = [row["snapshot-id"] for row in base.snapshot_rows.where(("summary", summaries.WAP_ID), self._picked)]
        if len(staged) != 1:
            found = named(staged) if staged else "no snapshot"
            raise RequirementFailed(
                STAGED_ONCE,
                f"{found} {'are' if len(staged) > 1 else 'is'} staged under the WAP id {self._picked}",
                expected="one snapshot",
                found=tuple(staged),
                next_step="name the snapshot that you audited: cherry_pick(snapshot_id)" if staged else None,
            )
        return existing_snapshot(base, staged[0])

    def _read(self, base: TableMetadata, picked: Snapshot, manifests: Manifests) -> tuple[PickedFiles, NewDataFiles]:
        if self._changes is None:
            files = PickedFiles.of(picked, manifests)
            added = NewDataFiles(
                files.added,
                snapshot_id=self.snapshot_id,
                schema_id=base.current_schema_id if picked.schema_id is None else picked.schema_id,
                schema=None,
                specs=dict.fromkeys({each.spec_id for each in files.added}),
            )
            if _is_dynamic_overwrite(picked):
                self._overwritten = OverwrittenPartitions(picked, files)
                self._filter = ManifestFilter(self.snapshot_id, keys=files.removed_keys)
            self._changes = files, added
        return self._changes


def _is_next(base: TableMetadata, picked: Snapshot) -> bool:
    """Whether main can move forward to a snapshot: main is at its parent, or both have none."""
    return base.current_snapshot_id == picked.parent_snapshot_id


def _is_dynamic_overwrite(picked: Snapshot) -> bool:
    is_dynamic = picked.summary.get(summaries.REPLACE_PARTITIONS, "").lower() == "true"
    return picked.operation == summaries.OVERWRITE and is_dynamic


def _refuse_picked(base: TableMetadata, picked: Snapshot) -> None:
    id_, wap_id = picked.snapshot_id, picked.summary.get(summaries.WAP_ID)
    for each in base.ancestors(base.current_snapshot_id):
        if each.snapshot_id == id_:
            what = f"snapshot {id_} is in the history of main already"
        elif each.summary.get(SOURCE_SNAPSHOT_ID) == str(id_):
            what = f"snapshot {id_} was cherry-picked already, as snapshot {each.snapshot_id}"
        elif wap_id and wap_id in (each.summary.get(summaries.WAP_ID), each.summary.get(summaries.PUBLISHED_WAP_ID)):
            what = f"the WAP id {wap_id} was published already, as snapshot {each.snapshot_id}"
        else:
            continue
        raise RequirementFailed(
            PICKED_ONCE,
            what,
            expected="a change that main does not have",
            found=each.snapshot_id,
            next_step="refresh the table; if main has it there, nothing is to be done",
            rests_on=frozenset({each.snapshot_id}),
        )


def _carried(picked: Snapshot) -> dict[str, str]:
    """What the new snapshot's summary says of the picked one. A rerun of the job that staged it finds its key, and so
    does not add the rows again."""
    carried = {
        SOURCE_SNAPSHOT_ID: str(picked.snapshot_id),
        summaries.PUBLISHED_WAP_ID: picked.summary.get(summaries.WAP_ID),
        summaries.IDEMPOTENCY_KEY: picked.summary.get(summaries.IDEMPOTENCY_KEY),
        summaries.JOB: picked.summary.get(summaries.JOB),
    }
    return {key: value for key, value in carried.items() if value}
