"""A real Hive Metastore 3.1.3, which takes the expected value of a swap and ignores it in silence: the lock alone
protects commits there, and the product says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import HIVE_LOCK_ENABLED, Sending, Swapped, TableName
from iceberg_hms.errors import IcebergHmsError, LockUnavailable, MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts import hive_tables, table_lock, table_pointer, view_pointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from iceberg_hms.testing.faults.script import FREEZE, FREEZE_REPLY
from iceberg_hms.testing.history import HistoryRule, check_table
from integration.command_line import program
from integration.concurrent_writers import processes_lose_nothing
from integration.contract_checks import check_hive_tables, check_lock, check_pointer, check_views
from integration.faults import GET, LEASE_SECONDS, LIMIT, SCHEMA, Scene, Timing, until
from integration.interop import live_paths
from integration.kinds_of_tables import KINDS, check_changed_meanwhile, check_there_and_back
from integration.moved_tables import check_filters
from integration.old_metastores import (
    HMS_3_1_3,
    OF_THE_FENCE,
    OF_THE_HIVE_TABLES_FENCE,
    OF_THE_VIEWS_FENCE,
    STOCK_COLUMNS,
    OldMetastore,
)
from integration.servers import make_namespace
from integration.test_local_servers import listening

# The first test may wait for the download of the release.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    with OldMetastore(tmp_path_factory.mktemp("hms 3.1.3"), HMS_3_1_3) as server:
        yield server


@pytest.fixture(scope="module")
def short_lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    conf = {"metastore.txn.timeout": f"{LEASE_SECONDS}s", **STOCK_COLUMNS}
    with OldMetastore(tmp_path_factory.mktemp("hms 3.1.3 short lease"), HMS_3_1_3, conf=conf) as server:
        yield server


@pytest.fixture
def namespace(server: OldMetastore, request: pytest.FixtureRequest) -> str:
    return make_namespace(server, request)


@pytest.fixture
def scene(short_lease: OldMetastore, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(short_lease, tmp_path, Timing(0))
    scene.append("first")
    yield scene
    scene.close()


def test_it_listens_on_loopback_alone(server: OldMetastore) -> None:
    assert listening(server.pid or 0) == {"loopback"}


def test_filters_find_the_tables_that_moved(server: OldMetastore, namespace: str, tmp_path: Path) -> None:
    check_filters(server, namespace, tmp_path)


@pytest.mark.parametrize("check", table_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract_except_for_compare_and_swap(
    check: table_pointer.Check, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if check in OF_THE_FENCE:
        with pytest.raises((AssertionError, MetastoreUnavailable), match=r"outdated \w+: Swapped|winners|not proven"):
            check_pointer(check, server, request)
    else:
        check_pointer(check, server, request)


@pytest.mark.parametrize("check", hive_tables.CHECKS, ids=lambda check: check.__name__)
def test_the_hive_tables_keep_the_contract_except_for_compare_and_swap(
    check: hive_tables.Check, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if check in OF_THE_HIVE_TABLES_FENCE:
        with pytest.raises(AssertionError, match=r"outdated \w+: Swapped"):
            check_hive_tables(check, server, request)
    else:
        check_hive_tables(check, server, request)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_becomes_iceberg_and_the_same_hive_table_again(
    kind: str, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    check_there_and_back(server, make_namespace(server, request), kind)


def test_a_table_that_changed_meanwhile_stays_as_it_is(server: OldMetastore, namespace: str) -> None:
    check_changed_meanwhile(server, namespace)


def test_a_table_goes_back_where_columns_may_not_change(
    short_lease: OldMetastore, request: pytest.FixtureRequest
) -> None:
    check_there_and_back(short_lease, make_namespace(short_lease, request), KINDS[0])


@pytest.mark.parametrize("check", view_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_views_keep_the_contract_except_for_compare_and_swap(
    check: view_pointer.Check, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if check in OF_THE_VIEWS_FENCE:
        with pytest.raises((AssertionError, MetastoreUnavailable), match=r"outdated \w+: Swapped|winners|not proven"):
            check_views(check, server, request)
    else:
        check_views(check, server, request)


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, server: OldMetastore, namespace: str) -> None:
    check_lock(check, server, namespace)


def test_each_connection_is_found_to_ignore_the_expected_value(server: OldMetastore, namespace: str) -> None:
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{server.warehouse}/{namespace}.db/t")
    for number in range(2):
        pool = ClientPool([server.uri], size=1)
        pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
        if number == 0:
            assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
        assert verdict(pool, namespace) is CompareAndSwap.UNKNOWN
        assert pointer.swap(pointer.load(name), f"file:/m{number + 1}", metadata, metadata, Sending()) == Swapped()
        assert verdict(pool, namespace) is CompareAndSwap.IGNORED
        assert pool.cas_support.protection(namespace) is SwapProtection.BLIND
        pool.close()


def verdict(pool: ClientPool, namespace: str) -> CompareAndSwap:
    return pool.run(lambda client: client.cas_support.of(namespace), idempotent=True)


def test_the_probe_changes_nothing_though_what_it_expects_is_ignored(server: OldMetastore, namespace: str) -> None:
    pool = ClientPool([server.uri], size=1)
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{server.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    base = pointer.load(name)
    with pytest.raises(MetastoreUnavailable, match="atomically: ignored"):
        pointer.swap(base, "file:/m1", metadata, metadata, Sending(require_cas=True))
    assert verdict(pool, namespace) is CompareAndSwap.IGNORED
    assert pointer.load(name) == base
    pool.close()


def test_two_swaps_from_one_base_overwrite_each_other(server: OldMetastore, namespace: str) -> None:
    """
    A  reads the row at m0, and so does B
    A  swaps m0 for m1: done
    B  swaps m0 for m2: done, although the row is at m1

    What this server is tested for is really missing.
    """
    pool = ClientPool([server.uri])
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{server.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    base = pointer.load(name)
    for location in ("file:/m1", "file:/m2"):
        assert pointer.swap(base, location, metadata, metadata, Sending()) == Swapped()
    assert pointer.load(name).metadata_location == "file:/m2"
    pool.close()


def test_four_processes_lose_nothing_under_the_lock_alone(server: OldMetastore, namespace: str, tmp_path: Path) -> None:
    table = f"{namespace}.t"
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_table(table, SCHEMA)
        paths = processes_lose_nothing(server, catalog, table, tmp_path, processes=4, appends=20)
    assert sorted(live_paths(server, table)) == paths


def test_a_process_that_knows_neither_database_renames_from_one_to_the_other(
    server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    """The rename proves the server in the table's database alone, and takes a lock in both."""
    old, new = (make_namespace(server, request) for _ in range(2))
    version = {"representations": [{"type": "sql", "sql": "select 1 as id", "dialect": "spark"}]}
    version |= {"summary": {}, "default-namespace": [old], "timestamp-ms": 1, "version-id": 1, "schema-id": 0}
    field = {"id": 1, "name": "id", "required": False, "type": "int"}
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_table(f"{old}.t", SCHEMA)
        catalog.views.create(f"{old}.v", {"type": "struct", "fields": [field]}, version)
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.rename_table(f"{old}.t", f"{new}.t")
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.views.rename(f"{old}.v", f"{new}.v")
        assert catalog.list_tables(new) == [TableName(new, "t")]
        assert catalog.views.list(new) == [TableName(new, "v")]
        assert (catalog.list_tables(old), catalog.views.list(old)) == ([], [])


