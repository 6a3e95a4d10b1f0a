"""Tables whose scans Java's clients plan themselves, because they cannot do with what the protocol says of files.

The protocol's files have no sequence numbers. Java makes `_last_updated_sequence_number` of them (format version 3),
and has null instead: a copy-on-write statement or a compaction writes it for the rows that it copies, which look as if
they were updated then. And Java's parser reads no NaN, which a partition by a column of floats may have.

Java obeys the mode in a table's configuration before its own (RESTSessionCatalog). PyIceberg does not look at it, and
has neither problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.transforms import IdentityTransform
from iceberg_hms.format.schema.types import FLOATING
from iceberg_hms.rest.settings import PLANNING_MODE, RestSettings, ScanPlanning

#: The first format version whose rows have the numbers of their last updates.
_TRACKS_ROWS: Final = 3


def table_properties(settings: RestSettings, metadata: TableMetadata) -> Mapping[str, str]:
    """What clients get with a table as its configuration, besides credentials. A mode in `rest.table-config` is that of
    every table."""
    given = settings.table_config
    if settings.rest_scan_planning == ScanPlanning.OFF or PLANNING_MODE in given or not _harms_java(metadata):
        return given
    return {**given, PLANNING_MODE: "client"}


def _harms_java(metadata: TableMetadata) -> bool:
    if metadata.format_version >= _TRACKS_ROWS:
        return True
    return any(_may_be_nan(each, metadata) for spec in metadata.specs_by_id.values() for each in spec.fields)


def _may_be_nan(field: PartitionField, metadata: TableMetadata) -> bool:
    if not isinstance(field.transform, IdentityTransform):
        return False
    # A dropped column is in former schemas alone, of which there may be many.
    schemas = (metadata.schema, *reversed(metadata.schemas))
    column = next((found for each in schemas if (found := each.field(field.source_id)) is not None), None)
    return column is not None and values.kind_of(column.type) in FLOATING
