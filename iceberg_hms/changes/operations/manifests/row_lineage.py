"""What keeps the row ids of a table right (spec: Row Lineage). Java's operations check none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.lineage_columns import (
    LAST_UPDATED,
    LINEAGE_COLUMNS,
    LINEAGE_VERSION,
    ROW_ID,
    RowLineage,
)
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that a rewrite keeps the ids of its rows, which may have got them since it
#: was planned.
ROW_IDS_KEPT: Final = "row-ids-kept"
_COPY: Final = (
    f"write both columns, {ROW_ID.name} and {LAST_UPDATED.name}, with the values that readers of this table give, and "
    f"with their field ids {ROW_ID.id} and {LAST_UPDATED.id}"
)


def refuse_values_of_new_rows(file: DataFile, lineage: RowLineage) -> None:
    """Raises InvalidInput for a file of new rows that carries values, or may: both columns are null in a row that is
    added, so that it inherits them. Another row of the table would have the same id."""
    for id_, carried in lineage.items():
        if carried.nulls != file.record_count:
            raise InvalidInput(
                f"{file.file_path} carries values of {LINEAGE_COLUMNS[id_].name}, or does not say that all are null; "
                "but the rows of an append are new, and get theirs by the commit",
                next_step="write the file without the column; rows that the table has already may come with `rewrite`, "
                "`overwrite`, `replace_partitions` or `row_delta`",
            )


def refuse_unassigned_values(file: DataFile, lineage: RowLineage, base: TableMetadata) -> None:
    """Raises InvalidInput for a file that carries values which the table has not given to any row yet, such as the file
    of another table: rows that come later would get the same ids."""
    if base.format_version < LINEAGE_VERSION:
        return
    ends = {ROW_ID.id: base.next_row_id, LAST_UPDATED.id: base.last_sequence_number + 1}
    for id_, carried in lineage.items():
        least, greatest = carried.least, carried.greatest
        if (least is not None and least < 0) or (greatest is not None and greatest >= ends[id_]):
            raise InvalidInput(
                f"{file.file_path} has {LINEAGE_COLUMNS[id_].name} from {least} to {greatest}, and the table has only "
                f"given such as are below {ends[id_]}",
                next_step=f"{_COPY}; leave them out of a file whose rows are all new",
            )


def refuse_lost_row_ids(
    removed: Iterable[DataFile], added: Iterable[DataFile], lineage: Callable[[DataFile], RowLineage]
) -> None:
    """Raises RequirementFailed if rows that are moved from the removed data files to the added ones would get new ids,
    or would seem to be updated.

    removed: with the `first_row_id` that they have in the branch; None where rows have no ids yet: those of a table
    that was upgraded from version 2, until its next snapshot. lineage: the columns that an added file carries. A column
    of which the nulls are unknown counts as one without."""
    without = sum(each.record_count for each in removed if each.first_row_id is None)
    files = list(added)
    for column in LINEAGE_COLUMNS.values():
        lacking = 0
        for file in files:
            carried = lineage(file).get(column.id)
            nulls = file.record_count if carried is None else carried.nulls or 0
            lacking += nulls
            if lacking > without:
                raise RequirementFailed(
                    ROW_IDS_KEPT,
                    f"{file.file_path} has no {column.name} for {nulls} of its rows, which have one in the files that "
                    "are replaced",
                    expected=f"at most {without} rows without",
                    found=lacking,
                    next_step=f"{_COPY}; if others may get new ids, remove and append the files in one transaction",
                )