def test_the_doctor_says_what_protects_and_what_no_client_can_prevent(server: OldMetastore) -> None:
    asked = ["doctor", "--metastore-uri", server.uri, "--warehouse", server.warehouse, "--json"]
    answered = program(*asked)
    assert answered.returncode == 0, answered.stderr
    findings = {finding["check"]: finding for finding in json.loads(answered.stdout)["findings"]}
    assert findings["version"]["found"] == "3.x"
    assert (findings["lock API"]["state"], findings["lease of locks"]["found"]) == ("ok", "300 s")
    swap = findings["compare-and-swap"]
    assert (swap["state"], swap["found"]) == ("warning", "ignored")
    assert "the lock alone protects commits" in swap["meaning"]
    assert "no client can prevent that" in swap["meaning"]
    refused = program(*asked, "--lock", "none")
    assert refused.returncode == 1
    assert "none, which is refused" in refused.stdout


@pytest.mark.parametrize(
    ("properties", "error"),
    [({}, LockUnavailable), ({HIVE_LOCK_ENABLED: "false"}, MetastoreUnavailable)],
    ids=["undeclared", "declared"],
)
def test_a_commit_without_a_lock_is_refused(
    properties: dict[str, str], error: type[IcebergHmsError], server: OldMetastore, namespace: str
) -> None:
    name = TableName(namespace, "t")
    update = {"action": "set-properties", "updates": {"by": "nobody"}}
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse, list_all_tables=True) as catalog:
        catalog.create_table(name, SCHEMA, properties=properties)
        before = catalog.pointer(name)
        with (
            iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse, lock="none") as unlocked,
            pytest.raises(error),
        ):
            unlocked.commit(name, requirements=[], updates=[update])
        assert catalog.pointer(name) == before
        assert catalog.list_tables(namespace) == [name], "a scratch view was left behind"


