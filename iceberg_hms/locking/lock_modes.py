"""The mark that says which lock a table takes: a parameter of its row, and the settings that go with it.

A database has no mark for its tables: it could not be set under their locks, so some writers would see it before
others. A table without a mark is only ever written under the metastore's lock; where the lock API is broken, the error
names the command that marks the table.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum

from iceberg_hms.coordinator.ports import EXCLUSIVE, HIVE_LOCK_ENABLED, LOCK_MARK, Pointer, Runtime, TableName
from iceberg_hms.errors import LockUnavailable

logger = logging.getLogger(__name__)

#: How many tables are remembered.
_REMEMBERED_MAX = 10_000


class LockMode(StrEnum):
    """The lock that a table takes."""

    HMS = "hms"
    #: ZooKeeper's, and the metastore's as well while its lock API works.
    ZOOKEEPER = "zookeeper"
    NONE = "none"
    #: A name without a table, so without a mark: the metastore's, or ZooKeeper's where the lock API is broken.
    FREE = "free"


_MARKS = ("", LockMode.HMS, LockMode.ZOOKEEPER)


def is_marked(parameters: Mapping[str, str]) -> bool:
    """Whether a table is marked `zookeeper`. A mark that means nothing is none: every writer can take the metastore's
    lock, and one caller who sets a property could else stop all commits."""
    return parameters.get(LOCK_MARK, "") == LockMode.ZOOKEEPER


class LockModes:
    """The modes of tables. setting: `lock`. Safe for threads."""

    def __init__(self, runtime: Runtime, *, setting: str) -> None:
        self._setting = LockMode(setting)
        self._mutex = runtime.mutex()
        self._seen: OrderedDict[TableName, Mapping[str, str]] = OrderedDict()

    def of(self, name: TableName, row: Pointer | None) -> LockMode:
        """The mode of a table by its row; row: None if there is no such table. Raises LockUnavailable for a table that
        this process must not write to."""
        if row is None:
            return LockMode.NONE if self._setting is LockMode.NONE else LockMode.FREE
        return self._by_parameters(name, row.parameters)

    def remembered(self, name: TableName) -> LockMode | None:
        """The mode by what was last seen of the table; None if nothing was seen, or it no longer allows a mode."""
        with self._mutex:
            parameters = self._seen.get(name)
        if parameters is None:
            return None
        try:
            return self._by_parameters(name, parameters)
        except LockUnavailable:
            return None

    def saw(self, row: Pointer) -> None:
        """Remember a row's mark, for the next time that its lock is taken."""
        marks = {key: row.parameters[key] for key in (LOCK_MARK, EXCLUSIVE, HIVE_LOCK_ENABLED) if key in row.parameters}
        with self._mutex:
            is_new = self._seen.get(row.name) != marks
            self._seen[row.name] = marks
            self._seen.move_to_end(row.name)
            while len(self._seen) > _REMEMBERED_MAX:
                self._seen.popitem(last=False)
        mark = marks.get(LOCK_MARK, "")
        if is_new and mark not in _MARKS:
            step = f"iceberg-hms locks use hms {row.name}"
            logger.warning(
                "%s takes the metastore's lock: its %s=%.64r means nothing; %s", row.name, LOCK_MARK, mark, step
            )

    def _by_parameters(self, name: TableName, parameters: Mapping[str, str]) -> LockMode:
        if is_marked(parameters):
            return LockMode.ZOOKEEPER
        if self._setting is not LockMode.NONE:
            return LockMode.HMS
        if _has(parameters, HIVE_LOCK_ENABLED, "false") or _has(parameters, EXCLUSIVE, "true"):
            return LockMode.NONE
        raise LockUnavailable(
            f"lock=none, but {name} is not declared for it",
            next_step=f"set {HIVE_LOCK_ENABLED}=false (no writer of it takes locks) or {EXCLUSIVE}=true (it has no "
            "other writer), or lock=hms",
        )


def _has(parameters: Mapping[str, str], key: str, value: str) -> bool:
    return parameters.get(key, "").strip().lower() == value
