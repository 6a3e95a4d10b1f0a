"""The port to Hive's own tables: what they are, what a drop of one would delete, and the removal of its row alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """A column as the metastore has it. type: in Hive's text, as `array<struct<a:int>>`."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class HiveRow:
    """A row that is not Iceberg's, as it was read: of a table of Hive's or Spark's, or of a view.

    table_type: HMS: tableType. columns: those of the files; partition_keys: those of the folders, in their order.
    location: the table's folder; None for a view. input_format, serde: names of Java classes.
    bucket_columns: none, with num_buckets 0 or less, if it has no buckets. table: the driver's own record of the row.
    """

    name: TableName
    table_type: str
    parameters: Mapping[str, str]
    columns: Sequence[HiveColumn]
    partition_keys: Sequence[HiveColumn]
    location: str | None
    input_format: str | None
    serde: str | None
    serde_parameters: Mapping[str, str]
    bucket_columns: Sequence[str]
    num_buckets: int
    owner: str | None
    table: Any = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition of a Hive table. values: one for each partition key, as text without escapes. input_format, serde:
    its own, which may differ from the table's."""

    values: tuple[str, ...]
    location: str
    input_format: str | None
    serde: str | None


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
