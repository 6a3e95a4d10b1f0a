"""Rows of Hive tables: the HiveTables port over Thrift (`kind_of_row.py` says what changes in a row)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.hive_ports import PARTITIONS_MAX, HivePartition, HiveRow, HiveTable
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, Refused, Sending, SwapAnswer, Swapped, TableName
from iceberg_hms.errors import AlreadyIceberg, InvalidInput, NoSuchTable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.compare_and_swap.row_write import ReadRow, fault_of
from iceberg_hms.metastore.connection.faults import COLUMNS_REFUSED, Fault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables import kind_of_row
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION, is_iceberg, is_purged
from iceberg_hms.metastore.tables.partitions import PartitionRows
from iceberg_hms.metastore.tables.rows import HmsRows
from iceberg_hms.metastore.tables.table_names import TableNames
from iceberg_hms.metastore.tables.table_pointer import pointer_of

_VIEW: Final = "_VIEW"


class HmsHiveTables:
    """coordinator.hive_ports.HiveTables on a metastore."""

    def __init__(self, pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_parameter_size = settings.table_property_max_size
        self._clock = clock
        self._partitions = PartitionRows(pool)
        self._rows = HmsRows(pool, clock, kind="Table", missing=NoSuchTable)
        self._names = TableNames(pool, clock=clock)

    def load(self, name: TableName) -> HiveTable | None:
        try:
            row = self._rows.load(name)
        except NoSuchTable:
            return None
        parameters = row.parameters or {}
        if is_iceberg(parameters) or not is_purged(row.tableType, parameters) or row.sd is None or not row.sd.location:
            return None
        return HiveTable(name, row.sd.location, row.createTime or 0, bool(row.partitionKeys))

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        for row in self._names.iceberg_rows(namespace, seconds=timeout_seconds):
            if row.parameters.get(METADATA_LOCATION):
                yield pointer_of(TableName(namespace, row.tableName), row)

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        return self._rows.drop(table.name, sending)

    def names(self, namespace: str, *, timeout_seconds: float) -> Sequence[str]:
        rows = list(self._names.rows_of(namespace, seconds=timeout_seconds))
        if not rows:
            self._rows.check_namespace(namespace)
        return sorted(
            row.tableName
            for row in rows
            if not is_iceberg(row.parameters or {}) and not (row.tableType or "").upper().endswith(_VIEW)
        )

    def load_row(self, name: TableName) -> HiveRow:
        row = self._rows.load(name)
        parameters = row.parameters or {}
        if is_iceberg(parameters):
            raise AlreadyIceberg(name, parameters.get(HIVE_TABLE))
        return kind_of_row.hive_row(name, row)

    def partitions(self, row: HiveRow) -> Iterator[HivePartition]:
        for partition in self._partitions.records(row.name, self.partition_names(row)):
            yield kind_of_row.hive_partition(row.name, partition)

    def become_iceberg(
        self, row: HiveRow, location: str, metadata: TableMetadata, saved: str, sending: Sending
    ) -> SwapAnswer:
        record = kind_of_row.iceberg_record(
            row, location, metadata, saved, self._now_seconds(), self._max_parameter_size
        )
        return self._rows.replace(kind_of_row.read_row(row), record, sending)

    def become_hive(self, base: Pointer, row: HiveRow, mark: str, sending: Sending) -> SwapAnswer:
        record = kind_of_row.hive_record(base, row, mark, self._now_seconds())
        answer = self._rows.replace(ReadRow.of(base), record, sending)
        if fault_of(answer) is Fault.INCOMPATIBLE_COLUMNS:
            # The metastore compares as many columns as both rows have.
            answer = self._rows.replace(ReadRow.of(base), kind_of_row.without_columns(base), sending)
            if isinstance(answer, Swapped):
                answer = self._rows.replace(ReadRow.of(base), record, sending)
        if fault_of(answer) in COLUMNS_REFUSED:
            return Refused(False, _columns_stay(base.name))
        return answer

    def clear_mark(self, row: HiveRow, sending: Sending) -> SwapAnswer:
        record = kind_of_row.unmarked_record(row, self._now_seconds())
        return self._rows.replace(kind_of_row.read_row(row), record, sending)

    def encode(self, row: HiveRow) -> str:
        return kind_of_row.encode(row)

    def decode(self, name: TableName, text: str) -> HiveRow:
        return kind_of_row.decode(name, text)

    def partition_names(self, row: HiveRow) -> Sequence[str]:
        if not row.partition_keys:
            return []
        names = self._partitions.names(row.name)
        if len(names) > PARTITIONS_MAX:
            raise InvalidInput(
                f"{row.name} has more than {PARTITIONS_MAX} partitions",
                next_step="write its rows into a new Iceberg table with fewer partitions",
            )
        return sorted(names)

    def _now_seconds(self) -> int:
        return self._clock.now_ms() // 1000


def _columns_stay(name: TableName) -> InvalidInput:
    return InvalidInput(
        f"The metastore does not take back the columns that {name} had: "
        "hive.metastore.disallow.incompatible.col.type.changes is set, or hive.metastore.limit.partition.request to "
        "fewer partitions than it has",
        next_step="change that in the metastore's configuration, and try again; it is an Iceberg table as before",
    )
