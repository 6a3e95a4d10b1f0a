"""Locks for operators, over fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import LOCK_MARK, TableName
from iceberg_hms.errors import ConfigError, InvalidInput, LockUnavailable, MetastoreRefused, NoSuchTable, NotFound
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.locking.chosen_lock import ChosenTableLock
from iceberg_hms.locking.lock_admin import LockAdmin
from iceberg_hms.locking.lock_modes import LockModes
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_lock import MemoryTableLock

SCHEMA = pa.schema([pa.field("id", pa.int64())])
TABLE = TableName("db", "t")


def record(lock_id: str, keeper: str, table: str = "db.t") -> LockRecord:
    return LockRecord(lock_id, keeper, table, "ACQUIRED", "EXCLUSIVE", "ann", "h1", "iceberg-hms/x", 1, None)


class Keeper:
    def __init__(self, *locks: LockRecord, refusal: Exception | None = None) -> None:
        self.locks = list(locks)
        self.refusal = refusal

    def entries(self, name: TableName | None) -> Sequence[LockRecord]:
        if self.refusal is not None:
            raise self.refusal
        return [lock for lock in self.locks if name is None or lock.table == str(name)]

    def remove(self, lock_id: str) -> None:
        self.locks = [lock for lock in self.locks if lock.lock_id != lock_id]


class Place:
    """A catalog in memory with a table, and the locks' administration on it. lock_api: whether it works. lock:
    ZooKeeper's, if not one in memory."""

    def __init__(self, *, hosts: str = "z:2181", lock: Any = None, **keepers: Keeper) -> None:
        self.catalog: Catalog = memory_catalog()
        self.catalog.create_namespace("db")
        self.catalog.create_table("db.t", SCHEMA)
        services: Any = self.catalog.services
        self.lock_api = True
        self.granted_seconds = 0.0
        self.hms = MemoryTableLock(runtime=services.ports.runtime)
        self.zookeeper = lock or MemoryTableLock(runtime=services.ports.runtime)
        chosen = ChosenTableLock(
            services.ports.pointer,
            self.hms,
            self.zookeeper,
            LockModes(services.ports.runtime, setting="hms"),
            services.ports.runtime,
            lock_api_works=lambda: self.lock_api,
            granted_lock_seconds=lambda _namespace: self.granted_seconds,
        )
        settings = Settings.load({"zookeeper": hosts}, environ={})
        self.admin = LockAdmin(services.ports, settings, chosen, dict(keepers))

    def parameter(self) -> str | None:
        return self.catalog.pointer("db.t").parameters.get(LOCK_MARK)


def test_the_locks_of_all_keepers_are_listed_or_those_of_one_table() -> None:
    place = Place(
        hms=Keeper(record("1", "hms"), record("2", "hms", "db.u")), zookeeper=Keeper(record("a", "zookeeper"))
    )
    assert [lock.lock_id for lock in place.admin.list().locks] == ["1", "2", "a"]
    assert [lock.lock_id for lock in place.admin.list("db.t").locks] == ["1", "a"]


@pytest.mark.parametrize("refusal", [LockUnavailable("out of reach"), MetastoreRefused("Internal error")])
def test_a_keeper_that_fails_does_not_hide_the_others(refusal: Any) -> None:
    place = Place(hms=Keeper(refusal=refusal), zookeeper=Keeper(record("a", "zookeeper")))
    listing = place.admin.list()
    assert [lock.lock_id for lock in listing.locks] == ["a"]
    assert listing.problems == (f"hms: {refusal.message}",)
    with pytest.raises(NotFound, match="There is no lock 7; not listed: hms"):
        place.admin.find("7")


def test_a_lock_is_broken_where_it_is_kept() -> None:
    hms, zookeeper = Keeper(record("1", "hms")), Keeper(record("a", "zookeeper"))
    place = Place(hms=hms, zookeeper=zookeeper)
    assert place.admin.break_lock("a").lock_id == "a"
    assert (len(hms.locks), len(zookeeper.locks)) == (1, 0)
    with pytest.raises(NotFound):
        place.admin.break_lock("a")
    assert place.admin.break_lock("1").keeper == "hms"


