"""PyIceberg's scans, planned by our planner: manifests are decoded as columns, several at once, and may be kept
decoded (setting `planning.cache-dir`).

In PyIceberg 0.12 `plan_files` is what `to_arrow`, `to_arrow_batch_reader` and `count` of a scan call, and through
`to_arrow` the calls `to_pandas`, `to_polars`, `to_duckdb` and `to_ray`. Deletes, overwrites and upserts plan scans of
their own, as do `inspect` and incremental scans: those stay PyIceberg's.

The files and residuals are those of PyIceberg's own planner. Where a delete file names its data file, as deletion
vectors do, only that file's task has it; PyIceberg gives it to all of the partition.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import orjson
from pyiceberg.expressions import AlwaysFalse, BooleanExpression
from pyiceberg.expressions.visitors import residual_evaluator_of
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.utils.properties import property_as_bool

from iceberg_hms.catalog.services import Services
from iceberg_hms.format.manifests import manifest as ours
from iceberg_hms.format.metadata.table_metadata import TableMetadata as OurMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.entries import files_of
from iceberg_hms.planning.partition_columns import ABSENT, partition_fields, partitions_of
from iceberg_hms.planning.planner import DELETES, PlannedFiles, ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.pyiceberg.errors import as_pyiceberg
from iceberg_hms.pyiceberg.filters import as_ours

_KEEPS_EMPTY: Final = "include_empty_files"


class HmsScan(DataScan):
    """A scan that our planner plans, where it can; else PyIceberg plans it."""

    _services: Services | None = None
    _ours: OurMetadata | None = None

    @classmethod
    def planned_by(cls, scan: DataScan, services: Services, metadata: OurMetadata) -> HmsScan:
        """The same scan. metadata: ours of the state that it reads."""
        made = cls(**{name: getattr(scan, name) for name in inspect.signature(DataScan).parameters})
        made._services, made._ours = services, metadata
        return made

    def update(self, **overrides: Any) -> HmsScan:
        """A copy with other parts."""
        made = super().update(**overrides)
        if made.table_metadata is self.table_metadata:
            made._services, made._ours = self._services, self._ours
        return made

    def plan_files(self) -> Iterable[FileScanTask]:
        """The files to read. Raises FileNotFoundError for a snapshot that has expired, and what PyIceberg's planner
        raises for a scan that does not fit the table."""
        planner = self._planner()
        tasks = None if planner is None else self._planned(planner)
        return super().plan_files() if tasks is None else tasks

    def _planner(self) -> ScanPlanner | None:
        """None: PyIceberg plans, whose answer or error counts then."""
        snapshot = self.snapshot()
        if self._services is None or self._ours is None or snapshot is None:
            return None
        services, schema = self._services, self.table_metadata.schema()
        try:
            request = ScanRequest(
                snapshot_id=snapshot.snapshot_id,
                filter=as_ours(self.row_filter, schema, case_sensitive=self.case_sensitive),
                stats_fields=tuple(self._ours.schema.names()),
            )
            return ScanPlanner(self._ours, request, services.ports.manifests(), services.manifest_columns)
        except (ValueError, TypeError, NotImplementedError):
            return None

    def _planned(self, planner: ScanPlanner) -> list[FileScanTask] | None:
        """None: it has equality deletes, which PyIceberg refuses in its own words."""
        made = _Tasks(self.table_metadata, planner, self.row_filter, case_sensitive=self.case_sensitive)
        keeps_empty = property_as_bool(self.options, _KEEPS_EMPTY, False)
        found: list[FileScanTask] = []
        with as_pyiceberg():
            for planned in planner.plan():
                found += (each for each in made.of(planned) if keeps_empty or each.file.record_count != 0)
                if made.has_equality_deletes:
                    return None
        return found


class _Tasks:
    """Makes PyIceberg's tasks of planned files. has_equality_deletes: whether one of them has: PyIceberg cannot read
    it."""

    def __init__(
        self,
        metadata: TableMetadata,
        planner: ScanPlanner,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool,
    ) -> None:
        self.has_equality_deletes = False
        self._metadata = metadata
        self._planner = planner
        self._filter = row_filter
        self._case_sensitive = case_sensitive
        self._residuals: dict[tuple[int, Record], BooleanExpression] = {}
        self._deletes: dict[int, DataFile] = {}

    def of(self, planned: PlannedFiles) -> Iterator[FileScanTask]:
        """The tasks of one manifest."""
        columns = planned.columns
        tuples, places = partitions_of(columns, partition_fields(self._planner.metadata, planned.spec_id))
        partitions = [Record(*(None if value is ABSENT else value for value in each)) for each in tuples]
        residuals = [self._residual(planned.spec_id, each) for each in partitions]
        deletes = columns.column(DELETES).to_pylist()
        for row, file in enumerate(files_of(columns, _FIELDS)):
            file["partition"] = partitions[places[row]]
            yield FileScanTask(
                _data_file(file, planned.spec_id), {self._delete(each) for each in deletes[row]}, residuals[places[row]]
            )

    def _residual(self, spec_id: int, partition: Record) -> BooleanExpression:
        key = spec_id, partition
        if key not in self._residuals:
            evaluator = residual_evaluator_of(
                spec=self._metadata.specs()[spec_id],
                expr=self._filter,
                case_sensitive=self._case_sensitive,
                schema=self._metadata.schema(),
            )
            found = evaluator.residual_for(partition)
            # PyIceberg takes no UUID for equal to the bytes of one. Our planner found that rows may match.
            self._residuals[key] = self._filter if found == AlwaysFalse() else found
        return self._residuals[key]

    def _delete(self, position: int) -> DataFile:
        if position not in self._deletes:
            file = self._planner.delete_files[position].data_file
            self.has_equality_deletes |= file.content == ours.FileContent.EQUALITY_DELETES
            self._deletes[position] = self._delete_file(file)
        return self._deletes[position]

    def _delete_file(self, file: ours.DataFile) -> DataFile:
        spec = self._metadata.specs()[file.spec_id]
        values = (file.partition.get(each.name) for each in spec.fields)
        described = {name: getattr(file, name) for name in (*_FIELDS, *layout.STATISTICS.values())}
        return _data_file({**described, "partition": Record(*values)}, file.spec_id)


#: Called for each file; making a member of an enumeration takes longer than the rest of its record.
_content: Final = cache(DataFileContent)
_format: Final = cache(FileFormat)
#: Of a file; PyIceberg, our records and the layout call them the same.
_FIELDS: Final = (
    layout.CONTENT,
    layout.FILE_PATH,
    layout.FILE_FORMAT,
    layout.RECORD_COUNT,
    layout.FILE_SIZE,
    layout.KEY_METADATA,
    layout.SPLIT_OFFSETS,
    layout.EQUALITY_IDS,
    layout.SORT_ORDER_ID,
)


def _data_file(described: Mapping[str, Any], spec_id: int) -> DataFile:
    """PyIceberg's record of a file, with the fields that its own reader of manifests fills."""
    made = DataFile.from_args(
        **{
            **described,
            "content": _content(described["content"]),
            "file_format": _format(described["file_format"]),
        }
    )
    made.spec_id = spec_id
    return made


def our_metadata(metadata: TableMetadata) -> OurMetadata:
    """The same state as our library has it. Raises InvalidInput for metadata that breaks the rules."""
    return OurMetadata.parse(orjson.loads(metadata.model_dump_json()))