def test_columns_that_the_server_refuses_are_left_as_they_are(
    short_lease: OldMetastore, request: pytest.FixtureRequest
) -> None:
    check_pointer(table_pointer.the_metastore_accepts_any_schema_change, short_lease, request)


def test_asleep_past_its_lease_before_its_last_check_nothing_is_lost(scene: Scene, short_lease: OldMetastore) -> None:
    """
    A  takes the lock; its reload under the lock is held in the proxy
    A  SIGSTOP: no heartbeats; the metastore reaps its lock; the reload is answered
    B  takes the lock, commits, releases
    A  SIGCONT: sees that its lock did not cover what it read; takes the lock again and replays on B's commit

    Here no compare-and-swap would stop A's stale swap: A must not send it.
    """
    sleeper = scene.writer("sleeper")
    locked = scene.proxy.on("lock", FREEZE_REPLY)
    sleeper.go()
    assert locked.held(LIMIT)
    # The first read from now on is the one under the lock.
    held = scene.proxy.on(GET, FREEZE)
    locked.release()
    fall_asleep(sleeper, held, scene, short_lease, answered=True)
    between = scene.append("between")
    scene.wake_and_check_parent(sleeper, between)


def test_asleep_past_its_lease_after_its_last_check_a_commit_is_lost(scene: Scene, short_lease: OldMetastore) -> None:
    """
    A  takes the lock, checks it, sends its swap, which is held in the proxy
    A  SIGSTOP: no heartbeats; the metastore reaps its lock
    B  takes the lock, commits, releases: acknowledged
    A  its swap arrives; the server ignores that it expects another row, and answers: done

    B's commit is gone. No client can prevent it, `doctor` says so, and 2.3.10 refuses A's swap
    (test_faults_process.py). It also shows that the checker of these tests sees a lost commit.
    """
    sleeper = scene.writer("sleeper")
    held = scene.on_swap(FREEZE)
    sleeper.go()
    fall_asleep(sleeper, held, scene, short_lease, answered=False)
    between = scene.append("between")
    lost = scene.acknowledged[-2:]
    assert lost[1:] == list(between.snapshot_ids)
    held.release()
    assert held.done(LIMIT)
    sleeper.wake()
    assert sleeper.result()["error"] is None
    report = check_table(scene.direct, scene.name, acknowledged=lost)
    assert report.broken == {HistoryRule.LOST}
    assert len(report.findings) == len(lost)


def fall_asleep(sleeper: Any, held: Any, scene: Scene, server: OldMetastore, *, answered: bool) -> None:
    """The writer stands still with a call of its held, or answered meanwhile, and has lost its lock."""
    assert held.held(LIMIT)
    assert [entry.acquired for entry in scene.lock_entries()] == [True]
    sleeper.pause()
    if answered:
        held.release()
        assert held.done(LIMIT)
    with server.reaper():
        until(lambda: not scene.lock_entries(), "the sleeper's lock is reaped")


def test_what_came_with_hive_3_is_used(server: OldMetastore, namespace: str) -> None:
    """It answers getVersion as Hive 2 does, and yet it has local time zones and changes a database's comment."""
    schema = {"type": "struct", "fields": [{"id": 1, "name": "at", "required": False, "type": "timestamptz"}]}
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_table(f"{namespace}.t", schema)
        (column,) = catalog.pointer(f"{namespace}.t").table.sd.cols
        assert column.type == "timestamp with local time zone"
        catalog.update_namespace_properties(namespace, updates={"comment": "changed"})
        assert catalog.load_namespace_properties(namespace)["comment"] == "changed"


def test_the_connection_goes_on_after_a_call_that_the_server_lacks(server: OldMetastore) -> None:
    client = MetastoreClient(server.uri, connect_timeout_ms=10_000, socket_timeout_ms=60_000)
    try:
        with pytest.raises(IcebergHmsError, match="get_index_names"):
            client.call("get_index_names", db_name="default", tbl_name="t", max_indexes=1)
        assert "default" in client.call("get_all_databases")
    finally:
        client.close()
