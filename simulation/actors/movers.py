"""A foreign process that renames tables without a lock, as Java does, while others search for their UUIDs."""

from __future__ import annotations

from iceberg_hms.coordinator.ports import TableName
from simulation.actors.catalog_callers import NAMES
from simulation.world.cluster import Cluster, ClusterNode
from simulation.world.metastore_handler import copied

#: How likely a new table is moved away.
_MOVES = 0.7
#: How likely it is moved into a database that was searched; a search asks each database several questions.
_MOVES_BACK = 0.4


class Mover:
    """Moves a table away as soon as it is created, puts another one under its name if there is one, and moves the table
    into a database as soon as that was searched.

    Each of its renames reads and writes the row at once, so that it removes nobody's commit."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.node = ClusterNode(cluster, name)
        self._metastore = cluster.metastore
        self._away = 0
        #: The tables that it moved away from their first database, once each.
        self._moved: list[TableName] = []

    def start(self) -> None:
        """Begin to watch the metastore."""
        self._metastore.on_insert = self._move_away
        self._metastore.on_searched = self._move_back

    def _move_away(self, name: TableName) -> None:
        if name not in NAMES or not self.node.random.chance(_MOVES):
            return
        other = next(each for each in NAMES if each != name)
        self._away += 1
        moved = TableName(other.namespace, f"moved{self._away}")
        self._rename(name, moved)
        self._moved.append(moved)
        if other in self._metastore.rows:
            self._rename(other, name)

    def _move_back(self, namespace: str) -> None:
        for name in [each for each in self._moved if each.namespace != namespace]:
            if self.node.random.chance(_MOVES_BACK):
                self._moved.remove(name)
                if name in self._metastore.rows:
                    self._rename(name, TableName(namespace, name.name))

    def _rename(self, name: TableName, to: TableName) -> None:
        self.node.cluster.wire.note(self.node.process, f"rename {name} {to}", "ok")
        row = copied(self._metastore.rows[name])
        row.dbName, row.tableName = to.namespace, to.name
        self._metastore.alter(name, to, row, process=self.node.process.name)
