"""DuckDB with its iceberg extension, in this process.

Places in its source are of duckdb/duckdb-iceberg at 45163a28, which is the extension of DuckDB 1.5.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from labs.clients.duckdb import rows, tables, writers
from labs.clients.duckdb.session import version
from labs.clients.engines import Client
from labs.clients.lab import Lab


@contextmanager
def start(_lab: Lab) -> Iterator[Sequence[Client]]:
    yield [Client("DuckDB", version(), {**tables.CHECKS, **rows.CHECKS, **writers.CHECKS})]
