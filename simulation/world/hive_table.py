"""The Hive table of the schedules in which tables change their kind."""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table
from iceberg_hms.metastore.tables.parameters import LAST_CHANGED, MANAGED_TABLE, is_iceberg
from simulation.world.metastore import DATABASE

HIVE: Final = TableName(DATABASE, "h")
FOLDER: Final = "file:/h"
#: The parameter that a program of Hive's sets.
HIVE_MARK: Final = "hive-mark"
FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"


def hive_table_row() -> Any:
    """Its row as every schedule begins with it."""
    return Table(
        dbName=HIVE.namespace,
        tableName=HIVE.name,
        owner="hive",
        tableType=MANAGED_TABLE,
        partitionKeys=[],
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")],
            location=FOLDER,
            inputFormat=FORMAT,
            serdeInfo=SerDeInfo(parameters={}),
            parameters={},
        ),
        parameters={LAST_CHANGED: "1"},
    )


def is_hive(row: Any) -> bool:
    """Whether a row is a Hive table's now."""
    return not is_iceberg(row.parameters)
