"""What a table says of its lock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from iceberg_hms.catalog.lock_modes import (
    DATABASE_MARK_SECONDS,
    EXCLUSIVE,
    HIVE_LOCK_ENABLED,
    LOCK_MARK,
    LockMode,
    LockModes,
)
from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import AccessDenied, LockUnavailable, NoSuchNamespace
from tests.test_forks import said_by

NAME = TableName("db", "t")


class StoppedClock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class Databases:
    """properties: of every database. refusal: raised instead. asked: how often."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.properties = properties or {}
        self.refusal: Exception | None = None
        self.asked = 0

    def __call__(self, namespace: str) -> Mapping[str, str]:
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        return self.properties


def row(parameters: Mapping[str, str] | None = None) -> Pointer:
    return Pointer(NAME, "file:/x", None, parameters or {}, None)


def modes(setting: str = "hms", databases: Databases | None = None, clock: StoppedClock | None = None) -> LockModes:
    return LockModes(ThreadRuntime(clock or StoppedClock()), setting=setting, database=databases or Databases())


@pytest.mark.parametrize("setting", ["hms", "zookeeper"])
def test_a_table_that_says_nothing_takes_the_metastore_s_lock_whatever_we_are_set_to(setting: str) -> None:
    assert modes(setting).of(NAME, row()) is LockMode.HMS


@pytest.mark.parametrize("setting", ["hms", "zookeeper", "none"])
def test_a_mark_is_honoured_whatever_we_are_set_to(setting: str) -> None:
    assert modes(setting).of(NAME, row({LOCK_MARK: "zookeeper"})) is LockMode.ZOOKEEPER


def test_a_database_speaks_for_the_tables_that_say_nothing_themselves() -> None:
    marked = modes(databases=Databases({LOCK_MARK: "zookeeper"}))
    assert marked.of(NAME, row()) is LockMode.ZOOKEEPER
    assert marked.of(NAME, row({LOCK_MARK: "hms"})) is LockMode.HMS


@pytest.mark.parametrize("refusal", [NoSuchNamespace("db"), AccessDenied("no")])
def test_a_database_that_cannot_be_read_says_nothing(refusal: Exception) -> None:
    databases = Databases({LOCK_MARK: "zookeeper"})
    databases.refusal = refusal
    assert modes(databases=databases).of(NAME, row()) is LockMode.HMS


def test_a_mark_that_nobody_knows_is_refused() -> None:
    with pytest.raises(LockUnavailable, match="etcd"):
        modes().of(NAME, row({LOCK_MARK: "etcd"}))
    with pytest.raises(LockUnavailable, match="etcd"):
        modes(databases=Databases({LOCK_MARK: "etcd"})).of(NAME, row())


@pytest.mark.parametrize("declared", [{EXCLUSIVE: "true"}, {HIVE_LOCK_ENABLED: "FALSE"}])
def test_no_lock_is_for_declared_tables_alone(declared: Mapping[str, str]) -> None:
    assert modes("none").of(NAME, row(declared)) is LockMode.NONE
    assert modes("hms").of(NAME, row(declared)) is LockMode.HMS


@pytest.mark.parametrize("undeclared", [{}, {EXCLUSIVE: "false"}, {HIVE_LOCK_ENABLED: "true"}, {EXCLUSIVE: ""}])
def test_no_lock_is_refused_to_all_others(undeclared: Mapping[str, str]) -> None:
    with pytest.raises(LockUnavailable, match="not declared"):
        modes("none").of(NAME, row(undeclared))


def test_a_name_that_no_table_has_is_free() -> None:
    assert modes("hms").of(NAME, None) is LockMode.FREE
    assert modes("none").of(NAME, None) is LockMode.NONE


def test_a_database_is_asked_again_after_its_answer_has_aged() -> None:
    clock, databases = StoppedClock(), Databases()
    found = modes(databases=databases, clock=clock)
    for _ in range(3):
        found.of(NAME, row())
    assert databases.asked == 1
    databases.properties = {LOCK_MARK: "zookeeper"}
    clock.seconds += DATABASE_MARK_SECONDS - 0.1
    assert found.of(NAME, row()) is LockMode.HMS
    clock.seconds += 0.1
    assert found.of(NAME, row()) is LockMode.ZOOKEEPER
    assert databases.asked == 2


def test_a_mark_of_a_database_settles_after_everybody_must_have_asked_again() -> None:
    clock, databases = StoppedClock(), Databases({LOCK_MARK: "zookeeper"})
    found = modes(databases=databases, clock=clock)
    assert found.seconds_to_settle(row(), 0.0) == DATABASE_MARK_SECONDS
    clock.seconds += 2
    assert found.seconds_to_settle(row(), 0.0) == DATABASE_MARK_SECONDS - 2
    clock.seconds += 10
    assert found.seconds_to_settle(row(), 0.0) == 0
    databases.properties = {}
    clock.seconds += DATABASE_MARK_SECONDS
    assert found.seconds_to_settle(row(), 0.0) == DATABASE_MARK_SECONDS
    assert found.is_marked_itself(row({LOCK_MARK: "zookeeper"}))


def test_what_was_seen_is_remembered_until_it_no_longer_allows_a_mode() -> None:
    found = modes("none")
    assert found.remembered(NAME) is None
    found.saw(row({EXCLUSIVE: "true", "other": "x"}))
    assert found.remembered(NAME) is LockMode.NONE
    found.saw(row())
    assert found.remembered(NAME) is None


FORKING = """
import os, signal
from iceberg_hms.catalog.lock_modes import LOCK_MARK, LockMode
from tests.catalog.test_lock_modes import NAME, Databases, StoppedClock, modes, row

clock, databases = StoppedClock(), Databases({LOCK_MARK: "zookeeper"})
found = modes(databases=databases, clock=clock)
found.of(NAME, row())
found.saw(row())
found._mutex.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    clock.seconds += 2
    nothing = found.remembered(NAME)
    found.saw(row())
    known = found.remembered(NAME), found.seconds_to_settle(row(), 0.0), databases.asked
    os._exit(0 if nothing is None and known == (LockMode.ZOOKEEPER, 3.0, 1) else 1)
found._mutex.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found.remembered(NAME).value)
"""


def test_a_forked_child_knows_since_when_a_database_is_marked() -> None:
    assert said_by(FORKING) == "0 zookeeper\n"
