"""Writers that work beside an engine: stock PyIceberg over REST, and our Python API on the same metastore.

Their tables have the columns `id` (bigint) and `name` (varchar), in any table format version.
"""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labs.clients.contention import Creator, Writer
from labs.clients.lab import Lab, Place

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def pyiceberg(lab: Lab, table: str) -> Writer:
    """Appends as PyIceberg's users do: load, append."""
    from pyiceberg.exceptions import CommitStateUnknownException

    catalog = lab.new_pyiceberg()

    def insert(id_: int) -> None:
        catalog.load_table(table).append(rows(id_))

    return Writer("PyIceberg", insert, lambda error: isinstance(error, CommitStateUnknownException))


def python_api(place: Place, table: str) -> Writer:
    """Appends Parquet files that lie outside of the table."""
    from iceberg_hms.errors import CommitStateUnknown

    def insert(id_: int) -> None:
        path = place.folder / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows(id_), path)
        place.lab.catalog.load_table(table).append([f"file:{path}"])

    return Writer("Python API", insert, lambda error: isinstance(error, CommitStateUnknown))


def creators(lab: Lab, table: str) -> list[Creator]:
    """PyIceberg and the Python API, each about to create a table."""
    from pyiceberg.exceptions import TableAlreadyExistsError

    from iceberg_hms.errors import AlreadyExists

    pyiceberg = lab.new_pyiceberg()
    return [
        Creator(
            "PyIceberg",
            lambda: pyiceberg.create_table(table, SCHEMA),
            lambda error: isinstance(error, TableAlreadyExistsError),
        ),
        Creator(
            "Python API",
            lambda: lab.catalog.create_table(table, SCHEMA),
            lambda error: isinstance(error, AlreadyExists),
        ),
    ]


def rows(*ids: int) -> pa.Table:
    """A row for each id."""
    values: dict[str, list[Any]] = {"id": list(ids), "name": [f"row {id_}" for id_ in ids]}
    return pa.table(values, schema=SCHEMA)
