"""Processes that create, replace, rename and drop views."""

from __future__ import annotations

from functools import partial
from typing import Final

from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.coordinator.operations.view_operations import ViewOperations
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from simulation.actors.answers import answer_of
from simulation.world.cluster import Cluster, ClusterNode
from simulation.world.history import ViewCall, ViewCallKind

#: The names of views, in two databases.
NAMES: Final = (TableName("db", "v"), TableName("default", "w"))
#: Seconds between two calls of one process, at most.
_BETWEEN = 30.0
_KINDS: Final = (
    *[ViewCallKind.REPLACE] * 6,
    ViewCallKind.CREATE,
    ViewCallKind.CREATE,
    ViewCallKind.RENAME,
    ViewCallKind.DROP,
)
_SCHEMA: Final = {"type": "struct", "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}]}
_VERSION: Final = {
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


class ViewUser:
    """A process that calls some operations of views, one after the other. The first is a creation."""

    def __init__(self, cluster: Cluster, name: str, calls: int) -> None:
        self.node = ClusterNode(cluster, name)
        self._calls = calls
        pointer = HmsViewPointer(self.node.pool, self.node.settings, clock=self.node.runtime)
        self._views = ViewOperations(self.node.commit_ports(), pointer, self.node.settings)

    def start(self) -> None:
        """Begin to call them."""
        self.node.runtime.spawn("view user", self._run)

    def _run(self) -> None:
        wire, random = self.node.cluster.wire, self.node.random
        for number in range(self._calls):
            kind = random.pick(_KINDS) if number else ViewCallKind.CREATE
            name = random.pick(NAMES)
            call = ViewCall(kind, self.node.process.name, name, f"{self.node.process.name}.{number + 1}")
            self.node.cluster.history.view_calls.append(call)
            answer, detail = answer_of(partial(self._make, call))
            wire.note(self.node.process, f"{kind} {call.mark} of {name} is answered {answer.value}", detail)
            self.node.cluster.history.record_view_answer(call, answer)
            self.node.runtime.sleep(wire.random_duration(_BETWEEN))

    def _make(self, call: ViewCall) -> None:
        wait = self.node.random.pick(self.node.cluster.waits)
        match call.kind:
            case ViewCallKind.CREATE:
                uuid, now_ms = self.node.runtime.uuid(), self.node.runtime.now_ms()
                metadata = new_view_metadata(
                    uuid,
                    f"file:/v/{uuid}",
                    {call.mark: "1"},
                    _SCHEMA,
                    {**_VERSION, "timestamp-ms": now_ms},
                    now_ms=now_ms,
                )
                self._views.create(call.name, metadata, owner=None)
            case ViewCallKind.REPLACE:
                update = {"action": "set-properties", "updates": {call.mark: "1"}}
                self._views.commit(call.name, ViewCommit.parse([], [update]), wait_seconds=wait)
            case ViewCallKind.RENAME:
                to = next(each for each in NAMES if each != call.name)
                self._views.rename(call.name, to, wait_seconds=wait)
            case ViewCallKind.DROP:
                self._views.drop(call.name, wait_seconds=wait)