def test_a_table_is_marked_by_a_commit_under_both_locks() -> None:
    place = Place()
    report = place.admin.use("db.t", "zookeeper", wait_seconds=5)
    assert report.metadata.properties[LOCK_MARK] == "zookeeper"
    assert place.parameter() == "zookeeper"
    assert (place.hms.acquired, place.zookeeper.acquired) == (1, 1)
    place.admin.use("db.t", "hms", wait_seconds=5)
    assert place.parameter() == "hms"
    assert place.admin.use("db.t", "hms", wait_seconds=5).already_committed


def test_a_table_is_marked_while_the_lock_api_is_broken() -> None:
    place = Place()
    place.lock_api = False
    place.admin.use("db.t", "zookeeper", wait_seconds=5)
    assert place.parameter() == "zookeeper"
    assert (place.hms.acquired, place.zookeeper.acquired) == (0, 1)


def test_what_moving_a_table_has_to_wait_for_is_not_part_of_what_its_caller_would_wait() -> None:
    place = Place()
    place.lock_api = False
    place.granted_seconds = 0.3
    place.admin.use("db.t", "zookeeper", wait_seconds=0.2)
    assert place.parameter() == "zookeeper"


class GoneLock:
    """ZooKeeper's lock once `gone`."""

    def __init__(self) -> None:
        self.gone = False
        self.inner = MemoryTableLock()

    def acquire(self, name: TableName, **given: Any) -> Any:
        if self.gone:
            raise LockUnavailable("ZooKeeper is out of reach")
        return self.inner.acquire(name, **given)


def test_a_table_of_a_zookeeper_that_is_gone_is_moved_back_by_force_alone() -> None:
    lock = GoneLock()
    place = Place(lock=lock)
    place.admin.use("db.t", "zookeeper", wait_seconds=5)
    lock.gone = True
    with pytest.raises(LockUnavailable, match=r"gone for good, .* `iceberg-hms locks use hms db\.t --force`"):
        place.admin.use("db.t", "hms", wait_seconds=5)
    assert place.parameter() == "zookeeper"
    place.admin.use("db.t", "hms", wait_seconds=5, force=True)
    assert place.parameter() == "hms"


def test_nothing_is_forced_to_zookeeper() -> None:
    place = Place()
    with pytest.raises(InvalidInput, match="forced"):
        place.admin.use("db.t", "zookeeper", wait_seconds=5, force=True)
    assert place.parameter() is None


@pytest.mark.parametrize("mode", ["none", "free", "", "ZOOKEEPER"])
def test_no_other_lock_can_be_named(mode: str) -> None:
    with pytest.raises(InvalidInput, match="hms or zookeeper"):
        Place().admin.use("db.t", mode, wait_seconds=5)


def test_zookeeper_must_be_configured_to_be_named() -> None:
    place = Place(hosts="")
    with pytest.raises(ConfigError, match=r"zookeeper\.hosts"):
        place.admin.use("db.t", "zookeeper", wait_seconds=5)
    assert place.parameter() is None


def test_a_table_that_is_not_there_cannot_be_marked() -> None:
    with pytest.raises(NoSuchTable):
        Place().admin.use("db.nobody", "zookeeper", wait_seconds=5)


def test_new_tables_of_a_catalog_that_is_set_to_zookeeper_say_so_unless_told_otherwise() -> None:
    catalog = memory_catalog(lock="zookeeper", zookeeper="z:2181")
    catalog.create_namespace("db")
    assert catalog.create_table("db.a", SCHEMA).metadata.properties[LOCK_MARK] == "zookeeper"
    told = catalog.create_table("db.b", SCHEMA, properties={LOCK_MARK: "hms"})
    assert told.metadata.properties[LOCK_MARK] == "hms"


def test_a_catalog_in_memory_has_no_locks_to_look_at() -> None:
    with pytest.raises(LockUnavailable):
        _ = memory_catalog().locks
