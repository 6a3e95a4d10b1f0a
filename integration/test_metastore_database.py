"""Faults of the metastore's own database, a real PostgreSQL: a failover to a server that only reads, and a COMMIT
that is in doubt, since its synchronous standby is gone.

The metastore tries a call again inside, and gives up with an error. That error proves nothing: the database may carry
the swap out later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iceberg_hms.errors import CommitStateUnknown, LockUnavailable
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.testing.faults.script import FREEZE, PASS, ScriptedFault
from integration.engines.postgresql import PostgreSQL, postgresql
from integration.faults import ALTER, LIMIT, Scene, Timing, in_background, until
from integration.old_metastores import HMS_3_1_3, HMS_4_0_1, HMS_4_1_0, STOCK_COLUMNS, OldMetastore, Release

# The first test may wait for the download of the release.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Seconds that the metastore waits for an answer of its database, and what it makes of an error: one more try, soon.
_PATIENCE = 3
_CONF = {"metastore.hmshandler.retry.attempts": "1", "metastore.hmshandler.retry.interval": "50ms"}
_OF_THE_POINTER = """select * from "TABLE_PARAMS" where "PARAM_KEY" = 'metadata_location' for update"""
_CALM = {"lock_timeout": "0", "default_transaction_read_only": "off", "synchronous_standby_names": ""}


@pytest.fixture(scope="module", params=[HMS_3_1_3, HMS_4_0_1, HMS_4_1_0], ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(scope="module")
def server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OldMetastore, PostgreSQL]]:
    with postgresql() as database:
        url = f"{database.conf['javax.jdo.option.ConnectionURL']}?socketTimeout={_PATIENCE}"
        conf = {**database.conf, "javax.jdo.option.ConnectionURL": url, **STOCK_COLUMNS, **_CONF}
        folder = tmp_path_factory.mktemp("hms and its database")
        with OldMetastore(folder, release, database="postgres", conf=conf) as metastore:
            yield metastore, database


@pytest.fixture
def database(server: tuple[OldMetastore, PostgreSQL]) -> Iterator[PostgreSQL]:
    _, database = server
    yield database
    for name, value in _CALM.items():
        database.set(name, value)


@pytest.fixture
def scene(server: tuple[OldMetastore, PostgreSQL], tmp_path: Path) -> Iterator[Scene]:
    metastore, _ = server
    scene = Scene(metastore, tmp_path, Timing(0))
    scene.append("first")
    yield scene
    scene.close()


def swaps(scene: Scene, **arguments: object) -> ScriptedFault:
    """A hold of swaps of the table: not of the probe, nor of what is tried on a scratch row."""
    return scene.proxy.on(ALTER, FREEZE, only=_moves_a_table, **arguments)  # type: ignore[arg-type]


def _moves_a_table(request: bytes) -> bool:
    return b"metadata_location" in request and PROBE_KEY.encode() not in request


def recorded(scene: Scene) -> list[bytes]:
    """The swaps of the table, as they come by."""
    found: list[bytes] = []

    def see(request: bytes) -> bool:
        if _moves_a_table(request):
            found.append(request)
        return False

    scene.proxy.on(ALTER, PASS, only=see)
    return found


def require_cas(requests: list[bytes]) -> bool:
    return bool(requests) and all(b"expected_parameter_key" in request for request in requests)


@pytest.mark.parametrize("release", [HMS_4_0_1, HMS_4_1_0], ids=lambda release: release.version, indirect=True)
@pytest.mark.parametrize("fault", ["lock_timeout", "read_only"])
def test_an_sql_error_of_a_fresh_connections_first_swap_does_not_turn_compare_and_swap_off(
    fault: str, database: PostgreSQL, scene: Scene
) -> None:
    """
    A  takes the lock, finds that compare-and-swap is atomic, sends its first swap
    the database refuses it: another client has the row's lock for too long, or it reads only since a failover
    A  sends the same swap again, with the expected value
    the database is well again: the swap is made

    Compare-and-swap works there. A writer that took the error for an answer to its probe would swap blindly.
    """
    seen = recorded(scene)
    first, again = swaps(scene), swaps(scene, nth=2)
    writer = scene.catalog()
    with ExitStack() as stack:
        told = in_background(lambda: scene.append("a", writer))
        assert first.held(LIMIT)
        if fault == "lock_timeout":
            database.set("lock_timeout", "200ms")
            stack.enter_context(database.transaction(_OF_THE_POINTER))
        else:
            database.set("default_transaction_read_only", "on")
        first.release()
        assert again.held(LIMIT)
        stack.close()
        for name in ("lock_timeout", "default_transaction_read_only"):
            database.set(name, _CALM[name])
        again.release()
        report = told.result(LIMIT)
    assert report.metadata_location == scene.location()
    scene.append("b", writer)
    assert require_cas(seen)
    until(lambda: not scene.lock_entries(), "no lock is left")
    scene.check_history()


def test_a_database_that_reads_only_gives_no_lock_and_nothing_stays_behind(database: PostgreSQL, scene: Scene) -> None:
    writer = scene.catalog()
    before, files = scene.location(), scene.metadata_files()
    database.set("default_transaction_read_only", "on")
    with pytest.raises(LockUnavailable):
        scene.append("refused", writer)
    database.set("default_transaction_read_only", "off")
    assert scene.location() == before
    assert scene.metadata_files() == files
    scene.append("b", writer)
    scene.check_history()


def test_a_commit_in_doubt_is_unknown_and_finds_its_files_when_it_lands(database: PostgreSQL, scene: Scene) -> None:
    """
    A   takes the lock, sends its swap
    DB  commits it, and waits for a standby that is gone: the metastore has no answer, and gives up with an error
    A   looks: the table has not moved. Sends the swap again where that is safe: the same. Reports: unknown
    DB  its standby is back: the swap is in force, and what it points at is there
    B   commits on top
    """
    writer = scene.catalog()
    scene.append("before", writer)
    before = scene.location()
    swap = swaps(scene)
    told = in_background(lambda: scene.append("a", writer))
    assert swap.held(LIMIT)
    database.set("synchronous_standby_names", "nobody")
    swap.release()
    with pytest.raises(CommitStateUnknown):
        told.result(2 * LIMIT)
    assert scene.location() == before, "it is in doubt"
    database.set("synchronous_standby_names", "")
    location = until(lambda: scene.location() != before and scene.location(), "the swap is in force")
    assert Path(location.removeprefix("file:")).exists(), "the table points at a file that was deleted"
    until(lambda: not scene.lock_entries(), "no lock is left")
    report = scene.append("b")
    assert report.previous_metadata_location == location
    scene.acknowledged.append(f"file:{scene.folder}/a.parquet")
    scene.check_history()


@pytest.mark.parametrize("release", [HMS_4_0_1, HMS_4_1_0], ids=lambda release: release.version, indirect=True)
def test_a_commit_in_doubt_that_lands_meanwhile_is_committed(database: PostgreSQL, scene: Scene) -> None:
    """As above, but the standby is back before A sends its swap again: that is refused, and A finds its own file."""
    # The database keeps heartbeats waiting, too: for longer than a short lease.
    writer = scene.catalog(lock_short_lease_ms=0)
    # A connection that has swapped before asks no scratch row after a failure.
    scene.append("before", writer)
    swap, again = swaps(scene), swaps(scene, nth=2)
    told = in_background(lambda: scene.append("a", writer))
    assert swap.held(LIMIT)
    database.set("synchronous_standby_names", "nobody")
    swap.release()
    assert again.held(LIMIT)
    database.set("synchronous_standby_names", "")
    again.release()
    assert told.result(LIMIT).metadata_location == scene.location()
    until(lambda: not scene.lock_entries(), "no lock is left")
    scene.append("b")
    scene.check_history()
