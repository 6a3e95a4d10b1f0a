"""The metastore as foreign writers use it: calls without our drivers, and locks as Java and PyIceberg take them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockNotAcquired, MetastoreError
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, alter_arguments
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.thrift_types import (
    CheckLockRequest,
    DataOperationType,
    GetTableRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION, PREVIOUS_METADATA_LOCATION
from simulation.world.metastore_client import Network, SimulatedMetastoreClient
from simulation.world.metastore_handler import copied

_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 10.0


class ForeignMetastore:
    """The calls of one writer, on a connection that it opens again when it broke. All raise MetastoreError."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._uri = next(iter(network.servers))
        self._name = name
        self._client: SimulatedMetastoreClient | None = None
        self._asked = 0

    def row(self, name: TableName) -> Any:
        """A table's row."""
        return self._call("get_table_req", req=GetTableRequest(dbName=name.namespace, tblName=name.name)).table

    def swap(self, name: TableName, row: Any, location: str, *, blindly: bool) -> None:
        """Set the metadata location, and write back the row as it was read."""
        before = row.parameters[METADATA_LOCATION]
        new = copied(row)
        new.parameters.update({METADATA_LOCATION: location, PREVIOUS_METADATA_LOCATION: before})
        expected = None if blindly else (METADATA_LOCATION, before)
        self._call(ALTER, **alter_arguments(name, new, expected))

    @contextmanager
    def locked(self, name: TableName, wait_seconds: float) -> Iterator[None]:
        """Hold a table's lock. Raises LockNotAcquired."""
        lock = self._acquire(name, wait_seconds)
        try:
            yield
        finally:
            # A lock that cannot be released ends with its lease.
            with suppress(MetastoreError):
                self._call("unlock", rqst=UnlockRequest(lockid=lock))

    def _acquire(self, name: TableName, wait_seconds: float) -> int:
        runtime = self._network.runtime
        deadline = runtime.now() + wait_seconds
        lock, acquired = self._enqueue(name)
        wait = _FIRST_WAIT
        while not acquired:
            if runtime.now() >= deadline:
                with suppress(MetastoreError):
                    self._call("unlock", rqst=UnlockRequest(lockid=lock))
                raise LockNotAcquired(f"{self._name} did not get the lock of {name}")
            runtime.sleep(min(wait, max(0.0, deadline - runtime.now())))
            wait = min(wait * 2, _LONGEST_WAIT)
            try:
                state = self._call("check_lock", rqst=CheckLockRequest(lockid=lock)).state
            except ServerFault as fault:
                if fault.fault is not Fault.NO_SUCH_LOCK:
                    raise
                lock, acquired = self._enqueue(name)
            except MetastoreError:
                continue
            else:
                acquired = state == LockState.ACQUIRED
        return lock

    def _enqueue(self, name: TableName) -> tuple[int, bool]:
        """Ask for the lock; Java looks for its entry after a lost reply, by its agentInfo."""
        self._asked += 1
        info = f"{self._name}-{self._asked}"
        component = LockComponent(
            type=LockType.EXCLUSIVE,
            level=LockLevel.TABLE,
            dbname=name.namespace,
            tablename=name.name,
            operationType=DataOperationType.NO_TXN,
        )
        request = LockRequest(component=[component], user=self._name, hostname=self._name, agentInfo=info)
        try:
            answer = self._call("lock", rqst=request)
        except NoAnswer:
            shown = self._call("show_locks", rqst=ShowLocksRequest(dbname=name.namespace, tablename=name.name))
            own = [each.lockid for each in shown.locks if each.agentInfo == info]
            if not own:
                raise
            return own[0], False
        return answer.lockid, answer.state == LockState.ACQUIRED

    def _call(self, method: str, **arguments: Any) -> Any:
        if self._client is None or not self._client.is_usable:
            self._client = self._network.connect(self._uri)
        return self._client.call(method, **arguments)
