"""Spark and PyIceberg on one table twice: planned by the client and by the server."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from integration import interop
from integration.planning.in_turns import InTurns, Passed
from integration.rest_clients import TOKEN

PLANNING_MODES = ("spark.sql.iceberg.data-planning-mode", "spark.sql.iceberg.delete-planning-mode")


class BothWays:
    """spark: a session with two catalogs, `own` and `server`. catalog: the library. to_own, proxy: what the server did
    for each."""

    def __init__(self, spark: Any, catalog: Any, to_own: InTurns, proxy: InTurns, folder: Path) -> None:
        self.spark, self.catalog, self.to_own, self.proxy, self.folder = spark, catalog, to_own, proxy, folder
        number = uuid.uuid4().hex[:8]
        self.namespace = f"planning_{number}"
        self._made: dict[str, str] = {}
        self.own, self.server = (f"{name}_{number}" for name in ("plans_itself", "is_planned_for"))
        ways = ((self.own, to_own, "client"), (self.server, proxy, "server"))
        for name, via, mode in ways:
            interop.add_spark_catalog(spark, name, type="rest", uri=via.uri, token=TOKEN, scan_planning_mode=mode)
        for mode in PLANNING_MODES:
            # Distributed planning finds no columns of a snapshot that have other names today.
            spark.conf.set(mode, "local")
        self.pyiceberg = {
            name: RestCatalog(name, uri=via.uri, token=TOKEN, **{"scan-planning-mode": mode})
            for name, via, mode in ways
        }
        spark.sql(f"CREATE NAMESPACE {self.own}.{self.namespace}")

    def close(self) -> None:
        for mode in PLANNING_MODES:
            self.spark.conf.unset(mode)

    def clear(self) -> None:
        """Forget what the server did."""
        self.to_own.clear()
        self.proxy.clear()

    def table(self, name: str, statements: Sequence[str | Callable[[BothWays, str], object]]) -> str:
        """`namespace.name` of a table, made by these statements the first time. `{t}` is the table's name with the
        catalog."""
        if name not in self._made:
            table = f"{self.namespace}.{name}"
            for each in statements:
                if isinstance(each, str):
                    self.spark.sql(each.format(t=f"{self.own}.{table}", c=self.own))
                else:
                    each(self, table)
            self._made[name] = table
        return self._made[name]

    def marks(self, table: str) -> dict[str, str]:
        """What a query may name besides the table: `{v0}`, `{v1}`... are its snapshots by age, and `{at0}`... a time at
        which each was the current one."""
        snapshots = self.catalog.load_table(table).metadata.snapshots
        found = {f"v{number}": str(each.snapshot_id) for number, each in enumerate(snapshots)}
        for number, each in enumerate(snapshots):
            moment = datetime.datetime.fromtimestamp(each.timestamp_ms / 1000, datetime.UTC)
            found[f"at{number}"] = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
        return found

    def rows(self, catalog: str, query: str, table: str, more: Mapping[str, str] | None = None) -> list[str]:
        """The rows of a query, as sorted texts."""
        text = query.format(t=f"{catalog}.{table}", c=catalog, n=f"{catalog}.{self.namespace}", **(more or {}))
        return sorted(str(tuple(row)) for row in self.spark.sql(text).collect())

    def compare(self, query: str, table: str) -> tuple[list[str], list[Passed]]:
        """A query both ways. Returns the rows, which are the same, and the plans that the server made."""
        marks = self.marks(table)
        self.clear()
        by_client = self.rows(self.own, query, table, marks)
        assert self.to_own.plans() == []
        by_server = self.rows(self.server, query, table, marks)
        plans = self.proxy.plans()
        assert [each.status for each in (*plans, *self.proxy.tasks())] == [200] * (len(plans) + len(self.proxy.tasks()))
        assert by_server == by_client
        return by_server, plans

    def compare_pyiceberg(self, table: str, read: Callable[[Any], Any]) -> tuple[Any, list[Passed]]:
        """The same by PyIceberg. read: with its table; an Arrow table's rows are compared sorted."""
        self.clear()
        by_client = _plain(read(self.pyiceberg[self.own].load_table(table)))
        assert self.to_own.plans() == []
        by_server = _plain(read(self.pyiceberg[self.server].load_table(table)))
        assert by_server == by_client
        return by_server, self.proxy.plans()


def _plain(found: Any) -> Any:
    return sorted(map(str, found.to_pylist())) if isinstance(found, pa.Table) else found
