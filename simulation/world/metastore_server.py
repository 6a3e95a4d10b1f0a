"""One simulated metastore server. Several share one database (metastore.py), and may have different versions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TApplicationException, TException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION
from iceberg_hms.testing.memory_metastore import LockRow
from simulation.engine.scheduler import Scheduler
from simulation.world.metastore import Metastore
from simulation.world.metastore_handler import MetastoreHandler, SwapSupport

#: The calls of the lock API.
_LOCK_CALLS: Final = frozenset(("lock", "check_lock", "heartbeat", "unlock", "show_locks"))
#: The errors of a server without a lock API, and of one whose lock tables are missing.
_LOCK_ERRORS: tuple[Callable[[str], TException], ...] = (
    lambda method: TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{method}'"),
    lambda _: MetaException("Unable to update transaction database: Table/View 'HIVE_LOCKS' does not exist."),
)


class SimulatedServer(MetastoreHandler):
    """A server at one address.

    has_locks: whether its lock API works while the database's does. says_unsupported: it answers lock calls as unknown
    methods while its lock API does not work.
    """

    metastore: Metastore

    def __init__(
        self,
        scheduler: Scheduler,
        metastore: Metastore,
        uri: str,
        *,
        swap_support: SwapSupport = SwapSupport.ATOMIC,
        has_locks: bool = True,
        says_unsupported: bool = True,
    ) -> None:
        super().__init__(metastore, swap_support=swap_support)
        self.uri = uri
        self.has_locks = has_locks
        self.config["metastore.txn.timeout"] = f"{metastore.lease_seconds:.0f}s"
        self._lock_error = _LOCK_ERRORS[not says_unsupported]
        self._scheduler = scheduler

    def answer(self, method: str, arguments: dict[str, Any], process: str) -> Any:
        """Carry out a call of a process. Raises the error that the server answers."""
        if not hasattr(MetastoreHandler, method):
            raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{method}'")
        if method in _LOCK_CALLS and not (self.has_locks and self.metastore.lock_api_works):
            raise self._lock_error(method)
        # Calls of several processes run at once.
        handler = copy.copy(self)
        handler.caller = process
        return getattr(handler, method)(**arguments)

    def get_table_names_by_filter(self, dbname: str, filter: str, max_tables: int) -> list[str]:
        found = super().get_table_names_by_filter(dbname, filter, max_tables)
        if self.metastore.on_searched is not None:
            self.metastore.on_searched(dbname)
        return found

    def compare(self, name: TableName, new: Any, key: str, expected: str) -> None:
        self._compare_once(name, new, key, expected)
        if self.swap_support is SwapSupport.ATOMIC:
            # The statement that writes compares again, after it waited for the rows.
            self.metastore.wait_for_rows(name, TableName(new.dbName, new.tableName))
            self._compare_once(name, new, key, expected)
        elif self.swap_support is SwapSupport.CHECKED:
            # Another writer may come between the comparison and the write.
            self._scheduler.step()

    def _compare_once(self, name: TableName, new: Any, key: str, expected: str) -> None:
        try:
            super().compare(name, new, key, expected)
        except MetaException:
            if key == METADATA_LOCATION and self.metastore.rows[name].parameters.get(key) != expected:
                self.metastore.refused.add(new.parameters[METADATA_LOCATION])
            raise

    def unlock(self, rqst: Any) -> None:
        removed = self.metastore.of_another(rqst.lockid, self.caller)
        if removed is not None and self.metastore.on_removed_by_other is not None:
            self.metastore.on_removed_by_other(removed, self.caller)
        super().unlock(rqst)

    def show_locks(self, rqst: Any) -> Any:
        answer = super().show_locks(rqst)
        self.metastore.saw_queue |= {each.lockid for each in answer.locks if each.hostname == self.caller}
        return answer

    def shown(self, row: LockRow) -> Any:
        element = super().shown(row)
        # Each process has a machine of its own.
        element.hostname = row.process
        return element

    def heartbeat_ms(self, row: LockRow) -> int:
        return self.metastore.heartbeat_ms(row)
