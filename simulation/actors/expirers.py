"""A process that expires snapshots while others write."""

from __future__ import annotations

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.actors import requests
from simulation.actors.requests import for_update_table
from simulation.world.cluster import TABLE, Cluster, ClusterNode

#: Seconds within which it begins.
_WITHIN = 12.0
#: How many snapshots of each branch it keeps, the head included, at most.
_KEPT_MAX = 3


class Expirer:
    """Removes all snapshots but the last ones of each branch once, and then their lists, as Java's expireSnapshots."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.node = ClusterNode(cluster, name)
        self._coordinator = self.node.coordinator()

    def start(self) -> None:
        self.node.runtime.spawn("expirer", self._run)

    def _run(self) -> None:
        node = self.node
        node.runtime.sleep(node.random.between(0.0, _WITHIN))
        try:
            base = self._coordinator.load(TABLE).metadata
            gone = self._chosen(base)
            if not gone:
                return
            sent = [requests.remove_snapshots(gone)]
            change = from_request(list(for_update_table(base, sent)), sent)
            report = self._coordinator.commit(TABLE, change, wait_seconds=300.0)
        except IcebergHmsError as error:
            node.cluster.wire.note(node.process, "expires nothing", error)
            return
        node.cluster.wire.note(node.process, "expires", gone)
        kept = {snapshot.manifest_list for snapshot in report.metadata.snapshots}
        for id_ in gone:
            snapshot = base.snapshot_by_id(id_)
            location = None if snapshot is None else snapshot.manifest_list
            if location is not None and location not in kept:
                self._delete(location)

    def _chosen(self, base: TableMetadata) -> list[int]:
        kept: set[int] = set()
        for ref in base.refs.values():
            count = 1 + self.node.random.below(_KEPT_MAX)
            kept.update(
                each.snapshot_id for each, _ in zip(base.ancestors(ref.snapshot_id), range(count), strict=False)
            )
        return [each.snapshot_id for each in base.snapshots if each.snapshot_id not in kept]

    def _delete(self, location: str) -> None:
        cluster = self.node.cluster
        for attempt in cluster.history.attempts:
            # Its client no longer needed the list when the snapshot landed.
            attempt.lists.discard(location)
        cluster.storage.delete(location)
