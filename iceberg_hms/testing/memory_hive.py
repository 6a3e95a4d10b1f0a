"""Hive tables in memory, in the rows of a MemoryTablePointer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iceberg_hms.coordinator.hive_ports import HiveTable
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.tables.parameters import is_iceberg, is_purged
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer


class MemoryHiveTables:
    """coordinator.hive_ports.HiveTables.

    partitions: the folders of a table's partitions. slow: searches run out of time."""

    def __init__(self, tables: MemoryTablePointer) -> None:
        self.tables = tables
        self.partitions: dict[TableName, list[str]] = {}
        self.slow = False
        self._created: dict[TableName, int] = {}

    def add(
        self,
        name: TableName,
        location: str,
        table_type: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        """Add a row of a table that is not Iceberg's."""
        self.tables.rows[name] = MemoryRow(dict(parameters or {}), location=location, table_type=table_type)
        self.partitions[name] = list(partitions)
        self._created[name] = len(self._created)

    def load(self, name: TableName) -> HiveTable | None:
        """As the port says."""
        row = self.tables.rows.get(name)
        if row is None or is_iceberg(row.parameters) or row.location is None:
            return None
        if not is_purged(row.table_type, row.parameters):
            return None
        return HiveTable(name, row.location, self._created.get(name, 0), bool(self.partitions.get(name)))

    def partition_folders(self, table: HiveTable, *, timeout_seconds: float) -> Iterator[str]:
        """As the port says."""
        self._look_at_the_clock(timeout_seconds)
        yield from self.partitions[table.name]

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        """As the port says."""
        self._look_at_the_clock(timeout_seconds)
        if namespace in self.tables.metastore.databases:
            for name in self.tables.list_tables(namespace):
                yield self.tables.load(TableName(namespace, name))

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:  # noqa: ARG002 - the port's
        """As the port says."""
        return self.tables.change("drop_hive", table.name, lambda: self.tables.metastore.remove(table.name))

    def _look_at_the_clock(self, timeout_seconds: float) -> None:
        if self.slow or timeout_seconds <= 0:
            raise MetastoreUnavailable("There was no time to read all rows", next_step="")
