"""What a table says of its lock: the mark, as a parameter of the table or of its database, and who honours it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from iceberg_hms import forks
from iceberg_hms.coordinator.ports import Pointer, Runtime, TableName
from iceberg_hms.errors import AccessDenied, LockUnavailable, NoSuchNamespace

#: Table property (so it is an HMS parameter of the table too), or parameter of the database.
LOCK_MARK = "iceberg-hms.lock"
#: Table property: the operator's word that nobody but one process of ours writes to the table.
EXCLUSIVE = "iceberg-hms.exclusive"
#: Java's table property: its writers take no lock, and swap by compare-and-swap alone.
HIVE_LOCK_ENABLED = "engine.hive.lock-enabled"

#: How old our view of a database's mark may be. So such a mark permits a swap under ZooKeeper alone only when it has
#: been known for so long: every other writer has seen it by then.
DATABASE_MARK_SECONDS = 5.0
#: How many tables and databases are remembered.
_REMEMBERED_MAX = 10_000


class LockMode(StrEnum):
    """The lock that a table takes."""

    HMS = "hms"
    #: ZooKeeper's, and the metastore's as well when it can be had.
    ZOOKEEPER = "zookeeper"
    NONE = "none"
    #: A name that no table has, and so no mark: the metastore's, or where there is none ZooKeeper's.
    FREE = "free"


@dataclass(frozen=True, slots=True)
class _DatabaseMark:
    """What a database said. read_at: when it was last read. since: since when it says so, as far as we know."""

    text: str
    read_at: float
    since: float


class LockModes:
    """The modes of tables. Safe for threads.

    setting: `lock`. database: a database's properties; raises NoSuchNamespace.
    """

    def __init__(self, runtime: Runtime, *, setting: str, database: Callable[[str], Mapping[str, str]]) -> None:
        self._runtime = runtime
        self._setting = LockMode(setting)
        self._database = database
        self._marks: OrderedDict[str, _DatabaseMark] = OrderedDict()
        self.begin_in_forked_child()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """Keep what databases said, and since when: the clock goes on. What tables said is forgotten: a thread of the
        parent may have been writing it down, which for keys that Python itself compares is more than one step."""
        self._mutex = self._runtime.mutex()
        self._seen: OrderedDict[TableName, Mapping[str, str]] = OrderedDict()

    def of(self, name: TableName, row: Pointer | None) -> LockMode:
        """The mode of a table by its row, None if it has none. Raises LockUnavailable for a mark that nobody knows, and
        for a table that this process must not write to; the metastore's errors."""
        if row is None:
            return LockMode.NONE if self._setting is LockMode.NONE else LockMode.FREE
        return self._by_parameters(name, row.parameters)

    def remembered(self, name: TableName) -> LockMode | None:
        """The mode by what was last seen of the table; None if that is nothing, or no longer allows a mode."""
        with self._mutex:
            said = self._seen.get(name)
        if said is None:
            return None
        try:
            return self._by_parameters(name, said)
        except LockUnavailable:
            return None

    def saw(self, row: Pointer) -> None:
        """Remember what a row says, for the next time that its lock is taken."""
        said = {key: row.parameters[key] for key in (LOCK_MARK, EXCLUSIVE, HIVE_LOCK_ENABLED) if key in row.parameters}
        with self._mutex:
            _remember(self._seen, row.name, said)

    def is_marked(self, name: TableName, parameters: Mapping[str, str]) -> bool:
        """Whether the table is ZooKeeper's, by its own mark, else by its database's. Raises LockUnavailable."""
        text = parameters.get(LOCK_MARK) or self._database_mark(name.namespace).text
        if text not in ("", LockMode.HMS, LockMode.ZOOKEEPER):
            raise LockUnavailable(
                f"{name} asks for a lock that is not known: {LOCK_MARK}={text}",
                next_step=f"a newer iceberg-hms, or `iceberg-hms locks use hms {name} --force`",
            )
        return text == LockMode.ZOOKEEPER

    def is_marked_itself(self, row: Pointer) -> bool:
        """Whether the mark is the table's own: it was set under the table's locks, and all read it under theirs."""
        return bool(row.parameters.get(LOCK_MARK))

    def seconds_to_settle(self, row: Pointer, leftover_seconds: float) -> float:
        """How long a table must still wait until all writers know of its database's mark, which is seen by all
        DATABASE_MARK_SECONDS after it was set, and until the locks are over that they took before."""
        mark = self._database_mark(row.name.namespace)
        return max(0.0, mark.since + max(DATABASE_MARK_SECONDS, leftover_seconds) - self._runtime.now())

    def _by_parameters(self, name: TableName, parameters: Mapping[str, str]) -> LockMode:
        if self.is_marked(name, parameters):
            return LockMode.ZOOKEEPER
        if self._setting is not LockMode.NONE:
            return LockMode.HMS
        if _says(parameters, HIVE_LOCK_ENABLED, "false") or _says(parameters, EXCLUSIVE, "true"):
            return LockMode.NONE
        raise LockUnavailable(
            f"lock=none, but {name} is not declared for it",
            next_step=f"set {HIVE_LOCK_ENABLED}=false (no writer of it takes locks) or {EXCLUSIVE}=true (it has no "
            "other writer), or lock=hms",
        )

    def _database_mark(self, namespace: str) -> _DatabaseMark:
        """What the database says, not older than DATABASE_MARK_SECONDS."""
        asked_at = self._runtime.now()
        with self._mutex:
            known = self._marks.get(namespace)
        if known is not None and asked_at - known.read_at < DATABASE_MARK_SECONDS:
            return known
        try:
            text = self._database(namespace).get(LOCK_MARK, "")
        except (NoSuchNamespace, AccessDenied):
            # Who may not read the database may still write to its tables; then only their own marks count.
            text = ""
        since = known.since if known is not None and known.text == text else self._runtime.now()
        mark = _DatabaseMark(text, asked_at, since)
        with self._mutex:
            _remember(self._marks, namespace, mark)
        return mark


def _remember(memory: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _REMEMBERED_MAX:
        memory.popitem(last=False)


def _says(parameters: Mapping[str, str], key: str, value: str) -> bool:
    return parameters.get(key, "").strip().lower() == value
