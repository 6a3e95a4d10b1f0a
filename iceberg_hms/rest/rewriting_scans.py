"""Which scans may be those of clients that write the scanned files anew, and so must read all of their rows.

A copy-on-write DELETE, UPDATE or MERGE of Spark, and the compactions of Spark and Flink, choose files by a filter and
copy every other row of them. Java's planner leaves out residuals then (`Scan.ignoreResiduals`), but RESTTableScan 1.11
does not tell the server so, and its readers leave out the row groups and stripes that a residual excludes: their rows
are lost. So the answers to such scans have no residual but `true`. Spark and Flink filter the rows of other scans
themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The metadata column by which Spark's copy-on-write finds the files that it replaces.
_FILE: Final = "_file"


def may_rewrite(fields: Mapping[str, Any], metadata: TableMetadata) -> bool:
    """Whether the files of a scan may be written anew. fields: the body of `planTableScan`.

    Such a scan names its snapshot, by which Java asks for the snapshot's schema, and reads all columns. Also true for
    each scan of this kind that reads a snapshot with another schema than the table's: Java binds residuals to the
    table's (RESTFileScanTaskParser), where their columns may have other names, other types, or be gone.
    """
    snapshot_id = fields.get("snapshot-id")
    if snapshot_id is None or not fields.get("use-snapshot-schema"):
        return False
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None or snapshot.schema_id not in (None, metadata.current_schema_id):
        return True
    selected = fields.get("select") or ()
    return _FILE in selected or _has_all(selected, [each.name for each in metadata.schema.fields])


def _has_all(selected: Iterable[str], columns: Iterable[str]) -> bool:
    """Whether each column, or something within it, is selected. No selection is all columns."""
    names = list(selected)
    known = {*names, *(name[:at] for name in names for at, each in enumerate(name) if each == ".")}
    return not names or known.issuperset(columns)
