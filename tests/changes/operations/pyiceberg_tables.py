"""Our tables as PyIceberg's, to compare what it makes of them."""

from __future__ import annotations

import pyiceberg.table
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_hms.format.metadata.table_metadata import TableMetadata


def pyiceberg_table(base: TableMetadata) -> pyiceberg.table.Table:
    """The table; its transactions change it in memory, until they are committed."""
    parsed = TableMetadataUtil.parse_raw(base.to_bytes().decode())
    return pyiceberg.table.Table(("logging", "events"), parsed, "", PyArrowFileIO(), NoopCatalog("none"))
