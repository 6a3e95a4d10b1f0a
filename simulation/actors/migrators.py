"""Processes that turn one table from Hive's into Iceberg's and back, and a program of Hive's that changes its row."""

from __future__ import annotations

from functools import partial
from typing import Final

from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.hive_ports import HIDDEN_FOLDER
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.parameters import LAST_CHANGED
from simulation.actors import requests
from simulation.actors.answers import answer_of
from simulation.world.cluster import Cluster, ClusterNode
from simulation.world.history import KindCall, KindOfCall
from simulation.world.hive_table import FOLDER, HIVE, HIVE_MARK, is_hive
from simulation.world.metastore_handler import copied

#: Seconds between two calls of one process, at most.
_BETWEEN: Final = 30.0
_KINDS: Final = (*[KindOfCall.MIGRATE] * 8, *[KindOfCall.UNDO] * 8, *[KindOfCall.COMMIT] * 4, KindOfCall.KEEP)
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


class Migrator:
    """A process that calls some operations on the table, one after the other. The first is a migration."""

    def __init__(self, cluster: Cluster, name: str, calls: int) -> None:
        self.node = ClusterNode(cluster, name)
        self._calls = calls
        self._hive = HmsHiveTables(self.node.pool, self.node.settings, clock=self.node.runtime)
        self._coordinator = self.node.coordinator()
        self._kinds = self._coordinator.kind_changes(self._hive)

    def start(self) -> None:
        """Begin to call them."""
        self.node.runtime.spawn("migrator", self._run)

    def _run(self) -> None:
        wire, random = self.node.cluster.wire, self.node.random
        for number in range(self._calls):
            kind = random.pick(_KINDS) if number else KindOfCall.MIGRATE
            mark = self.node.runtime.uuid() if kind is KindOfCall.MIGRATE else f"{self.node.process.name}.{number + 1}"
            call = KindCall(kind, self.node.process.name, mark)
            self.node.cluster.history.kind_calls.append(call)
            answer, detail = answer_of(partial(self._make, call))
            wire.note(self.node.process, f"{kind} {mark} is answered {answer.value}", detail)
            self.node.cluster.history.record_kind_answer(call, answer)
            self.node.runtime.sleep(wire.random_duration(_BETWEEN))

    def _make(self, call: KindCall) -> None:
        wait = self.node.random.pick(self.node.cluster.waits)
        match call.kind:
            case KindOfCall.MIGRATE:
                self._migrate(call.mark, wait)
            case KindOfCall.UNDO:
                self._kinds.to_hive(HIVE, wait_seconds=wait)
            case KindOfCall.KEEP:
                self._kinds.keep(HIVE, wait_seconds=wait)
            case KindOfCall.COMMIT:
                update = {"action": "set-properties", "updates": {call.mark: "1"}}
                self._coordinator.commit(HIVE, from_request([], [update]), wait_seconds=wait)

    def _migrate(self, uuid: str, wait: float) -> None:
        row = self._hive.load_row(HIVE)
        # It lists the table's files meanwhile.
        self.node.sleep_beside(_BETWEEN)
        properties = {"write.metadata.path": f"{FOLDER}/{HIDDEN_FOLDER}", "gc.enabled": "false"}
        now_ms = self.node.runtime.now_ms()
        metadata = new_table_metadata(Schema.parse(SCHEMA), None, None, FOLDER, properties, uuid=uuid, now_ms=now_ms)
        change = from_request([requests.assert_create()], create_updates(metadata))
        self._kinds.to_iceberg(row, change, partition_names=(), wait_seconds=wait)


class HiveWriter:
    """A program of Hive's that changes the row now and then, in one step and without a lock, while it is a Hive
    table's.

    It sets a later time than the row had: what two changes within one second lose, no client can tell apart."""

    def __init__(self, cluster: Cluster, name: str, changes: int) -> None:
        self.node = ClusterNode(cluster, name)
        self._changes = changes

    def start(self) -> None:
        """Begin to change it."""
        self.node.runtime.spawn("hive writer", self._run)

    def _run(self) -> None:
        cluster = self.node.cluster
        for _ in range(self._changes):
            self.node.runtime.sleep(cluster.wire.random_duration(_BETWEEN))
            try:
                cluster.metastore.wait_for_rows(HIVE)
            except MetaException:
                continue
            row = copied(cluster.metastore.rows[HIVE])
            if is_hive(row):
                mark = str(len(cluster.history.hive_marks) + 1)
                later = max(self.node.runtime.now_ms() // 1000, int(row.parameters[LAST_CHANGED]) + 1)
                row.parameters |= {HIVE_MARK: mark, LAST_CHANGED: str(later)}
                cluster.history.hive_marks.append(mark)
                cluster.metastore.rows[HIVE] = row
                cluster.wire.note(self.node.process, f"Hive changes the row: {mark}", "")
