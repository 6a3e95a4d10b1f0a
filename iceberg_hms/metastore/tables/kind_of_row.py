"""The row of a Hive table, and what a table's row is when it becomes an Iceberg table in place, and a Hive table again.

Both changes are alters of the row as it was read. What the releases make of that was measured (2.3.10, 3.1.3, 4.1.0):

    transient_lastDdlTime   each release sets it if the new row lacks it, and keeps the value that the new row has. So
                            it can be compared where compare-and-swap is atomic, if the new row has another value.
                            Hive and Spark set it to the second of their change: two changes within one second are one.
    metadata_location       a release that compares refuses a new row without the parameter that it compares. So a table
                            becomes a Hive table with a mark in its place, and loses that in a second alter.
    columns                 an alter that changes them leaves those of the partitions as they are, unless it asks for
                            CASCADE, which none of ours does. They follow the schema of the Iceberg table; the way back
                            writes those of the Hive table.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from iceberg_hms.coordinator.hive_ports import HiveColumn, HivePartition, HiveRow
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.compare_and_swap.row_write import ReadRow
from iceberg_hms.metastore.connection.thrift_types import Table
from iceberg_hms.metastore.tables.columns import storage_descriptor
from iceberg_hms.metastore.tables.parameters import (
    EXTERNAL,
    EXTERNAL_TABLE,
    LAST_CHANGED,
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    hive_engine_enabled,
    parameters_for,
)

#: How the parameters begin by which Spark takes the row for a table of another data source.
_SPARK_SOURCE: Final = "spark.sql.sources."


def hive_row(name: TableName, table: Any) -> HiveRow:
    """The port's view of a row's record."""
    sd = table.sd
    serde = None if sd is None else sd.serdeInfo
    return HiveRow(
        name=name,
        table_type=table.tableType or "",
        parameters=dict(table.parameters or {}),
        columns=_columns(None if sd is None else sd.cols),
        partition_keys=_columns(table.partitionKeys),
        location=None if sd is None else sd.location or None,
        input_format=None if sd is None else sd.inputFormat,
        serde=None if serde is None else serde.serializationLib,
        serde_parameters=dict((None if serde is None else serde.parameters) or {}),
        bucket_columns=tuple((None if sd is None else sd.bucketCols) or ()),
        num_buckets=(None if sd is None else sd.numBuckets) or 0,
        owner=table.owner,
        table=table,
    )


def hive_partition(name: TableName, partition: Any) -> HivePartition:
    """The port's view of a partition's record. Raises InvalidInput if it has no folder."""
    sd = partition.sd
    values = tuple(partition.values or ())
    if sd is None or not sd.location:
        raise InvalidInput(
            f"The partition {values} of {name} has no folder in the metastore",
            next_step="drop the partition, or give it a location, and try again",
        )
    serde = sd.serdeInfo
    return HivePartition(
        values,
        sd.location,
        sd.inputFormat,
        None if serde is None else serde.serializationLib,
        dict(partition.parameters or {}),
        dict((None if serde is None else serde.parameters) or {}),
    )


def read_row(row: HiveRow) -> ReadRow:
    """What an alter of a Hive table's row replaces."""
    changed = row.last_changed
    return ReadRow(row.name, row.table, None if not changed else (LAST_CHANGED, changed))


def iceberg_record(
    row: HiveRow, location: str, metadata: TableMetadata, saved: str, now_seconds: int, max_size: int
) -> Any:
    """The record of the row as an Iceberg table's: see `HiveTables.become_iceberg`. max_size: as `parameters_for`.

    Spark's parameters of a data source go: a Spark without Iceberg would read the files as they were before."""
    table = copy.copy(row.table)
    own = {key: each for key, each in row.parameters.items() if not key.startswith(_SPARK_SOURCE)}
    parameters = parameters_for(_without_pointer(own), location, metadata, replaced=None, max_size=max_size)
    parameters |= {EXTERNAL: "TRUE", HIVE_TABLE: saved, LAST_CHANGED: _later(now_seconds, row.last_changed)}
    table.parameters = parameters
    table.tableType = EXTERNAL_TABLE
    table.sd = storage_descriptor(table.sd, table.sd.cols, table.sd.location, hive_engine=hive_engine_enabled(metadata))
    return table


def hive_record(base: Pointer, row: HiveRow, mark: str, now_seconds: int) -> Any:
    """The record of an Iceberg table's row as the Hive table that it was: see `HiveTables.become_hive`."""
    table, now = copy.copy(row.table), base.table
    # A rename changes the first three; a server gives the last one.
    table.dbName, table.tableName, table.catName, table.id = now.dbName, now.tableName, now.catName, now.id
    table.partitionKeys = now.partitionKeys
    last = max(row.last_changed or "", base.parameters.get(LAST_CHANGED, ""), key=_seconds)
    table.parameters = _without_pointer(row.parameters)
    table.parameters |= {METADATA_LOCATION: mark, LAST_CHANGED: _later(now_seconds, last)}
    return table


def without_columns(base: Pointer) -> Any:
    """The record of an Iceberg table's row without columns, which no reader of Iceberg needs. From it, a metastore that
    forbids changes of types (hive.metastore.disallow.incompatible.col.type.changes) allows all columns."""
    table = copy.copy(base.table)
    table.sd = copy.copy(table.sd)
    table.sd.cols = []
    return table


def unmarked_record(row: HiveRow, now_seconds: int) -> Any:
    """The record of a row without its mark."""
    table = copy.copy(row.table)
    table.parameters = _without_pointer(row.parameters) | {LAST_CHANGED: _later(now_seconds, row.last_changed)}
    return table


def encode(row: HiveRow) -> str:
    """As `HiveTables.encode`: Thrift's JSON of the record."""
    buffer = TMemoryBuffer()
    row.table.write(TJSONProtocol(buffer))
    text: bytes = buffer.getvalue()
    return text.decode()


def decode(name: TableName, text: str) -> HiveRow:
    """As `HiveTables.decode`."""
    table = Table()
    try:
        table.read(TJSONProtocol(TMemoryBuffer(text.encode())))
    except Exception as error:  # whatever Thrift raises for text that it did not write
        raise InvalidInput(f"The text of a row cannot be read: {error.__class__.__name__}: {error}") from error
    if not table.tableName:
        raise InvalidInput("The text of a row names no table")
    return hive_row(name, table)


def _columns(fields: Any) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(each.name, each.type, each.comment) for each in fields or ())


def _without_pointer(parameters: Any) -> dict[str, str]:
    """Without what an undo left, or one that was broken off."""
    gone = (METADATA_LOCATION, PREVIOUS_METADATA_LOCATION)
    return {key: each for key, each in parameters.items() if key not in gone}


def _later(now_seconds: int, last: str | None) -> str:
    """A value for LAST_CHANGED that the row never had."""
    return str(max(now_seconds, _seconds(last) + 1))


def _seconds(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0
