"""The port to Hive's own tables: what a drop of one would delete, and the removal of its row alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName


@dataclass(frozen=True, slots=True)
class HiveTable:
    """The row of a Hive table whose files a drop deletes.

    folder: HMS: the location of its storage descriptor. created: HMS: createTime, seconds since 1970; a rename keeps
    it. is_partitioned: its partitions may have folders elsewhere."""

    name: TableName
    folder: str
    created: int
    is_partitioned: bool = field(compare=False, default=False)


class HiveTables(Protocol):
    """Rows of the metastore that are not Iceberg's. All calls raise MetastoreUnavailable, AccessDenied or
    MetastoreRefused for failures before anything was sent, and none answers from a cache."""

    def load(self, name: TableName) -> HiveTable | None:
        """The Hive table with this name, if the metastore deletes its files when it is dropped: a managed one, or an
        external one with `external.table.purge`. None for any other, for a view, for an Iceberg table, and for a name
        that nothing has."""
        ...

    def partition_folders(self, table: HiveTable, *, timeout_seconds: float) -> Iterator[str]:
        """The folders of all its partitions. Raises MetastoreUnavailable when time runs out."""
        ...

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        """The rows of all Iceberg tables of a database; none if the database does not exist. Raises
        MetastoreUnavailable when time runs out."""
        ...

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        """Remove the row, whatever it is by now; files stay. Only the lock and a look under it protect it; as
        `TablePointer.drop`."""
        ...
