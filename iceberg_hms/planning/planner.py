"""Plans a scan: which files of a snapshot it reads, with the filter that is left for each, and the deletes that apply.

    snapshot -> manifests that may have matching files -> their entries as columns -> rows that may match
             -> residual by partition -> delete files

Nothing is read before `plan` is iterated, but the manifest list. Manifests are planned one by one, so that a caller may
stop, or share them out: `manifests` has them in an order that is the same wherever the same snapshot and filter are
planned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.manifest_delta import added_manifests
from iceberg_hms.changes.operations.schema.seen_columns import find_column
from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import ALWAYS_TRUE, Expression
from iceberg_hms.format.manifests.manifest import EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning import layout
from iceberg_hms.planning.column_filter import ColumnFilter
from iceberg_hms.planning.delete_matching import DeleteMatching
from iceberg_hms.planning.inherit import inherited
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.planning.snapshot_line import required_snapshot, snapshots_after

#: Columns that a plan adds to those of the layout: the position of a file's residual in `ScanPlanner.residuals`, and
#: those of its delete files in `ScanPlanner.delete_files`.
RESIDUAL: Final = "residual"
DELETES: Final = "deletes"


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """The files of one manifest that a scan reads; none if `columns` has no rows.

    manifest: its position in what was planned. spec_id: of the files. columns: a row for each file, with the columns of
    `planning.layout`, inherited values among them, and RESIDUAL and DELETES. Of statistics it has those of the
    request's `stats_fields`, and perhaps more.
    """

    manifest: int
    spec_id: int
    columns: pa.RecordBatch


class ScanPlanner:
    """The plan of one scan of a table. Not thread-safe.

    Raises InvalidInput for a request that does not fit the table: a column or a snapshot that it does not have, say;
    while it plans as `ManifestColumns.read`.
    """

    def __init__(
        self, metadata: TableMetadata, request: ScanRequest, manifests: Manifests, columns: ManifestColumns
    ) -> None:
        self.metadata = metadata
        self.request = request
        self._manifests = manifests
        self._columns = columns
        self.snapshot = _snapshot(metadata, request.snapshot_id)
        self._line = self._appends()
        self.schema, self._filter = self._bound()
        #: The ids of the request's `stats_fields`, in their order.
        self.stats_ids = tuple(map(self._column_id, request.stats_fields or ()))
        self._rows = 0

    @property
    def has_enough(self) -> bool:
        """Whether the files planned so far have as many rows as the request needs."""
        return self.request.min_rows is not None and self._rows >= self.request.min_rows

    @property
    def residuals(self) -> Sequence[Expression]:
        """The filters that are left, by their positions in planned files so far."""
        return self._filter.residuals

    @property
    def delete_files(self) -> Sequence[ManifestEntry]:
        """The entries of delete files, by their positions in planned files so far."""
        return self._deletes.files

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The manifests of data files that may have matching ones, in the order of the manifest list."""
        return self._matching_manifests(ManifestContent.DATA)

    @cached_property
    def delete_manifests(self) -> tuple[ManifestFile, ...]:
        """The manifests of delete files that may delete matching rows: a plan of any file reads them all. An
        incremental scan reads appends alone, which delete nothing."""
        return () if self._line is not None else self._matching_manifests(ManifestContent.DELETES)

    def plan(self, manifests: Sequence[ManifestFile] | None = None) -> Iterator[PlannedFiles]:
        """The files of some of `manifests`, manifest by manifest; None: of all. It ends early once `has_enough`."""
        chosen = self.manifests if manifests is None else manifests
        if not chosen:
            return
        stats = self._filter.stats | frozenset(self.stats_ids) | self._deletes.stats
        batches = enumerate(self._columns.read(chosen, stats))
        while not self.has_enough and (found := next(batches, None)) is not None:
            position, batch = found
            yield self._planned(position, chosen[position], batch)

    def _planned(self, position: int, manifest: ManifestFile, batch: pa.RecordBatch) -> PlannedFiles:
        spec_id = manifest.partition_spec_id
        if self._line is None and manifest.first_row_id is None:
            # Few files match, and what they inherit does not depend on the others.
            batch = inherited(self._matching(batch, spec_id), manifest)
        else:
            batch = self._matching(inherited(batch, manifest), spec_id)
        residual = self._filter.residual_of(batch, spec_id)
        deletes = self._deletes.applying_to(batch, spec_id)
        planned = batch.append_column(RESIDUAL, residual).append_column(DELETES, deletes)
        if self.request.min_rows is not None:
            self._count(planned)
        return PlannedFiles(position, spec_id, planned)

    def _matching(self, batch: pa.RecordBatch, spec_id: int) -> pa.RecordBatch:
        mask = self._filter.matching(batch, spec_id)
        if self._line is not None:
            ids = pa.array([each.snapshot_id for each in self._line], pa.int64())
            is_new = pc.equal(batch.column(layout.STATUS), EntryStatus.ADDED.value)
            is_new = pc.and_(is_new, pc.is_in(batch.column(layout.SNAPSHOT_ID), value_set=ids))
            mask = is_new if mask is None else pc.and_(mask, is_new)
        return batch if mask is None else batch.filter(mask)

    def _count(self, planned: pa.RecordBatch) -> None:
        """Count the rows that are sure to be read: of files without a residual and without deletes."""
        whole = [at for at, each in enumerate(self.residuals) if each == ALWAYS_TRUE]
        is_whole = pc.is_in(planned.column(RESIDUAL), value_set=pa.array(whole, pa.int32()))
        is_whole = pc.and_(is_whole, pc.equal(pc.list_value_length(planned.column(DELETES)), 0))
        self._rows += pc.sum(planned.column(layout.RECORD_COUNT).filter(is_whole)).as_py() or 0

    @cached_property
    def _listed(self) -> Sequence[ManifestFile]:
        if self.snapshot is None:
            return ()
        if self._line is None:
            return self._manifests.list(self.snapshot)
        return [new for each in self._line for new in added_manifests(each, self._manifests.list(each), ())]

    @cached_property
    def _deletes(self) -> DeleteMatching:
        """Those that may delete a matching row."""
        batches = zip(self.delete_manifests, self._columns.read(self.delete_manifests), strict=True)
        return DeleteMatching(
            (
                (manifest.partition_spec_id, inherited(self._matching(batch, manifest.partition_spec_id), manifest))
                for manifest, batch in batches
            ),
            self.metadata,
            self._columns.share_of_memory(),
        )

    def _matching_manifests(self, content: ManifestContent) -> tuple[ManifestFile, ...]:
        may_match = self._filter.by_file.may_match_manifest
        return tuple(
            each for each in self._listed if each.content == content and each.has_live_files and may_match(each)
        )

    def _appends(self) -> Sequence[Snapshot] | None:
        """The snapshots whose files an incremental scan reads; None for another scan."""
        start = self.request.start_snapshot_id
        if start is None or self.snapshot is None:
            return None
        after = snapshots_after(self.metadata, start, self.snapshot.snapshot_id)
        return [each for each in after if each.operation == "append"]

    def _bound(self) -> tuple[Schema, ColumnFilter]:
        """The schema whose names the filter uses, and the filter bound to it."""
        first, *others = _schemas(self.metadata, self.snapshot, by_snapshot=self.request.use_snapshot_schema)
        try:
            return first, self._bound_to(first)
        except InvalidInput:
            for schema in others:
                with contextlib.suppress(InvalidInput):
                    return schema, self._bound_to(schema)
            raise

    def _bound_to(self, schema: Schema) -> ColumnFilter:
        specs, is_exact = self.metadata.specs_by_id, self.request.case_sensitive
        return ColumnFilter(self.request.filter, schema, specs, case_sensitive=is_exact)

    def _column_id(self, name: str) -> int:
        field = find_column(self.schema, name, case_sensitive=self.request.case_sensitive)
        if field is None:
            raise InvalidInput(f"there is no column {name}", next_step="name columns of the table's schema")
        return field.id


def _snapshot(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot | None:
    return metadata.current_snapshot if snapshot_id is None else required_snapshot(metadata, snapshot_id)


def _schemas(metadata: TableMetadata, snapshot: Snapshot | None, *, by_snapshot: bool) -> list[Schema]:
    """The schemas that names may be of, the likelier one first. Java asks for the snapshot's schema also where it reads
    the current snapshot, and names the columns of the table's; where it reads a branch, too (SnapshotScan)."""
    current = metadata.schema
    written = None if snapshot is None or snapshot.schema_id is None else metadata.schema_by_id(snapshot.schema_id)
    if snapshot is None or written is None or written == current:
        return [current]
    is_old = by_snapshot and snapshot.snapshot_id != metadata.current_snapshot_id
    return [written, current] if is_old else [current, written]
