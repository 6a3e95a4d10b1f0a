"""What a table says of its lock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from iceberg_hms.coordinator.ports import EXCLUSIVE, HIVE_LOCK_ENABLED, LOCK_MARK, Pointer, TableName
from iceberg_hms.errors import LockUnavailable
from iceberg_hms.locking.lock_modes import LockMode, LockModes
from iceberg_hms.runtime import ThreadRuntime

NAME = TableName("db", "t")


def row(parameters: Mapping[str, str] | None = None) -> Pointer:
    return Pointer(NAME, "file:/x", None, parameters or {}, None)


def modes(setting: str = "hms") -> LockModes:
    return LockModes(ThreadRuntime(), setting=setting)


@pytest.mark.parametrize("setting", ["hms", "zookeeper"])
def test_a_table_that_says_nothing_takes_the_metastore_s_lock_whatever_we_are_set_to(setting: str) -> None:
    assert modes(setting).of(NAME, row()) is LockMode.HMS


@pytest.mark.parametrize("setting", ["hms", "zookeeper", "none"])
def test_a_mark_is_honoured_whatever_we_are_set_to(setting: str) -> None:
    assert modes(setting).of(NAME, row({LOCK_MARK: "zookeeper"})) is LockMode.ZOOKEEPER


def test_a_mark_that_nobody_knows_stops_no_commit_and_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    kept, junk = modes(), row({LOCK_MARK: "etcd" + "x" * 4_000})
    for _ in range(3):
        kept.saw(junk)
        assert kept.of(NAME, junk) is LockMode.HMS
    [record] = caplog.records
    assert "etcd" in record.getMessage()
    assert "iceberg-hms locks use hms db.t" in record.getMessage()
    assert len(record.getMessage()) < 300


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


def test_what_was_seen_is_remembered_until_it_no_longer_allows_a_mode() -> None:
    found = modes("none")
    assert found.remembered(NAME) is None
    found.saw(row({EXCLUSIVE: "true", "other": "x"}))
    assert found.remembered(NAME) is LockMode.NONE
    found.saw(row())
    assert found.remembered(NAME) is None
