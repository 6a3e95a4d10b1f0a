"""The partitions of a table, read in pages of names.

A server may limit how many partitions one request names (`hive.metastore.limit.partition.request`). Which requests that
holds for differs between releases, so a page that is refused for it is asked for again in smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.faults import Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool

PARTITIONS_PER_CALL: Final = 500


class PartitionRows:
    """Of all tables of one metastore. Safe for threads: what it learns of the server is only ever a number."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self._page = PARTITIONS_PER_CALL

    def names(self, table: TableName) -> list[str]:
        """The names of all partitions (`month=1/day=2`); no release limits their number. Raises ServerFault if there is
        no such table, MetastoreError."""
        names: list[str] = self._pool.ask(
            "get_partition_names", db_name=table.namespace, tbl_name=table.name, max_parts=-1
        )
        return names

    def records(
        self, table: TableName, names: Sequence[str], before_page: Callable[[], None] = lambda: None
    ) -> Iterator[Any]:
        """The partitions with these names that are there. before_page: called before each request; what it raises ends
        the reading. Raises ServerFault, MetastoreError."""
        start = 0
        while start < len(names):
            before_page()
            some = names[start : start + self._page]
            try:
                found = self._pool.ask(
                    "get_partitions_by_names", db_name=table.namespace, tbl_name=table.name, names=some
                )
            except ServerFault as fault:
                if fault.fault is not Fault.TOO_MANY_PARTITIONS or len(some) == 1:
                    raise
                self._page = len(some) // 2
                continue
            yield from found
            start += len(some)
