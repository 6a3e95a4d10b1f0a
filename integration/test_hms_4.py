"""Real Hive Metastores 4 on Derby: 4.0.1, whose compare-and-swap fails on that database, and 4.1.0, where it is atomic.

4.0.1 compares two CLOBs in its SQL, which Derby refuses (42818): every swap with the expected value fails there, and a
commit goes out without it, under the lock.

On Derby both serve one lock call at a time, and two calls at once deadlock: check_lock updates the lock's row and then
waits for a mutex inside the server, whose owner waits for that row, until one of them times out. The servers never
grant a lock twice, but they grant few. So many writers at once take ZooKeeper's lock here, and the metastore's one
after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import HIVE_LOCK_ENABLED, Sending, Swapped, TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts import hive_tables, table_lock, table_pointer, view_pointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from iceberg_hms.testing.history import check_table
from integration.command_line import program
from integration.concurrent_writers import processes_lose_nothing
from integration.contract_checks import check_hive_tables, check_lock, check_pointer, check_views
from integration.faults import SCHEMA
from integration.interop import small_parquet
from integration.kinds_of_tables import KINDS, check_changed_meanwhile, check_there_and_back
from integration.moved_tables import check_filters
from integration.old_metastores import (
    HMS_4_0_1,
    HMS_4_1_0,
    OF_THE_FENCE,
    OF_THE_HIVE_TABLES_FENCE,
    OF_THE_VIEWS_FENCE,
    OldMetastore,
    Release,
)
from integration.servers import make_namespace
from integration.test_local_servers import listening

# The first test of a release may wait for its download.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Case:
    """A release and what its compare-and-swap is worth on Derby."""

    release: Release
    verdict: CompareAndSwap
    word: SwapProtection


CASES = [
    Case(HMS_4_0_1, CompareAndSwap.BROKEN, SwapProtection.BLIND),
    Case(HMS_4_1_0, CompareAndSwap.ATOMIC, SwapProtection.CAS),
]


LOCK_CHECKS = [check for check in table_lock.CHECKS if check is not table_lock.one_holder_at_a_time]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.release.version)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="module")
def server(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    # A call that fails on the database is repeated ten times inside the server, by default two seconds apart.
    conf = {"metastore.hmshandler.retry.interval": "50ms"}
    with OldMetastore(tmp_path_factory.mktemp("hms 4"), case.release, conf=conf) as server:
        yield server


@pytest.fixture
def namespace(server: OldMetastore, request: pytest.FixtureRequest) -> str:
    return make_namespace(server, request)


def test_it_listens_on_loopback_alone(server: OldMetastore) -> None:
    assert listening(server.pid or 0) == {"loopback"}


def test_filters_find_the_tables_that_moved(server: OldMetastore, namespace: str, tmp_path: Path) -> None:
    check_filters(server, namespace, tmp_path)


@pytest.mark.parametrize("check", table_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract_as_far_as_compare_and_swap_works(
    check: table_pointer.Check, case: Case, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if case.verdict is CompareAndSwap.ATOMIC or check not in OF_THE_FENCE:
        check_pointer(check, server, request)
    else:
        # Broken as it is found to be by a swap: that one is refused, and no later one is sent.
        words = r"outdated \w+: Swapped|winners|not proven|Error executing SQL query"
        with pytest.raises((AssertionError, MetastoreUnavailable), match=words):
            check_pointer(check, server, request)


@pytest.mark.parametrize("check", hive_tables.CHECKS, ids=lambda check: check.__name__)
def test_the_hive_tables_keep_the_contract_as_far_as_compare_and_swap_works(
    check: hive_tables.Check, case: Case, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if case.verdict is CompareAndSwap.ATOMIC or check not in OF_THE_HIVE_TABLES_FENCE:
        check_hive_tables(check, server, request)
    else:
        with pytest.raises(AssertionError, match=r"outdated \w+: Swapped|Error executing SQL query"):
            check_hive_tables(check, server, request)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_becomes_iceberg_and_the_same_hive_table_again(
    kind: str, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    check_there_and_back(server, make_namespace(server, request), kind)


def test_a_table_that_changed_meanwhile_stays_as_it_is(server: OldMetastore, namespace: str) -> None:
    check_changed_meanwhile(server, namespace)


@pytest.mark.parametrize("check", view_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_views_keep_the_contract_as_far_as_compare_and_swap_works(
    check: view_pointer.Check, case: Case, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    if case.verdict is CompareAndSwap.ATOMIC or check not in OF_THE_VIEWS_FENCE:
        check_views(check, server, request)
    else:
        words = r"outdated \w+: Swapped|winners|not proven|Error executing SQL query"
        with pytest.raises((AssertionError, MetastoreUnavailable), match=words):
            check_views(check, server, request)


@pytest.mark.parametrize("check", LOCK_CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, server: OldMetastore, namespace: str) -> None:
    check_lock(check, server, namespace)


def test_the_first_swap_on_a_connection_finds_out(case: Case, server: OldMetastore, namespace: str) -> None:
    pool = ClientPool([server.uri], size=1)
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    name = TableName(namespace, "t")
    metadata = table_metadata(f"{server.warehouse}/{namespace}.db/t")
    assert pointer.create(name, "file:/m0", metadata, None) == Swapped()
    for number in (1, 2):
        assert pointer.swap(pointer.load(name), f"file:/m{number}", metadata, metadata, Sending()) == Swapped()
        assert pool.run(lambda client: client.cas_support.of(namespace), idempotent=True) is case.verdict
    assert pointer.load(name).metadata_location == "file:/m2"
    assert pool.cas_support.protection(namespace) is case.word
    pool.close()


def test_writers_that_take_turns_commit_under_the_metastores_lock(
    server: OldMetastore, namespace: str, tmp_path: Path
) -> None:
    acknowledged: list[int | str] = []
    table = f"{namespace}.t"
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse))
            for _ in range(2)
        )
        first.create_table(table, SCHEMA)
        for number in range(10):
            path = small_parquet(tmp_path / f"{number}.parquet", [number])
            report = (first, second)[number % 2].load_table(table).append([f"file:{path}"])
            acknowledged += [f"file:{path}", *report.snapshot_ids]
        report = check_table(first, table, acknowledged=acknowledged)
        assert first.list_tables(namespace) == [TableName(namespace, "t")]
    report.raise_if_broken()
    assert report.snapshots == 10


def test_four_processes_lose_nothing(
    server: OldMetastore,
    zookeeper: LocalZooKeeper,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = f"{namespace}.t"
    # For the processes too.
    monkeypatch.setenv("ICEBERG_HMS_ZOOKEEPER_HOSTS", zookeeper.hosts)
    monkeypatch.setenv("ICEBERG_HMS_LOCK", "zookeeper")
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_table(table, SCHEMA)
        processes_lose_nothing(server, catalog, table, tmp_path, processes=4, appends=20)


def test_the_doctor_tells_the_releases_apart(case: Case, server: OldMetastore) -> None:
    asked = ["doctor", "--metastore-uri", server.uri, "--warehouse", server.warehouse, "--json"]
    answered = program(*asked)
    assert answered.returncode == 0, answered.stderr
    findings = {finding["check"]: finding for finding in json.loads(answered.stdout)["findings"]}
    assert findings["version"]["found"] == case.release.version
    assert findings["lock API"]["state"] == "ok"
    swap = findings["compare-and-swap"]
    atomic = case.verdict is CompareAndSwap.ATOMIC
    assert (swap["state"], swap["found"]) == ("ok" if atomic else "warning", case.verdict.value)
    assert ("the lock alone protects commits" in swap["meaning"]) is not atomic
    assert program(*asked, "--lock", "none").returncode == (0 if atomic else 1)


def test_a_declared_table_is_committed_without_a_lock_where_compare_and_swap_is_atomic(
    case: Case, server: OldMetastore, namespace: str
) -> None:
    name = TableName(namespace, "t")
    update = {"action": "set-properties", "updates": {"by": "the one without a lock"}}
    with (
        iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse, list_all_tables=True) as catalog,
        iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse, lock="none") as unlocked,
    ):
        catalog.create_table(name, SCHEMA, properties={HIVE_LOCK_ENABLED: "false"})
        before = catalog.pointer(name)
        if case.verdict is CompareAndSwap.ATOMIC:
            unlocked.commit(name, requirements=[], updates=[update])
            assert catalog.load_table(name).metadata.properties["by"] == "the one without a lock"
        else:
            with pytest.raises(MetastoreUnavailable, match="broken"):
                unlocked.commit(name, requirements=[], updates=[update])
            assert catalog.pointer(name) == before
        assert catalog.list_tables(namespace) == [name], "a scratch view was left behind"
