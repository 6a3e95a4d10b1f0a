"""The metadata columns of row lineage in data files (spec: Row Lineage, Reserved Field IDs), and what is known of them.

A file that has only new rows lacks them, and its rows get their ids from its `first_row_id`. A file with rows that the
table had already carries them: a value in it is the row's own, whatever the file's entry says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema import types, values
from iceberg_hms.format.schema.types import NestedField

#: The first format version whose tables track rows.
LINEAGE_VERSION: Final = 3
ROW_ID: Final = NestedField(2147483540, "_row_id", types.LONG)
LAST_UPDATED: Final = NestedField(2147483539, "_last_updated_sequence_number", types.LONG)
#: By field id.
LINEAGE_COLUMNS: Final[Mapping[int, NestedField]] = {each.id: each for each in (ROW_ID, LAST_UPDATED)}


@dataclass(frozen=True, slots=True)
class LineageValues:
    """What is known of the values of one such column in one file. nulls: how many rows have none.
    least, greatest: the bounds of the others. None: unknown, or no value."""

    nulls: int | None = None
    least: int | None = None
    greatest: int | None = None


#: The columns that one file carries, by field id.
RowLineage = Mapping[int, LineageValues]


def stated_lineage(file: DataFile) -> RowLineage:
    """What a record's metrics say. Java's writers count these columns as all others; they leave them out in Avro files,
    and where `write.metadata.metrics.*` or the number of the table's columns leaves out columns. So a record without
    them proves nothing. Raises InvalidInput for a bound that is no long."""
    counts = [each for each in (file.null_value_counts, file.value_counts, file.column_sizes) if each]
    nulls, lower, upper = file.null_value_counts or {}, file.lower_bounds or {}, file.upper_bounds or {}
    return {
        id_: LineageValues(nulls.get(id_), _long(lower.get(id_)), _long(upper.get(id_)))
        for id_ in LINEAGE_COLUMNS
        if any(id_ in each for each in counts)
    }


def states_lineage(file: DataFile) -> bool:
    """Whether a record proves that its file carries both columns, and in how many rows they are null."""
    return (file.null_value_counts or {}).keys() >= LINEAGE_COLUMNS.keys()


def _long(bound: bytes | None) -> int | None:
    return None if bound is None else int(values.from_bytes(types.LONG, bound))
