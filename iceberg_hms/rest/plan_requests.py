"""Reads requests for plans (REST spec: PlanTableScanRequest): what they ask for, once and for all tasks of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from iceberg_hms.changes.operations.schema.seen_columns import find_column
from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import ALWAYS_TRUE, column_names
from iceberg_hms.expressions.json_form import from_json
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.transforms import IdentityTransform
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.rest.payloads import Fields
from iceberg_hms.rest.plan_tokens import PlannedScan
from iceberg_hms.rest.rewriting_scans import may_rewrite

#: Bytes of a filter: each task of the plan repeats it.
FILTER_BYTES_MAX: Final = 4 * 1024 * 1024
_LONGS: Final = range(-(2**63), 2**63)
#: Kinds of values that are texts in JSON, but for texts and UUIDs, which PyIceberg reads.
_KEPT_AS_TEXT: Final = frozenset(
    {"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "decimal", "binary", "fixed"}
)
_BY_THE_CLIENT: Final = "plan this scan in the client: scan-planning-mode=client"


def identity_of(metadata: TableMetadata) -> str:
    """What tells a table from others: tables of old writers have no UUID."""
    return metadata.uuid or metadata.location


def parsed(fields: Mapping[str, Any], metadata: TableMetadata) -> PlannedScan:
    """The scan that the body of a request names. Raises InvalidInput."""
    asked = Fields(fields)
    snapshot, start, end = (_long(fields, name) for name in ("snapshot-id", "start-snapshot-id", "end-snapshot-id"))
    if snapshot is not None and (start is not None or end is not None):
        raise InvalidInput("A scan names snapshot-id, or start-snapshot-id and end-snapshot-id, not both")
    if (start is None) != (end is None):
        raise InvalidInput("An incremental scan names both start-snapshot-id and end-snapshot-id")
    chosen = snapshot if end is None else end
    # Which columns are read changes nothing but this: engines name columns of their own, too.
    asked.strings("select")
    by_snapshot = asked.flag("use-snapshot-schema")
    scan = PlannedScan(
        table=identity_of(metadata),
        snapshot_id=metadata.current_snapshot_id if chosen is None else chosen,
        schema_id=metadata.current_schema_id,
        start_snapshot_id=start,
        filter=_filter(fields),
        case_sensitive=fields.get("case-sensitive") is None or asked.flag("case-sensitive"),
        # Java asks so for the current snapshot as well, and names the columns of the table's schema.
        use_snapshot_schema=by_snapshot and chosen != metadata.current_snapshot_id,
        stats_fields=tuple(asked.strings("stats-fields")),
        min_rows=_long(fields, "min-rows-requested"),
        has_residuals=not may_rewrite(fields, metadata),
    )
    if chosen is not None and not (by_snapshot and chosen == metadata.current_snapshot_id):
        _refuse_ambiguous(scan, metadata)
    return scan


def request_of(scan: PlannedScan) -> ScanRequest:
    """The same for the planner."""
    return ScanRequest(
        snapshot_id=scan.snapshot_id,
        start_snapshot_id=scan.start_snapshot_id,
        filter=ALWAYS_TRUE if scan.filter is None else from_json(scan.filter),
        stats_fields=scan.stats_fields,
        case_sensitive=scan.case_sensitive,
        use_snapshot_schema=scan.use_snapshot_schema,
        min_rows=scan.min_rows,
    )


def _filter(fields: Mapping[str, Any]) -> Any:
    """The filter of a request, None if it has none. Null is no filter: a scan of all rows would be another one than its
    client meant."""
    if "filter" not in fields:
        return None
    found = fields["filter"]
    if len(orjson.dumps(found)) > FILTER_BYTES_MAX:
        raise InvalidInput(f"The filter has more than {FILTER_BYTES_MAX} bytes", next_step=_BY_THE_CLIENT)
    from_json(found)
    return found


def _refuse_ambiguous(scan: PlannedScan, metadata: TableMetadata) -> None:
    """Refuse a name that is one column for the snapshot's writer and another one today. Stock clients use the names of
    either, whatever they ask for: PyIceberg of the snapshot's schema for a snapshot, Java of today's for a branch. By
    the wrong column the plan would lack files."""
    snapshot = None if scan.snapshot_id is None else metadata.snapshot_by_id(scan.snapshot_id)
    written = None if snapshot is None or snapshot.schema_id is None else metadata.schema_by_id(snapshot.schema_id)
    if written is None or written.schema_id == metadata.current_schema_id:
        return
    for name in _names(scan):
        schemas = (written, metadata.schema)
        found = [find_column(each, name, case_sensitive=scan.case_sensitive) for each in schemas]
        if len({each.id for each in found if each is not None}) > 1:
            raise InvalidInput(
                f"{name} is another column in the schema of snapshot {scan.snapshot_id} than in the table's",
                next_step=_BY_THE_CLIENT,
            )


def check_for_pyiceberg(scan: PlannedScan, metadata: TableMetadata) -> None:
    """Refuse a filter that PyIceberg 0.12 would apply to the text of a partition's value, by which no row matches.

    It takes a column that a file lacks from the file's partition, and keeps dates, times, decimals and bytes as they
    are in JSON. Files of Hive lack the columns of their partitions; their tables have a name mapping. Raises
    InvalidInput."""
    if NAME_MAPPING not in metadata.properties:
        return
    fields = [each for spec in metadata.specs_by_id.values() for each in spec.fields]
    sources = {each.source_id for each in fields if isinstance(each.transform, IdentityTransform)}
    for name in column_names(request_of(scan).filter):
        column = find_column(metadata.schema, name, case_sensitive=scan.case_sensitive)
        if column is not None and column.id in sources and values.kind_of(column.type) in _KEPT_AS_TEXT:
            raise InvalidInput(
                f"PyIceberg misreads {name} where files lack it and partitions have it", next_step=_BY_THE_CLIENT
            )


def _names(scan: PlannedScan) -> Iterable[str]:
    return {*column_names(request_of(scan).filter), *scan.stats_fields}


def _long(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value not in _LONGS):
        raise InvalidInput(f"Field {name} must be a whole number of 64 bits")
    return value
