"""The port to Hive's own tables: what they are, what a drop of one would delete, and the removal of its row alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The folder in a Hive table's own for all that an Iceberg table in its place writes, until it is known that it stays
#: one. Hive and Spark read no folder whose name begins so.
HIDDEN_FOLDER: Final = "_iceberg"
#: The folder in that for what a migration that is killed finds again.
PROGRESS_FOLDER: Final = "migration"
#: The folder in that for new data files.
DATA_FOLDER: Final = "data"
#: The most partitions of a table that is read: their names are in memory at once.
PARTITIONS_MAX: Final = 1_000_000


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

    @property
    def last_changed(self) -> str | None:
        """When the row was last changed, in seconds since 1970 (HMS: the parameter `transient_lastDdlTime`). It is the
        expected value of `HiveTables.become_iceberg`; each change of kind sets a later one than the row had."""
        return self.parameters.get("transient_lastDdlTime")

    @property
    def gc_enabled(self) -> str | None:
        """What the row says of `gc.enabled`, Iceberg's name for whether a table owns its files: that parameter, or
        `external.table.purge`, Hive's name for it, if that is true, which it is not by default. None: nothing."""
        purge = self.parameters.get("external.table.purge", "").lower()
        return self.parameters.get("gc.enabled") or ("true" if purge == "true" else None)

    @property
    def mark(self) -> str | None:
        """The mark of the undo that made it a Hive table again, until `HiveTables.clear_mark` removes it."""
        return self.parameters.get("metadata_location")


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition of a Hive table. values: one for each partition key, as text without escapes. The others: its own,
    which may differ from the table's."""

    values: tuple[str, ...]
    location: str
    input_format: str | None
    serde: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    serde_parameters: Mapping[str, str] = field(default_factory=dict)


class HiveTables(Protocol):
    """Rows of the metastore that are not Iceberg's. All calls raise MetastoreUnavailable, AccessDenied or
    MetastoreRefused for failures before anything was sent, and none answers from a cache."""

    def load(self, name: TableName) -> HiveTable | None:
        """The Hive table with this name, if the metastore deletes its files when it is dropped: a managed one, or an
        external one with `external.table.purge`. None for any other, for a view, for an Iceberg table, and for a name
        that nothing has."""
        ...

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        """The rows of all Iceberg tables of a database; none if the database does not exist. Raises
        MetastoreUnavailable when time runs out."""
        ...

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:
        """Remove the row, whatever it is by now; files stay. Only the lock and a look under it protect it; as
        `TablePointer.drop`."""
        ...

    def names(self, namespace: str, *, timeout_seconds: float) -> Sequence[str]:
        """The names of all tables of a database that are not Iceberg's, and of no views. Raises NoSuchNamespace;
        MetastoreUnavailable when time runs out."""
        ...

    def load_row(self, name: TableName) -> HiveRow:
        """The row with this name, of a table or view that is not an Iceberg table's. Raises NoSuchTable;
        AlreadyIceberg."""
        ...

    def partitions(self, row: HiveRow) -> Iterator[HivePartition]:
        """The partitions of a table, read in pages; none of a table without partition keys. One that comes or goes
        meanwhile may be missing. Raises InvalidInput for more than `PARTITIONS_MAX`."""
        ...

    def partition_names(self, row: HiveRow) -> Sequence[str]:
        """The names of the partitions that the table has now (`month=1/day=2`), in order. Raises as `partitions`."""
        ...

    def become_iceberg(
        self, row: HiveRow, location: str, metadata: TableMetadata, saved: str, sending: Sending
    ) -> SwapAnswer:
        """Turn the row of a Hive table into that of an external Iceberg table, with `row.last_changed` as the expected
        value; only the lock protects a row that has none. The row's own parameters and its columns stay, and so do its
        partition keys and partitions, which no release of the metastore lets anybody change.

        location: of the metadata file with `metadata`. saved: where the row is kept as it was (`HIVE_TABLE`). Answers
        as `TablePointer.swap`."""
        ...

    def become_hive(self, base: Pointer, row: HiveRow, mark: str, sending: Sending) -> SwapAnswer:
        """Turn the row of an Iceberg table back into `row`, under the name that it has now, with
        `base.metadata_location` as the expected value. A metastore that compares wants a new value in its place: that
        is `mark`, a text that was never used before, which says nothing to any reader of the row. Answers as
        `TablePointer.swap`."""
        ...

    def clear_mark(self, row: HiveRow, sending: Sending) -> SwapAnswer:
        """Remove the mark from a row that `become_hive` made, with `row.last_changed` as the expected value."""
        ...

    def encode(self, row: HiveRow) -> str:
        """The whole record of a row as text, also what `HiveRow` does not have."""
        ...

    def decode(self, name: TableName, text: str) -> HiveRow:
        """The row that was encoded, under a name. Raises InvalidInput for any other text."""
        ...
