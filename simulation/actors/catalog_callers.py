"""Callers of catalog operations, and the operator who changes lock modes, while others write to the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_hms.catalog.purge import Purge
from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, InvalidInput
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.updates.create import create_updates
from simulation.actors import requests
from simulation.world.cluster import TABLE, Cluster, ClusterNode
from simulation.world.first_table import empty_table
from simulation.world.history import Answer, CatalogCall, CatalogCallKind, WriteAttempt

#: The names under which tables are created and dropped, in two databases.
NAMES = (TABLE, TableName("default", "u"))
#: Seconds within which a caller begins.
_WITHIN = 40.0
#: Seconds between two actions of the operator, at most.
_BETWEEN_ACTIONS = 60.0
#: Half of the time this: most writers work then.
_SOON = 10.0
_ACTIONS_MAX = 5
#: Of the lock API: longer than moving a table to ZooKeeper takes.
_LONGEST_OUTAGE = 1_000.0


class CatalogCaller:
    """A process that calls one catalog operation on one table."""

    def __init__(self, cluster: Cluster, name: str, kinds: Sequence[CatalogCallKind], registrable: list[str]) -> None:
        """registrable: the metadata files of dropped tables whose files were kept, each to be registered once."""
        self.node = ClusterNode(cluster, name)
        self._random = self.node.random
        self._registrable = registrable
        self._coordinator = self.node.coordinator()
        target = self._random.pick(NAMES)
        other = next(each for each in NAMES if each != target)
        self.call = CatalogCall(self._random.pick(kinds), name, target, to=other)

    def start(self) -> None:
        self.node.runtime.spawn("caller", self._run)

    def _run(self) -> None:
        node, call = self.node, self.call
        node.runtime.sleep(node.cluster.wire.random_duration(_WITHIN))
        node.cluster.history.catalog_calls.append(call)
        try:
            finish = self._make()
        except IcebergHmsError as error:
            # Any other error proves nothing, like a 5xx answer to a REST client.
            answer, finish = Answer.FAILED if error.proved_failed else Answer.UNKNOWN, None
            detail = f"{type(error).__name__}: {error.message.partition(': ')[0]}"
        else:
            answer, detail = Answer.COMMITTED, ""
        node.cluster.wire.note(node.process, f"{call.kind} of {call.name} is answered {answer.value}", detail)
        node.cluster.history.record_catalog_answer(call, answer)
        if finish is not None:
            finish()

    def _make(self) -> Callable[[], object] | None:
        """Call the operation; returns what is left to do once it is known to be made."""
        catalog_calls, call = self._coordinator.operations, self.call
        wait = self._random.pick(self.node.cluster.waits)
        match call.kind:
            case CatalogCallKind.RENAME:
                catalog_calls.rename(call.name, call.to, wait_seconds=wait)
            case CatalogCallKind.DROP:
                catalog_calls.drop(call.name, wait_seconds=wait)
            case CatalogCallKind.PURGE:
                dropped = catalog_calls.drop(call.name, wait_seconds=wait)
                if dropped is not None:
                    return Purge(self.node.commit_ports(), dropped).run
            case CatalogCallKind.CREATE:
                metadata = empty_table(self.node.runtime.uuid(), {}, self.node.runtime.now_ms())
                change = from_request([requests.assert_create()], create_updates(metadata))
                catalog_calls.create(call.name, change)
            case CatalogCallKind.REGISTER:
                if not self._registrable:
                    raise InvalidInput("nothing is there to be registered")
                catalog_calls.register(call.name, self._registrable.pop(), overwrite=False, wait_seconds=wait)
            case CatalogCallKind.OVERWRITE:
                self._overwrite(wait)
            case CatalogCallKind.REPLACE:
                self._replace(wait)
        return None

    def _overwrite(self, wait: float) -> None:
        """Register an older metadata file of the table, or one of a dropped table, over it."""
        base = self._coordinator.load(self.call.name)
        older = [entry["metadata-file"] for entry in base.metadata.metadata_log] or [base.pointer.metadata_location]
        source = self._registrable.pop() if self._registrable and self._random.chance(0.5) else self._random.pick(older)
        self.call.source = source
        self._coordinator.operations.register(self.call.name, source, overwrite=True, wait_seconds=wait)

    def _replace(self, wait: float) -> None:
        """Replace a table, as CREATE OR REPLACE does: its history stays, and main begins anew."""
        mark = f"replaced-by-{self.call.caller}"
        attempt = WriteAttempt(f"{self.call.caller}.replace", self.node.process.name, mark=mark, replaces=True)
        self.node.cluster.history.begin(attempt)
        self.call.attempt = attempt
        changes = [requests.remove_snapshot_ref(MAIN_BRANCH), updates.set_properties({mark: "1"})]
        try:
            self._coordinator.commit(self.call.name, from_request([], changes), wait_seconds=wait)
        except CommitStateUnknown:
            self.node.cluster.history.record_answer(attempt, Answer.UNKNOWN)
            raise
        except IcebergHmsError:
            self.node.cluster.history.record_answer(attempt, Answer.FAILED)
            raise
        self.node.cluster.history.record_answer(attempt, Answer.COMMITTED)


class LockOperator:
    """Switches the table's lock mode, and breaks and heals the metastore's lock API: some actions, in some order."""

    def __init__(self, cluster: Cluster, name: str, operator_actions: Sequence[str]) -> None:
        self.node = ClusterNode(cluster, name)
        self._actions = [cluster.random.pick(operator_actions) for _ in range(1 + cluster.random.below(_ACTIONS_MAX))]

    def start(self) -> None:
        self.node.runtime.spawn("operator", self._run)

    def _run(self) -> None:
        wire, process = self.node.cluster.wire, self.node.process
        for action in self._actions:
            soon = self.node.random.chance(0.5)
            pause = wire.between(0.0, _SOON) if soon else wire.random_duration(_BETWEEN_ACTIONS)
            self.node.runtime.sleep(pause)
            wire.note(process, action, "")
            try:
                self._do(action)
            except IcebergHmsError as error:
                wire.note(process, action, error)
            else:
                wire.note(process, action, "done")

    def _do(self, action: str) -> None:
        admin = self.node.lock_admin()
        metastore = self.node.cluster.metastore
        what, _, mode = action.partition(" ")
        match what:
            case "use":
                admin.use(TABLE, mode, wait_seconds=self.node.random.pick(self.node.cluster.waits))
            case "break" | "heal":
                metastore.lock_api_works = what == "heal"
            case "outage":
                metastore.lock_api_works = False
                self.node.runtime.spawn("outage", self._heal_later, background=True)
            case _:
                raise ValueError(f"no such action: {action}")

    def _heal_later(self) -> None:
        self.node.runtime.sleep(self.node.cluster.wire.between(0.0, _LONGEST_OUTAGE))
        self.node.cluster.metastore.lock_api_works = True
