"""Scans: which files a reader of a table reads, found by its manifests alone. No data file is opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.snapshot_changes import snapshot_id_of
from iceberg_hms.catalog.time_travel import Timestamp, as_millis, snapshot_as_of
from iceberg_hms.changes.operations.schema.seen_columns import find_column
from iceberg_hms.clock import instant
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.expressions.expression import ALWAYS_TRUE, Expression
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import SPLIT_LOOKBACK, SPLIT_OPEN_FILE_COST, SPLIT_SIZE
from iceberg_hms.planning import layout
from iceberg_hms.planning.plan_table import PlanTable
from iceberg_hms.planning.planner import DELETES, RESIDUAL, PlannedFiles, ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.planning.scan_files import scan_files
from iceberg_hms.planning.splits import ScanFile, ScanTaskGroup, pack


class Scan:
    """A scan of one snapshot of a table. Each call reads the manifests that may have files with matching rows, several
    at once, and no others; a cache keeps them decoded (setting `planning.cache-dir`).

    snapshot: what it reads; None for a table without one. columns: the names that the caller gave; None: all.

    What plans raises MissingFile if the snapshot has expired since the table was loaded; CorruptFile and StorageError,
    which name the file; ResourceExhausted.
    """

    def __init__(self, name: str, metadata: TableMetadata, request: ScanRequest, services: Services) -> None:
        self._name = name
        self._metadata = metadata
        self._request = request
        self._services = services
        # Says at once what does not fit the table.
        planner = self._planner()
        self.snapshot: Snapshot | None = planner.snapshot
        self.columns: tuple[str, ...] | None = request.columns
        _check_columns(planner, request)

    def __repr__(self) -> str:
        snapshot = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"
        where = "" if self._request.filter == ALWAYS_TRUE else f", where={str(self._request.filter)!r}"
        columns = "" if self.columns is None else f", columns={list(self.columns)}"
        return f"Scan({self._name}, {snapshot}{where}{columns})"

    def plan(self) -> pa.Table:
        """The files to read, as an Arrow table: see `planning.plan_table`. A million files take some 300 MB."""
        batches = list(self.to_batches())
        return pa.Table.from_batches(batches, PlanTable(self._metadata).schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The same manifest by manifest, in the order of the manifest list: without waiting for the last one, and
        without memory for all."""
        planner, table = self._planner(), PlanTable(self._metadata)
        for planned in _planned(planner):
            yield table.batch(planned, planner.delete_files, planner.residuals)

    def files(self) -> Iterator[ScanFile]:
        """The same as records."""
        planner = self._planner()
        for planned in _planned(planner):
            yield from scan_files(planned, self._metadata, planner.delete_files, planner.residuals)

    def tasks(
        self, split_size: int | None = None, open_cost: int | None = None, lookback: int | None = None
    ) -> Iterator[ScanTaskGroup]:
        """The files split and packed into groups of about the same size, as Java packs them for the tasks of an engine.

        split_size: of a group, in bytes. open_cost: bytes that each file counts as, at least. lookback: between how
        many open groups a part of a file may choose. By default as the table's properties say (`read.split.*`), or
        128 MiB, 4 MiB and 10. Raises InvalidInput for numbers that cannot be."""
        properties = self._metadata.properties
        return pack(
            self.files(),
            SPLIT_SIZE.of(properties) if split_size is None else split_size,
            SPLIT_LOOKBACK.of(properties) if lookback is None else lookback,
            SPLIT_OPEN_FILE_COST.of(properties) if open_cost is None else open_cost,
        )

    def count(self) -> int | None:
        """How many rows the scan returns, if manifests alone tell: of no file only some rows match, and no file has
        deletes. None if they do not: a reader has to look into files then."""
        planner, rows = self._planner(), 0
        for planned in _planned(planner):
            columns = planned.columns
            left = {at for at in columns.column(RESIDUAL).unique().to_pylist() if planner.residuals[at] != ALWAYS_TRUE}
            if left or pc.any(pc.greater(pc.list_value_length(columns.column(DELETES)), 0)).as_py():
                return None
            rows += pc.sum(columns.column(layout.RECORD_COUNT)).as_py() or 0
        return rows

    def _planner(self) -> ScanPlanner:
        services = self._services
        return ScanPlanner(self._metadata, self._request, services.ports.manifests(), services.manifest_columns)


def scan_of(
    name: str,
    metadata: TableMetadata,
    services: Services,
    *,
    where: Expression,
    columns: Sequence[str] | None,
    snapshot_id: int | None,
    branch: str | None,
    as_of: Timestamp | None,
    case_sensitive: bool,
) -> Scan:
    """A scan. Arguments and errors as `Table.scan`."""
    if sum(each is not None for each in (snapshot_id, branch, as_of)) > 1:
        raise InvalidInput("a scan reads one snapshot", next_step="give snapshot_id, branch or as_of, not two of them")
    if branch is not None:
        snapshot_id = snapshot_id_of(metadata, branch)
    elif as_of is not None:
        snapshot_id = _as_of(metadata, as_of)
    ref = None if branch is None else metadata.ref(branch)
    request = ScanRequest(
        snapshot_id=snapshot_id,
        filter=where,
        columns=None if columns is None else tuple(columns),
        case_sensitive=case_sensitive,
        # As in Java: the columns of a branch are those of the table.
        use_snapshot_schema=snapshot_id is not None and (ref is None or not ref.is_branch),
    )
    return Scan(name, metadata, request, services)


def _as_of(metadata: TableMetadata, as_of: Timestamp) -> int:
    at = as_millis(as_of)
    found = snapshot_as_of(metadata, at)
    if found is None:
        raise InvalidInput(
            f"the table has no snapshot that was current at {instant(at)}",
            next_step="history() says since when it has any; earlier ones have expired",
        )
    return found.snapshot_id


def _check_columns(planner: ScanPlanner, request: ScanRequest) -> None:
    for name in request.columns or ():
        if find_column(planner.schema, name, case_sensitive=request.case_sensitive) is None:
            known = ", ".join(field.name for field in planner.schema.fields)
            raise InvalidInput(f"there is no column {name}", next_step=f"the table has {known}")


def _planned(planner: ScanPlanner) -> Iterator[PlannedFiles]:
    """The planned files of all manifests that have any."""
    try:
        yield from (each for each in planner.plan() if each.columns.num_rows)
    except MissingFile as error:
        error.next_step = (
            "the snapshot may have expired since the table was loaded: `refresh` the table and scan it anew; if the "
            "file is still missing, the table is damaged"
        )
        raise
