"""Real Hive Metastores 4 on PostgreSQL: compare-and-swap is atomic there, and lock calls do not block each other.

4.0.1 has its official schema. 4.1.0 has 4.0's, since its own is not published with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.capabilities import probe
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.testing.contracts import table_lock, table_pointer
from iceberg_hms.testing.faults.script import CUT_BEFORE_REPLY, FREEZE
from integration.concurrent_writers import processes_lose_nothing
from integration.contract_checks import check_lock, check_pointer
from integration.engines.postgresql import postgresql
from integration.faults import ALTER, LIMIT, SCHEMA, Scene, Timing
from integration.moved_tables import check_filters
from integration.old_metastores import (
    HMS_4_0_1,
    HMS_4_1_0,
    STOCK_COLUMNS,
    OldMetastore,
    Release,
)
from integration.servers import make_namespace
from integration.test_local_servers import listening

# The first test may wait for the download of the release.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[HMS_4_0_1, HMS_4_1_0], ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(scope="module")
def server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    folder = tmp_path_factory.mktemp("hms 4 on postgresql")
    with (
        postgresql() as database,
        OldMetastore(folder, release, database="postgres", conf={**database.conf, **STOCK_COLUMNS}) as server,
    ):
        yield server


@pytest.fixture
def namespace(server: OldMetastore, request: pytest.FixtureRequest) -> str:
    return make_namespace(server, request)


@pytest.fixture
def scene(server: OldMetastore, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(server, tmp_path, Timing(0))
    scene.append("first")
    yield scene
    scene.close()


def test_it_listens_on_loopback_alone_and_compares_and_swaps_atomically(release: Release, server: OldMetastore) -> None:
    assert listening(server.pid or 0) == {"loopback"}
    found = probe(server.uri, Settings.load({}, environ={}))
    assert (found.version, found.compare_and_swap) == (release.version, CompareAndSwap.ATOMIC)
    assert (found.lock_api, found.transaction_tables, found.problems) == (True, True, ())


def test_filters_find_the_tables_that_moved(server: OldMetastore, namespace: str, tmp_path: Path) -> None:
    check_filters(server, namespace, tmp_path)


@pytest.mark.parametrize("check", table_pointer.CHECKS, ids=lambda check: check.__name__)
def test_the_pointer_keeps_the_contract(
    check: table_pointer.Check, server: OldMetastore, request: pytest.FixtureRequest
) -> None:
    check_pointer(check, server, request)


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
def test_the_lock_keeps_the_contract(check: table_lock.Check, server: OldMetastore, namespace: str) -> None:
    check_lock(check, server, namespace)


def test_four_processes_lose_nothing(server: OldMetastore, namespace: str, tmp_path: Path) -> None:
    table = f"{namespace}.t"
    with iceberg_hms.connect(metastore_uri=server.uri, warehouse=server.warehouse) as catalog:
        catalog.create_table(table, SCHEMA)
        processes_lose_nothing(server, catalog, table, tmp_path, processes=4, appends=20)
        assert catalog.list_tables(namespace) == [TableName(namespace, "t")]


def test_a_swap_whose_reply_is_lost_is_found_to_be_made(scene: Scene) -> None:
    """
    A  sends its swap; the metastore makes it, the reply is lost
    A  sends it again, on a connection that it probes first; it is refused, since the row has moved: to A's own file
    A  looks, finds it, reports: committed
    """
    lost = scene.on_swap(CUT_BEFORE_REPLY)
    report = scene.append("a", scene.catalog())
    assert lost.done(LIMIT)
    assert report.metadata_location == scene.location()
    # The probe and the swap, on each of two connections.
    assert scene.proxy.count(ALTER) == 4
    scene.check_history()


def test_compare_and_swap_refuses_the_swap_of_a_writer_that_slept_past_its_lease(scene: Scene) -> None:
    """
    A  takes the lock, checks it, sends its swap, which is held in the proxy
    A  SIGSTOP; its lock is removed, as a reaper does after the lease
    B  takes the lock, commits, releases
    A  its swap arrives and is refused; it takes the lock again and replays on B's commit

    On 3.1.3 the same steps lose B's commit (test_hms_3_1_3.py).
    """
    sleeper = scene.writer("sleeper")
    held = scene.on_swap(FREEZE)
    sleeper.go()
    assert held.held(LIMIT)
    sleeper.pause()
    (entry,) = scene.lock_entries()
    scene.locks.remove(entry)
    between = scene.append("between")
    held.release()
    assert held.done(LIMIT)
    scene.wake_and_check_parent(sleeper, between)
