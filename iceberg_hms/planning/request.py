"""What a scan asks for."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import ALWAYS_TRUE, Expression


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan of a snapshot, or of what the snapshots after one appended.

    snapshot_id: of the snapshot to read; None: the current one of the main branch. start_snapshot_id: only files that
    the snapshots after this one, up to `snapshot_id`, appended (Java: IncrementalAppendScan); None: all files.
    filter: rows that are wanted; files that can have none are left out. case_sensitive: how the filter, and the names
    below, find columns.
    columns: names of the columns that are read; None: all. Nobody checks them, since engines have columns of their own.
    stats_fields: names of the columns whose statistics are part of the plan; None: of none.
    use_snapshot_schema: whether names are rather those of the schema that an old snapshot was written with.
    min_rows: how many rows are enough, or more; None: all.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    filter: Expression = ALWAYS_TRUE
    columns: tuple[str, ...] | None = None
    stats_fields: tuple[str, ...] | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    min_rows: int | None = None

    def __post_init__(self) -> None:
        if self.start_snapshot_id is not None and self.snapshot_id is None:
            raise InvalidInput("an incremental scan names its last snapshot, too", next_step="give both snapshots")
        if self.min_rows is not None and self.min_rows < 0:
            raise InvalidInput(f"a scan cannot ask for {self.min_rows} rows")
