"""What entries of a manifest inherit from the manifest list, filled into their columns (spec: inheritance).

The same rule as `format.manifests.manifest.inherit`, for columns of live entries.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile
from iceberg_hms.planning import layout


def inherited(batch: pa.RecordBatch, manifest: ManifestFile) -> pa.RecordBatch:
    """The columns of a manifest's live entries, as stored, with inherited values filled in; the others are shared.
    Raises CorruptFile for row ids that no number holds."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    sequence_number = None if manifest.sequence_number == UNASSIGNED else manifest.sequence_number
    _fill(columns, layout.SNAPSHOT_ID, manifest.added_snapshot_id, None, len(batch))
    if sequence_number is not None:
        # Sequence number 0 means a v1 manifest, where it applies to every entry.
        heirs = None if sequence_number == 0 else pc.equal(columns[layout.STATUS], _int(EntryStatus.ADDED))
        for name in (layout.SEQUENCE_NUMBER, layout.FILE_SEQUENCE_NUMBER):
            _fill(columns, name, sequence_number, heirs, len(batch))
    try:
        _number_rows(columns, manifest.first_row_id, has_number=sequence_number is not None)
    except pa.ArrowInvalid as error:
        raise CorruptFile(manifest.manifest_path, f"its row ids are beyond 64 bits: {error}") from error
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _fill(columns: dict[str, pa.Array], name: str, value: int, heirs: pa.Array | None, count: int) -> None:
    """Give a value to the rows that have none. heirs: which rows may inherit it; None: all."""
    stored, one = columns.get(name), pa.scalar(value, pa.int64())
    if stored is not None and not stored.null_count:
        return
    if heirs is None or pc.all(heirs).as_py() is not False:
        columns[name] = pa.repeat(one, count) if stored is None else stored.fill_null(one)
        return
    given = pc.if_else(heirs, one, pa.scalar(None, pa.int64()))
    columns[name] = given if stored is None else pc.coalesce(stored, given)


def _number_rows(columns: dict[str, pa.Array], first_row_id: int | None, *, has_number: bool) -> None:
    stored = columns.get(layout.FIRST_ROW_ID)
    if first_row_id is None and stored is None:
        return
    is_data = pc.equal(columns[layout.CONTENT], _int(FileContent.DATA))
    nothing = pa.scalar(None, pa.int64())
    if first_row_id is None:
        # If a list gives the manifest no first row id, no file in it has one (Java: ManifestReader.idAssigner).
        if has_number:
            columns[layout.FIRST_ROW_ID] = pc.if_else(is_data, nothing, stored)
        return
    heirs = is_data if stored is None else pc.and_(is_data, stored.is_null())
    rows = pc.if_else(heirs, columns[layout.RECORD_COUNT], pa.scalar(0, pa.int64()))
    # Of the rows before each entry: its own are in the running sum as well.
    before = pc.subtract_checked(pc.cumulative_sum_checked(rows), rows)
    given = pc.if_else(heirs, pc.add_checked(before, pa.scalar(first_row_id, pa.int64())), nothing)
    columns[layout.FIRST_ROW_ID] = given if stored is None else pc.coalesce(stored, given)


def _int(value: int) -> pa.Scalar:
    return pa.scalar(int(value), pa.int32())
