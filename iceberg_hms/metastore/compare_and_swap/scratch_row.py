"""Scratch rows: make a row that belongs to no table, try something on it, and drop it again.

A scratch row is a view without files. It shows what a server does without touching anybody's table.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.compare_and_swap.row_write import VIRTUAL_VIEW
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table

logger = logging.getLogger(__name__)

#: The one parameter of a new scratch row, and its value.
VALUE_KEY: Final = "iceberg-hms.value"
FIRST_VALUE: Final = "0"
#: Scratch rows that could not be dropped and are tried again later; older ones are left.
_LEFT_MAX: Final = 100

Result = TypeVar("Result")


#: One metastore call, as MetastoreClient.call.
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Trial(Generic[Result]):
    """What became of a scratch row, and of what was tried on it.

    not_made: why the row could not be made; nothing was tried then. result: what the attempt returned, None if it
    raised `failed`. not_dropped: why the row could not be dropped.
    """

    name: TableName
    result: Result | None = None
    not_made: MetastoreError | None = None
    failed: MetastoreError | None = None
    not_dropped: MetastoreError | None = None

    @property
    def may_be_left(self) -> bool:
        return self.not_dropped is not None or isinstance(self.not_made, NoAnswer)


class ScratchRows:
    """Tries things on scratch rows, and remembers those that it could not drop. Safe for threads.

    pool: drops what was left. clock: makes the names.
    """

    def __init__(self, pool: ClientPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._mutex = threading.Lock()
        self._left: list[TableName] = []

    def attempt(self, call: Call, namespace: str, work: Callable[[Call, TableName], Result]) -> Trial[Result]:
        """Make a row, call `work` on it, and drop it. Raises no MetastoreError: the trial has it."""
        trial = _attempt(call, scratch_name(namespace, self._clock), work)
        if trial.may_be_left:
            self._remember(trial.name)
        return trial

    def drop_left(self) -> None:
        """Try once more to drop what earlier trials left. Raises no MetastoreError."""
        with self._mutex:
            left, self._left = self._left, []
        for name in left:
            try:
                _drop(self._pool.ask, name)
            except MetastoreError as error:
                logger.warning("The scratch view %s could not be dropped: %s", name, error.message)
                self._remember(name)

    def _remember(self, name: TableName) -> None:
        with self._mutex:
            self._left.append(name)
            del self._left[:-_LEFT_MAX]


def scratch_name(namespace: str, clock: Clock) -> TableName:
    """A name in a database that no table has."""
    return TableName(namespace, f"iceberg_hms_probe_{clock.uuid().replace('-', '')}")


def _attempt(call: Call, name: TableName, work: Callable[[Call, TableName], Result]) -> Trial[Result]:
    try:
        call("create_table", tbl=_scratch_row(name))
    except MetastoreError as error:
        return Trial(name, not_made=error)
    result = failed = not_dropped = None
    try:
        result = work(call, name)
    except MetastoreError as error:
        failed = error
    try:
        _drop(call, name)
    except MetastoreError as error:
        not_dropped = error
    return Trial(name, result, failed=failed, not_dropped=not_dropped)


def _drop(call: Call, name: TableName) -> None:
    """Drop a scratch row; harmless when it is gone. Raises MetastoreError."""
    try:
        call("drop_table", dbname=name.namespace, name=name.name, deleteData=False)
    except ServerFault as fault:
        if fault.fault is not Fault.NO_SUCH_OBJECT:
            raise


def _scratch_row(name: TableName) -> Any:
    # A view: for a table the server would make a folder.
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="iceberg-hms",
        tableType=VIRTUAL_VIEW,
        viewOriginalText="select 1",
        viewExpandedText="select 1",
        partitionKeys=[],
        parameters={VALUE_KEY: FIRST_VALUE},
        sd=StorageDescriptor(
            cols=[FieldSchema(name="value", type="int")], serdeInfo=SerDeInfo(parameters={}), parameters={}
        ),
    )
