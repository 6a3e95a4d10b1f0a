"""Rows of Hive tables whose files a drop deletes: the HiveTables port over Thrift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.hive_ports import HiveTable
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION, is_iceberg, is_purged
from iceberg_hms.metastore.tables.rows import HmsRows
from iceberg_hms.metastore.tables.table_names import TableNames
from iceberg_hms.metastore.tables.table_pointer import pointer_of

_PARTITIONS_PER_CALL: Final = 500


class HmsHiveTables:
    """coordinator.hive_ports.HiveTables on a metastore."""

    def __init__(self, pool: ClientPool, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock
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

    def partition_folders(self, table: HiveTable, *, timeout_seconds: float) -> Iterator[str]:
        deadline = self._clock.monotonic() + timeout_seconds
        arguments = {"db_name": table.name.namespace, "tbl_name": table.name.name}
        names = self._pool.ask("get_partition_names", **arguments, max_parts=-1)
        for start in range(0, len(names), _PARTITIONS_PER_CALL):
            if self._clock.monotonic() > deadline:
                raise MetastoreUnavailable(f"{table.name} has too many partitions to read them in time", next_step="")
            some = names[start : start + _PARTITIONS_PER_CALL]
            for partition in self._pool.ask("get_partitions_by_names", **arguments, names=some):
                if partition.sd is not None and partition.sd.location:
                    yield partition.sd.location

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        for row in self._names.iceberg_rows(namespace, seconds=timeout_seconds):
            if row.parameters.get(METADATA_LOCATION):
                yield pointer_of(TableName(namespace, row.tableName), row)

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        return self._rows.drop(table.name, sending)
